"""What an experiment gives: data, a network, a loss and scores."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import keras
import numpy as np

from singularbayes.posteriors import find_posteriors
from singularbayes_experiments.methods import Settings, Weights

# Inputs → predictions of the library; `draws` and `keep_draws` as `sb.predict` has them.
Predict = Callable[..., Any]
Scores = dict[str, float]
Arrays = dict[str, np.ndarray]
TUNING, RESULT = "tuning", "result"


@dataclass(frozen=True)
class Part:
    """Inputs with targets, and the weight of every example where it is not 1."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None


@dataclass(frozen=True)
class Data:
    """What one run may see.

    Args:
        test: None in tuning.
        ood: inputs of another kind by name; in tuning only "perturbed" training inputs.
        unit: the standard deviation of targets before they were scaled.
    """

    train: Part
    validation: Part | None = None
    test: Part | None = None
    ood: Mapping[str, np.ndarray] = field(default_factory=dict)
    unit: float = 1.0


class OwnRuns(ABC):
    """An experiment that does its tasks itself, by methods of its own.

    Attributes:
        Settings: what YAML may set, a frozen dataclass.
        methods: names of its methods.
    """

    Settings: ClassVar[type]
    methods: ClassVar[Collection[str]]

    @abstractmethod
    def run(self, task) -> Iterable:
        """Yields the `study.Outcome` of every run of a task, in order."""


class Problem(ABC):
    """Data, network and scores of an experiment. Its constructor takes the `options` of the experiment's YAML file.

    Attributes:
        Settings: what YAML may set, with defaults; the paper's where it has them.
        seeds_share_data: one `data` for all seeds of a task; else each seed has examples of its own, as many as others.
        metrics: what Keras logs beside the loss, for `callbacks`.
    """

    Settings: ClassVar[type[Settings]] = Settings
    seeds_share_data: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def data(self, task: str, seed: int, settings, stage: str) -> Data:
        """Returns the examples of a run; in the stage "tuning" no test row is read."""

    @abstractmethod
    def network(self, weights: Weights, settings) -> keras.Model:
        """Returns a new network, not compiled, whose layers get their posteriors from `weights(rank)`."""

    def loss(self, settings) -> keras.losses.Loss:
        """Returns the mean negative log-likelihood."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @abstractmethod
    def score(self, predict: Predict, data: Data, settings, stage: str) -> tuple[Scores, Arrays]:
        """Returns the scores under the names of the records, and arrays that a table or a figure needs."""

    def callbacks(self, settings) -> list[keras.callbacks.Callback]:
        """Returns callbacks of one network beside those of rate and KL: early stopping.

        Where there are any, validation examples are scored after every epoch.
        """
        return []

    def uses(self, settings) -> list[int] | None:
        """Returns how often one example meets each weight matrix, in the order of the network; None is once each."""
        return None

    def products(self, model: keras.Model, settings) -> float:
        """Returns the multiplications of one example in the matrix products of a forward pass."""
        biases = {id(getattr(layer, "bias_posterior", None)) for layer in model._flatten_layers()}
        matrices = [each for each in find_posteriors(model) if id(each) not in biases]
        ranks = [each.effective_rank for each in matrices]
        sizes = [sum(q.shape) * r if r else math.prod(q.shape) for q, r in zip(matrices, ranks, strict=True)]
        return float(
            sum(size * times for size, times in zip(sizes, self.uses(settings) or [1] * len(sizes), strict=True))
        )
