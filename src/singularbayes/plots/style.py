"""How every figure looks: colours, line styles and markers that differ without colour, and text for print.

Colours are Okabe and Ito's, which people with any kind of colour blindness tell apart, without the yellow that white
paper swallows. Figures for print are one column wide, and no text in them is smaller than 7 points.
"""

import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import matplotlib
except ImportError as error:
    raise ImportError("Figures need matplotlib. Type: pip install 'singularbayes[plots]'") from error
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
INK, GREY, PALE = "#222222", "#888888", "#EDEDED"

# The first five stay apart without red or green cones; the last two come near others then, and have marks of their own.
COLOURS = (BLUE, VERMILION, GREEN, INK, SKY, ORANGE, PURPLE)
_LINES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # eight, so that the seven colours meet each of them

COLUMN = 3.3  # inches, a column of a two-column paper
_HALF = 24  # characters of a legend that half a column holds

_SHARED: dict[str, Any] = {
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "singularbayes",  # the same data give the same file
}
PAGE: Any = {**_SHARED, "font.size": 11}
PRINT: Any = {
    **_SHARED,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,  # a dash-dot line needs this to differ from a dashed one
    "legend.columnspacing": 1.2,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "lines.markeredgewidth": 0.6,
    "hatch.linewidth": 0.6,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Look:
    """What one method has in every figure: a colour, a line style and a marker, each of which identifies it."""

    colour: str
    line: Any
    marker: str

    @property
    def plot(self) -> dict[str, Any]:
        """The arguments of `Axes.plot`."""
        return {"color": self.colour, "ls": self.line, "marker": self.marker, "mec": "white", "mew": 0.3}


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Returns the look of every method, by its place: the same methods in the same order look alike in all figures.

    >>> [look.marker for look in looks(["low-rank", "full-rank"]).values()]
    ['o', 's']
    """
    return {name: look(i) for i, name in enumerate(names)}


def look(place: int) -> Look:
    """Returns the look of a place; no two of the first 56 have both colour and marker in common."""
    return Look(COLOURS[place % len(COLOURS)], _LINES[place % len(_LINES)], _MARKERS[place % len(_MARKERS)])


def drawn_in(style: Any) -> Callable[[Callable[..., Figure]], Callable[..., Figure]]:
    """Makes a function draw in this style, whatever the style around it is."""

    def decorate(draw: Callable[..., Figure]) -> Callable[..., Figure]:
        @functools.wraps(draw)
        def drawn(*args, **kwargs) -> Figure:
            with matplotlib.rc_context(style):
                return draw(*args, **kwargs)

        return drawn

    return decorate


for_print = drawn_in(PRINT)


def legend_below(figure: Figure, handles: list[Any]) -> None:
    """Writes the legend under the panels, where it covers nothing."""
    columns = _columns([handle.get_label() for handle in handles])
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def legend_height(labels: Collection[str]) -> float:
    """Returns the inches that a legend below the panels takes."""
    return 0.15 * -(-len(labels) // _columns(labels)) + 0.1


def _columns(labels: Collection[str]) -> int:
    return min(len(labels), 2 if max(map(len, labels)) <= _HALF else 1)


def percent() -> FuncFormatter:
    """Returns a formatter of shares as percentages: 0.125 is 12.5 %."""
    return FuncFormatter(lambda share, _: f"{100 * share:.3g} %")


def write(figure: Figure, path: Path, dpi: int = 300) -> Path:
    """Writes a figure into a file whose suffix is the format (.png, .svg, .pdf), and returns its path.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pareto.svg"
    >>> write(Figure(), path).name
    'pareto.svg'
    """
    with matplotlib.rc_context(PRINT):
        figure.savefig(path, dpi=dpi)
    return path
