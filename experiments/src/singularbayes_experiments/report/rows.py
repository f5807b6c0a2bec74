"""Records of one experiment in rows: a row is a method under some settings, with a record a seed."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import PRESETS, display_name, rank_in, setting_name


@dataclass(frozen=True)
class Row:
    """A method under some settings: what readers call it, and its records in the order of their seeds."""

    name: str
    method: str
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """The record of the smallest seed, which figures of a single run show."""
        return self.records[0]

    @property
    def parameters(self) -> int:
        return self.first.parameters

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return self.first.arrays

    def values(self, metric: str) -> list[float]:
        """Returns a metric of every seed that has it."""
        found = (record.metrics.get(metric) for record in self.records)
        return [value for value in found if value is not None and not math.isnan(value)]

    def mean(self, metric: str) -> float:
        """Returns the mean of a metric over the seeds that have it, NaN for none."""
        values = self.values(metric)
        return float(np.mean(values)) if values else math.nan

    def medians(self) -> Record:
        """Returns the first record with the median over the seeds that have it in place of every metric."""
        names = dict.fromkeys(name for record in self.records for name in record.metrics)
        found = {name: self.values(name) for name in names}
        return replace(self.first, metrics={name: float(np.median(v)) for name, v in found.items() if v})

    def has_arrays(self, names: Iterable[str]) -> bool:
        """Returns whether all of these are there; a name with a slash at its end is the beginning of one at least."""
        return all(
            any(key.startswith(name) for key in self.arrays) if name.endswith("/") else name in self.arrays
            for name in names
        )

    def has_metrics(self, names: Iterable[str]) -> bool:
        return all(math.isfinite(self.mean(name)) for name in names)


@dataclass(frozen=True)
class Group:
    """The rows of one preset."""

    preset: str
    rows: tuple[Row, ...]

    def label(self, in_paper: bool = True) -> str:
        """Returns what readers call the preset; an experiment that the paper lacks has defaults of its own."""
        if self.preset == "paper" and not in_paper:
            return "Default settings"
        return PRESETS.get(self.preset, words(self.preset).capitalize())

    @property
    def records(self) -> list[Record]:
        return [record for row in self.rows for record in row.records]


def grouped(records: Iterable[Record], methods: Mapping[str, str]) -> list[Group]:
    """Returns the records of one experiment by preset, method and settings; methods in the order of their names."""
    presets: dict[str, dict[tuple[str, str], list[Record]]] = {}
    for record in records:
        settings = json.dumps(record.settings, sort_keys=True)
        presets.setdefault(record.preset, {}).setdefault((record.method, settings), []).append(record)
    order = [*PRESETS, *sorted(presets.keys() - PRESETS.keys())]
    return [Group(preset, _rows(presets[preset], methods)) for preset in order if preset in presets]


def _rows(found: dict[tuple[str, str], list[Record]], methods: Mapping[str, str]) -> tuple[Row, ...]:
    places = {method: i for i, method in enumerate(methods)}

    def place(method: str) -> tuple[int, int]:  # other ranks follow the low-rank network
        rank = rank_in(method)
        known = "low_rank" if method not in places and rank is not None else method
        return places.get(known, len(places)), rank or 0

    keys = sorted(found, key=lambda key: place(key[0]))
    rows: list[Row] = []
    for method, settings in keys:
        alike = [found[key][0].settings for key in keys if key[0] == method]
        name = display_name(method, methods)
        if len(alike) > 1:
            own = found[method, settings][0].settings
            varied = [
                f"{setting_name(k)} {show(own[k])}" for k in own if any(other.get(k) != own[k] for other in alike)
            ]
            name = f"{name}: {', '.join(varied)}"
        same = sum(row.name == name for row in rows)  # settings that differ in digits that are not shown
        name = f"{name} ({same + 1})" if same else name
        rows.append(Row(name, method, tuple(sorted(found[method, settings], key=lambda record: record.seed))))
    return tuple(rows)


def words(name: str) -> str:
    return name.replace("_", " ")


def show(value: Any) -> str:
    """Returns a setting as text.

    >>> show([-0.1, 0.6]), show([25, 25, 10]), show(0.0024787521766), show(True), show(None)
    ('-0.1 to 0.6', '25, 25, 10', '0.00248', 'yes', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        between = " to " if len(value) == 2 and all(isinstance(item, float) for item in value) else ", "
        return between.join(show(item) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def listed(parts: Sequence[str]) -> str:
    """Returns a list in words.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return "".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"
