"""The settings of a group of runs: those that all share, those that differ between methods, and the paper's values."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import setting_name
from singularbayes_experiments.report.rows import Group, Row, listed, show, words


@dataclass(frozen=True)
class Setting:
    """A setting as text; `paper` is the paper's value where this one departs from it, else empty."""

    name: str
    value: str
    paper: str = ""

    def text(self, origin: str) -> str:
        """Returns the value, and what it is in the paper where that differs; `origin` is "paper" or "default".

        >>> Setting("beta", "0.1", "1").text("paper"), Setting("beta", "0.1").text("paper")
        ('0.1 (paper: 1)', '0.1')
        """
        return f"{self.value} ({origin}: {self.paper})" if self.paper else self.value


@dataclass(frozen=True)
class SettingsTable:
    """Settings that all rows share, and a line a row of those that differ between them."""

    shared: tuple[Setting, ...]
    heads: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Setting, ...]], ...]

    @property
    def departures(self) -> tuple[str, ...]:
        """The names of those that are not the paper's, of all rows first and then of some."""
        own = [head for i, head in enumerate(self.heads) if any(line[i].paper for _, line in self.lines)]
        return (*(setting.name for setting in self.shared if setting.paper), *own)


def settings_table(rows: Sequence[Row]) -> SettingsTable:
    """Returns the settings of rows, in the order of the records."""
    names = list(dict.fromkeys(name for row in rows for name in row.first.settings))
    same = [name for name in names if len({json.dumps(row.first.settings.get(name)) for row in rows}) == 1]
    differ = [name for name in names if name not in same]
    return SettingsTable(
        tuple(_setting(rows[0], name) for name in same),
        tuple(map(setting_name, differ)),
        tuple((row.name, tuple(_setting(row, name) for name in differ)) for row in rows) if differ else (),
    )


def _setting(row: Row, name: str) -> Setting:
    record = row.first
    paper = show(record.paper[name]) if name in record.paper else ""
    return Setting(setting_name(name), show(record.settings[name]) if name in record.settings else "–", paper)


def commands(experiment: str, group: Group) -> list[str]:
    """Returns what to type to do the runs again: a line for all rows that have the same seeds and manual overrides."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in group.rows:
        seeds = ",".join(str(record.seed) for record in row.records)
        rest = ["--seeds", seeds, *_chosen(group, row)]
        methods = lines.setdefault(tuple(rest), [])
        if row.method not in methods:
            methods.append(row.method)
    start = ["singularbayes-experiments", "run", experiment]
    return [shlex.join([*start, "--methods", ",".join(methods), *rest]) for rest, methods in lines.items()]


def _chosen(group: Group, row: Row) -> list[str]:
    if group.preset == "trial":
        return ["--together", "--preset", "trial"]  # all configurations of a method
    if group.preset != "hand":
        return ["--preset", group.preset]
    return [part for name in row.first.paper for part in ("--set", f"{name}={_typed(row.first.settings[name])}")]


def _typed(value: Any) -> str:
    return ",".join(map(_typed, value)) if isinstance(value, list) else str(value)


def made_with(records: Sequence[Record]) -> str:
    """Returns the versions and the machines of all runs, and how long they took."""
    versions: dict[str, list[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            if version not in versions.setdefault(name, []):
                versions[name].append(version)
    machines = "; ".join(_machines([record.machine for record in records]))
    text = listed([f"{name} {' and '.join(found)}" for name, found in versions.items()])
    count = f"{len(records)} run{'s' if len(records) > 1 else ''}"
    return f"{count}, {_time(sum(r.seconds for r in records))} of training, on {machines}, with {text}."


def _machines(machines: Sequence[dict[str, Any]]) -> list[str]:
    """Returns every machine once, and how many runs it trained together where that is more than one.

    >>> _machines([{"cpu": "A", "trained_together": 5}, {"cpu": "A", "trained_together": 1}, {"gpu": "B"}])
    ['A, up to 5 runs trained together', 'B']
    """
    found: dict[str, set[int]] = {}
    for machine in machines:
        found.setdefault(_machine(machine), set()).add(machine.get("trained_together") or 1)
    return [f"{name}{_together(numbers)}" for name, numbers in found.items()]


def _together(numbers: set[int]) -> str:
    most = max(numbers)
    return "" if most == 1 else f", {'up to ' if len(numbers) > 1 else ''}{most} runs trained together"


def _machine(machine: dict[str, Any]) -> str:
    """Returns a machine in words: what computes first, then its cores and system."""
    known = {"cpu", "gpu", "cores", "system", "trained_together"}
    parts = [str(machine[name]) for name in ("gpu", "cpu") if machine.get(name)]
    parts += [f"{machine['cores']} cores"] if machine.get("cores") else []
    parts += [str(machine["system"])] if machine.get("system") else []
    parts += [f"{words(name)} {value}" for name, value in machine.items() if name not in known]
    return ", ".join(parts) or "a machine that the records do not name"


def _time(seconds: float) -> str:
    """Returns a time in a unit that suits it.

    >>> _time(48), _time(600), _time(9000)
    ('48 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
