"""Several posteriors of one weight, each a mode of its own: W ~ (q_1 + … + q_K)/K."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import is_integer
from singularbayes.posteriors import initializers, noise, registry, scope
from singularbayes.posteriors.assignment import Assignment, Blocks, are_blocks, assignment_of_pass, number_of_pass
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.mixture_matrices import ComponentMatrix, MixtureMatrix, VariablePart
from singularbayes.posteriors.serialization import copy_posterior, serialize
from singularbayes.posteriors.step_watch import watched_kl
from singularbayes.posteriors.variational import RandomPosterior

EXAMPLES = ("split", "repeat")


@dataclass(frozen=True)
class _Stacked:
    """A variable of the mixture, and the variable of one component that it stands for."""

    one: Any
    all: Any  # (components, …), or as in one component where they share it
    shared: bool

    def part(self, component: int):
        """Returns what stands for the variable of one component, to be read and assigned."""
        return self.all if self.shared else VariablePart(self.all, component)


class _Inside:
    """The posterior of one component, held where Keras does not look for layers, and neither for what to save.

    Its variables have values only inside `with_values`.
    """

    def __init__(self, posterior):
        self.one: Any = posterior
        self.variables: list[_Stacked] = []
        self.largest_batch = 0  # that training has seen


@keras.saving.register_keras_serializable(package="singularbayes")
class Mixture(RandomPosterior):
    """An equal mixture of `components` copies of a posterior, with parameters, starts and noise of their own.

    In training all layers of a model use the same component for an example, and every plain weight of the layer, such
    as its bias, exists once per component: K networks in one model. The KL is the mean of the components' KLs, an upper
    bound of the KL of the mixture (it is convex). Draw s of `predict` is of component s mod K in every layer, and the
    number of draws is rounded up to a multiple of K, so that components count the same. Outside training a forward pass
    uses the mean of the first component: an average over modes would be no network.

    Args:
        posterior: any with random weights, for example `LowRank(16)`, a rank for `LowRank`, or a name: "low_rank".
        components: K, an integer above 0.
        examples: "split" deals the examples of every batch to the components at random, in equal shares: an epoch costs
            about what it costs for one component. "repeat" trains every component on every example.

    >>> from singularbayes import LowRank, layers
    >>> dense = layers.Dense(8, posterior=Mixture(LowRank(2), components=4))
    >>> dense.build((None, 5))
    >>> dense.posterior, [tuple(w.shape) for w in dense.trainable_weights]
    (Mixture(LowRank(2), components=4), [(4, 8), (4, 2, 13, 2)])
    """

    def __init__(self, posterior, components=4, examples="split", *, name=None, trainable=True, dtype=None):
        inside: Any = registry.get(posterior, "component", "Mixture")
        if not inside.random or isinstance(inside, Mixture):
            raise ValueError(f"Mixture needs a posterior with random weights that is no mixture; got {inside!r}.")
        if not is_integer(components):
            raise ValueError(f"Mixture needs components to be an integer >= 1; got components={components!r}.")
        if examples not in EXAMPLES:
            raise ValueError(f"Mixture needs examples to be one of {EXAMPLES}; got examples={examples!r}.")
        super().__init__(None, inside.kl_weight, name=name, trainable=trainable, dtype=dtype)
        self.components, self.examples, self.adapts = int(components), examples, inside.adapts
        self.repeats = examples == "repeat" and self.components > 1
        self._inside = _Inside(inside)

    def require_local(self, where):
        self._inside.one.require_local(where)

    # -- variables: those of one component, stacked --------------------------------------------------------------------

    def build(self, input_shape):
        self._shape = tuple(input_shape)
        parts = [self._fresh() for _ in range(self.components)]
        one = self._inside.one = parts[0]
        self._build_kl_scale()
        shared = {id(variable) for variable in one.frozen_weights}
        for place, variable in enumerate(one.weights):
            own = [part.weights[place] for part in parts]
            self._inside.variables.append(self._stack(own, id(variable) in shared))

    def _fresh(self):
        """Returns one more posterior of a component, built."""
        posterior = copy_posterior(self._inside.one, "component")
        posterior.default_initializer = initializers.fresh(self.default_initializer)
        posterior.by_rows = self.by_rows
        posterior.build(self._shape)
        return posterior

    def _stack(self, own: list, shared: bool) -> _Stacked:
        """Returns the variable that holds one and the same variable of all components."""
        one = own[0]

        def start(_, dtype=None):
            values = [variable.value for variable in own]
            # A copy: on JAX a step gives the buffer of a variable away.
            return ops.copy(values[0]) if shared else ops.stack(values)

        def mean_regularizer(_):
            return watched_kl(self._mean(lambda: one.regularizer(one)), self.path)

        stacked = self.add_weight(
            name=one.name,
            shape=one.shape if shared else (self.components, *one.shape),
            initializer=initializers.Given(start),
            regularizer=None if one.regularizer is None else mean_regularizer,
            trainable=one.trainable,
            dtype=one.dtype,
            autocast=False,
        )
        return _Stacked(one, stacked, shared)

    @property
    def frozen_weights(self):
        return [variable.all for variable in self._inside.variables if variable.shared]

    def _read(self) -> list:
        """Returns the values of all variables. They have to be read outside the scopes that `with_values` makes."""
        return [variable.all.value for variable in self._inside.variables]

    def with_values(self, values: list) -> keras.StatelessScope:
        """Returns a scope in which the posterior of one component has these values."""
        self._inside.one.by_rows = self.by_rows
        mapping = [(variable.one, value) for variable, value in zip(self._inside.variables, values, strict=True)]
        return keras.StatelessScope(state_mapping=[*mapping, (self._inside.one.kl_scale, self.kl_scale)])

    def _of_component(self, values: list, component) -> list:
        """Returns the values of one component, a number or a tensor of one."""
        at = (lambda v: v[component]) if isinstance(component, int) else (lambda v: ops.take(v, component, axis=0))
        pairs = zip(values, self._inside.variables, strict=True)
        return [value if variable.shared else at(value) for value, variable in pairs]

    def each_component(self, function: Callable, values: list, *own):
        """Returns function(*own) of every component, stacked; `own` have the components on their first axis."""

        def one(values, *own):
            with self.with_values(values):
                return function(*own)

        if keras.backend.backend() == "jax":
            import jax

            axes = [None if variable.shared else 0 for variable in self._inside.variables]
            return jax.vmap(one, in_axes=(axes, *[0] * len(own)))(values, *own)
        parts = [
            one(self._of_component(values, k), *keras.tree.map_structure(lambda v, k=k: v[k], own))
            for k in range(self.components)
        ]
        return keras.tree.map_structure(lambda *parts: ops.stack(parts), *parts)

    def _keys(self, key):
        """Returns one key for every component, stacked, and one more."""
        if self.components == 1:  # then it draws what the posterior alone would draw
            return ops.expand_dims(key, 0), key
        *own, more = noise.split(key, self.components + 1)
        return ops.stack(own), more

    # -- the KL --------------------------------------------------------------------------------------------------------

    def _mean(self, function: Callable):
        """Returns the mean over components of what function() gives for each, which may draw noise."""
        state, drawn = self._inside.one.seed_generator.state, []

        def one(key):
            before = state.assign(ops.cast(key, state.dtype))
            result = function()
            drawn.append(state.value is not before)
            return result

        keys, _ = self._keys(self.seed_generator.state.value)
        mean = ops.mean(self.each_component(one, self._read(), keys))
        if any(drawn):
            self.seed_generator.next()  # these keys are used up
        return mean

    def kl(self):
        return watched_kl(self._mean(self._inside.one.kl), self.path)

    def kl_bound(self):
        return self._mean(self._inside.one.kl_bound)

    def kl_exact(self):
        return float(np.mean(self.for_components(lambda part: part.kl_exact())))

    def certified_kl(self):
        before, after = np.mean(self.for_components(lambda part: part.certified_kl()), axis=0)
        return float(before), float(after)

    # -- draws ---------------------------------------------------------------------------------------------------------

    def sample(self, training=False, estimator="shared"):
        if scope.fixed(self) is None and not training and scope.draws_now(self):
            number = self._number_of_pass()
            return self.weight(self.draw_number(self.next_key(training), number))
        if scope.fixed(self) is not None or not training:
            return super().sample(training, estimator)
        values, (keys, more) = self._read(), self._keys(self.next_key(training))
        local = estimator == "local"
        return MixtureMatrix(
            self,
            values,
            assignment_of_pass(lambda: more),
            keys if local else self.each_component(self._inside.one.draw, values, keys),
            self._inside.one.local if local else self._inside.one.weight,
        )

    def _number_of_pass(self):
        """Returns the random number from which every mixture takes its component, in a pass that draws."""
        return number_of_pass(lambda: self._keys(self.seed_generator.state.value)[1])

    def draw(self, key):
        if self.components == 1:
            return self.draw_number(key, 0)
        key, other = noise.split(key, 2)
        return self.draw_number(key, noise.integers((), 2**30, other))

    def draw_number(self, key, number):
        component = ops.cast(number, "int32") % self.components
        with self.with_values(self._of_component(self._read(), component)):
            return component, *self._inside.one.draw(key)

    def weight(self, draw):
        component, *arrays = draw
        values = self._of_component(self._read(), ops.cast(component, "int32"))
        with self.with_values(values):
            matrix = self._inside.one.weight(tuple(arrays))
        return ComponentMatrix(self, values, matrix) if self.by_rows else matrix

    def whole(self, draw):
        component, *arrays = draw
        with self.with_values(self._of_component(self._read(), component)):
            return component, *self._inside.one.whole(tuple(arrays))

    @property
    def draw_size(self):
        return 1 + self._inside.one.draw_size

    def local(self, key):
        raise NotImplementedError("A mixture draws outputs per example only in training, where `sample` does.")

    def notice_batch(self, size) -> None:
        """Raises where no batch of training so far has an example for every component; a short one may follow."""
        if are_blocks():
            return
        if self.repeats:
            raise ValueError(
                f"{self!r} needs examples in blocks, one for each component, in training (posterior {self.path!r}). "
                "`fit` with callbacks=[singularbayes.KLSchedule()] makes them, and so does a training "
                "pass of a model after singularbayes.set_kl(model, num_data=len(x)), whose targets a loop of your own "
                'has to tile as often. Or use examples="split".'
            )
        if not isinstance(size, int):
            return
        self._inside.largest_batch = max(size, self._inside.largest_batch)
        if self._inside.largest_batch < self.components:
            raise ValueError(
                f"{self!r} needs batches of at least {self.components} examples, one for each component; got "
                f'{size} in {self.path or self.name}. Use a larger batch_size, fewer components, or examples="repeat".'
            )

    # -- mean and moments ----------------------------------------------------------------------------------------------

    def mean(self):
        with self.with_values(self._of_component(self._read(), 0)):
            return self._inside.one.mean()

    def variance(self):
        # The law of total variance.
        within = np.mean(self.for_components(lambda part: part.variance()), axis=0)
        return within + np.var(self.for_components(_dense_mean), axis=0)

    def covariance(self, entry, other):
        means = self.for_components(_dense_mean)
        between = np.cov([mean[entry] for mean in means], [mean[other] for mean in means], ddof=0)[0, 1]
        return float(np.mean(self.for_components(lambda part: part.covariance(entry, other))) + between)

    def center(self, matrix):
        """Moves the mean of the first component to `matrix`, and those of the others to draws around it.

        Components that start equal would stay equal but for noise. The draws have the scales of the component.
        """
        first = True

        def move(part):
            nonlocal first
            part.center(matrix)
            for factor in () if first else part.factors:
                factor.start_at(ops.convert_to_numpy(factor.sample(part.seed_generator.next())))
            first = False

        self.for_components(move)
        self.seed_generator.next()  # the keys of these draws are used up

    def center_components(self, matrices):
        if len(matrices) != self.components:
            raise ValueError(
                f"{self!r} needs one matrix for each of its {self.components} components; got {len(matrices)}."
            )
        of_components = iter(matrices)
        self.for_components(lambda part: part.center(next(of_components)))

    def residual(self, matrix):
        return self._inside.one.residual(matrix)

    # -- components ----------------------------------------------------------------------------------------------------

    def component(self, number: int) -> Posterior:
        """Returns a component as a posterior of its own: a copy, with its parameters.

        >>> from singularbayes import LowRank
        >>> mixture = Mixture(LowRank(2), components=3)
        >>> mixture.build((5, 4))
        >>> mixture.component(2)
        LowRank(2)
        """
        if not is_integer(number, 0) or number >= self.components:
            raise ValueError(f"component needs a number from 0 to {self.components - 1}; got {number!r}.")
        part = self._fresh()
        self.give_components(part, int(number))
        return part

    def with_components(self, number):
        if number is None:
            return copy_posterior(self._inside.one, self.name)
        return Mixture(self._inside.one, number, self.examples, name=self.name)

    def give_components(self, other, numbers):
        values = self._read()
        if isinstance(numbers, int):
            for theirs, value in zip(other.weights, self._of_component(values, numbers), strict=True):
                theirs.assign(np.array(ops.convert_to_numpy(value)))
        else:
            for variable, theirs, value in zip(self._inside.variables, other.weights, values, strict=True):
                array = np.array(ops.convert_to_numpy(value))
                theirs.assign(array if variable.shared else array[list(numbers)])
        if self.kl_weight_is_set:
            other.set_kl_weight(float(ops.convert_to_numpy(self.kl_scale)))

    def for_components(self, function):
        results, values = [], self._read()
        keys, _ = self._keys(self.seed_generator.state.value)
        state = self._inside.one.seed_generator.state
        for k in range(self.components):
            with self.with_values(self._of_component(values, k)) as inside:
                state.assign(ops.cast(keys[k], state.dtype))
                before = [inside.get_current_value(variable.one) for variable in self._inside.variables]
                results.append(function(self._inside.one))
                after = [inside.get_current_value(variable.one) for variable in self._inside.variables]
            for variable, old, new in zip(self._inside.variables, before, after, strict=True):
                if new is not old:
                    variable.part(k).assign(new)
        return results

    @property
    def factors(self):
        """The arrays of random weights of the first component, then those of the next; what is assigned is kept."""
        if not self.built:
            return []
        stacked = {id(variable.one): variable for variable in self._inside.variables}
        found = []
        for k in range(self.components):
            for factor in self._inside.one.factors:
                own = copy.copy(factor)
                own.values, own.reference, own.memory = (
                    None if one is None else stacked[id(one)].part(k)
                    for one in (factor.values, factor.reference, factor.memory)
                )
                own.live = None if factor.live is None else stacked[id(factor.live)].part(k).value
                found.append(own)
        return found

    @property
    def prior(self):
        """The prior of every component."""
        return self._inside.one.prior

    def set_penalty(self, penalty):
        self._inside.one.set_penalty(penalty)

    def matrices(self, scalars):
        return self._inside.one.matrices(scalars)

    def drawn_matrices(self, draw):
        return self.whole(draw)[1:]

    def switch_noise(self, on):
        return any(self.for_components(lambda part: part.switch_noise(on)))

    def restarted_velocities(self, velocities):
        of_components = iter(range(self.components))

        def restarted(part):
            k = next(of_components)
            return part.restarted_velocities([each[k] for each in velocities])

        return [np.stack(each) for each in zip(*self.for_components(restarted), strict=True)]

    def prune_columns(self):
        if self._inside.one.learned_rank is not None:
            self.for_components(lambda part: part.prune_columns())

    def stack(self, shape):
        return self.components, *shape

    def blocks(self, training, size):
        if self.components == 1 or not training or are_blocks() or scope.fixed(self) is not None:
            return super().blocks(training, size)
        self.notice_batch(size)
        return Blocks(self._assignment(), self.components, size)

    def _assignment(self) -> Assignment:
        """Returns the assignment of this pass, where it may be needed before a draw is made."""
        return assignment_of_pass(lambda: self._keys(self.seed_generator.state.value)[1])

    def pick(self, values, training, examples):
        choice = scope.fixed(self)
        if training and choice is None:
            return ops.take(values, self._assignment().components_of(examples, self.components), axis=0)
        if choice is not None:
            component = ops.cast(choice[0], "int32")
        else:
            component = self._number_of_pass() % self.components if scope.draws_now(self) else 0
        return ops.expand_dims(ops.take(values, component, axis=0), 0)

    def per_component(self, function, x, values, training):
        choice = scope.fixed(self)
        if not training or choice is not None:
            return super().per_component(function, x, self.pick(values, training, 1)[0], training)
        size = ops.shape(x)[0]
        self.notice_batch(size)
        dealt = self._assignment().deal(x, self.components)
        parts = [function(dealt[k], values[k]) for k in range(self.components)]
        return self._assignment().collect(ops.stack(parts), size, self.components)

    def like(self, posterior):
        if posterior.random and not isinstance(posterior, Mixture):
            return Mixture(posterior, self.components, self.examples, name=posterior.name)
        return super().like(posterior)

    @property
    def random_weights(self):
        values = {id(factor.values) for factor in self._inside.one.factors}
        return [variable.all for variable in self._inside.variables if id(variable.one) in values]

    @property
    def training_weights(self):
        only = {id(weight) for weight in self._inside.one.training_weights}
        return [self.kl_scale, *(variable.all for variable in self._inside.variables if id(variable.one) in only)]

    def num_switched_off(self):
        return sum(factor.num_switched_off() for factor in self.factors)

    @property
    def learned_rank(self):
        """The columns that the component with most of them uses."""
        ranks = self.for_components(lambda part: part.learned_rank) if self.built else [self._inside.one.learned_rank]
        return None if ranks[0] is None else max(ranks)

    @property
    def fixed_rank(self):
        return self._inside.one.fixed_rank

    def num_columns(self, shape):
        return self._inside.one.num_columns(shape)

    def label(self, *ranks):
        return f"Mixture of {self.components} {self._inside.one.label(*ranks)}"

    def with_rank(self, rank):
        return Mixture(self._inside.one.with_rank(rank), self.components, self.examples, name=self.name)

    def why_no_norms(self):
        return "has a mixture, whose draws are of several components"

    def __repr__(self):
        examples = "" if self.examples == "split" else f", examples={self.examples!r}"
        return f"Mixture({self._inside.one!r}, components={self.components}{examples})"

    def get_config(self):
        config = super().get_config()
        del config["initializer"]
        own = {"posterior": serialize(self._inside.one), "components": self.components, "examples": self.examples}
        return {**config, **own}


def _dense_mean(posterior) -> np.ndarray:
    return ops.convert_to_numpy(posterior.mean().dense()).astype("float64")
