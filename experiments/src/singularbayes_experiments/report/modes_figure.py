"""The figure of the summary: paired differences to the deep ensemble on every data set, in NLL and in AUROC-OOD."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from singularbayes.plots import style
from singularbayes_experiments.report.modes_summary import METHODS
from singularbayes_experiments.report.picture import Panel, panel
from singularbayes_experiments.report.summary import Scores

RIVAL = "deep_ensemble"
OURS = ("low_rank", "mixture_repeat", "mixture_svd")
CAPTION = (
    f"Each method less the {METHODS[RIVAL]}, with the paired 95 % interval over seeds: filled where it excludes 0. In "
    "the axis between the innermost ticks distances are linear, outside they are logarithmic. Deterministic and "
    "full-rank networks are in the table."
)
# Where the axis turns from linear to logarithmic, and its ticks on either side.
_LINEAR, _TICKS = 0.003, (0.003, 0.03, 0.3)
_STEP = 0.24  # between the methods of a row


def figure(scores: Sequence[Scores]) -> Panel:
    """Returns the paired differences to the deep ensemble, a row per data set."""
    alt = (
        f"Paired differences of {', '.join(METHODS[name] for name in OURS)} to the {METHODS[RIVAL]} on "
        f"{', '.join(each.data.title for each in scores)}, as in the table."
    )

    def draw(page: Figure) -> None:
        with_ood = [each for each in scores if each.data.ood]
        ratios = [len(scores), max(len(with_ood), 1)]
        first, second = page.subplots(2, 1, height_ratios=ratios)
        draw_differences(first, scores, "nll")
        first.set_xscale("symlog", linthresh=_LINEAR, linscale=0.7)
        ticks = [-tick for tick in reversed(_TICKS)] + [0.0, *_TICKS]
        low, high = first.get_xlim()
        first.set_xticks([tick for tick in ticks if low <= tick <= high])
        first.set_xticks([], minor=True)
        first.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _signed(value)))
        first.set_xlabel("← better        NLL less the ensemble's, nats        worse →")
        draw_differences(second, with_ood, "ood")
        second.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _signed(value)))
        second.set_xlabel("← worse        AUROC-OOD less the ensemble's        better →")
        page.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=len(OURS))

    return panel(draw, alt, (7.2, 1.7 + 0.34 * (len(scores) + sum(bool(each.data.ood) for each in scores))))


def draw_differences(axes: Axes, scores: Sequence[Scores], kind: str) -> None:
    """Draws a row per data set, from top to bottom, and in it a point with its interval per method."""
    axes.axvline(0, color=style.GREY, linewidth=1)
    for place, name in enumerate(OURS):
        seen = style.look(list(METHODS).index(name))
        options: dict[str, Any] = {"color": seen.colour, "marker": seen.marker, "ls": "none", "ms": 6, "capsize": 0}
        axes.errorbar([], [], xerr=[], label=METHODS[name], **options)
        for row, each in enumerate(scores):
            found = each.difference(name, RIVAL, getattr(each.data, kind))
            if found is not None:
                fill = seen.colour if found.low > 0 or found.high < 0 else "white"
                reach = [[found.mean - found.low], [found.high - found.mean]]
                axes.errorbar(found.mean, row + (place - 1) * _STEP, xerr=reach, mfc=fill, **options)
    axes.set_yticks(range(len(scores)), [each.data.title for each in scores])
    axes.set_ylim(len(scores) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=style.PALE)
    axes.set_axisbelow(True)


def _signed(value: float) -> str:
    return "0" if value == 0 else f"{value:+g}".replace("-", "−")
