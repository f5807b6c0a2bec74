"""The matrices of a mixture that layers see: those of all components in training, one component's elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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

        y = self.mixture.parts.each(one, self.values, self.draws, self.assignment.deal(x, components))
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
