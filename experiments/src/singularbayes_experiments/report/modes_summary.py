"""The comparison under the tuning protocol as rows of the summary, and its figure: NLL and detection against size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from singularbayes.plots import style
from singularbayes_experiments.problems.modes import IMAGES
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import SIMPLE
from singularbayes_experiments.report.picture import Panel, panel
from singularbayes_experiments.report.summary import DataSet, Scores, head, verdicts
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import RESULTS, final_results

FOLDER = "modes"  # of the records, beside those of other experiments
METHODS = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "full_rank": "full-rank",
    "low_rank": "low-rank",
    "mixture_repeat": "mixture of 5",
    "mixture_svd": "SVD-initialised mixture of 5",
}
SIMPLE_WORDS = {
    "more_pixels": "non-zero pixels",
    "fewer_pixels": "non-zero pixels",
    "text_length": "length",
    "word_rarity": "rare words",
    "dew_point": "dew point",
    "input_distance": "distance of inputs",
}
DISCLOSURES = (
    "The [comparison of mixtures](../mixture_results.md) has settings by the [tuning protocol](../protocol.md). All "
    "its configurations were committed before the run that tried them, and validation rows alone chose. But they were "
    "not written blind: later rounds were written with the test results and validation scores of the earlier ones in "
    "view, and the last ones began with data sets on which a mixture was behind the ensemble on test data. The grids "
    "of SST-2, Beijing, intensive care and the CNN were written with the test tables of the older experiments below in "
    "view.",
    "It was cut by time. SST-2 has four configurations of every method in a round, others eight. That page says how "
    "many rounds each data set has, which methods had fewer, which rounds are not complete and so do not count, and "
    "what those have. On SST-2 full-rank networks had one round and the others two; an older run of theirs, with other "
    "settings, had a far lower NLL. Most choices lie at an edge of what was tried. What follows, the last three "
    "sections apart, is about older runs.",
)
_SETS = (
    DataSet("sst2", "SST-2", "nll", "ag_news/auroc_ood_mi"),
    DataSet("beijing", "Beijing PM2.5", "nll", "guangzhou/auroc_ood_epistemic"),
    DataSet("icu", "intensive care", "nll", "held_out_care/auroc_ood_mi"),
    DataSet("cnn", "CNN (Fashion-MNIST)", "nll", "mnist/auroc_ood_mi", 4),
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
    DataSet("naval_propulsion_plant", "naval propulsion", "nll"),
    DataSet("protein_tertiary_structure", "protein", "nll"),
)


def collect(folder: Path) -> list[Scores]:
    """Returns the scores of every data set under a folder of results; none where that comparison is not there.

    A data set needs results of the deep ensemble and of the mixture that is compared with it. A method whose
    configurations all diverged has no runs; one that was not run is not among the methods.
    """
    lines = [one for one in final_results(read_lines([folder / FOLDER])) if one["method"] in METHODS]
    found = []
    for data in _SETS:
        runs: dict[str, dict[Any, Record]] = {}
        for one in lines:
            if one["set"] == data.experiment:
                own = runs.setdefault(one["method"], {})
                if one["stage"] == RESULTS:
                    own[one["seed"]] = _record(data, one)
        if runs.get("deep_ensemble") and runs.get("mixture_repeat"):
            found.append(Scores(data, runs))
    return found


def _record(data: DataSet, one: dict) -> Record:
    scores = {name: one[name] for name in (data.nll, data.ood) if name in one}
    size = one["parameters"]
    return Record(data.experiment, one["method"], one["seed"], {}, scores, size, 0.0, versions={}, machine={})


def _counted(scores: Sequence[Scores], method: str) -> str:
    found = verdicts(scores, method, "deep_ensemble")
    better, level, worse = (len(found[side]) for side in ("better", "level", "worse"))
    return f"better on {better}, level on {level} and worse on {worse}"


def sentence(scores: Sequence[Scores]) -> str:
    """Returns what the comparison shows, in one sentence."""
    share = {each.data: 100 * each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in scores}
    large, small = ([value for data, value in share.items() if bool(data.ood) == ood] for ood in (True, False))
    rest = f" ({min(small):.0f} to {max(small):.0f} % on small tables)" if small else ""
    return (
        f"**In one sentence:** next to a deep ensemble of five networks, on {len(scores)} data sets, the NLL of a "
        f"mixture of five low-rank networks is {_counted(scores, 'mixture_repeat')}; if the mixture starts at the SVDs "
        f"of a trained ensemble, it is {_counted(scores, 'mixture_svd')}. A mixture stores {min(large):.0f} to "
        f"{max(large):.0f} % of the ensemble's parameters{rest}."
    )


def headline(scores: Sequence[Scores]) -> str:
    """Returns how mixtures compare with a deep ensemble, as a list: counts, detection, and parameters."""

    def counted(method: str) -> str:
        total = sum(map(len, verdicts(scores, method, "deep_ensemble").values()))
        return f"{_counted(scores, method)} of {total} data sets"

    # Runs of intensive care are known by shift and seed.
    seeds = sorted({len({str(run).split()[-1] for run in each.runs["deep_ensemble"]}) for each in scores})
    over = " or ".join(map(str, seeds))
    lines = [
        f"{sentence(scores)} Better and worse, higher and lower mean that a paired 95 % interval over {over} seeds "
        "excludes 0; level means that it does not.\n",
        *filter(None, [_behind(scores)]),
        f"One low-rank network is {counted('low_rank')}.",
        "Tuning went in rounds, and rounds that were not completed do not count. Some of their results, of the "
        "ensemble and of mixtures, have a lower NLL than the table: [which](../mixture_results.md).",
        _detection(scores),
        _sizes(scores),
    ]
    return "\n- ".join(lines)


def _behind(scores: Sequence[Scores]) -> str:
    """Returns where the mean NLL of a mixture is higher, though level."""
    level = verdicts(scores, "mixture_repeat", "deep_ensemble")["level"]
    found = [(each, each.difference("mixture_repeat", "deep_ensemble", each.data.nll)) for each in scores]
    higher = [
        f"{each.data.title} (+{one.mean:.{each.data.decimals}f})"
        for each, one in found
        if one is not None and each.data.title in level and one.mean > 0
    ]
    return f"Where the mixture is level, its mean NLL is the higher one on {', '.join(higher)}." if higher else ""


def _sizes(scores: Sequence[Scores]) -> str:
    """Returns the parameters of a mixture as a share of the ensemble's: by name where networks are large."""
    share = {each.data: each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in scores}
    large = [f"{100 * value:.0f} % on {data.title}" for data, value in share.items() if data.ood]
    small = [100 * value for data, value in share.items() if not data.ood]
    rest = f", and {min(small):.0f} to {max(small):.0f} % on small regression sets" if small else ""
    return f"The parameters of the mixture, as a share of the ensemble's: {', '.join(large)}{rest}."


