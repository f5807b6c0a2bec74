"""What layers and conversion ask of a posterior so that a mixture can answer; here without one, of one component."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import scope
from singularbayes.posteriors.assignment import NoBlocks
from singularbayes.posteriors.serialization import copy_posterior


class SingleComponent(scope.Source, keras.layers.Layer):
    """The part of `Posterior` that `Mixture` replaces: plain weights beside W, examples in blocks, components."""

    # -- plain weights beside W, and the examples of a training pass ---------------------------------------------------

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

    # -- components ----------------------------------------------------------------------------------------------------

    def like(self, posterior: Any) -> Any:
        """Returns a posterior of the same layer with as many components as this one."""
        if posterior.components != self.components:
            raise ValueError(
                f"The posteriors of a layer need the same number of components; got {self!r} and {posterior!r}."
            )
        return posterior

    def with_components(self, number: int | None) -> Any:
        """Returns a copy that is not built and mixes this many components; None is the posterior of one, no mixture."""
        return copy_posterior(self, self.name)

    def for_members(self, count: int) -> Any:
        """Returns the posterior for `count` models; a mixture without a number has one component for each."""
        return self

    def give_components(self, other: Any, numbers: int | Sequence[int]) -> None:
        """Gives the parameters of some components, or of one, to a posterior that `with_components` made, built."""
        other.set_weights(self.get_weights())

    def for_components(self, function: Callable[[Any], Any]) -> list:
        """Returns function(posterior) of every component, and keeps what it assigns; without components its own."""
        return [function(self)]

    def center_components(self, matrices: Sequence[np.ndarray]) -> None:
        """Moves E[W] of every component to a matrix of its own."""
        (matrix,) = matrices
        self.center(matrix)
