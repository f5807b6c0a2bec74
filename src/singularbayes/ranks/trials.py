"""What a sweep found: its trials, which of them no other beats, and the one to take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from singularbayes.assess import catalogue
from singularbayes.assess.measure import Measure
from singularbayes.metrics.pareto import pareto_front
from singularbayes.ranks.table import table


@dataclass(frozen=True)
class Trial:
    """One setting and what it gave, the mean over seeds; a trial that was stopped early has no metrics."""

    number: int
    settings: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The settings in one line.

        >>> Trial(3, {"rank": 8, "beta": 0.1234}).label
        'rank=8, beta=0.123'
        """
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.settings.items())


@dataclass(frozen=True)
class Sweep:
    """All trials in order. Printed, it is their table, and in a sentence which to take."""

    task: str
    objectives: tuple[Measure, ...]
    trials: tuple[Trial, ...]
    seeds: int = 1  # of every trial

    @property
    def finished(self) -> list[Trial]:
        """The trials that have a number for every objective."""
        return [trial for trial in self.trials if all(math.isfinite(value) for value in self.values(trial))]

    def values(self, trial: Trial) -> list[float]:
        """Returns the objectives of a trial, NaN where it has none."""
        return [trial.metrics.get(measure.name, math.nan) for measure in self.objectives]

    def pareto(self, *names: str) -> list[Trial]:
        """Returns the trials that no other beats in all objectives, the best in the first objective first.

        Args:
            *names: other measures than the objectives; any that the trials have.
        """
        chosen = [catalogue.find(name) for name in names] or list(self.objectives)
        trials = [t for t in self.trials if all(math.isfinite(t.metrics.get(m.name, math.nan)) for m in chosen)]
        if not trials:
            raise ValueError(
                f"pareto needs a finished trial with {[measure.name for measure in chosen]}; got none among "
                f"{len(self.trials)}."
            )
        values = np.array([[trial.metrics[measure.name] for measure in chosen] for trial in trials])
        front = np.flatnonzero(pareto_front(values, [measure.sign for measure in chosen]))
        order = front[np.argsort(-chosen[0].sign * values[front, 0], kind="stable")]
        return [trials[i] for i in order]

    def knee(self) -> Trial:
        """Returns the trial of the front that is nearest to the best of every objective at once.

        Objectives are measured by their range on the front. For one objective it is the best trial.
        """
        front = self.pareto()
        losses = np.array([[-m.sign * v for m, v in zip(self.objectives, self.values(t), strict=True)] for t in front])
        spread = np.ptp(losses, axis=0)
        scaled = (losses - losses.min(axis=0)) / np.where(spread > 0, spread, 1.0)
        return front[int(np.linalg.norm(scaled, axis=1).argmin())]

    def why(self) -> str:
        """Returns in a sentence which trial to take and what it gives up; in another, that one seed decides, if so."""
        chance = " One seed a trial decides, so small differences may be chance." if self.seeds == 1 else ""
        return f"{self._taken()}{chance}"

    def _taken(self) -> str:
        front, chosen = self.pareto(), self.knee()
        if len(self.objectives) == 1:
            (measure,), (value,) = self.objectives, self.values(chosen)
            return f"Take {chosen.label}: {measure.label} {value:.4g} is the best of {len(self.finished)} trials."
        parts = []
        for measure, value in zip(self.objectives, self.values(chosen), strict=True):
            best = max(front, key=lambda trial: measure.sign * trial.metrics[measure.name])
            there = f"the best, {best.metrics[measure.name]:.4g}, needs {best.label}"
            parts.append(f"{measure.label} {value:.4g} ({'the best' if best is chosen else there})")
        beaten = f"{len(front)} of {len(self.finished)} trials are beaten by no other"
        return f"Take {chosen.label}: {' and '.join(parts)}. {beaten}, and it is nearest to the best of all objectives."

    def __str__(self) -> str:
        front = {trial.number for trial in self.pareto()} if self.finished else set()
        text = table(*cells(self.objectives, self.trials, front))
        return f"{text}\n{self.why()}" if self.finished else text


def cells(measures: Sequence[Measure], trials: Sequence[Trial], front: set[int]) -> tuple[list[str], list[list[str]]]:
    """Returns the head and the rows of a table of trials; a star marks those on the front."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    head = ["trial", *names, *(f"{measure.label} {measure.arrow}" for measure in measures), "front"]
    rows = []
    for trial in trials:
        numbers = [trial.metrics.get(measure.name) for measure in measures]
        shown = ["–" if value is None or math.isnan(value) else f"{value:.4g}" for value in numbers]
        settings = [_shown(trial.settings.get(name, "–")) for name in names]
        rows.append([str(trial.number), *settings, *shown, "★" if trial.number in front else ""])
    return head, rows


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
