"""From a problem and a method to a record: what every experiment that compares methods does alike.

A problem says what is trained on, which network, and what is scored (`Problem`). A method says what is put on the
weights and what is trained (`methods.py`). A trainer trains one network after another, or all seeds as one program
(`trainers.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import keras
import numpy as np

from singularbayes.baselines import member_seeds
from singularbayes.evaluation import Peak
from singularbayes.models import count_stored, count_trained
from singularbayes.prediction import Predictive, predict
from singularbayes_experiments.methods import methods
from singularbayes_experiments.methods.posterior_scores import of_posteriors, singular_values
from singularbayes_experiments.methods.trainers import Alone, Together, Training
from singularbayes_experiments.methods.training import Watch, require_method
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.records.checkpoints import Keep
from singularbayes_experiments.records.record import Record, departures, machine, plain

# Inputs by name → predictions by name, of the same draws; `draws` other than the settings', and `keep_draws`, if said.
Ask = Callable[..., dict[str, Any]]
Scores = dict[str, float]
Arrays = dict[str, np.ndarray]


def prefixed(prefix: str, scores: Mapping[str, float]) -> Scores:
    """Returns scores of one set of examples under names that say which."""
    return {f"{prefix}_{name}": value for name, value in scores.items()}


class Problem(ABC):
    """What an experiment is about.

    `name` is the experiment's, `paper` its settings where none are given, for all methods or by method, `methods` what
    each of its methods is, by name, `padding` the token that fills up texts.
    """

    name: str
    paper: Any
    methods: Mapping[str, str]
    padding: int | None = None

    @abstractmethod
    def training(self, settings) -> Training:
        """Returns what networks are trained on; the same for all seeds, and nothing of the test data."""

    @abstractmethod
    def network(self, weights: Weights, settings) -> keras.Model:
        """Returns a new network with these weights."""

    @abstractmethod
    def validated(self, ask: Ask, settings) -> Scores:
        """Returns the scores on validation data, "validation_nll" among them, and touches no other data."""

    @abstractmethod
    def tested(self, ask: Ask, settings) -> tuple[Scores, Arrays]:
        """Returns all scores, those of validation too, and the arrays that figures and later metrics need."""

    def published(self, method: str):
        """Returns the paper's settings of a method."""
        return self.paper[method] if isinstance(self.paper, Mapping) else self.paper

    def of_rank(self, settings, rank: int):
        """Returns the settings with another rank, for the methods that name one."""
        return replace(settings, rank=rank)


def run(
    problem: Problem,
    method: str,
    seed: int,
    settings=None,
    watch: Watch | None = None,
    keep: Keep | None = None,
    preset: str = "paper",
) -> Record:
    """Trains one method with one seed and scores it.

    Args:
        settings: None is the paper's.
        preset: what the settings are called: "paper", "chosen", "quick", or "trial", which is scored on validation
            data alone.
    """
    require_method(method, problem.methods)
    settings = problem.published(method) if settings is None else settings
    trainer = Alone(network_of(problem, method, settings), problem.training(settings), settings, watch, keep)
    (trained,) = methods.find(method).train(trainer, [seed])
    made = _record(problem, method, seed, settings, trained, preset)
    return replace(made, seconds=trainer.seconds)


def train_member(
    problem: Problem,
    method: str,
    seed: int,
    settings,
    number: int,
    watch: Watch | None = None,
    keep: Keep | None = None,
) -> None:
    """Trains one member of an ensemble and leaves it in `keep`, where a `run` of the ensemble finds it trained.

    Members do not know of each other: a run that finds some, or all, comes to the same numbers.
    """
    trainer = Alone(network_of(problem, method, settings), problem.training(settings), settings, watch, keep, number)
    own_seed = member_seeds(seed, settings.members)[number]
    train = methods.find(method).member
    assert train is not None, f"{method} is no ensemble"
    train(trainer, [own_seed])


def run_many(problem: Problem, method: str, seeds: Sequence[int], settings=None, preset: str = "paper") -> list[Record]:
    """Returns what `run` returns for every seed, to the accuracy of floats; on JAX all seeds train as one program.

    The seconds of a record are its share of the program's. Its machine says how many runs shared it.
    """
    require_method(method, problem.methods)
    settings = problem.published(method) if settings is None else settings
    trainer = Together(network_of(problem, method, settings), problem.training(settings), settings)
    with Peak() as peak:
        trained = methods.find(method).train(trainer, list(seeds))
    share = trainer.seconds / len(seeds)
    where = machine() | {"trained_together": len(seeds)}
    costs = {"seconds": share, "machine": where, "peak_memory": peak.bytes}
    return [
        replace(_record(problem, method, seed, settings, one, preset), **costs)
        for seed, one in zip(seeds, trained, strict=True)
    ]


def network_of(problem: Problem, method: str, settings) -> Callable[[Weights], keras.Model]:
    """Returns what makes the network of a method, at the rank that it asks for."""
    rank = methods.find(method).rank
    asked = settings if rank is None else problem.of_rank(settings, rank)
    return lambda weights: problem.network(weights, asked)


def _record(problem: Problem, method: str, seed: int, settings, trained, preset: str) -> Record:
    options = {"draws": settings.draws} | ({} if problem.padding is None else {"padding": problem.padding})
    ask = partial(_ask, trained, seed, options)
    is_trial = preset == "trial"
    found, arrays = (problem.validated(ask, settings), Arrays()) if is_trial else problem.tested(ask, settings)
    networks, (trained_numbers, stored_numbers) = _networks(trained), _sizes(trained)
    if networks and not is_trial:
        arrays |= singular_values(networks[0])
    return Record(
        problem.name,
        method,
        seed,
        plain(settings),
        found | of_posteriors(networks),
        trained_numbers,
        seconds=0.0,
        paper=departures(settings, problem.published(method)),
        stored=stored_numbers,
        preset=preset,
        arrays=arrays,
    )


def _ask(trained, seed: int, options: dict, sets: Mapping[str, np.ndarray], **more) -> dict[str, Predictive]:
    """Returns the predictions of every set; one call for all of them, so that each draw is made once."""
    answer = partial(predict, trained) if isinstance(trained, keras.Model) else trained.predict
    p = answer(np.concatenate(list(sets.values())), seed=seed, **options | more)
    ends = np.cumsum([len(inputs) for inputs in sets.values()])
    return {name: _part(p, slice(end - len(sets[name]), end)) for name, end in zip(sets, ends, strict=True)}


def _part(p: Predictive, rows: slice) -> Predictive:
    """Returns the predictions of some examples."""
    values = {field.name: getattr(p, field.name) for field in fields(p)}
    cut = {name: value[rows] for name, value in values.items() if np.ndim(value) and name != "draws"}
    return replace(p, **cut, draws=None if p.draws is None else p.draws[:, rows])


def _networks(trained) -> list[keras.Model]:
    """Returns the network or the members of an ensemble; none of SWAG, whose weights are another Gaussian's."""
    return [trained] if isinstance(trained, keras.Model) else getattr(trained, "models", [])


def _sizes(trained) -> tuple[int, int]:
    """Returns how many numbers are trained, and how many predictions are made from."""
    if isinstance(trained, keras.Model):
        return count_trained(trained), count_stored(trained)
    return trained.num_trained, trained.num_stored
