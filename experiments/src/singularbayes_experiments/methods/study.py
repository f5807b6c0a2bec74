"""From a problem and a method to a record: what every experiment that compares methods does alike.

A `Comparison` specifies what is trained on, which network, and what is scored. A method specifies the posteriors of the
weights and what is trained (`methods.py`). A trainer trains one network after another, or all seeds as one program
(`trainers.py`).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
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
from singularbayes_experiments.methods.experiment import Problem
from singularbayes_experiments.methods.posterior_scores import of_posteriors, singular_values
from singularbayes_experiments.methods.trainers import OneByOne, OneProgram, Training
from singularbayes_experiments.methods.training import require_method
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.records.record import Record, departures, machine, plain

# Inputs by name → predictions by name, of the same draws; `draws` other than the settings', and `keep_draws`, if given.
Ask = Callable[..., dict[str, Any]]
Scores = dict[str, float]
Arrays = dict[str, np.ndarray]


def prefixed(prefix: str, scores: Mapping[str, float]) -> Scores:
    """Returns scores of one set of examples under names with that of the set."""
    return {f"{prefix}_{name}": value for name, value in scores.items()}


class Comparison(Problem):
    """A problem on which methods are compared.

    `paper` has its settings where none are given, for all methods or by method; `padding` is the token that fills up
    texts.
    """

    paper: Any
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

    def with_rank(self, settings, rank: int):
        """Returns the settings with another rank, for the methods that name one."""
        return replace(settings, rank=rank)

    def run(self, method, seed, settings=None, *, watch=None, keep=None, preset="paper") -> Record:
        settings = self._settings(method, settings)
        trainer = self._alone(method, settings, watch=watch, keep=keep)
        (trained,) = methods.find_method(method).train(trainer, [seed])
        return replace(self._record(method, seed, settings, trained, preset), seconds=trainer.seconds)

    def run_many(self, method, seeds, settings=None, *, preset="paper") -> list[Record]:
        settings = self._settings(method, settings)
        trainer = OneProgram(self.network_of(method, settings), self.training(settings), settings)
        with Peak() as peak:
            trained = methods.find_method(method).train(trainer, list(seeds))
        share = trainer.seconds / len(seeds)
        where = machine() | {"trained_together": len(seeds)}
        costs = {"seconds": share, "machine": where, "peak_memory": peak.bytes}
        return [
            replace(self._record(method, seed, settings, one, preset), **costs)
            for seed, one in zip(seeds, trained, strict=True)
        ]

    def train_member(self, method, seed, settings, number, *, watch=None, keep=None) -> None:
        # Members do not know of each other: a run that finds some, or all, has the same result.
        trainer = self._alone(method, settings, watch=watch, keep=keep, first=number)
        own_seed = member_seeds(seed, settings.members)[number]
        train = methods.find_method(method).member
        assert train is not None, f"{method} is no ensemble"
        train(trainer, [own_seed])

    def count_epochs(self, method, settings) -> int:
        return methods.count_epochs(method, settings)

    def count_members(self, method, settings) -> int:
        return methods.count_members(method, settings)

    def network_of(self, method: str, settings) -> Callable[[Weights], keras.Model]:
        """Returns what makes the network of a method, at the rank that it names."""
        rank = methods.find_method(method).rank
        ranked = settings if rank is None else self.with_rank(settings, rank)
        return lambda weights: self.network(weights, ranked)

    def _settings(self, method: str, settings):
        require_method(method, self.methods)
        return self.published(method) if settings is None else settings

    def _alone(self, method: str, settings, **options) -> OneByOne:
        return OneByOne(self.network_of(method, settings), self.training(settings), settings, **options)

    def _record(self, method: str, seed: int, settings, trained, preset: str) -> Record:
        options = {"draws": settings.draws} | ({} if self.padding is None else {"padding": self.padding})
        ask = partial(predict_sets, trained, seed, options)
        tuning = preset == "trial"
        found, arrays = (self.validated(ask, settings), Arrays()) if tuning else self.tested(ask, settings)
        networks, (num_trained, num_stored) = _networks(trained), _sizes(trained)
        if networks and not tuning:
            arrays |= singular_values(networks[0])
        return Record(
            experiment=self.name,
            method=method,
            seed=seed,
            settings=plain(settings),
            metrics=found | of_posteriors(networks),
            parameters=num_trained,
            seconds=0.0,
            paper=departures(settings, self.published(method)),
            stored=num_stored,
            preset=preset,
            arrays=arrays,
        )


def predict_sets(trained, seed: int, options: dict, sets: Mapping[str, np.ndarray], **more) -> dict[str, Predictive]:
    """Returns the predictions of every set; one call for all of them, so that each draw is made once."""
    predicting = partial(predict, trained) if isinstance(trained, keras.Model) else trained.predict
    p = predicting(np.concatenate(list(sets.values())), seed=seed, **options | more)
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
    """Returns how many parameters are trained, and how many are stored for predictions."""
    if isinstance(trained, keras.Model):
        return count_trained(trained), count_stored(trained)
    return trained.num_trained, trained.num_stored