def _detection(scores: Sequence[Scores]) -> str:
    """Returns on which data sets the AUROC-OOD of a mixture is higher than the ensemble's, level, or lower."""
    found: dict[str, list[str]] = {"higher": [], "level": [], "lower": []}
    for each in scores:
        one = each.difference("mixture_repeat", "deep_ensemble", each.data.ood) if each.data.ood else None
        if one is not None:
            ours, theirs = (np.mean(each.values(name, each.data.ood)) for name in ("mixture_repeat", "deep_ensemble"))
            side = "higher" if one.low > 0 else "lower" if one.high < 0 else "level"
            found[side].append(f"{each.data.title} ({ours:.3f} against {theirs:.3f})")
    sides = [f"{side} on {', '.join(names)}" for side, names in found.items() if names]
    return f"The AUROC-OOD of the mixture, against that of the ensemble, is {'; '.join(sides)}."


def table(scores: Sequence[Scores], records: Sequence[Record] = ()) -> list[str]:
    """Returns the lines of the table; a method with no runs had only configurations that diverged.

    The last column is the AUROC-OOD of the best detector that needs no network, among the simple records.
    """
    simple = {each.data.experiment: simple_detector(each.data, records) for each in scores}
    last = ["no network"] if any(simple.values()) else []
    lines = head([*METHODS.values(), *last])
    for each in scores:
        cells = [each.data.title, *(cell(each, name) for name in METHODS)]
        lines.append(f"| {' | '.join([*cells, *([simple[each.data.experiment] or '–'] if last else [])])} |")
    return lines


def simple_detector(data: DataSet, records: Sequence[Record]) -> str:
    """Returns the name and the AUROC-OOD of the best detector without a network on the pair of a data set."""
    start = data.ood.split("/")[0] + "/" if data.ood.split("/")[0] in IMAGES else ""
    metric = f"{start}auroc_ood"
    found = {
        SIMPLE_WORDS[one.method]: one.metrics[metric]
        for one in records
        if (one.experiment, one.preset) == (data.experiment, SIMPLE)
        and one.method in SIMPLE_WORDS
        and metric in one.metrics
    }
    name = max(found, key=lambda each: found[each], default="")
    return f"{name}<br>{found[name]:.3f}" if name else ""


def pointer(scores: Scores, records: Sequence[Record] = ()) -> str:
    """Returns what the page of older runs of the same data set says about this comparison, and of simple detectors."""
    means = {name: scores.values(name, scores.data.nll) for name in METHODS}
    shown = [f"{np.mean(nll):.{scores.data.decimals}f} ({METHODS[name]})" for name, nll in means.items() if nll]
    name, _, auroc = simple_detector(scores.data, records).partition("<br>")
    simple = f" Without any network ({name}), the main out-of-distribution set is detected with an AUROC of {auroc}."
    return (
        "The runs on this page are older than the [tuning protocol](../protocol.md). Under it, with other settings, "
        f"the NLL is {', '.join(shown)}: [all methods](../mixture_results.md)."
    ).replace(" -", " −") + simple * bool(name)


def cell(scores: Scores, method: str) -> str:
    """Returns the scores of a method, "diverged" or "not run"."""
    if scores.runs.get(method):
        return scores.cell(method)
    return "diverged" if method in scores.runs else "not run"


def losses(scores: Sequence[Scores]) -> list[str]:
    """Returns a line per method of ours and rival: where its NLL is higher, and where its AUROC-OOD is lower."""
    lines = []
    ours = ("mixture_repeat", "mixture_svd", "low_rank")
    for rival, methods in {"deep_ensemble": ours, "full_rank": ours, "deterministic": ("low_rank",)}.items():
        for method in methods:
            nll, ood = (_lost(scores, method, rival, kind) for kind in ("nll", "ood"))
            shown = f"NLL {', '.join(nll) or 'nowhere'}; AUROC-OOD {', '.join(ood) or 'nowhere'}"
            lines.append(f"- {METHODS[method]} against {METHODS[rival]}: {shown}")
    return lines


def _lost(scores: Sequence[Scores], method: str, rival: str, kind: Literal["nll", "ood"]) -> list[str]:
    shown = []
    for each in scores:
        metric, decimals = (each.data.nll, each.data.decimals) if kind == "nll" else (each.data.ood, 3)
        found = each.difference(method, rival, metric) if metric else None
        if found is not None and (found.low > 0 if kind == "nll" else found.high < 0):
            mean = f"{found.mean:+.{decimals}f}".replace("-", "−")
            shown.append(f"{each.data.title} {mean}")
    return shown


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
