"""Figures as a page shows them: SVG with words for those who cannot see it, a sentence, and a key to the colours."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import matplotlib
from matplotlib.figure import Figure

from singularbayes.plots import PAGE

_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class Panel:
    """A picture and the words for those who cannot see it."""

    svg: str
    alt: str


@dataclass(frozen=True)
class Key:
    """What a colour stands for; `kind` is dots, line, fill or hatch."""

    kind: str
    colour: str
    label: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Picture:
    """One or more panels, what they show in a sentence or two, and the key to their colours.

    Args:
        name: what tells it from the others of its section, in letters, digits and hyphens.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    key: tuple[Key, ...] = ()


def svg(figure: Figure) -> str:
    """Returns a figure as SVG without the head of a file; the same figure gives the same text."""
    page = io.StringIO()
    with matplotlib.rc_context(PAGE):
        figure.savefig(page, format="svg", metadata=_METADATA, dpi=200)  # the dots that are pixels stay crisp
    text = page.getvalue()
    return "\n".join(line.rstrip() for line in text[text.index("<svg") :].splitlines())


def panel(draw: Callable[[Figure], None], alt: str, size: tuple[float, float]) -> Panel:
    """Returns what `draw` draws on a figure of this size in inches, in the style of a page."""
    with matplotlib.rc_context(PAGE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        return Panel(svg(figure), alt)


def signed_tick(value: float, _: int = 0) -> str:
    """Returns the label of a tick on an axis of differences.

    >>> signed_tick(-0.03), signed_tick(0.0)
    ('−0.03', '0')
    """
    return f"{value:+g}".replace("-", "−") if value else "0"


def apart(picture: Picture, prefix: str) -> Picture:
    """Returns the picture with its own ids: several share a page, and an id may stand there once."""
    panels = [replace(p, svg=with_own_ids(p.svg, f"{prefix}-{picture.name}-{i}")) for i, p in enumerate(picture.panels)]
    return replace(picture, panels=tuple(panels))


def with_own_ids(svg: str, prefix: str) -> str:
    """Returns SVG whose ids begin with a prefix.

    >>> with_own_ids('<use href="#a"/>', "first")
    '<use href="#first-a"/>'
    """
    return re.sub(r'(\sid="|href="#|url\(#)', rf"\1{prefix}-", svg)
