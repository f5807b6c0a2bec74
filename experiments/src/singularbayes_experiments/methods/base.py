"""Who trains the networks of a method, and the registry of methods."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from singularbayes.posteriors import find_posteriors
from singularbayes.training import KLSchedule, fit_many
from singularbayes_experiments.methods.momentum import Momentum, UpAndDown
from singularbayes_experiments.methods.settings import Settings, Weights

if TYPE_CHECKING:
    from singularbayes_experiments.problems.base import Data, Problem


@dataclass(frozen=True)
class Member:
    """One network to train, or one run: its seed, its settings, and the data of its run."""

    seed: int
    settings: Settings
    data: "Data"


class Trainer:
    """Trains the networks of the runs of a task, on JAX as one program.

    It counts the seconds and the multiplications of all matrix products: three times those of the forward passes.
    """

    def __init__(self, problem: "Problem"):
        self.problem, self.seconds, self.products = problem, 0.0, 0.0

    def fit(
        self,
        kind: str,
        members: Sequence[Member],
        *,
        components: int = 1,
        start: Callable[[keras.Model, int], None] | None = None,
        **changes: Any,
    ) -> list[keras.Model]:
        """Returns the trained network of every member.

        Args:
            kind, components: as in `Weights`.
            start: is given a new model and the number of its member, and sets the weights that it starts with.
            changes: settings that are other than the members'.
        """
        begun = time.perf_counter()
        if kind in ("deterministic", "point"):
            changes = {"zero_epochs": 0, "warmup": 0} | changes  # of a KL that it does not have
        own = [replace(member.settings, **changes) for member in members]

        def build(member: int) -> keras.Model:
            weights = Weights(kind, own[member], components, members[member].data.train.x.shape[1:])
            model = self.problem.network(weights, own[member])
            if start is not None:
                start(model, member)
            steps = math.ceil(len(members[member].data.train.x) / own[member].batch_size)
            loss, metrics = self.problem.loss(own[member]), list(self.problem.metrics)
            model.compile(optimizer(model, own[member], steps), loss, metrics=metrics)
            return model

        x, y, weight, rows = together([member.data for member in members])
        validation = members[0].data.validation if self.problem.callbacks(own[0]) else None
        runs = fit_many(
            build,
            x,
            y,
            [member.seed for member in members],
            own[0].epochs,
            min(own[0].batch_size, len(members[0].data.train.x)),
            callbacks=lambda member: [*callbacks(kind, own[member]), *self.problem.callbacks(own[member])],
            sample_weight=weight,
            rows=rows,
            validation_data=None if validation is None else (validation.x, validation.y),
        )
        self.seconds += time.perf_counter() - begun
        examples = len(members) * components * len(members[0].data.train.x) * own[0].epochs
        self.products += 3.0 * examples * self.problem.products(runs[0].model, own[0])
        return [run.model for run in runs]


def together(data: Sequence["Data"]) -> tuple[Any, Any, np.ndarray | None, np.ndarray | None]:
    """Returns inputs, targets and weights that train, and the rows of every member where these differ."""
    different = list({id(one): one for one in data}.values())
    if len(different) == 1:
        train = different[0].train
        return train.x, train.y, train.weight, None
    x, y = (np.concatenate([getattr(one.train, part) for one in different]) for part in ("x", "y"))
    weights: list[Any] = [one.train.weight for one in different]
    weight: Any = None if weights[0] is None else np.concatenate(weights)
    ends = np.cumsum([len(one.train.x) for one in different])
    rows = {id(one): np.arange(end - len(one.train.x), end) for one, end in zip(different, ends, strict=True)}
    return x, y, weight, np.stack([rows[id(one)] for one in data])


def optimizer(model: keras.Model, settings: Settings, steps: int) -> keras.optimizers.Optimizer:
    """Returns Adam or SGD; Adam with the decay of a network without random weights, of its kernels alone.

    Args:
        steps: of an epoch.
    """
    rate: Any = settings.learning_rate
    if settings.cosine == "step":
        rate = keras.optimizers.schedules.CosineDecay(rate, steps * settings.epochs, settings.cosine_floor)
    elif settings.rise is not None:
        rate = UpAndDown(rate, steps * settings.epochs, settings.rise)
    if settings.optimizer == "sgd":
        return Momentum(rate, settings.scale_rate / settings.learning_rate, settings.weight_decay, model)
    if not settings.weight_decay or any(posterior.random for posterior in find_posteriors(model)):
        return keras.optimizers.Adam(rate)
    decayed = keras.optimizers.AdamW(rate, weight_decay=settings.weight_decay)
    decayed.exclude_from_weight_decay([v for v in model.trainable_variables if len(v.shape) < 2])
    return decayed


def callbacks(kind: str, settings: Settings) -> list[keras.callbacks.Callback]:
    """Returns what sets learning rate and KL weight epoch by epoch."""
    found: list[keras.callbacks.Callback] = []
    if settings.cosine == "epoch":
        rate, epochs, floor = settings.learning_rate, settings.epochs, settings.cosine_floor
        fall = lambda epoch: rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * epoch / epochs)))  # noqa: E731
        found.append(keras.callbacks.LearningRateScheduler(fall))
    if kind not in ("deterministic", "point"):
        found.append(KLSchedule(beta=settings.beta, zero_epochs=settings.zero_epochs, warmup=settings.warmup))
    return found


# Trains all members of a task, and returns for each a Keras model or what has `predict(x, draws, seed)`.
Train = Callable[[Trainer, list[Member]], list]


@dataclass(frozen=True)
class Method:
    name: str
    description: str
    train: Train


METHODS: dict[str, Method] = {}


def method(name: str, description: str) -> Callable[[Train], Train]:
    """Registers a function as the method of that name."""

    def register(train: Train) -> Train:
        METHODS[name] = Method(name, description, train)
        return train

    return register


def find_method(name: str) -> Method:
    """Returns a method by its name; a rank after `low_rank_`, as in low_rank_50, is that of the hidden weights."""
    if name not in METHODS and named_rank(name) is not None:
        return Method(name, f"low_rank with ranks of {named_rank(name)}", METHODS["low_rank"].train)
    if name not in METHODS:
        raise ValueError(f"A method must be one of {sorted(METHODS)}, or low_rank_<rank>; got {name!r}.")
    return METHODS[name]


def named_rank(name: str) -> int | None:
    """Returns the rank in the name of a method.

    >>> named_rank("low_rank_50"), named_rank("low_rank")
    (50, None)
    """
    rank = name.removeprefix("low_rank_")
    return int(rank) if rank.isdecimal() else None


def with_named_rank(name: str, settings: Settings) -> Settings:
    """Returns the settings with the rank that a method's name has on hidden weights."""
    rank = named_rank(name)
    return (
        settings if rank is None else replace(settings, ranks=(*[rank] * (len(settings.ranks) - 1), settings.ranks[-1]))
    )
