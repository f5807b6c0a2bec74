"""Figures of the comparison: paired differences to the deep ensemble on all data sets, and the methods of one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from singularbayes.plots import style
from singularbayes_experiments.methods.protocol import standard_error
from singularbayes_experiments.report.modes_summary import METHODS, OURS, is_smaller
from singularbayes_experiments.report.picture import Panel, panel, signed_tick
from singularbayes_experiments.report.summary import Scores

RIVAL = "deep_ensemble"
CAPTION = (
    f"Difference of each method to the {METHODS[RIVAL]}, with its paired 95 % interval over seeds: filled where it "
    "excludes 0. The axis of the NLL is linear within ±0.003 and logarithmic outside."
)
METHODS_CAPTION = f"Mean and standard error over seeds. Low-rank methods are blue; the line is the {METHODS[RIVAL]}"
DASHED = ", and the dashed one the best detector that needs no network"
# Where the axis turns from linear to logarithmic, and its ticks on either side.
_LINEAR, _TICKS = 0.003, (0.003, 0.03, 0.3)
_STEP = 0.24  # between the methods of a row
_LOOKS = {
    "mixture_repeat": (style.BLUE, "o"),
    "mixture_svd": (style.ORANGE, "s"),
    "low_rank": (style.GREY, "^"),
}


def figure(scores: Sequence[Scores]) -> Panel:
    """Returns the paired differences to the deep ensemble, a row per data set: below a line those of small tables."""
    alt = (
        f"Paired differences of {', '.join(METHODS[name] for name in OURS)} to the {METHODS[RIVAL]} in NLL and "
        f"AUROC-OOD on {', '.join(each.data.title for each in scores)}."
    )
    with_ood = [each for each in scores if each.data.ood]

    def draw(page: Figure) -> None:
        ratios = [len(scores), max(len(with_ood), 1)]
        first, second = page.subplots(2, 1, height_ratios=ratios) if with_ood else (page.subplots(), None)
        _draw_nll(first, scores)
        if second is not None:
            draw_differences(second, with_ood, "ood")
            second.invert_xaxis()
            second.xaxis.set_major_formatter(FuncFormatter(signed_tick))
            second.set_xlabel("← better     AUROC-OOD less the ensemble's     worse →")
        page.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=len(OURS))

    return panel(draw, alt, (6.0, 1.7 + 0.34 * (len(scores) + len(with_ood))))


def tables_figure(scores: Sequence[Scores]) -> Panel:
    """Returns the paired differences in NLL alone."""
    alt = f"Paired differences of the NLL to the {METHODS[RIVAL]} on {', '.join(each.data.title for each in scores)}."

    def draw(page: Figure) -> None:
        axes = page.subplots()
        _draw_nll(axes, scores)
        page.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(OURS))

    return panel(draw, alt, (6.0, 1.4 + 0.34 * len(scores)))


def _draw_nll(axes: Axes, scores: Sequence[Scores]) -> None:
    draw_differences(axes, scores, "nll")
    axes.set_xscale("symlog", linthresh=_LINEAR, linscale=0.7)
    ticks = [-tick for tick in reversed(_TICKS)] + [0.0, *_TICKS]
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(signed_tick))
    axes.set_xlabel("← better        NLL less the ensemble's, nats        worse →")
    large = sum(not is_smaller(each) for each in scores)
    if 0 < large < len(scores):
        axes.axhline(len(scores) - large - 0.5, color=style.GREY, linewidth=0.8, linestyle=":")


def methods_words(scores: Scores) -> str:
    """Returns the words for those who cannot see the figure of a data set."""
    ood = " and AUROC-OOD" if scores.data.ood else ""
    return f"NLL{ood} of {', '.join(METHODS.values())} on {scores.data.title}, as in the table."


def methods_figure(scores: Scores, plain: tuple[str, float] | None) -> Panel:
    """Returns NLL and AUROC-OOD of every method of the summary on one data set.

    Args:
        plain: name and AUROC of the best detector that needs no network.
    """
    names = [name for name in METHODS if scores.values(name, scores.data.nll)]

    def draw(page: Figure) -> None:
        every = page.subplots(1, 1 + bool(scores.data.ood), sharey=True, squeeze=False)[0]
        for axes, metric, label in zip(every, (scores.data.nll, scores.data.ood), ("NLL", "AUROC-OOD"), strict=False):
            _draw_methods(axes, scores, names, metric)
            axes.set_xlabel(label)
        every[0].set_yticks(range(len(names)), [METHODS[name] for name in names])
        every[0].set_ylim(len(names) - 0.5, -0.5)
        if scores.data.ood and plain:
            every[1].axvline(plain[1], color=style.INK, linewidth=1, linestyle="--")

    return panel(draw, methods_words(scores), (6.0 if scores.data.ood else 4.2, 2.1))


def _draw_methods(axes: Axes, scores: Scores, names: Sequence[str], metric: str) -> None:
    for row, name in enumerate(names):
        if values := scores.values(name, metric):
            colour = style.BLUE if name in OURS else style.INK
            error = standard_error(values) if len(values) > 1 else 0.0
            axes.errorbar(np.mean(values), row, xerr=error, fmt="o", color=colour, capsize=2)
            if name == RIVAL:
                axes.axvline(float(np.mean(values)), color=style.GREY, linewidth=1)
    axes.tick_params(axis="y", length=0)


def draw_differences(axes: Axes, scores: Sequence[Scores], kind: str) -> None:
    """Draws a row per data set, from top to bottom, and in it a point with its interval per method."""
    axes.axvline(0, color=style.GREY, linewidth=1)
    for place, name in enumerate(OURS):
        colour, marker = _LOOKS[name]
        options: dict[str, Any] = {"color": colour, "marker": marker, "ls": "none", "ms": 6, "capsize": 0}
        axes.errorbar([], [], xerr=[], label=METHODS[name], **options)
        for row, each in enumerate(scores):
            found = each.difference(name, RIVAL, getattr(each.data, kind))
            if found is not None:
                fill = colour if found.side() != "level" else "white"
                reach = [[found.mean - found.low], [found.high - found.mean]]
                axes.errorbar(found.mean, row + (place - 1) * _STEP, xerr=reach, mfc=fill, **options)
    axes.set_yticks(range(len(scores)), [each.data.title for each in scores])
    axes.set_ylim(len(scores) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=style.PALE)
    axes.set_axisbelow(True)
