"""What a posterior is: a distribution over one weight matrix that gives draws, its mean and its moments."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import initializers, scope
from singularbayes.posteriors.assignment import NoBlocks
from singularbayes.posteriors.factor import Scalars
from singularbayes.posteriors.moments import Entry, Moments
from singularbayes.posteriors.serialization import call_repr, copy_posterior
from singularbayes.posteriors.step_watch import watched_mean


class Posterior(scope.Source, keras.layers.Layer):
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
    joint_factor: Any = None  # of which a draw of W is made, where it may be a joint one; see `JointDraws`
    joint_draws: Any = None  # those that it is drawn with
    repeats = False  # whether training passes hold every example once for each of its components
    adapts = False  # whether it is made to stay around a pretrained matrix: conversion then always starts there

    def __init__(self, initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)
        self.default_initializer = None  # set by the layer; the posterior's own goes first
        self.by_rows = False  # set by layers that only need rows: then only those rows are drawn

    @property
    def _initializer(self):
        return self.initializer or self.default_initializer

    def default_kernel_initializer(self, activation) -> keras.initializers.Initializer:
        """Returns what the mean of a kernel starts with where neither the layer nor the posterior was given one."""
        return initializers.default(activation)

    def require_local(self, where: str) -> None:
        """Raises unless `local` draws outputs with the distribution of x W; `where` is the layer."""

    # -- draws ---------------------------------------------------------------------------------------------------------

    def sample(self, training=False, estimator="shared"):
        """Returns the weight that a forward pass uses now: in training a fresh draw, else the mean; see `scope`."""
        draw = scope.fixed(self)
        if draw is not None:
            return self.weight(draw)
        if not training and not scope.draws_now(self):
            return watched_mean(self.mean(), self.path) if self.random and self.trainable else self.mean()
        if training and estimator == "local":
            return self.local(self.next_key(training))
        return self.weight(self.next_draw(training))

    def next_draw(self, training: bool) -> tuple:
        """Returns the arrays of the next draw of W."""
        return self.draw(self.next_key(training))

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
        return self.whole(draw)

    @abstractmethod
    def local(self, key):
        """Returns the matrix whose `apply` draws outputs per example instead of weights."""

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

        Scales stay, but for `LowRank` without an η of its own.
        """

    def center_components(self, matrices: Sequence[np.ndarray]) -> None:
        """Moves E[W] of every component to a matrix of its own."""
        (matrix,) = matrices
        self.center(matrix)

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

    def stack(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a plain weight that a layer keeps beside this posterior: one for every component."""
        return tuple(shape)

    def pick(self, values, training, examples):
        """Returns the plain weight that each example uses, from `values` of shape `stack`: (examples or 1, *shape)."""
        return ops.expand_dims(values, 0)

    def per_component(self, function: Callable, x, values, training):
        """Returns function(examples, plain weight) where the weight, of shape `stack`, may be each component's own."""
        return function(x, values)

    def blocks(self, training, size) -> Any:
        """Returns a context for a part of a training pass in which the examples of a component lie side by side.

        Its `deal` brings `size` examples into this order and its `collect` back; without components both do nothing.
        """
        return NoBlocks()

    def like(self, posterior: "Posterior") -> "Posterior":
        """Returns a posterior of the same layer with as many components as this one."""
        if posterior.components != self.components:
            raise ValueError(
                f"The posteriors of a layer need the same number of components; got {self!r} and {posterior!r}."
            )
        return posterior

    def on_base(self, dtype: str) -> "Posterior":
        """Returns the posterior for a pretrained matrix of that type, which it keeps where it keeps the matrix."""
        return self

    def with_components(self, number: int | None) -> "Posterior":
        """Returns a copy that is not built and mixes so many components; None is the posterior of one, no mixture."""
        return copy_posterior(self, self.name)

    def for_members(self, count: int) -> "Posterior":
        """Returns the posterior for an ensemble of so many models: a mixture without a number has one for each."""
        return self

    def give_components(self, other: Any, numbers: int | Sequence[int]) -> None:
        """Gives the parameters of some components, or of one, to a posterior that `with_components` made, built."""
        other.set_weights(self.get_weights())

    def for_components(self, function: Callable[[Any], Any]) -> list:
        """Returns function(posterior) of every component, and keeps what it assigns; without components its own."""
        return [function(self)]

    # -- factors, where there are some ------------------------------------------------------------------------------

    @property
    def factors(self) -> list[Scalars]:
        """The arrays of random weights, once built."""
        return []

    @property
    def fixed_rank(self) -> int | None:
        """The rank that was requested for its random factors, or None; a smaller matrix lowers it."""
        return None

    @property
    def learned_rank(self) -> int | None:
        """How many columns are in use where training chooses the rank, or None."""
        return None

    def num_columns(self, shape) -> int | None:
        """Returns how many columns A and B have for a weight of that shape; None where W has no such factors."""
        return self.fixed_rank

    @property
    def effective_rank(self) -> int | None:
        """How many columns of A and B are in use, once built: the requested rank, lowered to min(m, n); else None."""
        if not self.built:
            return None
        return self.num_columns(self.shape) if self.learned_rank is None else self.learned_rank

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of W, once built."""
        rows, columns = self.get_build_config()["input_shape"]
        return rows, columns

    def label(self, *ranks: int | None) -> str:
        """Returns class and rank, as plans and summaries show them, for matrices of these effective ranks.

        >>> from singularbayes import LowRank
        >>> LowRank(16).label(16), LowRank(16).label(2)
        ('LowRank(16)', 'LowRank(16 → 2)')
        """
        requested, found = self.fixed_rank, sorted({rank for rank in ranks if rank is not None})
        shown = ", ".join(map(str, found))
        if requested is not None:
            shown = str(requested) if found in ([], [requested]) else f"{requested} → {shown}"
        return f"{type(self).__name__}({shown})"

    def with_rank(self, rank: int) -> "Posterior":
        """Returns a copy that is not built and has another rank."""
        return type(self).from_config({**self.get_config(), "rank": rank})

    def factor_moments(self) -> list[Moments]:
        """Returns means and variances of the independent factors whose product is W: A and B, or W alone.

        There are none where W has other parts.
        """
        return []

    def squared_column_norms(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns ‖E a_k E b_kᵀ‖² and E‖a_k b_kᵀ‖² of every column of A and B, or None."""
        return None

    @property
    def norm_limit(self) -> float | None:
        """The spectral norm that no drawn factor, A and B or W, exceeds; None where there is none."""
        return None

    def why_no_norms(self) -> str | None:
        """Returns why the norms of its draws have no bound by formula, None where they have one."""
        return f"has a {type(self).__name__}, whose norms are not computed here"

    def __repr__(self):
        return call_repr(self)

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer) if self.initializer else None
        return {**super().get_config(), "initializer": initializer}
