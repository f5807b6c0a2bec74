"""The settings that were chosen in the comparison under the tuning protocol, as a table of a data set."""

from dataclasses import asdict
from typing import Any

from singularbayes_experiments.methods.protocol import edges
from singularbayes_experiments.problems.modes import METHODS, ModesSet
from singularbayes_experiments.problems.modes_grids import configurations
from singularbayes_experiments.report.modes_rounds import round_of_choice
from singularbayes_experiments.report.summary import head
from singularbayes_experiments.runs.modes_records import DIVERGED, Records, choices, tuned_set
from singularbayes_experiments.runs.modes_tables import ROWS

# Settings as a table names them, in its order.
_SETTINGS = {
    "epochs": "epochs",
    "rate": "learning rate",
    "decay": "weight decay",
    "scale": "prior scale",
    "beta": "β",
    "eta": "initial scale η",
    "rho_lr": "learning-rate factor of ρ",
    "warmup": "KL warm-up epochs",
    "start": "initial means",
    "spread": "spread of initial means",
    "ranks": "ranks",
}
_DETERMINISTIC = ("epochs", "rate", "decay")
_STARTS = {"he": "He", "orthogonal": "orthogonal"}
_NONE = "–: the method has no such setting, or no choice is at an edge."


def settings_table(runs: Records, one: ModesSet) -> list[str]:
    """Returns the chosen settings of every method that differ between methods, and a sentence on those that do not."""
    tuned = tuned_set(one.name)
    chosen = {method: name for method, name in choices(runs, tuned).items() if name and name != DIVERGED}
    rows = {method: _settings(tuned, method, chosen[method]) for method in ROWS if method in chosen}
    differ = [key for key in _SETTINGS if len({cells[key] for cells in rows.values()} - {"–"}) > 1]
    lines = head([*(_SETTINGS[key] for key in differ), "configurations", "at an edge of what was tried"])
    for method, cells in rows.items():
        tried = configurations(tuned, method, _rounds(runs, tuned, method))
        every = [asdict(settings) for settings in tried.values()]
        at = edges(asdict(tried[chosen[method]]), every)
        shown_edges = ", ".join(f"{_SETTINGS.get(key, key)} ({side})" for key, side in at.items())
        lines.append(
            f"| {METHODS[method].words} | "
            f"{' | '.join([*(cells[key] for key in differ), str(len(tried)), shown_edges or '–'])} |"
        )
    alike = {key: {cells[key] for cells in rows.values()} - {"–"} for key in _SETTINGS if key not in differ}
    shared = ", ".join(f"{_SETTINGS[key]} {next(iter(values))}" for key, values in alike.items() if values)
    return (
        [*lines, "", f"The same for all methods that have it: {shared}; batches of {one.batch_size}. {_NONE}"]
        if shared
        else lines
    )


def _rounds(runs: Records, one: ModesSet, method: str) -> int:
    return max(round_of_choice(runs, one, method), 1)


def _settings(one: ModesSet, method: str, name: str) -> dict[str, str]:
    """Returns the settings of a configuration as a table shows them; "–" where a method has no such setting."""
    own, how = configurations(one, method, one.rounds)[name], METHODS[method]
    values: dict[str, Any] = asdict(own) | {"ranks": "–"}
    if how.kind == "low_rank":
        ranks = one.ranks if own.rank is None else (*(own.rank for _ in one.units), *one.ranks[len(one.units) :])
        values["ranks"] = ", ".join(map(str, ranks))
    values["start"] = "SVDs of the ensemble" if how.svd else _STARTS[own.start]
    values["spread"] = ", ".join(f"{each:g}" for each in own.spread) or "–"
    kept = _DETERMINISTIC if how.kind == "deterministic" else [key for key in _SETTINGS if key != "decay"]
    return {key: _number(values[key]) if key in kept else "–" for key in _SETTINGS}


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
