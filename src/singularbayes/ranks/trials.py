"""What a sweep found: its trials, which of them no other beats, and the one to take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from singularbayes.metrics import Measure, find_measure, pareto_front
from singularbayes.ranks import reasons
from singularbayes.text_table import text_table

SIZE = "num_trained"  # the measure of the size of a trial


@dataclass(frozen=True)
class Trial:
    """One setting and what it gave, the mean over seeds; a trial that was stopped early has no metrics.

    Args:
        errors: the standard errors of these means; none for one seed.

    >>> Trial(0, {"rank": 8}, {"nll": 0.31}).settings
    {'rank': 8}
    """

    number: int
    settings: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The settings in one line.

        >>> Trial(3, {"rank": 8, "beta": 0.1234}).label
        'rank=8, beta=0.123'
        """
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.settings.items())


@dataclass(frozen=True)
class Sweep:
    """All trials in order. Printed, it is their table, and in a sentence which to take.

    >>> from singularbayes.metrics import find_measure
    >>> trials = tuple(Trial(i, {"rank": 2**i}, {"nll": nll}) for i, nll in enumerate((0.5, 0.3, 0.4)))
    >>> Sweep("classification", (find_measure("nll"),), trials).recommended().settings
    {'rank': 2}
    """

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

    def errors(self, trial: Trial) -> list[float]:
        """Returns the standard errors of a trial's objectives, of several seeds."""
        return [trial.errors[measure.name] for measure in self.objectives]

    def pareto(self, *names: str) -> list[Trial]:
        """Returns the trials that no other beats in all objectives, the best in the first objective first.

        Args:
            *names: other measures than the objectives; any that the trials have.
        """
        chosen = [find_measure(name) for name in names] or list(self.objectives)
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

        Of two that are as near it is the better in the first objective. For one objective it is the best trial.
        """
        return self.nearest()[0]

    def nearest(self) -> list[Trial]:
        """Returns the trials of the front that are nearest to the best of every objective at once: one, unless equal.

        Objectives are measured by their range on the front. Where the front has two points alone, each is the best in
        one objective and the worst in the other, so that both were as near: then the range is that of all trials.
        """
        front = self.pareto()
        losses = self._losses(front)
        measured = self._losses(self.finished) if len(np.unique(losses, axis=0)) == 2 else losses
        spread = np.ptp(measured, axis=0)
        distances = np.linalg.norm((losses - losses.min(axis=0)) / np.where(spread > 0, spread, 1.0), axis=1)
        return [front[i] for i in np.flatnonzero(distances == distances.min())]

    def _losses(self, trials: Sequence[Trial]) -> np.ndarray:
        """Returns the objectives of trials, of which less is better."""
        return np.array([self.values(trial) for trial in trials]) * [-measure.sign for measure in self.objectives]

    def recommended(self) -> Trial:
        """Returns the trial to take: the knee, or with several seeds the smallest that is as good within its error.

        The rule of one standard error: of the trials that are worse than the knee by no more than the knee's standard
        error, in every objective, the one with the fewest trainable parameters.
        """
        knee = self.knee()
        if not knee.errors:
            return knee
        allowed = self._losses([knee])[0] + self.errors(knee)
        alike = [
            t for t, loss in zip(self.finished, self._losses(self.finished), strict=True) if (loss <= allowed).all()
        ]
        return min(alike, key=lambda trial: (trial.metrics[SIZE], trial is not knee))

    def why(self) -> str:
        """Returns which trial to take and why, in a sentence or two."""
        return reasons.why_recommended(self)

    def __str__(self) -> str:
        front = {trial.number for trial in self.pareto()} if self.finished else set()
        text = text_table(*cells(self.objectives, self.trials, front))
        return f"{text}\n{self.why()}" if self.finished else text


def cells(measures: Sequence[Measure], trials: Sequence[Trial], front: set[int]) -> tuple[list[str], list[list[str]]]:
    """Returns the head and the rows of a table of trials; a star marks those on the front."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    head = ["trial", *names, *(f"{measure.label} {measure.arrow}" for measure in measures), "front"]
    rows = []
    for trial in trials:
        shown = [_score(trial, measure.name) for measure in measures]
        settings = [_shown(trial.settings.get(name, "–")) for name in names]
        rows.append([str(trial.number), *settings, *shown, "★" if trial.number in front else ""])
    return head, rows


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _score(trial: Trial, name: str) -> str:
    """Returns a score as a table shows it, with its standard error where there is one."""
    value = trial.metrics.get(name, math.nan)
    if math.isnan(value):
        return "–"
    return f"{value:.4g} ± {trial.errors[name]:.2g}" if name in trial.errors else f"{value:.4g}"
