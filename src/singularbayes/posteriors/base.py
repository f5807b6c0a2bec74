"""What a posterior is: a distribution over one weight matrix that gives draws, its mean and its moments."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import is_integer, require_integer
from singularbayes.posteriors import initializers, noise, scope
from singularbayes.posteriors.blocks import are_blocks, number_of_pass, require_blocks, to_examples
from singularbayes.posteriors.factor import Factor
from singularbayes.posteriors.moments import Entry, Moments
from singularbayes.posteriors.serialization import call_repr

_COMPONENTS = 4  # of a mixture where no number is given


class Posterior(scope.Source, keras.layers.Layer):
    """A distribution over one weight matrix W (rows × columns). It never sees an input.

    A layer holds its own copy, builds it with the matrix's shape and calls its `sample()`. Whether draws differ is
    `random`: those that do are trained with a KL to a prior, see `Variational`. With several `components` it is their
    equal mixture, see `Mixture`: every array has them on an axis in front.

    Args:
        initializer: the start of the mean of W; a layer fills in its `kernel_initializer`, or He for rectified
            activations and Glorot else.
        components: how many; None is a mixture of as many as there are models in a conversion, else four.

    >>> from singularbayes import LowRank
    >>> posterior = LowRank(2)
    >>> posterior.build((5, 4))
    >>> posterior.random, posterior.mean().dense().shape == (5, 4)
    (True, True)
    """

    frozen = False  # whether training leaves all of it as it is
    adapts = False  # whether it is made to stay around a pretrained matrix: conversion then always starts there

    def __init__(self, initializer=None, components=1, **kwargs):
        super().__init__(**kwargs)
        if components is not None:
            require_integer("Mixture", components=components)
        self._given_components = None if components is None else int(components)
        self.components = _COMPONENTS if components is None else int(components)
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
        """Returns the weight that a forward pass uses now: in training a fresh draw, else the mean; see `scope`.

        Of a mixture a pass of training, or of validation that draws, uses all components, each for its block of the
        examples, and any other pass one.
        """
        draw = scope.fixed_draw(self)
        if draw is not None:
            return self.weight(draw)
        if self._all_components(training):
            require_blocks(self.components)
        if training or self._all_components(training):
            return self._weight(self._draw(self.next_key(training)))
        if not scope.draws_now(self):
            return self.mean()
        return self.weight(self.draw_number(self.next_key(training), self._number_of_pass()))

    def _all_components(self, training) -> bool:
        """Returns whether a pass uses all components of a mixture: it trains, or its examples lie in blocks."""
        return self.components > 1 and scope.fixed_draw(self) is None and (bool(training) or are_blocks())

    @abstractmethod
    def next_key(self, training: bool):
        """Returns the key of the next draw; raises where training with it would ignore the prior."""

    @abstractmethod
    def _draw(self, key, component=None) -> tuple:
        """Returns the arrays of one draw of W, of all components or of one."""

    @abstractmethod
    def _weight(self, arrays: tuple, component=None):
        """Returns the matrix that the arrays of a draw stand for."""

    def draw(self, key) -> tuple:
        """Returns the arrays of one draw of W; of a mixture that of one component, and its number before them."""
        if self.components == 1:
            return self._draw(key)
        key, other = noise.split(key, 2)
        return self.draw_number(key, noise.integers((), 2**30, other))

    def draw_number(self, key, number) -> tuple:
        """Returns the arrays of draw `number` of several: of component `number` mod `components`."""
        if self.components == 1:
            return self._draw(key)
        component = ops.cast(number, "int32") % self.components
        return component, *self._draw(key, component)

    def weight(self, draw: tuple):
        """Returns the matrix that the arrays of a draw stand for."""
        return self._weight(draw) if self.components == 1 else self._weight(draw[1:], ops.cast(draw[0], "int32"))

    def _number_of_pass(self):
        return number_of_pass(self.next_seed) if self.components > 1 else 0

    def next_seed(self):
        """Returns a key for what is not a draw of W."""
        return np.zeros(2, "uint32")

    # -- mean and moments: of a mixture those of all components --------------------------------------------------------

    @abstractmethod
    def _mean(self, component=None):
        """Returns E[W] of a component as a matrix."""

    def mean(self):
        """Returns E[W] as a matrix; of a mixture that of its first component: an average would not be a network."""
        return self._mean(None if self.components == 1 else 0)

    @abstractmethod
    def _variance(self) -> np.ndarray:
        """Returns the variances of one component."""

    @abstractmethod
    def _covariance(self, entry: Entry, other: Entry) -> float:
        """Returns a covariance of one component."""

    @abstractmethod
    def _center(self, matrix: np.ndarray) -> None:
        """Moves E[W] of one component."""

    def variance(self) -> np.ndarray:
        """Returns Var W_ij for every entry, in closed form and float64."""
        if self.components == 1:
            return self._variance()
        within, means = zip(*((part._variance(), _dense_mean(part)) for part in self.parts()), strict=True)
        return np.mean(within, axis=0) + np.var(means, axis=0)  # the law of total variance

    def covariance(self, entry: Entry, other: Entry) -> float:
        """Returns Cov(W_ij, W_kl) for `entry` (i, j) and `other` (k, l), in closed form."""
        if self.components == 1:
            return self._covariance(entry, other)
        parts = self.parts()
        first, second = zip(*((mean[entry], mean[other]) for mean in map(_dense_mean, parts)), strict=True)
        between = np.cov(first, second, ddof=0)[0, 1]
        return float(np.mean([part._covariance(entry, other) for part in parts]) + between)

    def center(self, matrix: np.ndarray) -> None:
        """Moves E[W] to `matrix`, or to its best approximation of this posterior's rank.

        Scales stay, except for `LowRank` without an η of its own. Of a mixture the first component moves to `matrix`
        and the others to draws around it: components that start equal would stay equal except for noise.
        """
        if self.components == 1:
            self._center(matrix)
            return
        numbers = iter(range(self.components))

        def move(part):
            part._center(matrix)
            for factor in part.factors if next(numbers) else ():
                factor.start_at(ops.convert_to_numpy(factor.sample(part.next_seed())))

        self.for_components(move)

    def center_components(self, matrices: Sequence[np.ndarray]) -> None:
        """Moves E[W] of every component to a matrix of its own."""
        if len(matrices) != self.components:
            raise ValueError(
                f"{self!r} needs one matrix for each of its {self.components} components; got {len(matrices)}."
            )
        of_components = iter(matrices)
        self.for_components(lambda part: part._center(next(of_components)))

    def residual(self, matrix: np.ndarray) -> float:
        """Returns ‖matrix − E[W]‖_F after `center(matrix)`."""
        return 0.0

    # -- components ----------------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        """Returns every component as a posterior of its own; without components this one."""
        return [self] if self.components == 1 else [self.component(k) for k in range(self.components)]

    def component(self, number: int) -> Any:
        """Returns a component as a posterior of its own: a copy, with its parameters.

        >>> from singularbayes import LowRank, Mixture
        >>> mixture = Mixture(LowRank(2), components=3)
        >>> mixture.build((5, 4))
        >>> mixture.component(2)
        LowRank(2)
        """
        if not is_integer(number, 0) or number >= self.components:
            raise ValueError(f"component needs a number from 0 to {self.components - 1}; got {number!r}.")
        part = self.with_components(1)
        part.default_initializer = self.default_initializer
        with initializers.leaving_out("values"):
            part.build(self.shape)
        self.give_components(part, int(number))
        return part

    def with_components(self, number: int | None) -> Any:
        """Returns a copy that is not built and has this many components; None is one, no mixture."""
        config = {**self.get_config(), "components": 1 if number is None else number}
        return type(self).from_config(config)

    def for_members(self, count: int) -> Any:
        """Returns the posterior for `count` models; a mixture without a number has one component for each."""
        return self.with_components(count) if self._given_components is None else self

    def like(self, posterior: Any) -> Any:
        """Returns a posterior of the same layer with as many components as this one."""
        if posterior.components == self.components or posterior.frozen:
            return posterior
        if posterior.components > 1:
            raise ValueError(
                f"The posteriors of a layer need the same number of components; got {self!r} and {posterior!r}."
            )
        return posterior.with_components(self.components)

    def give_components(self, other: Any, numbers: int | Sequence[int]) -> None:
        """Gives the parameters of some components, or of one, to a posterior that `with_components` made, built."""
        for mine, theirs in zip(self.weights, other.weights, strict=True):
            array = np.array(ops.convert_to_numpy(mine))
            theirs.assign(array if tuple(theirs.shape) == array.shape or self._is_shared(mine) else array[numbers])

    def _is_shared(self, variable) -> bool:
        """Returns whether a variable has no axis of components."""
        return self.components == 1 or any(variable is one for one in self.frozen_weights) or not variable.shape

    def for_components(self, function: Callable[[Any], Any]) -> list:
        """Returns function(posterior) of every component, and keeps what it assigns."""
        if self.components == 1:
            return [function(self)]
        results, parts = [], self.parts()
        for part in parts:
            before = part.get_weights()
            results.append(function(part))
            part.changed = [not np.array_equal(old, new) for old, new in zip(before, part.get_weights(), strict=True)]
        for place, mine in enumerate(self.weights):
            if any(part.changed[place] for part in parts):
                own = [ops.convert_to_numpy(part.weights[place]) for part in parts]
                mine.assign(own[0] if self._is_shared(mine) else np.stack(own))
        return results

    # -- plain weights beside W, which every component has its own of --------------------------------------------------

    def stack(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of an array of all components, with the axis in front that several have."""
        return tuple(shape) if self.components == 1 else (self.components, *shape)

    def add_array(self, name: str, shape, start, **kwargs):
        """Makes a variable of that shape for every component; start(shape, dtype) gives that of one."""
        initializer = initializers.stacked(start, tuple(shape))
        return self.add_weight(
            name=name, shape=self.stack(shape), initializer=initializer, dtype="float32", autocast=False, **kwargs
        )

    def of_component(self, values, component=None):
        """Returns the values of one component, or all where none is meant, from an array of `stack`."""
        return values if component is None or self.components == 1 else ops.take(values, component, axis=0)

    def pick(self, values, training, examples):
        """Returns the plain weight that each example uses, from `values` of shape `stack`: (examples or 1, *shape)."""
        if self.components == 1:
            return ops.expand_dims(values, 0)
        if self._all_components(training):
            return to_examples(values, examples)
        choice = scope.fixed_draw(self)
        if choice is not None:
            component = ops.cast(choice[0], "int32")
        else:
            component = self._number_of_pass() % self.components if scope.draws_now(self) else 0
        return ops.expand_dims(ops.take(values, component, axis=0), 0)

    def per_component(self, function: Callable, x, values, training):
        """Returns function(examples, plain weight) where the weight, of shape `stack`, may be each component's own."""
        if self.components == 1:
            return function(x, values)
        if not self._all_components(training):
            return function(x, self.pick(values, training, 1)[0])
        require_blocks(self.components, x)
        blocks = ops.reshape(x, (self.components, -1, *ops.shape(x)[1:]))
        return ops.concatenate([function(blocks[k], values[k]) for k in range(self.components)])

    # -- weights -------------------------------------------------------------------------------------------------------

    @property
    def frozen_weights(self) -> list:
        """Variables that training leaves as they are, which the components of a mixture share."""
        return []

    @property
    def random_weights(self) -> list:
        """The variables that hold means and scales of random weights, once built."""
        return [factor.values for factor in self.factors]

    def on_base(self, dtype: str) -> Any:
        """Returns the posterior for a pretrained matrix of that type, which it keeps where it keeps the matrix."""
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of W, once built."""
        rows, columns = self.get_build_config()["input_shape"]
        return rows, columns

    # -- random factors and their rank; here without factors --------------------------------------------------------

    @property
    def factors(self) -> list[Factor]:
        """The arrays of random weights, once built."""
        return []

    @property
    def fixed_rank(self) -> int | None:
        """The rank that was requested for its random factors, or None; a smaller matrix lowers it."""
        return None

    @property
    def learned_rank(self) -> int | None:
        """How many columns are in use where training chooses the rank, or None; of a mixture at most."""
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
        mixture = f"Mixture of {self.components} " if self.components > 1 else ""
        return f"{mixture}{type(self).__name__}({shown})"

    def with_rank(self, rank: int) -> Any:
        """Returns a copy that is not built and has another rank."""
        return type(self).from_config({**self.get_config(), "rank": rank})

    def factor_moments(self) -> list[Moments]:
        """Returns means and variances of the independent factors whose product is W: A and B, or W alone.

        Empty where W has other parts.
        """
        return []

    def squared_column_norms(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns ‖E a_k E b_kᵀ‖² and E‖a_k b_kᵀ‖² of every column of A and B of one component, or None."""
        return None

    # -- as text -------------------------------------------------------------------------------------------------------

    def __repr__(self):
        text = call_repr(self)
        return text if self.components == 1 else f"Mixture({text}, components={self.components})"

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer) if self.initializer else None
        components = self.components if self.built else self._given_components  # a file does not rest on the default
        return {**super().get_config(), "initializer": initializer, "components": components}


def _dense_mean(posterior) -> np.ndarray:
    return ops.convert_to_numpy(posterior.mean().dense()).astype("float64")
