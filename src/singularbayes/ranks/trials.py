"""What a sweep found: its trials, which of them no other beats, and the one to take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from singularbayes.metrics import Measure, find_measure, pareto_front
from singularbayes.text_table import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = "num_trained"  # the measure of the size of a trial


@dataclass(frozen=True)
class Trial:
    """One setting and what it gave, the mean over seeds; a trial that was stopped early has no metrics.

    Args:
        errors: the standard errors of these means; none for one seed.

    >>> Trial(3, {"rank": 8, "beta": 0.1234}, {"nll": 0.31}).label
    'rank=8, beta=0.123'
    """

    number: int
    settings: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The settings in one line."""
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.settings.items())

    def score(self, measure: Measure) -> str:
        """Returns a score as tables show it, with its standard error where there is one."""
        if measure.name not in self.metrics:
            return "–"
        value, error = self.metrics[measure.name], self.errors.get(measure.name)
        return f"{value:.4g}" if error is None else f"{value:.4g} ± {error:.2g}"


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
        return self._with(self.objectives)

    def _with(self, measures: Sequence[Measure]) -> list[Trial]:
        return [t for t in self.trials if all(math.isfinite(t.metrics.get(m.name, math.nan)) for m in measures)]

    def pareto(self, *names: str) -> list[Trial]:
        """Returns the trials that no other beats in all objectives, the best in the first objective first.

        Args:
            *names: other measures than the objectives; any that the trials have.
        """
        chosen = [find_measure(name) for name in names] or list(self.objectives)
        trials = self._with(chosen)
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
        Objectives are measured by their range on the front. Where the front has two points alone, each is the best in
        one objective and the worst in the other, so that both were as near: then the range is that of all trials.
        """
        front = self.pareto()
        losses = self._losses(front)
        measured = self._losses(self.finished) if len(np.unique(losses, axis=0)) == 2 else losses
        spread = np.ptp(measured, axis=0)
        distances = np.linalg.norm((losses - losses.min(axis=0)) / np.where(spread > 0, spread, 1.0), axis=1)
        return front[int(distances.argmin())]

    def _losses(self, trials: Sequence[Trial]) -> np.ndarray:
        """Returns the objectives of trials, of which less is better."""
        return np.array([[-m.sign * trial.metrics[m.name] for m in self.objectives] for trial in trials])

    def recommended(self) -> Trial:
        """Returns the trial to take: the knee, or with several seeds the smallest that is as good within its error.

        The rule of one standard error: of the trials that are worse than the knee by no more than the knee's standard
        error, in every objective, the one with the fewest trainable parameters.
        """
        knee = self.knee()
        if not knee.errors:
            return knee
        allowed = self._losses([knee])[0] + [knee.errors[measure.name] for measure in self.objectives]
        losses = self._losses(self.finished)
        alike = [trial for trial, loss in zip(self.finished, losses, strict=True) if (loss <= allowed).all()]
        return min(alike, key=lambda trial: (trial.metrics[SIZE], trial is not knee))

    def why(self) -> str:
        """Returns which trial to take and why, in two sentences."""
        chosen, knee = self.recommended(), self.knee()
        take = f"Take {chosen.label}: {self._scores(chosen)}."
        if chosen is not knee:
            return f"{take} It is the smallest within one standard error of {knee.label}, {self._scores(knee)}."
        which = "the best" if len(self.objectives) == 1 else f"the knee of a front of {len(self.pareto())}"
        chance = "; one seed a trial decides, so small differences may be chance" if self.seeds == 1 else ""
        return f"{take} It is {which} among {len(self.finished)} trials{chance}."

    def _scores(self, trial: Trial) -> str:
        return " and ".join(f"{measure.label} {trial.score(measure)}" for measure in self.objectives)

    def plot(self, x: str | None = None, y: str | None = None) -> "Figure":
        """Returns the Pareto figure of two measures: labels are ranks, a ring is around the recommended trial.

        Args:
            x, y: names of measures; by default the first two objectives, or the size and the only one.
        """
        from singularbayes import plots

        default = [measure.name for measure in self.objectives]
        first, second = [SIZE, *default] if len(default) == 1 else default[:2]
        of_x, of_y = find_measure(x or first), find_measure(y or second)
        points = {
            trial.number: plots.Point(
                ", ".join(str(value) for name, value in trial.settings.items() if "rank" in name) or str(trial.number),
                trial.metrics[of_x.name],
                trial.metrics[of_y.name],
                "trials",
                (trial.errors.get(of_x.name, 0.0), trial.errors.get(of_y.name, 0.0)),
            )
            for trial in self._with([of_x, of_y])
        }
        return plots.pareto(list(points.values()), of_x, of_y, points.get(self.recommended().number))

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        head = ["trial", *names, *(f"{measure.label} {measure.arrow}" for measure in self.objectives), "front"]
        front = {trial.number for trial in self.pareto()} if self.finished else set()
        rows = [
            [
                trial.number,
                *(_shown(trial.settings.get(name, "–")) for name in names),
                *(trial.score(measure) for measure in self.objectives),
                "★" if trial.number in front else "",
            ]
            for trial in self.trials
        ]
        return "\n".join([text_table(head, rows), *([self.why()] if self.finished else [])])


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
