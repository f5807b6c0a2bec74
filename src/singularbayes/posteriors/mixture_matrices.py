"""What others see of a mixture.

Layers see its matrices: those of all components in training, one component's elsewhere. What looks at the arrays of
random weights sees those of one component after another, each a part of a variable.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from singularbayes.posteriors.assignment import Assignment

if TYPE_CHECKING:
    from singularbayes.posteriors.mixture import Mixture


@dataclass(frozen=True)
class MixtureMatrix:
    """The drawn matrices of all components, each applied to its examples of the batch."""

    mixture: "Mixture"
    values: list  # of the mixture's variables
    assignment: Assignment
    draws: Any  # (components, …)
    make: Callable  # gives the matrix of a draw
    view: Callable = lambda matrix: matrix  # gives the part of the matrix that is meant

    def _apply(self, function: Callable, x):
        size, components = ops.shape(x)[0], self.mixture.components
        self.mixture.notice_batch(size)

        def one(draw, x):
            return function(self.view(self.make(draw)), x)

        y = self.mixture.each_component(one, self.values, self.draws, self.assignment.deal(x, components))
        return self.assignment.collect(y, size, components)

    def apply(self, x):
        return self._apply(lambda matrix, x: matrix.apply(x), x)

    def rows(self, ids):
        return self._apply(lambda matrix, ids: matrix.rows(ids), ids)

    def convolve(self, x, by, groups=1):
        return self._apply(lambda matrix, x: matrix.convolve(x, by, groups), x)

    def columns(self, start: int, stop: int):
        return replace(self, view=lambda matrix: self.view(matrix).columns(start, stop))

    def transposed(self):
        return replace(self, view=lambda matrix: self.view(matrix).transposed())


@dataclass(frozen=True)
class ComponentMatrix:
    """A drawn matrix of one component whose rows are made when they are needed, from these values of its variables."""

    mixture: "Mixture"
    values: list
    matrix: Any

    def rows(self, ids):
        with self.mixture.with_values(self.values):
            return self.matrix.rows(ids)

    def transposed(self):
        with self.mixture.with_values(self.values):
            return self.matrix.transposed()

    def dense(self):
        with self.mixture.with_values(self.values):
            return self.matrix.dense()


class VariablePart:
    """Entry `number` of the first axis of a Keras variable, where something outside training reads or assigns it."""

    def __init__(self, variable, number: int):
        self._variable, self._number = variable, number
        self.shape, self.dtype, self.trainable = tuple(variable.shape[1:]), variable.dtype, variable.trainable
        self.path = f"{variable.path}[{number}]"

    @property
    def value(self):
        return ops.convert_to_tensor(self._variable)[self._number]

    def assign(self, value) -> None:
        """Assigns the entry, and leaves the others."""
        whole = np.array(ops.convert_to_numpy(self._variable))
        whole[self._number] = ops.convert_to_numpy(value)
        self._variable.assign(whole)

    def __getitem__(self, index):
        return self.value[index]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(ops.convert_to_numpy(self._variable)[self._number], dtype)

    def __jax_array__(self):
        return self.value
