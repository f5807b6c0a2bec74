"""The components of a mixture: one posterior, and as many values of each of its variables as there are components."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import initializers, noise
from singularbayes.posteriors.factor import Factor
from singularbayes.posteriors.serialization import copy_posterior

if TYPE_CHECKING:
    from singularbayes.posteriors.mixture import Mixture


@dataclass(frozen=True)
class StackedVariable:
    """A variable of the mixture, and the variable of one component that it stands for."""

    one: Any
    all: Any  # (components, …), or as in one component where they share it
    shared: bool

    def part(self, component: int):
        """Returns what stands for the variable of one component, to be read and assigned."""
        return self.all if self.shared else VariablePart(self.all, component)


class Components:
    """The posterior of one component, and the variables of the mixture that have the values of all.

    It is not a layer, so that Keras neither finds nor saves the posterior, whose variables have values only inside
    `with_values`.
    """

    def __init__(self, mixture: "Mixture", posterior):
        self.mixture, self.one = mixture, posterior
        self.variables: list[StackedVariable] = []

    def build(self, shape) -> None:
        """Makes the variables for a weight of that shape."""
        parts = [self.fresh(shape) for _ in range(self.mixture.components)]
        self.one = parts[0]
        shared = {id(variable) for variable in self.one.frozen_weights}
        for place, variable in enumerate(self.one.weights):
            own = [part.weights[place] for part in parts]
            self.variables.append(self._stack(own, id(variable) in shared))

    def fresh(self, shape):
        """Returns one more posterior of a component, built for a weight of that shape."""
        posterior = copy_posterior(self.one, "component")
        posterior.default_initializer = initializers.fresh_copy(self.mixture.default_initializer)
        posterior.build(shape)
        return posterior

    def _stack(self, own: list, shared: bool) -> StackedVariable:
        """Returns the variable that holds one and the same variable of all components."""
        one = own[0]

        def start(_, dtype=None):
            values = [variable.value for variable in own]
            # A copy: on JAX a step gives the buffer of a variable away.
            return ops.copy(values[0]) if shared else ops.stack(values)

        def mean_regularizer(_):
            return self.mean(lambda: one.regularizer(one))

        stacked = self.mixture.add_weight(
            name=one.name,
            shape=one.shape if shared else (len(own), *one.shape),
            initializer=initializers.Given(start),
            regularizer=None if one.regularizer is None else mean_regularizer,
            trainable=one.trainable,
            dtype=one.dtype,
            autocast=False,
        )
        return StackedVariable(one, stacked, shared)

    def standing_for(self, ones: list) -> list:
        """Returns the variables of the mixture that stand for some of the variables of one component."""
        ids = {id(one) for one in ones}
        return [variable.all for variable in self.variables if id(variable.one) in ids]

    # -- their values --------------------------------------------------------------------------------------------------

    def read(self) -> list:
        """Returns the values of all variables. They have to be read outside the scopes that `with_values` makes."""
        return [variable.all.value for variable in self.variables]

    def values_of(self, component, values: list | None = None) -> list:
        """Returns the values of one component, a number or a tensor of one; by default from those of now."""
        at = (lambda v: v[component]) if isinstance(component, int) else (lambda v: ops.take(v, component, axis=0))
        pairs = zip(self.read() if values is None else values, self.variables, strict=True)
        return [value if variable.shared else at(value) for value, variable in pairs]

    def with_values(self, values: list) -> keras.StatelessScope:
        """Returns a scope in which the posterior of one component has these values."""
        mapping = [(variable.one, value) for variable, value in zip(self.variables, values, strict=True)]
        return keras.StatelessScope(state_mapping=[*mapping, (self.one.kl_scale, self.mixture.kl_scale)])

    def keys(self, key):
        """Returns one key for every component, stacked, and one more."""
        if self.mixture.components == 1:  # then it draws what the posterior alone would draw
            return ops.expand_dims(key, 0), key
        *own, more = noise.split(key, self.mixture.components + 1)
        return ops.stack(own), more

    # -- a function of each --------------------------------------------------------------------------------------------

    def each(self, function: Callable, values: list, *own):
        """Returns function(*own) of every component, stacked; `own` have the components on their first axis."""

        def one(values, *own):
            with self.with_values(values):
                return function(*own)

        if keras.backend.backend() == "jax":
            import jax

            axes = [None if variable.shared else 0 for variable in self.variables]
            return jax.vmap(one, in_axes=(axes, *[0] * len(own)))(values, *own)
        parts = [
            one(self.values_of(k, values), *keras.tree.map_structure(lambda v, k=k: v[k], own))
            for k in range(self.mixture.components)
        ]
        return keras.tree.map_structure(lambda *parts: ops.stack(parts), *parts)

    def mean(self, function: Callable):
        """Returns the mean over components of what function() gives for each, which may draw noise."""
        state, drawn = self.one.seed_generator.state, []

        def one(key):
            before = state.assign(ops.cast(key, state.dtype))
            result = function()
            drawn.append(state.value is not before)
            return result

        keys, _ = self.keys(self.mixture.seed_generator.state.value)
        mean = ops.mean(self.each(one, self.read(), keys))
        if any(drawn):
            self.mixture.seed_generator.next()  # these keys are used up
        return mean

    def visit(self, function: Callable[[Any], Any]) -> list:
        """Returns function(posterior) of one component after another, and keeps what it assigns."""
        results, values = [], self.read()
        keys, _ = self.keys(self.mixture.seed_generator.state.value)
        state = self.one.seed_generator.state
        for k in range(self.mixture.components):
            with self.with_values(self.values_of(k, values)) as inside:
                state.assign(ops.cast(keys[k], state.dtype))
                before = [inside.get_current_value(variable.one) for variable in self.variables]
                results.append(function(self.one))
                after = [inside.get_current_value(variable.one) for variable in self.variables]
            for variable, old, new in zip(self.variables, before, after, strict=True):
                if new is not old:
                    variable.part(k).assign(new)
        return results

    def give(self, other, numbers: int | Sequence[int]) -> None:
        """Gives the values of one component to a posterior, or those of some to another mixture."""
        if isinstance(numbers, int):
            for theirs, value in zip(other.weights, self.values_of(numbers), strict=True):
                theirs.assign(np.array(ops.convert_to_numpy(value)))
        else:
            for variable, theirs in zip(self.variables, other.weights, strict=True):
                array = np.array(ops.convert_to_numpy(variable.all))
                theirs.assign(array if variable.shared else array[list(numbers)])

    def factors(self) -> list[Factor]:
        """Returns the arrays of random weights of the first component, then those of the next."""
        stacked = {id(variable.one): variable for variable in self.variables}
        found = []
        for k in range(self.mixture.components):
            for factor in self.one.factors:
                own = copy.copy(factor)
                own.values, own.reference, own.origin = (
                    None if one is None else stacked[id(one)].part(k)
                    for one in (factor.values, factor.reference, factor.origin)
                )
                own.live = None if factor.live is None else stacked[id(factor.live)].part(k).value
                found.append(own)
        return found


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
