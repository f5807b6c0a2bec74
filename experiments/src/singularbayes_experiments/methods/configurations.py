"""The settings that are tried on validation data, as many for every method, and how one of them is chosen."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from singularbayes_experiments.records.record import Record, plain

SEEDS = (0, 1)  # of the trials; results have others
Changes = dict[str, Any]


@dataclass(frozen=True)
class Candidates:
    """What is tried of every method.

    Args:
        paper: the settings that candidates change.
        tried: the changes by the method and the candidate's name.
        alike: the methods that have no trials of their own but the settings of another.
        own: what such methods change in them.
        diverged: the candidates, by method, whose weights went beyond all numbers: tried, but without a record.

    >>> from singularbayes_experiments.problems.image_configurations import CANDIDATES
    >>> found = CANDIDATES.chosen({"low_rank": "beta 0.1, rate 0.001"})
    >>> found["low_rank_50"].beta, found["low_rank_50"].cosine
    (0.1, True)
    """

    paper: Any
    tried: Mapping[str, Mapping[str, Changes]]
    alike: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Changes] = field(default_factory=dict)
    diverged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def settings(self, method: str) -> dict[str, Any]:
        """Returns the settings to try, by name; none for a method that has those of another."""
        return {name: replace(self.paper, **changes) for name, changes in self.tried.get(method, {}).items()}

    def chosen(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Returns the settings of every method from the name of its candidate."""
        found = {method: self.settings(method)[name] for method, name in names.items()}
        alike = {method: found[source] for method, source in self.alike.items() if source in found}
        return found | {method: replace(settings, **self.own.get(method, {})) for method, settings in alike.items()}

    def choose(self, records: Iterable[Record]) -> dict[str, str]:
        """Returns the candidate with the least validation NLL, a mean over seeds, of every method with trials.

        Raises unless all candidates of a method that did not diverge were tried, each with the same seeds.
        """
        tried: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for record in records:
            tried[record.method][self._name(record)][record.seed] = record.metrics["validation_nll"]
        best = {}
        for method, found in tried.items():
            whole = [name for name in self.tried[method] if name not in self.diverged.get(method, ())]
            seeds = {name: sorted(found[name]) for name in whole}
            if len({tuple(each) for each in seeds.values()}) != 1 or not all(seeds.values()):
                raise ValueError(f"choose needs every candidate of {method!r} with the same seeds; got {seeds}.")
            best[method] = min(whole, key=lambda name: float(np.mean(list(found[name].values()))))
        return best

    def _name(self, record: Record) -> str:
        for name, settings in self.settings(record.method).items():
            if plain(settings) == record.settings:
                return name
        raise ValueError(f"choose needs trials of the candidates; got other settings in {record.name!r}.")
