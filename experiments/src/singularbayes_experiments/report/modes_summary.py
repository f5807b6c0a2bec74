"""The comparison under the tuning protocol as rows of the summary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from singularbayes_experiments.problems.modes import IMAGES, SETS, SHIFTS
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.modes_rounds import choices_at_edges, given_up, incomplete
from singularbayes_experiments.report.names import SIMPLE
from singularbayes_experiments.report.summary import DataSet, Scores, head, shown_mean, verdicts
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import CARE, RESULTS, by_run, final_results
from singularbayes_experiments.runs.modes_tables import cost, name_of

UCI = tuple(name for name, one in SETS.items() if one.family == "uci")
_OLDER = "The runs on this page are older than the [tuning protocol](../protocol.md)."
OLDER = f"{_OLDER} Under it, nothing on this page was run again."
DAGGER = "‡ would change with a round that was not completed and so does not count, see below."
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


def _data_set(name: str, *columns: Any) -> DataSet:
    return DataSet(name, name_of(name), *columns)


_SETS = (
    _data_set("sst2", "nll", "ag_news/auroc_ood_mi"),
    _data_set("beijing", "nll", "guangzhou/auroc_ood_epistemic"),
    _data_set("icu", "nll", "held_out_care/auroc_ood_mi"),
    _data_set("cnn", "nll", "mnist/auroc_ood_mi", 4),
    _data_set("mnist", "nll", "fashion_mnist/auroc_ood_mi", 4),
    _data_set("fashion_mnist", "nll", "mnist/auroc_ood_mi", 4),
    _data_set("toy", "nll"),
    _data_set("concrete", "nll"),
    _data_set("energy", "nll"),
    _data_set("boston_housing", "nll"),
    _data_set("yacht", "nll"),
    _data_set("wine_quality_red", "nll"),
    _data_set("kin8nm", "nll"),
    _data_set("power_plant", "nll"),
    _data_set("naval_propulsion_plant", "nll"),
    _data_set("protein_tertiary_structure", "nll"),
)


def collect(folder: Path) -> list[Scores]:
    """Returns the scores of every data set under a folder of results; none where that comparison is not there.

    A data set needs results of the deep ensemble and of the mixture that is compared with it. A method whose
    configurations all diverged has no runs; one that was not run is not among the methods.
    """
    every = read_lines([folder / FOLDER])
    records, final = by_run(every), final_results(every)
    found = []
    for data in _SETS:
        runs: dict[str, dict[Any, Record]] = {}
        for one in final:
            if one["set"] == data.experiment and one["method"] in METHODS:
                own = runs.setdefault(one["method"], {})
                if one["stage"] == RESULTS:
                    own[one["seed"]] = _record(data, one)
        if runs.get("deep_ensemble") and runs.get("mixture_repeat"):
            tuned = SETS.get(data.experiment, SETS[f"{CARE}_{SHIFTS[0]}"])
            several = tuned.rounds > 1
            found.append(
                Scores(
                    data,
                    runs,
                    incomplete(records, tuned, tuple(METHODS)) if several else {},
                    given_up(records, tuned, tuple(METHODS)) if several else {},
                    {name: cost(final, data.experiment, name) for name in METHODS if runs.get(name)},
                    choices_at_edges(records, tuned),
                )
            )
    return found


def _record(data: DataSet, one: dict) -> Record:
    scores = {name: one[name] for name in (data.nll, data.ood, data.by_total) if name in one}
    size = one["parameters"]
    return Record(data.experiment, one["method"], one["seed"], {}, scores, size, 0.0, versions={}, machine={})


def count_sides(scores: Sequence[Scores], method: str) -> str:
    found = verdicts(scores, method, "deep_ensemble")
    better, level, worse = (len(found[side]) for side in ("better", "level", "worse"))
    return f"better on {better}, level on {level} and worse on {worse}"


def is_marked(scores: Scores, method: str) -> bool:
    """Whether an incomplete round has a lower NLL of a method, or of another where this one is the best."""
    if not scores.runs.get(method):
        return False
    shown = scores.mean(method, scores.data.nll)
    best = scores.best(scores.data.nll, higher=False) == method
    lower = [name for name, nll in scores.incomplete.items() if nll < shown]
    return method in lower or (best and bool(lower))


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


def pointers(scores: Sequence[Scores], records: Sequence[Record] = ()) -> dict[str, str]:
    """Returns what the pages of older runs say about this comparison, by experiment; that of UCI has nine data sets."""
    found = {each.data.experiment: pointer(each, records) for each in scores}
    tables = [each for each in scores if each.data.experiment in UCI]
    if tables:
        counts = "; ".join(f"{METHODS[name]} {count_sides(tables, name)}" for name in ("mixture_repeat", "mixture_svd"))
        found["uci"] = (
            f"{_OLDER} Under it, with other settings, the NLL on these {len(tables)} data sets against the deep "
            f"ensemble's is: {counts}. [All methods](../mixture_results.md#uci)."
        )
    return found


def pointer(scores: Scores, records: Sequence[Record] = ()) -> str:
    """Returns what the page of older runs of the same data set says about this comparison, and of simple detectors."""
    means = {name: scores.values(name, scores.data.nll) for name in METHODS}
    shown = [f"{np.mean(nll):.{scores.data.decimals}f} ({METHODS[name]})" for name, nll in means.items() if nll]
    name, _, auroc = simple_detector(scores.data, records).partition("<br>")
    simple = f" Without any network ({name}), the main out-of-distribution set is detected with an AUROC of {auroc}."
    return (
        f"{_OLDER} Under it, with other settings, the NLL is {', '.join(shown)}: [all methods](../mixture_results.md)."
    ).replace(" -", " −") + simple * bool(name)


def cell(scores: Scores, method: str) -> str:
    """Returns the scores of a method, "diverged" or "not run"."""
    if scores.runs.get(method):
        lines = scores.cell(method).split("<br>")
        lines[0] += "\u00a0‡" * is_marked(scores, method)
        alone = scores.values(method, scores.data.by_total) if scores.data.ood else []
        if method == "deterministic" and alone:  # it has no mutual information
            lines.insert(1, f"{shown_mean(alone, 3, bold=False)}\u00a0(H)")
        return "<br>".join(lines)
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
