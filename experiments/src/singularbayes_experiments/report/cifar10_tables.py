"""The tables of scores and corruptions of one round of CIFAR-10."""

import numpy as np

from singularbayes_experiments.report.cifar10_scores import (
    NAMES,
    Records,
    mean_cell,
    parameters,
    results,
    scores,
    table_lines,
)

COLUMNS = (
    "accuracy, %",
    "NLL",
    "ECE",
    "corrupted accuracy, %",
    "corrupted NLL",
    "corrupted ECE",
    "stored parameters",
    "seeds",
)


def results_table(records: Records, network: str) -> list[str]:
    """Returns accuracy, NLL and ECE of test and corrupted images, and the stored parameters."""
    rows = []
    for method, name in NAMES.items():
        cells = [
            mean_cell([(100 if score == "accuracy" else 1) * each for each in found.values()], decimals)
            for part in ("test", "corrupted")
            for score, decimals in (("accuracy", 2), ("nll", 3), ("ece", 3))
            for found in (scores(records, network, method, part, score),)
        ]
        if count := len(scores(records, network, method, "test", "nll")):
            rows.append([name, *cells, f"{parameters(records, network, method):,}", str(count)])
    return table_lines(COLUMNS, rows)


def corruptions_table(records: Records, network: str) -> list[str]:
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
    rows = [
        [name.replace("_", " "), *(f"{each[name]:.3f}" for each in columns.values())]
        for name in next(iter(columns.values()))
    ]
    return table_lines([NAMES[method] for method in columns], rows)
