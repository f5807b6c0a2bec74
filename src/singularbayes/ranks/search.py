"""A search for ranks, and for β and η beside them, by short trainings on Optuna."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from singularbayes.assess import evaluate
from singularbayes.assess.measure import Measure
from singularbayes.inference import KLSchedule, fit_many
from singularbayes.inference.progress import quiet
from singularbayes.ranks import live
from singularbayes.ranks.objectives import measures
from singularbayes.ranks.space import Space, grid, require_space, suggest
from singularbayes.ranks.storage import digest, open_study, plain, require_optuna
from singularbayes.ranks.trials import Sweep, Trial

_RUNGS = 4  # how often a trial with one objective is looked at before it ends


@dataclass(frozen=True)
class Data:
    """What a sweep trains on, what it is judged by, and foreign examples: x, or several by name. No test data."""

    train: tuple[Any, Any]
    validation: tuple[Any, Any]
    ood: Any = None

    @property
    def foreign(self) -> dict[str, Any]:
        if self.ood is None:
            return {}
        return self.ood if isinstance(self.ood, dict) else {"": self.ood}

    @property
    def task(self) -> str:
        """Classification where all answers are whole numbers, else regression."""
        y = np.asarray(self.validation[1])
        return "classification" if np.issubdtype(y.dtype, np.integer) or not (y % 1).any() else "regression"


@dataclass(frozen=True)
class Budget:
    """How many trials, and how much each may cost: fewer epochs and draws than a final training."""

    trials: int = 20
    epochs: int = 10
    draws: int = 20
    seeds: int = 1
    batch_size: int = 128
    warmup: int = 0  # epochs in which the KL weight rises

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 0 if name == "warmup" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"Budget needs {name} to be a whole number >= {least}; got {name}={value!r}.")
        if self.warmup >= self.epochs:
            raise ValueError(f"Budget needs warmup < epochs; got warmup={self.warmup} and epochs={self.epochs}.")


def sweep(
    build: Callable[..., keras.Model],
    data: Data,
    space: Space,
    objectives: Sequence[str] = ("nll", "auroc_ood"),
    budget: Budget | int = Budget(),
    *,
    storage: str | Path | None = None,
    task: str | None = None,
    seed: int = 0,
) -> Sweep:
    """Returns trials of settings from a space, chosen by Optuna's multi-objective sampler, and which of them to take.

    A trial trains `build(**settings)` with every seed for a few epochs and is judged by the mean of its scores on
    the validation data. On a terminal a table grows with the trials. With one objective, trials that fall behind
    the median of the others are stopped early.

    Args:
        build: makes a compiled model from the settings by name: `lambda rank, eta: …`, or one rank a layer. `beta` is
            not passed on: it is the β of the KL weight, and 1 where the space does not have it.
        space: settings by name: (low, high) of two whole numbers or two others, searched by their logarithm, or a list.
            Where all are lists, every combination is tried once, in an order of chance.
        objectives: names of measures, as an `Evaluation` has them; "auroc_ood" is by mutual information, or by the
            epistemic variance in regression. OOD objectives need `data.ood`.
        budget: or a number of trials.
        storage: a file that keeps the trials. The same call goes on where it was interrupted; with more trials in
            the budget it adds to them.
        task: "classification" or "regression", where the answers do not say it.
        seed: of the sampler; seeds of training are 0, 1, ….
    """
    require_optuna()
    budget = Budget(trials=budget) if isinstance(budget, int) else budget
    require_space(space)
    task = task or data.task
    wanted = measures(objectives, task, data.foreign)
    directions = ["maximize" if measure.sign > 0 else "minimize" for measure in wanted]
    points = grid(space, seed)
    number = budget.trials if points is None else min(budget.trials, len(points))
    with live.table(wanted) as show, _quiet_optuna():
        study = open_study(storage, directions, _what(data, space, wanted, budget), seed)
        found = _trials(study)
        show(found)
        while len(found) < number:
            if points is not None:
                tried = [trial.settings for trial in found]
                study.enqueue_trial(next(point for point in points if point not in tried))
            _run(study, build, data, space, wanted, budget, task)
            found = _trials(study)
            show(found)
    return Sweep(task, wanted, tuple(found))


def _what(data: Data, space: Space, wanted: tuple[Measure, ...], budget: Budget) -> dict[str, Any]:
    """Returns what the trials of a storage depend on; their number may grow."""
    costs = {name: value for name, value in asdict(budget).items() if name != "trials"}
    return plain(
        {
            "objectives": [measure.name for measure in wanted],
            "space": {name: list(choice) for name, choice in space.items()},
            **costs,
            "data": digest((data.train, data.validation, data.foreign)),
        }
    )


def _run(study, build, data: Data, space: Space, wanted: tuple[Measure, ...], budget: Budget, task: str) -> None:
    """Does one trial and tells the study; whatever ends it, nothing is left open."""
    optuna = require_optuna()
    states = optuna.trial.TrialState
    trial = study.ask()
    settings = suggest(trial, space)
    same = [t.metrics for t in _trials(study) if t.settings == settings and t.metrics]
    try:
        metrics = same[0] if same else _train(trial, settings, build, data, wanted, budget, task)
    except optuna.TrialPruned:
        study.tell(trial, state=states.PRUNED)
        return
    except BaseException:
        study.tell(trial, state=states.FAIL)
        raise
    values = [metrics[measure.name] for measure in wanted]
    trial.set_user_attr("metrics", {name: value for name, value in metrics.items() if math.isfinite(value)})
    if all(math.isfinite(value) for value in values):
        study.tell(trial, values)
    else:
        trial.set_user_attr("tried", True)  # it diverged, and would again
        study.tell(trial, state=states.FAIL)


def _train(trial, settings, build, data, wanted, budget, task) -> dict[str, float]:
    """Returns the mean over seeds of all scores of a setting."""
    own = dict(settings)
    beta = own.pop("beta", 1.0)
    x, y = data.train
    callbacks: list[list[keras.callbacks.Callback]] = []

    def member() -> list[keras.callbacks.Callback]:
        schedule = KLSchedule(len(x), beta, warmup=budget.warmup)
        first = not callbacks and len(wanted) == 1
        callbacks.append([schedule, *([_Rungs(trial, data, wanted[0], budget, task)] if first else [])])
        return callbacks[-1]

    with quiet():
        runs = fit_many(
            lambda: build(**own), x, y, range(budget.seeds), budget.epochs, budget.batch_size, callbacks=member
        )
        results = [_scores(run.model, data, budget, task, seed) for seed, run in enumerate(runs)]
    return {name: float(np.mean([result[name] for result in results])) for name in results[0]}


def _scores(model: keras.Model, data: Data, budget: Budget, task: str, seed: int) -> dict[str, float]:
    found = evaluate(model, data.validation, data.ood, task, seed=seed, draws=budget.draws)
    return {**found.metrics, "num_trained": found.value("num_trained")}


class _Rungs(keras.callbacks.Callback):
    """Says now and then how a trial does, and ends it where the pruner says so."""

    def __init__(self, trial, data: Data, measure: Measure, budget: Budget, task: str):
        super().__init__()
        self.trial, self.data, self.measure, self.budget, self.task = trial, data, measure, budget, task
        self.rungs = {math.ceil(budget.epochs * i / _RUNGS) for i in range(1, _RUNGS)}

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 not in self.rungs:
            return
        value = _scores(self.model, self.data, self.budget, self.task, seed=0)[self.measure.name]
        self.trial.report(value, epoch + 1)
        if self.trial.should_prune():
            raise require_optuna().TrialPruned


def _trials(study) -> list[Trial]:
    """Returns what was tried: finished, stopped early or diverged. Trials that a kill left open do not count."""
    states = require_optuna().trial.TrialState
    done = [t for t in study.trials if t.state in (states.COMPLETE, states.PRUNED) or t.user_attrs.get("tried")]
    return [Trial(t.number, t.params, t.user_attrs.get("metrics", {})) for t in done]


@contextlib.contextmanager
def _quiet_optuna() -> Iterator[None]:
    logging = require_optuna().logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
