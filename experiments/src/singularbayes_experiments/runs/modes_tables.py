"""Tables of the comparison of modes, in Markdown, from records alone: those that `modes_records.final_results` gives.

A method whose configurations all diverged in tuning, or that diverged with a result seed, is called so; one of a data
set's methods that the run did not reach is called "not run".
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems.modes import METHODS, NEWTON_SETS, SETS, ModesSet
from singularbayes_experiments.runs.modes_records import CARE, FAILED, tuned_set

RIVAL = "deep_ensemble"
_FIRST = ("deterministic", RIVAL, "full_rank", "low_rank", "mixture_repeat", "mixture_svd")
ROWS = (*_FIRST, *(name for name in METHODS if name not in _FIRST))  # methods in the order of a table
# Column → the score in a record and its decimals; the first score that a record has counts.
_COLUMNS: dict[str, dict[str, tuple[tuple[str, ...], int]]] = {
    "images": {
        "accuracy": (("accuracy",), 4),
        "NLL": (("nll",), 4),
        "ECE": (("ece",), 4),
    },
    "air": {
        "MAE": (("mae",), 2),
        "NLL": (("nll",), 3),
        "coverage": (("coverage",), 3),
        "width": (("width",), 1),
    },
    "toy": {"RMSE": (("rmse",), 4), "NLL": (("nll",), 4), "coverage": (("coverage",), 3), "ratio": (("iqr_ratio",), 1)},
    "uci": {"RMSE": (("rmse",), 3), "NLL": (("nll",), 3), "coverage": (("coverage",), 3)},
}
_OOD = {
    "fashion_mnist": ("mnist", "notmnist"),
    "mnist": ("fashion_mnist", "notmnist"),
    "cnn": ("mnist", "notmnist"),
    "sst2": ("ag_news",),
    "beijing": ("guangzhou",),
    CARE: ("held_out_care",),
}
_NAMES = {
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "notmnist": "notMNIST",
    "toy": "toy regression",
    "cnn": "CNN (Fashion-MNIST)",
    "sst2": "SST-2",
    "ag_news": "AG News",
    "beijing": "Beijing PM2.5",
    "guangzhou": "Guangzhou",
    CARE: "intensive care",
    "boston_housing": "Boston housing",
    "wine_quality_red": "wine quality",
    "naval_propulsion_plant": "naval propulsion",
    "protein_tertiary_structure": "protein",
    "held_out_care": "held-out care",
}
_DETECTORS = ("auroc_ood_mi", "auroc_ood_epistemic", "auroc_ood_entropy", "auroc_ood_total")


def columns(one: ModesSet) -> dict[str, tuple[tuple[str, ...], int]]:
    """Returns the scores of a table; OOD inputs are detected by mutual information, or, of one draw, by entropy."""
    found = dict(_COLUMNS.get(one.family, _COLUMNS["images"]))
    for name in _OOD.get(one.name, ()):
        found[f"OOD {_NAMES[name]}"] = (tuple(f"{name}/{detector}" for detector in _DETECTORS), 3)
    return found


def data_sets() -> dict[str, ModesSet]:
    """Returns what a table or a count is about: every data set, and intensive care once for all its shifts."""
    first = tuned_set(CARE)
    found: dict[str, ModesSet] = {}
    for name, one in SETS.items():
        if one.family != "icu":
            found[name] = one
        elif one is first:
            found[CARE] = replace(one, name=CARE)
    return found


def results(records: Sequence[dict], one: str, method: str) -> dict[Any, dict]:
    """Returns the result records of a method by seed."""
    kept = [r for r in records if (r["set"], r["stage"], r["method"]) == (one, "results", method)]
    return {record["seed"]: record for record in kept}


def missing(records: Sequence[dict], one: str, method: str) -> str:
    """Returns why a method has no scores: it diverged, in tuning or with a result seed, or it was not run."""
    tried = any((r["set"], r["stage"], r["method"]) == (one, FAILED, method) for r in records)
    return "diverged" if tried or results(records, one, method) else "not run"


def difference(records: Sequence[dict], one: str, method: str, rival: str = RIVAL) -> protocol.Paired | None:
    """Returns the paired difference of the NLL to the rival's; None where one of both is missing or not finite."""
    ours, theirs = results(records, one, method), results(records, one, rival)
    seeds = sorted(ours.keys() & theirs.keys())
    runs = [each[seed] for each in (ours, theirs) for seed in seeds]
    if method == rival or len(seeds) < protocol.LEAST_RESULT_SEEDS or not all(map(_is_finite, runs)):
        return None
    return protocol.paired([ours[seed]["nll"] for seed in seeds], [theirs[seed]["nll"] for seed in seeds])


def shown(found: protocol.Paired, decimals: int = 4) -> str:
    """Returns a difference with its interval, and whether it is better or worse.

    >>> shown(protocol.Paired(-0.02, -0.03, -0.01))
    '−0.0200 [−0.0300, −0.0100] better'
    """
    mean, low, high = (_short(value, decimals, sign=True) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]{_verdict(found)}"


def _verdict(found: protocol.Paired) -> str:
    return " better" if found.high < 0 else "" if found.not_worse else " worse"


