"""What a posterior is: a distribution over one weight matrix that gives draws, its mean and its moments."""

from abc import abstractmethod
from typing import Any

import keras
import numpy as np

from singularbayes.posteriors import initializers, scope
from singularbayes.posteriors.moments import Entry
from singularbayes.posteriors.serialization import call_repr
from singularbayes.posteriors.single_component import SingleComponent
from singularbayes.posteriors.without_factors import WithoutFactors


class Posterior(SingleComponent, WithoutFactors):
    """A distribution over one weight matrix W (rows × columns). It never sees an input.

    A layer holds its own copy, builds it with the matrix's shape and calls its `sample()`. Whether draws differ is
    `random`: those that do are trained with a KL to a prior, see `Variational`.

    Args:
        initializer: the start of the mean of W; a layer fills in its `kernel_initializer`, or He for rectified
            activations and Glorot else.

    >>> from singularbayes import LowRank
    >>> posterior = LowRank(2)
    >>> posterior.build((5, 4))
    >>> posterior.random, posterior.mean().dense().shape == (5, 4)
    (True, True)
    """

    frozen = False  # whether training leaves all of it as it is
    adapts = False  # whether it is made to stay around a pretrained matrix: conversion then always starts there

    def __init__(self, initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)
        self.default_initializer = None  # set by the layer; the posterior's own goes first

    @property
    def _initializer(self):
        return self.initializer or self.default_initializer

    def default_kernel_initializer(self, activation) -> keras.initializers.Initializer:
        """Returns what the mean of a kernel starts with where neither the layer nor the posterior was given one."""
        return initializers.default_kernel_initializer(activation)

    # -- draws ---------------------------------------------------------------------------------------------------------

    def sample(self, training=False):
        """Returns the weight that a forward pass uses now: in training a fresh draw, else the mean; see `scope`."""
        draw = scope.fixed_draw(self)
        if draw is not None:
            return self.weight(draw)
        if not training and not scope.draws_now(self):
            return self.mean()
        return self.weight(self.draw(self.next_key(training)))

    @abstractmethod
    def next_key(self, training: bool):
        """Returns the key of the next draw; raises where training with it would ignore the prior."""

    @abstractmethod
    def draw(self, key) -> tuple:
        """Returns the arrays of one draw of W."""

    @abstractmethod
    def weight(self, draw: tuple):
        """Returns the matrix that the arrays of a draw stand for."""

    def drawn_matrices(self, draw: tuple) -> tuple:
        """Returns the matrices in the arrays of a draw, where `draws_matrices`: A and B, or W."""
        return draw

    # -- mean and moments ----------------------------------------------------------------------------------------------

    @abstractmethod
    def mean(self):
        """Returns E[W] as a matrix."""

    @abstractmethod
    def variance(self) -> np.ndarray:
        """Returns Var W_ij for every entry, in closed form and float64."""

    @abstractmethod
    def covariance(self, entry: Entry, other: Entry) -> float:
        """Returns Cov(W_ij, W_kl) for `entry` (i, j) and `other` (k, l), in closed form."""

    @abstractmethod
    def center(self, matrix: np.ndarray) -> None:
        """Moves E[W] to `matrix`, or to its best approximation of this posterior's rank.

        Scales stay, except for `LowRank` without an η of its own.
        """

    def residual(self, matrix: np.ndarray) -> float:
        """Returns ‖matrix − E[W]‖_F after `center(matrix)`."""
        return 0.0

    # -- weights -------------------------------------------------------------------------------------------------------

    @property
    def frozen_weights(self) -> list:
        """Variables that training leaves as they are, which the components of a mixture share."""
        return []

    @property
    def dense_weight(self) -> Any:
        """The variable with a whole matrix that is trained without noise of its own; None where there is none."""
        return None

    @property
    def random_weights(self) -> list:
        """The variables that hold means and scales of random weights, once built."""
        return [factor.values for factor in self.factors]

    def on_base(self, dtype: str) -> "Posterior":
        """Returns the posterior for a pretrained matrix of that type, which it keeps where it keeps the matrix."""
        return self

    def __repr__(self):
        return call_repr(self)

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer) if self.initializer else None
        return {**super().get_config(), "initializer": initializer}
