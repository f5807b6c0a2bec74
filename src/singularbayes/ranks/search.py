"""A search for ranks, and for β and η beside them, by short trainings on Optuna.

Optuna chooses, stops and keeps the trials. Processes that make the same call with the same storage share them.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from scipy.stats import sem

from singularbayes.checks import require_integer, require_package
from singularbayes.evaluation import Evaluation, evaluate
from singularbayes.metrics import Measure, find_measure
from singularbayes.models.progress import quiet
from singularbayes.ranks.trials import Sweep, Trial
from singularbayes.training import BETA, KLSchedule, fit_many

Space = Mapping[str, Any]
_STARTUP, _PATIENCE = 8, 4  # trials by chance before the sampler learns, and finished ones before one is stopped
_RUNGS = 4  # a trial is looked at after each of these parts of its epochs but the last

# Short names of objectives, by task.
_SHORT = {
    "classification": {"auroc_ood": "auroc_ood_mi", "aupr_ood": "aupr_ood_mi"},
    "regression": {"auroc_ood": "auroc_ood_epistemic", "aupr_ood": "aupr_ood_epistemic", "nll": "nll_total"},
}


@dataclass(frozen=True)
class Data:
    """What a sweep trains on, what it is judged by, and out-of-distribution inputs: x, or several by name.

    >>> import numpy as np
    >>> x, y = np.ones((6, 2)), np.arange(6)
    >>> Data(train=(x[:4], y[:4]), validation=(x[4:], y[4:])).ood is None
    True
    """

    train: tuple[Any, Any]
    validation: tuple[Any, Any]
    ood: Any = None


@dataclass(frozen=True)
class Budget:
    """How many trials, and how much each may cost: fewer epochs and draws than a final training.

    >>> Budget(trials=8, epochs=5, seeds=3).trials
    8
    """

    trials: int = 20
    epochs: int = 10
    draws: int = 20
    seeds: int = 1
    batch_size: int = 128
    warmup: int = 0  # epochs in which the KL weight rises

    def __post_init__(self) -> None:
        require_integer("Budget", 0, warmup=self.warmup)
        require_integer("Budget", **{name: value for name, value in asdict(self).items() if name != "warmup"})
        if self.warmup >= self.epochs:
            raise ValueError(f"Budget needs warmup < epochs; got warmup={self.warmup} and epochs={self.epochs}.")


def sweep(
    build: Callable[..., keras.Model],
    data: Data,
    space: Space,
    objectives: Sequence[str] | None = None,
    budget: Budget | int = Budget(),
    *,
    storage: Any = None,
    task: str | None = None,
    seed: int = 0,
) -> Sweep:
    """Returns trials of settings from a space, and which of them to take.

    A trial trains `build(**settings)` with every seed for a few epochs and is judged by the mean of its scores on
    the validation data; from two seeds on, by their standard error too (`Sweep.recommended`). Optuna's tree-structured
    Parzen estimator chooses the settings. With one objective its median pruner stops trials that fall behind.

    Args:
        build: makes a compiled model from the settings by name: `lambda rank, eta: …`, or one rank a layer. `beta` is
            not passed on: it is the β of the KL weight, by default that of `KLSchedule`.
        space: settings by name: (low, high) of two integers or two others, searched by their logarithm, or a list.
            Where all are lists, every combination is tried once, in an order of chance.
        objectives: names of measures, as an `Evaluation` has them; "auroc_ood" is by mutual information, or by the
            epistemic variance in regression. None is the NLL, or the RMSE where the likelihood has no noise, and with
            `data.ood` the detection of these too.
        budget: or a number of trials.
        storage: keeps the trials: a path (a journal file, on a disk that all machines see), an Optuna URL such as
            "sqlite:///ranks.db", or a storage of Optuna's. The same call resumes; several processes share its trials.
            A study in it is known by objectives, space, budget and sizes, not by data: other data need another storage.
        task: "classification" or "regression", where the compiled loss does not determine it.
        seed: of the sampler; seeds of training are 0, 1, ….

    docs/ranks.md has an example.
    """
    optuna = _optuna()
    budget = Budget(trials=budget) if isinstance(budget, int) else budget
    if not isinstance(data, Data):
        raise ValueError(
            f"sweep needs ranks.Data(train=(x, y), validation=(x, y)); got data of type {type(data).__name__}."
        )
    space = _read_space(space)
    scores = _untrained(build, data, space, task)
    wanted = _measures(objectives, scores)
    sizes = {"weights": scores.num_trained, "held_out": scores.examples}
    named = {"objectives": [measure.name for measure in wanted], **sizes, **asdict(budget), "space": space}
    study = optuna.create_study(
        study_name=", ".join(f"{name}={value}" for name, value in named.items() if name != "trials"),
        storage=_storage(storage),
        load_if_exists=True,
        directions=["maximize" if measure.sign > 0 else "minimize" for measure in wanted],
        pruner=optuna.pruners.MedianPruner(n_startup_trials=_PATIENCE),
    )
    points = _grid(space, seed)
    number = budget.trials if points is None else min(budget.trials, len(points))
    objective = _Objective(build, data, space, budget, scores.task, wanted)
    while len(_ended(study)) < number:
        # A seed of its own for every trial: processes that share a study, or resume it, do not repeat each other.
        state = int(np.random.SeedSequence([seed, len(study.get_trials(deepcopy=False))]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=state, n_startup_trials=_STARTUP)
        if points is not None:
            study.enqueue_trial(_next_point(study, points))
        study.optimize(objective, n_trials=1)
    trials = [Trial(t.number, t.params, **t.user_attrs) for t in _ended(study)]
    return Sweep(scores.task, wanted, tuple(trials), budget.seeds)


def _read_space(space: Space) -> dict[str, Any]:
    """Returns the settings, NumPy's numbers as Python's; raises unless each is (low, high) or a list of values."""
    if not isinstance(space, Mapping) or not space:
        raise ValueError(
            "sweep needs a space of settings by name, such as {'rank': (2, 64), 'beta': (0.01, 1.0), 'eta': [0.01, "
            f"0.1]}}; got space={space!r}."
        )
    found: dict[str, Any] = {}
    for name, choice in space.items():
        values = [value.item() if isinstance(value, np.generic) else value for value in choice]
        interval = len(values) == 2 and 0 < values[0] < values[1]
        if not (values if isinstance(choice, list) else interval):
            raise ValueError(f"sweep needs (low, high) with 0 < low < high, or a list, for {name!r}; got {choice!r}.")
        found[name] = values if isinstance(choice, list) else tuple(values)
    return found


def _untrained(build: Callable[..., keras.Model], data: Data, space: Space, task: str | None) -> Evaluation:
    """Returns the scores of an untrained model, by which what makes no sense is refused before any training."""
    model = build(**{name: choice[0] for name, choice in space.items() if name != "beta"})
    if not getattr(model, "compiled", False):
        raise ValueError(f"sweep needs build to return a compiled Keras model; got {model!r}, which is not compiled.")
    return evaluate(model, data.validation, data.ood, task, draws=2)


def _measures(names: Sequence[str] | None, scores: Evaluation) -> tuple[Measure, ...]:
    """Returns the objectives, which have to be scores with a better end; None takes those that fit the data."""
    there = {name for name in ("num_trained", *scores.metrics) if find_measure(name).has_direction}
    there -= scores.undefined.keys()
    short = _SHORT[scores.task]
    if names is None:
        quality = [name for name in ("nll", "nll_total", "rmse") if name in there][:1]
        detection = sorted(name for name in there if name.rpartition("/")[2] == short["auroc_ood"])
        return tuple(map(find_measure, [*quality, *detection]))
    if isinstance(names, str) or not names:
        raise ValueError(f"sweep needs a list of objectives, such as ['nll', 'auroc_ood']; got objectives={names!r}.")
    full = [_full_name(name, short) for name in names]
    for name, objective in zip(names, full, strict=True):
        if objective not in there:
            why = scores.undefined.get(objective, "of out-of-distribution examples there are those of data.ood alone")
            raise ValueError(
                f"sweep needs objectives that a trial has, of which more or less is better; got {name!r} in "
                f"{scores.task}: {why}. There are {sorted(there)}."
            )
    return tuple(map(find_measure, full))


def _full_name(name: str, short: Mapping[str, str]) -> str:
    """Returns the name that an evaluation uses; that of an out-of-distribution set, "digits/", stays before it."""
    where, bar, base = name.rpartition("/")
    return f"{where}{bar}{short.get(base, base)}"


def _optuna() -> Any:
    return require_package("optuna", "sweep", "sweep")


def _storage(where: Any) -> Any:
    """Returns what Optuna takes for a storage; a path is a journal file, which may lie on a network's disk."""
    if not isinstance(where, (str, Path)) or "://" in str(where):
        return where
    if not Path(where).parent.is_dir():
        raise ValueError(f"sweep needs a storage in a folder that exists; got {str(where)!r}.")
    if Path(where).exists() and Path(where).read_bytes()[:1] not in (b"", b"{"):
        raise ValueError(f"sweep needs a storage that a sweep wrote, or a path that is free; got {str(where)!r}.")
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(where)))


