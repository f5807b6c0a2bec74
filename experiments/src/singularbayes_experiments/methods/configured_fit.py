"""Many configurations of one network as one JAX program.

`fit_many` trains seeds of one configuration together. Here members may differ in whatever is an array, too: prior
(centres and widths of a prior with centres), initial scales, KL weight, learning rate of ρ, noise-free epochs. The
steps are Keras's own `train_step` of one model, mapped over members; a member equals the model that `fit` trains with
its settings and examples in that order, to the accuracy of floats.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.posteriors import RHO_SHIFT, find_random_posteriors
from singularbayes.training import set_kl, switch_noise

State = list[list[Any]]  # trainable, other, the optimizer's and the metrics' variables
_GROUPS = ("trainable_variables", "non_trainable_variables", "optimizer", "metrics_variables")


@dataclass(frozen=True)
class Configuration:
    """What a newcomer does not set.

    Args:
        prior: "anchored", or one centred at 0: "normal", or a scale mixture; `scale` is its width.
        eta: initial posterior scales as a multiple of the scale of the means.
        rho_lr: learning rate of ρ as a multiple of the optimizer's.
        pretrained: share of the epochs that train the means without noise first.
        components: networks from starts of their own, trained on the same batches, whose predictions are pooled: what
            a `Mixture` is whose examples train every component.
        mean_lr: learning rate of the means as a multiple of the optimizer's.
        start: what the means start with: "he", independent entries of A and B that give W the variance of He where the
            activation is rectified and of Glorot else; "glorot", that of Glorot everywhere, as `keras.layers.Dense`
            has it; or "orthogonal", the same with orthogonal columns of A and of B, all of one length.
    """

    prior: str
    scale: float
    beta: float
    eta: float
    rho_lr: float
    pretrained: float = 0.0
    rank: int = 16
    components: int = 1
    mean_lr: float = 1.0
    start: str = "he"

    @property
    def name(self) -> str:
        more = f", pretrained {self.pretrained:g}" if self.pretrained else ""
        more += f", rank {self.rank}" if self.rank != 16 else ""
        more += f", mean_lr {self.mean_lr:g}" if self.mean_lr != 1 else ""
        more += f", {self.start}" if self.start != "he" else ""
        more += f", components {self.components}" if self.components > 1 else ""
        return f"{self.prior} {self.scale:g}, beta {self.beta:g}, eta {self.eta:g}, rho_lr {self.rho_lr:g}{more}"


@dataclass(frozen=True)
class Member:
    """A configuration, or None for a deterministic network, with a seed."""

    configuration: Configuration | None
    seed: int
    component: int = 0

    @property
    def start(self) -> int:
        """The seed of its initial weights and of its noise; `seed` is that of its rows and their order."""
        return self.seed + 1000 * self.component


class Program:
    """A compiled model and the members that train with its step.

    Args:
        build: makes the compiled model from a seed; random posteriors have a `Centred` prior of unit scale, or of a
            scale mixture, and η = 0.1.
        orders: (seed, epoch) → the examples of an epoch in order, whole batches of them.
    """

    def __init__(
        self,
        build: Callable[[int], keras.Model],
        x: np.ndarray,
        y: np.ndarray,
        num_data: int,
        orders: Callable[[int, int], np.ndarray],
        epochs: int,
    ):
        self.build, self.num_data, self.orders, self.epochs = build, num_data, orders, epochs
        self._starts: dict[int, State] = {}
        self.data = jax.device_put((x, y))
        self.model = self._model(0)
        self.model.optimizer.build(self.model.trainable_variables)
        rows = self.orders(0, 0)[0]
        self.model._symbolic_build(data_batch=jax.tree.map(lambda array: array[rows], self.data))
        posteriors = find_random_posteriors(self.model)
        factors = [factor for posterior in posteriors for factor in posterior.factors]
        groups = self._groups(self.model)
        self._rows = [posterior.shape[0] for posterior in posteriors for _ in posterior.factors]
        self.values = [_index(groups[0], factor.values) for factor in factors]
        self.references = [_index(groups[1], factor.reference) for factor in factors]
        self.kl_scale = _index(groups[1], posteriors[0].kl_scale) if posteriors else None
        step = jax.vmap(self._train, in_axes=(0, 0, 0, None, None))
        self._epoch = jax.jit(step, donate_argnums=0)

    def _model(self, seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        model = self.build(seed)
        if find_random_posteriors(model):
            set_kl(model, self.num_data)
        return model

    @staticmethod
    def _groups(model: keras.Model) -> list[list]:
        return [list(model.optimizer.variables if name == "optimizer" else getattr(model, name)) for name in _GROUPS]

    def start(self, member: Member, trained: list[np.ndarray] | None = None) -> State:
        """Returns the state in which a member begins; `trained` has other means and plain weights to begin with."""
        seed = member.start
        if seed not in self._starts:
            model = self._model(seed)  # the optimizer and the metrics start alike with all seeds
            first, others = ([np.asarray(variable) for variable in getattr(model, name)] for name in _GROUPS[:2])
            rest = [[np.asarray(variable) for variable in group] for group in self._groups(self.model)[2:]]
            self._starts[seed] = [first, others, *rest]
        state = [list(group) for group in self._starts[seed]]
        if trained is not None:
            own = {i: np.stack([trained[i][0], state[0][i][1]]) for i in self.values}
            state[0] = [own.get(i, weight) for i, weight in enumerate(trained)]
        settings = member.configuration
        if settings is None:
            return state
        for values, reference, rows in zip(self.values, self.references, self._rows, strict=True):
            loc, rho = state[0][values]
            scale = np.logaddexp(0.0, rho) * (settings.eta / 0.1)
            if settings.start != "he":
                he, glorot = scale.flat[0] / settings.eta, (2.0 / len(loc) / loc.shape[1]) ** 0.25
                loc, scale = loc * (glorot / he), np.full_like(scale, settings.eta * glorot)
                loc = orthogonal_factors(loc, rows, glorot) if settings.start == "orthogonal" else loc
            rho = scale + np.log(-np.expm1(-scale)) - (RHO_SHIFT if settings.pretrained else 0.0)
            state[0][values] = np.stack([loc, rho]).astype("float32")
            centre = loc if settings.prior == "anchored" else np.zeros_like(loc)
            state[1][reference] = np.stack([centre, np.full_like(loc, settings.scale)])
        return state

    def train(self, members: Sequence[Member], on_epoch: Callable[[int, State], None] | None = None) -> State:
        """Returns the states of all members after training, stacked on a first axis."""
        seeds = sorted({member.seed for member in members})
        which = jnp.array([seeds.index(member.seed) for member in members])
        starts = [self.start(member) for member in members]
        state = jax.tree.map(lambda *values: jax.device_put(np.stack(values)), *starts)
        multiples = [(c.mean_lr, c.rho_lr) if (c := member.configuration) else (1.0, 1.0) for member in members]
        rates = jnp.array(multiples, "float32")
        for epoch in range(self.epochs):
            state = self._begin(epoch, members, state)
            orders = np.stack([self.orders(seed, epoch) for seed in seeds])
            state = self._epoch(state, which, rates, orders, self.data)
            if on_epoch is not None:
                on_epoch(epoch, state)
        return state

    def _train(self, state, which, rates, orders, data):
        def step(state, ids):
            old = state[0]
            _, state = self.model.train_step(state, jax.tree.map(lambda array: array[ids], data))
            new = list(state[0])
            for i in self.values:  # Adam's step does not depend on the gradient's scale, so these are rates
                new[i] = old[i] + (new[i] - old[i]) * rates.reshape(2, *[1] * (new[i].ndim - 1))
            return [new, *map(list, state[1:])], None

        return jax.lax.scan(step, state, orders[which])[0]

    def _begin(self, epoch: int, members: Sequence[Member], state: State) -> State:
        """Returns the states with the KL weight and the noise of an epoch."""
        if self.kl_scale is None:
            return state
        settings = [member.configuration for member in members]
        assert all(settings)
        first = np.array([math.ceil(one.pretrained * self.epochs) for one in settings])  # type: ignore[union-attr]
        betas = np.array([one.beta for one in settings])  # type: ignore[union-attr]
        state[1][self.kl_scale] = jnp.array(np.where(epoch < first, 0.0, betas / self.num_data), "float32")
        on = np.flatnonzero((first > 0) & (epoch == first))
        return self._restart(on, state) if len(on) else state

    def _restart(self, places: np.ndarray, state: State) -> State:
        """Returns the states with noise and balanced factors for some members, as the library makes them."""
        host = [[np.array(values) for values in group] for group in state]
        groups = self._groups(self.model)
        pairs = [pair for each in zip(groups, host, strict=True) for pair in zip(*each, strict=True)]
        for place in places:
            for variable, values in pairs:
                variable.assign(values[place])
            switch_noise(self.model, on=True)
            for variable, values in pairs:
                values[place] = np.asarray(variable)
        return jax.tree.map(jnp.asarray, host)


def orthogonal_factors(ab: np.ndarray, rows: int, std: float) -> np.ndarray:
    """Returns A above B with orthogonal columns of one length, and the expected ‖A Bᵀ‖² of entries N(0, std²)."""
    a, b = ab[:rows], ab[rows:]
    length = std * (len(a) * len(b)) ** 0.25  # ‖A Bᵀ‖² = rank · length⁴ = rows · columns · rank · std⁴
    return (length * np.concatenate([np.linalg.qr(part)[0] for part in (a, b)])).astype("float32")


def _index(variables: list, wanted: Any) -> int:
    return next(i for i, variable in enumerate(variables) if variable is wanted)
