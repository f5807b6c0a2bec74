"""The tables of the page on CIFAR-10."""

from collections.abc import Sequence

import numpy as np

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.cifar10_scores import (
    NAMES,
    NETWORKS,
    OURS,
    THEIRS,
    Records,
    detected,
    detector,
    difference,
    mean_cell,
    parameters,
    results,
    scores,
)

# Columns of out-of-distribution data, and rows of scores that any uncertainty has to beat.
OTHERS = {"clothes": "clothes", "letters": "letters", "windows": "photographs"}
DETECTORS = {
    "max_softmax": "max-softmax of the deterministic network",
    "energy": "energy of the deterministic network",
    "mahalanobis": "Mahalanobis distance of the deterministic network",
    "greyness": "less saturation (no network)",
    "darkness": "less brightness (no network)",
    "contrast": "more contrast (no network)",
    "roughness": "larger steps between pixels (no network)",
}


def results_table(records: Records, network: str) -> list[str]:
    """Returns accuracy, NLL and ECE of test and corrupted images, and the stored parameters."""
    heads = (
        "accuracy",
        "NLL",
        "ECE",
        "corrupted accuracy",
        "corrupted NLL",
        "corrupted ECE",
        "stored parameters",
        "seeds",
    )
    rows = []
    for method, name in NAMES.items():
        cells = [
            list(scores(records, network, method, part, score).values())
            for part in ("test", "corrupted")
            for score in ("accuracy", "nll", "ece")
        ]
        if cells[0]:
            size = f"{parameters(records, network, method):,}"
            rows.append(f"| {' | '.join([name, *map(mean_cell, cells), size, str(len(cells[0]))])} |")
    return [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}", *rows] if rows else []


def detection_table(records: Records, network: str = "resnet9") -> list[str]:
    """Returns the AUROC of held-out classes and of other data, with scores that need no posterior below."""
    columns = [name for name in ("held_out", *OTHERS) if detected(records, network, "deterministic", name)[0]]
    rows = []
    for method, name in NAMES.items():
        cells = [values for column in columns for values in detected(records, network, method, column)]
        if any(cells):
            rows.append(f"| {' | '.join([name, *(mean_cell(each, 3) for each in cells), _counts(cells)])} |")
    for score, name in DETECTORS.items():
        values = [detector(records, network, column, score) for column in columns]
        if any(values):
            shown = [cell for each in values for cell in (mean_cell(each, 3), "")]
            rows.append(f"| {' | '.join([name, *shown, _counts(values)])} |")
    titles = {"held_out": "held-out classes", **OTHERS}
    heads = [f"{titles[column]} ({by})" for column in columns for by in ("H", "MI")]
    return [f"| | {' | '.join([*heads, 'seeds'])} |", f"|---|{'---:|' * (len(heads) + 1)}", *rows] if rows else []


def _counts(cells: Sequence[Sequence[float]]) -> str:
    """Returns how many seeds the columns have, from left to right: 3, 2 where the first have three."""
    return ", ".join(map(str, dict.fromkeys(len(cell) for cell in cells if cell)))


def differences_table(records: Records, network: str) -> list[str]:
    """Returns paired differences of the NLL, with 95 % t intervals where there are two seeds or more."""
    rows = []
    for ours in OURS:
        for part in ("test", "corrupted"):
            cells = [difference(records, network, ours, theirs, part) for theirs in THEIRS]
            if any(cell != "–" for cell in cells):
                rows.append(f"| {' | '.join([f'{NAMES[ours]}, {part}', *cells])} |")
    heads = f"| NLL less that of | {' | '.join(NAMES[theirs] for theirs in THEIRS)} |"
    return [heads, f"|---|{'---:|' * len(THEIRS)}", *rows] if rows else []


def corruptions_table(records: Records, network: str = "resnet9") -> list[str]:
    """Returns the NLL of every corruption, the mean over severities and seeds."""
    columns: dict[str, dict[str, float]] = {}
    for method in NAMES:
        own = [
            one["corrupted_nll"]
            for one in results(records)
            if (one["network"], one["method"]) == (network, method) and "corrupted_nll" in one
        ]
        if own:
            columns[method] = {name: float(np.mean([each[name] for each in own])) for name in own[0]}
    if not columns:
        return []
    lines = [f"| | {' | '.join(NAMES[method] for method in columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name in next(iter(columns.values())):
        cells = [f"{each[name]:.3f}" for each in columns.values()]
        lines.append(f"| {' | '.join([name.replace('_', ' '), *cells])} |")
    return lines


def tuning_table(records: Records) -> list[str]:
    """Returns the validation NLL of every configuration; the chosen one is bold."""
    rows = []
    every = [one for one in records if one["stage"] == "tuning"]
    networks = list(dict.fromkeys(one.get("network", "resnet9") for one in every))
    for network in networks:
        for family, methods in plan.FAMILIES.items():
            tried = [one for one in every if (one.get("network", "resnet9"), one["family"]) == (network, family)]
            values = [np.inf if one["diverged"] else one["validation"]["nll"] for one in tried]
            for one, value in zip(tried, values, strict=True):
                shown = "diverged" if one["diverged"] else f"{value:.4f}"
                shown = f"**{shown}**" if value == min(values) < np.inf else shown
                names = " and ".join(NAMES[name] for name in methods)
                names = f"{NETWORKS[network]}, {names}" if len(networks) > 1 else names
                rows.append(f"| {names} | {_short(one['configuration'])} | {shown} |")
    return ["| | configuration | validation NLL |", "|---|---|---:|", *rows] if rows else []


def _short(name: str) -> str:
    return name.replace("rho_rate", "ρ rate").replace("outputs 1", "outputs").replace("beta", "β").replace("eta", "η")
