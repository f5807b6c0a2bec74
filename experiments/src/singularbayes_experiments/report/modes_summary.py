"""The comparison under the tuning protocol as rows of the summary, and its figure: NLL and detection against size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from singularbayes.plots import style
from singularbayes_experiments.problems.modes import IMAGES
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.picture import Panel, panel
from singularbayes_experiments.report.summary import DataSet, Scores, head, verdicts
from singularbayes_experiments.runs.modes_records import read_lines, settled

FOLDER = "modes"  # of the records, beside those of other experiments
METHODS = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "full_rank": "full-rank",
    "low_rank": "low-rank",
    "mixture_repeat": "mixture of 5",
    "mixture_svd": "SVD-initialised mixture of 5",
}
_SETS = (
    DataSet("sst2", "SST-2", "nll", "ag_news/auroc_ood_mi"),
    DataSet("beijing", "Beijing PM2.5", "nll", "guangzhou/auroc_ood_epistemic"),
    DataSet("icu", "intensive care", "nll", "held_out_care/auroc_ood_mi"),
    DataSet("cnn", "CNN, Fashion-MNIST", "nll", "mnist/auroc_ood_mi", 4),
    DataSet("mnist", "MNIST", "nll", "fashion_mnist/auroc_ood_mi", 4),
    DataSet("fashion_mnist", "Fashion-MNIST", "nll", "mnist/auroc_ood_mi", 4),
    DataSet("toy", "toy regression", "nll"),
    DataSet("concrete", "concrete", "nll"),
    DataSet("energy", "energy", "nll"),
    DataSet("boston_housing", "Boston housing", "nll"),
    DataSet("yacht", "yacht", "nll"),
    DataSet("wine_quality_red", "wine quality", "nll"),
    DataSet("kin8nm", "kin8nm", "nll"),
    DataSet("power_plant", "power plant", "nll"),
)


def collect(folder: Path) -> list[Scores]:
    """Returns the scores of every data set under a folder of results; none where that comparison is not there."""
    lines = [one for one in settled(read_lines([folder / FOLDER])) if one["method"] in METHODS]
    found = []
    for data in _SETS:
        runs: dict[str, dict[Any, Record]] = {}
        for one in lines:
            if one["set"] == data.experiment:
                scores = {name: one[name] for name in (data.nll, data.ood) if name in one}
                runs.setdefault(one["method"], {})[one["seed"]] = Record(
                    data.experiment,
                    one["method"],
                    one["seed"],
                    {},
                    scores,
                    one["parameters"],
                    0.0,
                    versions={},
                    machine={},
                )
        if runs:
            found.append(Scores(data, runs))
    return found


def headline(scores: Sequence[Scores]) -> str:
    """Returns how mixtures compare with a deep ensemble, by counts and on the two sets of images."""

    def counted(method: str) -> str:
        found = verdicts(scores, method, "deep_ensemble")
        better, level, worse = (len(found[side]) for side in ("better", "level", "worse"))
        return f"better on {better}, level on {level} and worse on {worse} of {len(scores)} data sets"

    images = [each for each in scores if each.data.experiment in IMAGES]
    share = [each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in images]
    detection = [
        f"{np.mean(each.values('mixture_repeat', each.data.ood)):.3f} against "
        f"{np.mean(each.values('deep_ensemble', each.data.ood)):.3f} on {each.data.title}"
        for each in images
    ]
    return (
        f"In NLL a mixture of five low-rank networks is {counted('mixture_repeat')} than a deep ensemble of five; "
        f"one that starts at the SVDs of a trained ensemble is {counted('mixture_svd')}. On images the first has "
        f"{100 * max(share):.0f} % of the ensemble's parameters and detects out-of-distribution images better (AUROC "
        f"{' and '.join(detection)}). One low-rank network is {counted('low_rank')}. Better and worse mean that a "
        "paired 95 % interval over five seeds excludes 0."
    )


def table(scores: Sequence[Scores]) -> list[str]:
    """Returns the lines of the table; a method without results had only configurations that diverged."""
    lines = head(list(METHODS.values()))
    for each in scores:
        cells = [each.cell(name) if name in each.runs else "diverged" for name in METHODS]
        lines.append(f"| {' | '.join([each.data.title, *cells])} |")
    return lines


def losses(scores: Sequence[Scores]) -> list[str]:
    """Returns a line per method of ours: where its NLL is higher than the deep ensemble's."""
    lines = []
    for method in ("mixture_repeat", "mixture_svd", "low_rank"):
        shown = []
        for each in scores:
            found = each.difference(method, "deep_ensemble", each.data.nll)
            if found is not None and found.low > 0:
                shown.append(f"{each.data.title} +{found.mean:.{each.data.decimals}f}")
        lines.append(f"- {METHODS[method]} against the deep ensemble, NLL: {', '.join(shown) or 'nowhere'}")
    return lines


def figure(scores: Sequence[Scores]) -> Panel:
    """Returns NLL and AUROC-OOD of every method against its stored parameters, on the sets of images."""
    images = [each for each in scores if each.data.experiment in IMAGES]

    def draw(page: Figure) -> None:
        axes = page.subplots(2, len(images), squeeze=False)
        for column, each in enumerate(images):
            for row, (metric, label) in enumerate(((each.data.nll, "NLL"), (each.data.ood, "AUROC-OOD"))):
                own = axes[row][column]
                for name, text in METHODS.items():
                    values = each.values(name, metric)
                    if not values:
                        continue
                    error = np.std(values, ddof=1) / np.sqrt(len(values))
                    seen = style.look(list(METHODS).index(name))
                    size = each.parameters[name]
                    own.errorbar(
                        size, np.mean(values), error, fmt=seen.marker, color=seen.colour, label=text, capsize=2
                    )
                own.set(xscale="log", ylabel=f"{label}, {'lower' if row == 0 else 'higher'} is better")
                own.set_title(each.data.title if row == 0 else "")
            axes[1][column].set_xlabel("stored parameters")
        page.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    sets = " and ".join(each.data.title for each in images)
    alt = f"NLL and AUROC-OOD on {sets} against stored parameters, for {', '.join(METHODS.values())}: as in the table."
    return panel(draw, alt, (7.2, 5.4))
