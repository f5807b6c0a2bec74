"""The tables of docs/protocol.md on the grids of defaults, from their records.

`python -m singularbayes_experiments.report.defaults_tables` writes them; a test compares page and records.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems.defaults import RESULT_SEEDS, SETS
from singularbayes_experiments.report import adapter_tables, text
from singularbayes_experiments.runs import defaults
from singularbayes_experiments.runs.modes_tables import name_of

ROOT = Path(__file__).parents[4]
RESULTS, PAGE = ROOT / "experiments" / "results" / "defaults", ROOT / "docs" / "protocol.md"
FOLDERS = {"first": "", "second": "second", "third": "third", "fourth": "fourth"}  # by the name of the grid


def chosen(folder: Path) -> dict[int, str]:
    """Returns what the rule chose among single networks and among mixtures, by the number of components."""
    [path] = folder.glob("*.json")
    found = json.loads(path.read_text(encoding="utf-8"))["chosen"]
    return {1: found} if isinstance(found, str) else {int(number): name for number, name in found.items()}


def compared(records: Sequence[dict], name: str) -> dict[str, protocol.Paired]:
    """Returns the NLL of a configuration less that of the deterministic network, over the fresh seeds of each set."""
    nll = {(one["set"], one["method"], one["seed"]): one["nll"] for one in records if "nll" in one}
    return {
        one: protocol.paired(*([nll[one, method, seed] for seed in RESULT_SEEDS] for method in (name, "deterministic")))
        for one in SETS
    }


def table(grid: str) -> str:
    """Returns a row per data set: what was chosen, with a word where the interval does not reach 0."""
    folder = RESULTS / FOLDERS[grid]
    records, names = defaults.read([folder]), chosen(folder)
    every = [compared(records, names[number]) for number in sorted(names)]
    heads = " | | ".join("one network" if number == 1 else "four components" for number in sorted(names))
    rows = [f"| data | {heads} | |", "|---" * (1 + 2 * len(every)) + "|"]
    for one in SETS:
        cells = [_cells(found[one]) for found in every]
        rows.append(f"| {name_of(one)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cells(found: protocol.Paired) -> str:
    mean, low, high = map(adapter_tables.signed, (found.mean, found.low, found.high))
    side = found.side()
    return f"{mean} [{low}, {high}] | {'' if side == 'level' else side}"


def filled(page: str) -> str:
    """Returns the page with its tables."""
    return text.filled(page, {f"defaults: {grid}": table(grid) for grid in FOLDERS})


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
