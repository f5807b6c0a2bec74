"""The comparison under the tuning protocol as rows of the summary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from singularbayes_experiments.problems.modes import SETS
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.detectors import best_without_network
from singularbayes_experiments.report.modes_rounds import (
    choices_at_edges,
    given_up,
    incomplete,
    other_start,
    round_of_choice,
)
from singularbayes_experiments.report.summary import DataSet, Scores, counted, head, shown_mean, verdicts
from singularbayes_experiments.report.text import signed
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import RESULTS, by_run, final_results, tuned_set
from singularbayes_experiments.runs.modes_tables import cost, name_of

UCI = tuple(name for name, one in SETS.items() if one.family == "uci")
DAGGER = "‡: a further round of tuning was begun and not completed, so it does not count; it would change this number."
SECTION_MARK = "§: chosen from fewer rounds of tuning than the other methods of its row."
FOLDER = "modes"  # of the records, beside those of other experiments
METHODS = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "full_rank": "full-rank",
    "low_rank": "low-rank",
    "mixture_repeat": "mixture of 5",
    "mixture_svd": "SVD-initialised mixture of 5",
}
OURS = ("mixture_repeat", "mixture_svd", "low_rank")
RIVALS = ("deep_ensemble", "full_rank", "deterministic")


def _data_set(name: str, *columns: Any) -> DataSet:
    return DataSet(name, name_of(name), *columns)


_SETS = (
    _data_set("sst2", "nll", "ag_news/auroc_ood_mi"),
    _data_set("beijing", "nll", "guangzhou/auroc_ood_epistemic"),
    _data_set("icu", "nll", "held_out_care/auroc_ood_mi", 4),
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
    """Returns the scores of every data set under a folder of results; none where that comparison is not there."""
    return scores_of(read_lines([folder / FOLDER]))


def scores_of(every: Sequence[dict]) -> list[Scores]:
    """Returns the scores of every data set from the lines of all runs.

    A data set needs results of the deep ensemble and of the mixture that is compared with it. A method whose
    configurations all diverged has no runs; one that was not run is not among the methods.
    """
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
            tuned = tuned_set(data.experiment)
            several = tuned.rounds > 1
            found.append(
                Scores(
                    data,
                    runs,
                    incomplete(records, tuned, tuple(METHODS)) if several else {},
                    given_up(records, tuned, tuple(METHODS)) if several else {},
                    other_start(records, tuned, "mixture_svd", "deep_ensemble") if several else None,
                    {name: cost(final, data.experiment, name) for name in METHODS if runs.get(name)},
                    choices_at_edges(records, tuned),
                    {name: round_of_choice(records, tuned, name) for name in METHODS if runs.get(name)},
                )
            )
    return found


def _record(data: DataSet, one: dict) -> Record:
    scores = {name: one[name] for name in (data.nll, data.ood, data.by_total) if name in one}
    size = one["parameters"]
    return Record(data.experiment, one["method"], one["seed"], {}, scores, size, 0.0, versions={}, machine={})


def page_of(data: DataSet) -> str:
    """Returns the page of a data set; the tables of UCI share one."""
    return "uci.md" if data.experiment in UCI else data.page()


def is_smaller(scores: Scores) -> bool:
    """Whether a mixture has fewer parameters than the deep ensemble."""
    return scores.parameters["mixture_repeat"] < scores.parameters["deep_ensemble"]


def count_sides(scores: Sequence[Scores], method: str, rival: str = "deep_ensemble") -> str:
    return counted(verdicts(scores, method, rival))


def is_marked(scores: Scores, method: str) -> bool:
    """Whether an incomplete round has a lower NLL of a method, or of another where this one is the best."""
    if not scores.values(method, scores.data.nll):
        return False
    shown = scores.mean(method, scores.data.nll)
    best = scores.best(scores.data.nll, higher=False) == method
    lower = [name for name, other in scores.incomplete.items() if other.mean < shown]
    return method in lower or (best and bool(lower))


def has_fewer_rounds(scores: Scores, method: str) -> bool:
    """Whether a method that has runs was chosen from fewer rounds than another."""
    return method in scores.rounds and scores.rounds[method] < max(scores.rounds.values())


def table(scores: Sequence[Scores], records: Sequence[Record] = (), links: bool = True) -> list[str]:
    """Returns the lines of the table; a method with no runs had only configurations that diverged.

    The last column is the AUROC-OOD of the best detector that needs no network, among the simple records.
    """
    simple = {each.data.experiment: best_without_network(each.data.experiment, records) for each in scores}
    last = ["no network"] if any(simple.values()) else []
    lines = head([*METHODS.values(), *last])
    for each in scores:
        title = f"[{each.data.title}]({page_of(each.data)})" if links else each.data.title
        labels = [title, *(["AUROC-OOD"] if each.data.ood else []), "parameters"]
        cells = ["<br>".join(labels), *(cell(each, name) for name in METHODS)]
        name, auroc = simple[each.data.experiment] or ("", 0.0)
        beside = f"<br>{auroc:.3f}<br>{name}" if name else "–"  # in the line of the AUROC-OOD
        lines.append(f"| {' | '.join([*cells, *([beside] if last else [])])} |")
    return lines


def cell(scores: Scores, method: str) -> str:
    """Returns the scores of a method; "diverged" where all configurations or a result run did, or "not run"."""
    if lines := scores.cell_lines(method):
        lines[0] += "\u00a0‡" * is_marked(scores, method) + "\u00a0§" * has_fewer_rounds(scores, method)
        alone = scores.values(method, scores.data.by_total) if scores.data.ood else []
        if method == "deterministic" and alone:  # it has no mutual information
            lines.insert(1, f"{shown_mean(alone, 3, bold=False)}\u00a0(H)")
        return "<br>".join(lines)
    return "diverged" if method in scores.runs else "not run"


def losses(scores: Sequence[Scores]) -> list[str]:
    """Returns a line per method of ours and rival that loses: where its NLL is higher, where its AUROC-OOD is lower."""
    lines = []
    for method in OURS:
        for rival in RIVALS:
            parts = []
            for kind, words in (("nll", "higher NLL"), ("ood", "lower AUROC-OOD")):
                found = _lost(scores, method, rival, kind)  # type: ignore[arg-type]
                parts += [f"{words} on {', '.join(found)}"] if found else []
            lines += [f"- {METHODS[method]} against {METHODS[rival]}: {'; '.join(parts)}"] if parts else []
    return lines


def _lost(scores: Sequence[Scores], method: str, rival: str, kind: Literal["nll", "ood"]) -> list[str]:
    shown = []
    for each in scores:
        metric, decimals = (each.data.nll, each.data.decimals) if kind == "nll" else (each.data.ood, 3)
        found = each.difference(method, rival, metric) if metric else None
        if found is not None and found.side(higher_is_better=kind == "ood") == "worse":
            shown.append(f"{each.data.title} ({signed(found.mean, decimals)})")
    return shown
