"""The configurations that are compared on validation data, as many for every method, and how the best is found."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from singularbayes_experiments.records.record import Record, plain

TUNING_SEEDS = (0, 1)  # results have others
Changes = dict[str, Any]


@dataclass(frozen=True)
class Configurations:
    """The configurations of every method.

    Args:
        base: the settings that configurations change.
        changes: the changes by the method and the configuration's name.
        shared: the methods that are not tuned but have the settings of another.
        own_changes: what such methods change in them.
        diverged: the configurations, by method, whose training diverged: they have no record.

    >>> from singularbayes_experiments.problems.image_configurations import CONFIGURATIONS
    >>> found = CONFIGURATIONS.tuned({"low_rank": "beta 0.1, rate 0.001"})
    >>> found["low_rank_50"].beta, found["low_rank_50"].cosine
    (0.1, True)
    """

    base: Any
    changes: Mapping[str, Mapping[str, Changes]]
    shared: Mapping[str, str] = field(default_factory=dict)
    own_changes: Mapping[str, Changes] = field(default_factory=dict)
    diverged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def settings(self, method: str) -> dict[str, Any]:
        """Returns the settings of a method's configurations, by name; none for a method that has those of another."""
        return {name: replace(self.base, **changes) for name, changes in self.changes.get(method, {}).items()}

    def tuned(self, choice: Mapping[str, str]) -> dict[str, Any]:
        """Returns the settings of every method from the name of its configuration."""
        found = {method: self.settings(method)[name] for method, name in choice.items()}
        shared = {method: found[source] for method, source in self.shared.items() if source in found}
        own = {method: replace(settings, **self.own_changes.get(method, {})) for method, settings in shared.items()}
        return found | own

    def best(self, records: Iterable[Record]) -> dict[str, str]:
        """Returns the configuration with the least validation NLL, a mean over seeds, of every method in tuning runs.

        Raises unless all configurations of a method that did not diverge were run, each with the same seeds.
        """
        nll: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for record in records:
            nll[record.method][self._name(record)][record.seed] = record.metrics["validation_nll"]
        best = {}
        for method, found in nll.items():
            whole = [name for name in self.changes[method] if name not in self.diverged.get(method, ())]
            seeds = {name: sorted(found[name]) for name in whole}
            if len({tuple(each) for each in seeds.values()}) != 1 or not all(seeds.values()):
                raise ValueError(f"Tuning needs every configuration of {method!r} with the same seeds; got {seeds}.")
            best[method] = min(whole, key=lambda name: float(np.mean(list(found[name].values()))))
        return best

    def _name(self, record: Record) -> str:
        for name, settings in self.settings(record.method).items():
            if plain(settings) == record.settings:
                return name
        raise ValueError(f"Tuning needs runs of the configurations; got other settings in {record.name!r}.")