def table(records: Sequence[dict], one: ModesSet) -> str:
    """Returns the table of one data set: mean ± standard error over seeds, and the paired difference of the NLL."""
    head = ["method", "stored parameters", "cost", *columns(one), "NLL less the deep ensemble's [95 %]"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for method in (name for name in ROWS if name in one.methods):
        own = METHODS[method]
        runs = list(results(records, one.name, method).values())
        if not _has_scores(records, one.name, method):
            lines.append(f"| {own.words} | {missing(records, one.name, method)} |{' |' * (len(head) - 2)}")
            continue
        cells = [own.words, f"{runs[0]['parameters']:,}", f"{cost(records, one.name, method):.2g}"]
        for names, decimals in columns(one).values():
            name = next((n for n in names if n in runs[0]), None)
            values = [] if name is None else [run[name] for run in runs]
            cells.append(_mean(values, decimals))
        found = difference(records, one.name, method)
        cells.append("" if found is None else shown(found))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(records: Sequence[dict]) -> str:
    """Returns the tables of all sets that have results, and that of IVON against Adam."""
    done = [one for one in data_sets().values() if results(records, one.name, RIVAL)]
    parts = [f"### {name_of(one.name)}\n\n{table(records, one)}" for one in done if one.family != "uci"]
    small = [one for one in done if one.family == "uci"]
    parts += [f"### UCI\n\n{table_of_many(records, small)}"] if small else []
    newton = newton_table(records)
    return "\n\n".join([*parts, *([f"### IVON\n\n{newton}"] if newton else [])])


def table_of_many(records: Sequence[dict], sets: Sequence[ModesSet], intervals: bool = False) -> str:
    """Returns one row a method and one column a set: the NLL less the deep ensemble's, its own in the last row."""
    lines = [f"| method | {' | '.join(name_of(one.name) for one in sets)} |", f"|---|{'---:|' * len(sets)}"]
    for method in ROWS:
        own, found = METHODS[method], [difference(records, one.name, method) for one in sets]
        if any(found):
            cells = [
                _without_difference(records, one.name, method) if each is None else _cell(each, intervals)
                for one, each in zip(sets, found, strict=True)
            ]
            lines.append(f"| {own.words} | {' | '.join(cells)} |")
    nll = [_nll(records, one.name, RIVAL, 3) for one in sets]
    return "\n".join([*lines, f"| NLL of the deep ensemble | {' | '.join(nll)} |"])


def _cell(found: protocol.Paired, interval: bool) -> str:
    return shown(found, 3) if interval else f"{_short(found.mean, 3, sign=True)}{_verdict(found)}"


def _without_difference(records: Sequence[dict], one: str, method: str) -> str:
    """Returns why a method has no scores; a dash where it has, and the deep ensemble has none or other seeds."""
    return "–" if _has_scores(records, one, method) else missing(records, one, method)


def _nll(records: Sequence[dict], one: str, method: str, decimals: int) -> str:
    """Returns the mean NLL of a method, or why it has none."""
    if not _has_scores(records, one, method):
        return missing(records, one, method)
    return _mean([run["nll"] for run in results(records, one, method).values()], decimals)


def verdicts(records: Sequence[dict], method: str) -> dict[str, list[str]]:
    """Returns the sets on which a method is better than the deep ensemble, level with it, or worse."""
    found: dict[str, list[str]] = {"better": [], "level": [], "worse": []}
    for one in data_sets():
        paired = difference(records, one, method)
        if paired is not None:
            found["better" if paired.high < 0 else "level" if paired.not_worse else "worse"].append(one)
    return found


def newton_table(records: Sequence[dict]) -> str:
    """Returns the NLL of IVON beside that of Adam, on one low-rank network; "" where no set has both."""
    lines = []
    for one in NEWTON_SETS:
        found = difference(records, one, "ivon", "low_rank")
        if results(records, one, "low_rank"):
            newton, adam = (_nll(records, one, method, 4) for method in ("ivon", "low_rank"))
            lines.append(f"| {name_of(one)} | {newton} | {adam} | {'' if found is None else shown(found)} |")
    return "\n".join(["| data | IVON | Adam | difference [95 %] |", "|---|---:|---:|---:|", *lines]) if lines else ""


def name_of(one: str) -> str:
    return _NAMES.get(one, one.replace("_", " "))


def _has_scores(records: Sequence[dict], one: str, method: str) -> bool:
    """Whether a method has results, and none of them diverged."""
    runs = results(records, one, method).values()
    return bool(runs) and all(map(_is_finite, runs))


def _is_finite(run: dict) -> bool:
    return math.isfinite(run.get("nll", math.inf))


def cost(records: Sequence[dict], one: str, method: str) -> float:
    """Returns the matrix products of a training as a multiple of the deterministic network's."""
    own, base = (list(results(records, one, name).values()) for name in (method, "deterministic"))
    return float(own[0]["products"] / base[0]["products"]) if base else float("nan")


def _mean(values: Sequence[float], decimals: int) -> str:
    if not values:
        return "–"
    mean = _short(float(np.mean(values)), decimals)
    return mean if len(values) == 1 else f"{mean} ± {_short(protocol.standard_error(values), decimals)}"


def _short(value: float, decimals: int, sign: bool = False) -> str:
    text = f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
    return text.replace("-", "−")