def _ended(study) -> list[Any]:
    """Returns the trials that ended: with scores, stopped early, or diverged."""
    states = _optuna().trial.TrialState
    return study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))


def _grid(space: Space, seed: int) -> list[dict[str, Any]] | None:
    """Returns every setting in an order of chance, where all choices are lists; else None."""
    if not all(isinstance(choice, list) for choice in space.values()):
        return None
    points = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    return [points[i] for i in np.random.default_rng(seed).permutation(len(points))]


def _next_point(study, points: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a setting that nobody has begun; at last one that somebody has, who may have been killed."""
    ended = [trial.params for trial in _ended(study)]
    left = [point for point in points if point not in ended]
    running = [t.params for t in study.get_trials(deepcopy=False) if not t.state.is_finished()]
    return next((point for point in left if point not in running), left[0])


@dataclass(frozen=True)
class _Objective:
    """What Optuna calls with a trial: training and scoring at its settings."""

    build: Callable[..., keras.Model]
    data: Data
    space: Space
    budget: Budget
    task: str
    wanted: tuple[Measure, ...]

    def __call__(self, trial) -> list[float]:
        settings = {name: _suggested(trial, name, choice) for name, choice in self.space.items()}
        known = [t for t in _ended(trial.study) if t.params == settings and t.values]
        scores = known[0].user_attrs if known else self._trained(trial, settings)
        for name, value in scores.items():
            trial.set_user_attr(name, value)
        values = [scores["metrics"].get(measure.name, math.nan) for measure in self.wanted]
        if not all(map(math.isfinite, values)):
            raise _optuna().TrialPruned("it diverged, and would again")
        return values

    def _trained(self, trial, settings: dict[str, Any]) -> dict[str, dict[str, float]]:
        """Returns the scores of networks that are trained at the settings."""
        own, budget = dict(settings), self.budget
        beta = own.pop("beta", BETA)
        callbacks: list[list[keras.callbacks.Callback]] = [
            [KLSchedule(beta=beta, warmup=budget.warmup)] for _ in range(budget.seeds)
        ]
        if len(self.wanted) == 1:
            callbacks[0].append(_Rungs(self, trial))
        of_next_seed = iter(callbacks)
        x, y = self.data.train
        with quiet():
            runs = fit_many(
                lambda: self.build(**own),
                x,
                y,
                range(budget.seeds),
                budget.epochs,
                budget.batch_size,
                callbacks=lambda: next(of_next_seed),
            )
            results = [self.scores(run.model, seed) for seed, run in enumerate(runs)]
        return over_seeds(results)

    def scores(self, model: keras.Model, seed: int) -> dict[str, float]:
        """Returns all scores of a trained model on the validation data."""
        found = evaluate(model, self.data.validation, self.data.ood, self.task, seed=seed, draws=self.budget.draws)
        return {**found.metrics, "num_trained": found.value("num_trained")}


def over_seeds(results: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Returns the means over seeds and, of several, their standard errors; scores that are not finite are left out.

    >>> over_seeds([{"nll": 1.0}, {"nll": 2.0}, {"nll": 3.0}])  # 1/√3
    {'metrics': {'nll': 2.0}, 'errors': {'nll': 0.577}}
    """
    values = {name: [result[name] for result in results] for name in results[0]}
    finite = {name: found for name, found in values.items() if np.isfinite(found).all()}
    errors = {name: float(sem(found)) for name, found in finite.items() if len(results) > 1}
    return {"metrics": {name: float(np.mean(found)) for name, found in finite.items()}, "errors": errors}


def _suggested(trial, name: str, choice: Any) -> Any:
    if isinstance(choice, list):
        return trial.suggest_categorical(name, choice)
    suggest = trial.suggest_int if all(isinstance(end, int) for end in choice) else trial.suggest_float
    return suggest(name, *choice, log=True)


class _Rungs(keras.callbacks.Callback):
    """Tells Optuna now and then how a trial does, and ends it where the pruner decides so."""

    def __init__(self, objective: _Objective, trial: Any):
        super().__init__()
        self.objective, self.trial = objective, trial
        epochs = objective.budget.epochs
        self.rungs = {math.ceil(epochs * i / _RUNGS) for i in range(1, _RUNGS)} - {epochs}

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 in self.rungs:
            (measure,) = self.objective.wanted
            self.trial.report(self.objective.scores(self.model, seed=0)[measure.name], epoch + 1)
            if self.trial.should_prune():
                raise _optuna().TrialPruned("it fell behind the median")
