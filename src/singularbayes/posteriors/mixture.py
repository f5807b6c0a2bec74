"""Several posteriors of one weight, each a mode of its own: W ~ (q_1 + … + q_K)/K."""

from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import is_integer, require_integer
from singularbayes.posteriors import noise, registry, scope
from singularbayes.posteriors.assignment import Assignment, are_blocks, assignment_of_pass, number_of_pass
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.mixture_components import Components
from singularbayes.posteriors.mixture_matrices import MixtureMatrix
from singularbayes.posteriors.random_posterior import RandomPosterior
from singularbayes.posteriors.serialization import copy_posterior, serialize

_COMPONENTS = 4  # where no number is given


@keras.saving.register_keras_serializable(package="singularbayes")
class Mixture(RandomPosterior):
    """An equal mixture of `components` copies of a posterior, with parameters, starts and noise of their own.

    In training every component sees every example, and every plain weight of the layer, such as its bias, exists once
    per component: K networks in one model. The KL is the mean of the components' KLs, an upper
    bound of the KL of the mixture (it is convex). Draw s of `predict` is of component s mod K in every layer, and the
    number of draws is rounded up to a multiple of K, so that components count the same. Outside training a forward pass
    uses the mean of the first component: an average over modes would not be a network.

    Args:
        posterior: any with random weights, for example `LowRank(16)`, a rank for `LowRank`, or a name: "low_rank".
        components: K, an integer above 0; by default 4, and in the conversion of an ensemble as many as it has members.

    >>> from singularbayes import LowRank, layers
    >>> dense = layers.Dense(8, posterior=Mixture(LowRank(2), components=4))
    >>> dense.build((None, 5))
    >>> dense.posterior, [tuple(w.shape) for w in dense.trainable_weights]
    (Mixture(LowRank(2), components=4), [(4, 8), (4, 2, 13, 2)])
    """

    def __init__(self, posterior, components=None, *, name=None, trainable=True, dtype=None):
        inside: Any = registry.get_posterior(posterior, "component", "Mixture")
        if not inside.random or isinstance(inside, Mixture):
            raise ValueError(f"Mixture needs a posterior with random weights that is not a mixture; got {inside!r}.")
        require_integer("Mixture", components=_COMPONENTS if components is None else components)
        super().__init__(None, inside.kl_weight, name=name, trainable=trainable, dtype=dtype)
        self._given_components = components
        self.components = int(_COMPONENTS if components is None else components)
        self.adapts = inside.adapts
        self.parts = Components(self, inside)

    def default_kernel_initializer(self, activation):
        return self.parts.one.default_kernel_initializer(activation)

    def build(self, input_shape):
        self._build_kl_scale()
        self.parts.build(tuple(input_shape))

    @property
    def frozen_weights(self):
        return [variable.all for variable in self.parts.variables if variable.shared]

    # -- the KL --------------------------------------------------------------------------------------------------------

    def kl(self):
        return self.parts.mean(self.parts.one.kl)

    def kl_bound(self):
        return self.parts.mean(self.parts.one.kl_bound)

    def kl_exact(self):
        return float(np.mean(self.for_components(lambda part: part.kl_exact())))

    def certified_kl(self):
        return float(np.mean(self.for_components(lambda part: part.certified_kl())))

    # -- draws ---------------------------------------------------------------------------------------------------------

    def sample(self, training=False):
        if scope.fixed_draw(self) is None and not training and not are_blocks() and scope.draws_now(self):
            number = self._number_of_pass()
            return self.weight(self.draw_number(self.next_key(training), number))
        if scope.fixed_draw(self) is not None or not (training or are_blocks()):
            return super().sample(training)
        values, (keys, more) = self.parts.read(), self.parts.keys(self.next_key(training))
        draws = self.parts.each(self.parts.one.draw, values, keys)
        return MixtureMatrix(self, values, assignment_of_pass(lambda: more), draws, self.parts.one.weight)

    def _number_of_pass(self):
        """Returns the random number from which every mixture takes its component, in a pass that draws."""
        return number_of_pass(lambda: self.parts.keys(self.seed_generator.state.value)[1])

    def draw(self, key):
        if self.components == 1:
            return self.draw_number(key, 0)
        key, other = noise.split(key, 2)
        return self.draw_number(key, noise.integers((), 2**30, other))

    def draw_number(self, key, number):
        component = ops.cast(number, "int32") % self.components
        with self.parts.with_values(self.parts.values_of(component)):
            return component, *self.parts.one.draw(key)

    def weight(self, draw):
        component, *arrays = draw
        values = self.parts.values_of(ops.cast(component, "int32"))
        with self.parts.with_values(values):
            matrix = self.parts.one.weight(tuple(arrays))
        return matrix

    @property
    def draw_size(self):
        return 1 + self.parts.one.draw_size

    def note_pass(self, training):
        super().note_pass(training)
        self.parts.one.trains = self.trains  # whose KL the loss has

    # -- which component an example meets ------------------------------------------------------------------------------

    def notice_batch(self, size) -> None:
        """Raises for a training pass whose examples do not lie in blocks."""
        if self.components > 1 and not are_blocks():
            raise ValueError(
                f"{self!r} needs examples in blocks, one for each component, in training (posterior {self.path!r}). "
                "`fit` with callbacks=[singularbayes.KLSchedule()] makes them, and so does a training "
                "pass of a model after singularbayes.set_kl(model, num_data=len(x)), whose targets a loop of your own "
                "has to tile as many times."
            )

    def stack(self, shape):
        return self.components, *shape

    def _assignment(self) -> Assignment:
        """Returns the assignment of this pass, where it may be needed before a draw is made."""
        return assignment_of_pass(lambda: self.parts.keys(self.seed_generator.state.value)[1])

    def pick(self, values, training, examples):
        choice = scope.fixed_draw(self)
        if (training or are_blocks()) and choice is None:
            return self._assignment().pick(values, examples, self.components)
        if choice is not None:
            component = ops.cast(choice[0], "int32")
        else:
            component = self._number_of_pass() % self.components if scope.draws_now(self) else 0
        return ops.expand_dims(ops.take(values, component, axis=0), 0)

    def per_component(self, function, x, values, training):
        choice = scope.fixed_draw(self)
        if not (training or are_blocks()) or choice is not None:
            return super().per_component(function, x, self.pick(values, training, 1)[0], training)
        size = ops.shape(x)[0]
        self.notice_batch(size)
        dealt = self._assignment().deal(x, self.components)
        parts = [function(dealt[k], values[k]) for k in range(self.components)]
        return self._assignment().collect(ops.stack(parts), size, self.components)

    def like(self, posterior):
        if posterior.random and not isinstance(posterior, Mixture):
            return Mixture(posterior, self.components, name=posterior.name)
        return posterior if posterior.frozen else super().like(posterior)

    # -- mean and moments ----------------------------------------------------------------------------------------------

    def mean(self):
        with self.parts.with_values(self.parts.values_of(0)):
            return self.parts.one.mean()

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

        Components that start equal would stay equal except for noise. The draws have the scales of the component.
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
        return self.parts.one.residual(matrix)

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
        part = self.parts.fresh(self.shape)
        self.give_components(part, int(number))
        return part

    def on_base(self, dtype):
        return Mixture(self.parts.one.on_base(dtype), self._given_components, name=self.name)

    def with_components(self, number):
        if number is None:
            return copy_posterior(self.parts.one, self.name)
        return Mixture(self.parts.one, number, name=self.name)

    def for_members(self, count):
        return self.with_components(count) if self._given_components is None else self

    def give_components(self, other, numbers):
        self.parts.give(other, numbers)
        other.take_kl_weight(self)

    def for_components(self, function):
        return self.parts.visit(function)

    @property
    def factors(self):
        """The arrays of random weights of the first component, then those of the next; what is assigned is kept."""
        return self.parts.factors() if self.built else []

    @property
    def prior(self):  # type: ignore[override]
        """The prior of every component."""
        return self.parts.one.prior

    def matrices(self, scalars):
        return self.parts.one.matrices(scalars)

    def drawn_matrices(self, draw):
        return draw[1:]

    def prune_columns(self):
        if self.parts.one.learned_rank is not None:
            self.for_components(lambda part: part.prune_columns())

    @property
    def random_weights(self):
        return self.parts.standing_for([factor.values for factor in self.parts.one.factors])

    @property
    def training_weights(self):
        return [self.kl_scale, *self.parts.standing_for(self.parts.one.training_weights)]

    @property
    def learned_rank(self):
        """The columns that the component with most of them uses."""
        ranks = self.for_components(lambda part: part.learned_rank) if self.built else [self.parts.one.learned_rank]
        return None if ranks[0] is None else max(ranks)

    @property
    def fixed_rank(self):
        return self.parts.one.fixed_rank

    def num_columns(self, shape):
        return self.parts.one.num_columns(shape)

    def label(self, *ranks):
        return f"Mixture of {self.components} {self.parts.one.label(*ranks)}"

    def with_rank(self, rank):
        return Mixture(self.parts.one.with_rank(rank), self._given_components, name=self.name)

    def __repr__(self):
        return f"Mixture({self.parts.one!r}, components={self.components})"

    def get_config(self):
        config = super().get_config()
        del config["initializer"]
        components = self.components if self.built else self._given_components  # a file does not rest on the default
        return {**config, "posterior": serialize(self.parts.one), "components": components}


def _dense_mean(posterior) -> np.ndarray:
    return ops.convert_to_numpy(posterior.mean().dense()).astype("float64")
