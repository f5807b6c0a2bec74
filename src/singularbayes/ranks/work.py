"""What is done with the settings of one trial, on this machine or another: training and scoring."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from scipy.stats import sem

from singularbayes import evaluation
from singularbayes.metrics import Measure
from singularbayes.models import quiet
from singularbayes.ranks.storage import quiet_optuna, require_optuna
from singularbayes.ranks.sweep_config import Budget, Data
from singularbayes.training import BETA, KLSchedule, fit_many

_RUNGS = 4  # how often a trial with one objective is looked at before it ends
_PATIENCE = 4  # finished trials before one is stopped

Curve = dict[int, float]  # the objective by epochs


@dataclass(frozen=True)
class Ended:
    """What became of a trial: all its scores, none if it was stopped early; and its objective along the way.

    Args:
        metrics: the mean over seeds; errors: its standard error, where there are several seeds.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    curve: Curve = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """What an engine calls with the settings of a trial. It holds all that a trial needs, and may be called again.

    Args:
        curves: of the trials that ended before. With one objective a trial that falls behind their median is stopped.
    """

    build: Callable[..., keras.Model]
    data: Data
    wanted: tuple[Measure, ...]
    budget: Budget
    task: str
    curves: tuple[Curve, ...] = ()

    def __call__(self, settings: dict[str, Any]) -> Ended:
        rungs = _Rungs(self) if len(self.wanted) == 1 else None
        try:
            results = train(self, settings, rungs)
        except _Behind:
            results = []
        curve = {} if rungs is None else rungs.curve
        return Ended(_means(results), curve, _errors(results))

    def scores(self, model: keras.Model, seed: int) -> dict[str, float]:
        """Returns all scores of a trained model on the validation data."""
        found = evaluation.evaluate(
            model, self.data.validation, self.data.ood, self.task, seed=seed, draws=self.budget.draws
        )
        return {**found.metrics, "num_trained": found.value("num_trained")}


def train(work: Work, settings: dict[str, Any], rungs: keras.callbacks.Callback | None) -> list[dict[str, float]]:
    """Returns all scores of a setting, seed by seed; the first seed's training is looked at by `rungs`."""
    own = dict(settings)
    beta = own.pop("beta", BETA)
    (x, y), budget = work.data.train, work.budget
    callbacks: list[list[keras.callbacks.Callback]] = [
        [KLSchedule(beta=beta, warmup=budget.warmup)] for _ in range(budget.seeds)
    ]
    if rungs is not None:
        callbacks[0].append(rungs)
    of_next_seed = iter(callbacks)

    with quiet():
        runs = fit_many(
            lambda: work.build(**own),
            x,
            y,
            range(budget.seeds),
            budget.epochs,
            budget.batch_size,
            callbacks=lambda: next(of_next_seed),
        )
        return [work.scores(run.model, seed) for seed, run in enumerate(runs)]


def _means(results: list[dict[str, float]]) -> dict[str, float]:
    """Returns the means over seeds; none of no seeds."""
    return {name: float(np.mean([result[name] for result in results])) for name in (results[0] if results else ())}


def _errors(results: list[dict[str, float]]) -> dict[str, float]:
    """Returns the standard errors of the means over seeds, which one seed does not have.

    >>> _errors([{"nll": 1.0}, {"nll": 2.0}, {"nll": 3.0}])  # 1/√3
    {'nll': 0.577}
    """
    if len(results) < 2:
        return {}
    return {name: float(sem([result[name] for result in results])) for name in results[0]}


class _Behind(Exception):
    """A trial is worse than the median of the others were by then."""


class _Rungs(keras.callbacks.Callback):
    """Looks now and then at how a trial does, and ends it where Optuna's pruner decides so.

    The pruner knows the trials that ended before this one was chosen, wherever they were trained, so that the same
    trials are stopped on every engine.
    """

    def __init__(self, work: Work):
        super().__init__()
        self.work, (self.measure,) = work, work.wanted
        epochs = work.budget.epochs
        self.rungs = {math.ceil(epochs * i / _RUNGS) for i in range(1, _RUNGS)} - {epochs}
        self.curve: Curve = {}
        self.trial = _among(work.curves, self.measure)

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 in self.rungs:
            self.look(epoch + 1, self.work.scores(self.model, seed=0)[self.measure.name])

    def look(self, epochs: int, value: float) -> None:
        """Notes the objective after this many epochs; raises where it is too bad to continue."""
        self.curve[epochs] = value
        self.trial.report(value, epochs)
        if self.trial.should_prune():
            raise _Behind


def _among(curves: tuple[Curve, ...], measure: Measure) -> Any:
    """Returns an Optuna trial among finished ones with these curves."""
    optuna = require_optuna()
    with quiet_optuna():
        pruner = optuna.pruners.MedianPruner(n_startup_trials=_PATIENCE)
        study = optuna.create_study(direction="maximize" if measure.sign > 0 else "minimize", pruner=pruner)
        # Of finished trials the pruner looks at the curves alone.
        study.add_trials([optuna.trial.create_trial(value=0.0, intermediate_values=curve) for curve in curves])
        return study.ask()
