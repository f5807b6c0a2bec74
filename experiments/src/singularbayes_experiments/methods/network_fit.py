"""Networks with settings of their own, many of them as one JAX program.

The components of a mixture and the members of a deep ensemble are networks here, each with its own start. A component
of a mixture whose examples are split trains on its share of every batch: its gradient is a K-th of what it would be
alone, which Adam does not see. Steps are those of Keras's Adam at `RATE` times a multiple that falls along a cosine,
epoch by epoch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.posteriors import find_posteriors
from singularbayes_experiments.methods import ivon
from singularbayes_experiments.methods.configured_fit import Configuration, Member, Program, State

RATE = 1e-3  # of the optimizer; rates of networks are multiples of it


@dataclass(frozen=True)
class Settings:
    """What is tuned.

    Args:
        rate: of Adam; of IVON's own step, where Adam has `RATE` for all other weights.
        decay: decoupled weight decay of the kernels of deterministic networks.
        prior: "normal" around 0 or "anchored" around the start, with standard deviation `scale`.
        eta: initial posterior scales as a multiple of the scale of the means.
        rho_lr: learning rate of ρ as a multiple of the others'.
        start: what the means of a low-rank network start with, as in `Configuration`.
        spread: standard deviations with which the weights of each layer start; () leaves them to the initializer.
        warmup: epochs in which the KL weight rises linearly to β.
        rank: of hidden weights of a low-rank network; None leaves it to the data set.
    """

    epochs: int
    rate: float
    decay: float = 0.0
    prior: str = "normal"
    scale: float = 1.0
    beta: float = 0.0
    eta: float = 0.1
    rho_lr: float = 1.0
    start: str = "he"
    spread: tuple[float, ...] = ()
    warmup: int = 0
    rank: int | None = None


@dataclass(frozen=True)
class Bucket:
    """Examples that are trained with inputs cut to a width: padding of short texts costs as much as words."""

    width: int
    rows: np.ndarray


@dataclass(frozen=True)
class Network:
    """Settings and seeds of one network; `examples` is the part of its run's batch that it sees ("own": another)."""

    settings: Settings
    seed: int
    component: int = 0
    components: int = 1
    examples: str = "repeat"

    @property
    def member(self) -> Member:
        """Returns what the state in which it begins follows from."""
        own = self.settings
        configuration = Configuration(own.prior, own.scale, own.beta, own.eta, own.rho_lr, start=own.start)
        return Member(configuration, self.seed, self.component)

    def order(self, rows: np.ndarray, size: int, epoch: int) -> np.ndarray:
        """Returns the examples of an epoch, (steps, examples of a step)."""
        key = [self.seed, epoch, *([self.component] if self.examples == "own" else [])]
        steps = len(rows) // size
        ids = np.random.default_rng(key).permutation(rows)[: steps * size].reshape(steps, size).astype("int32")
        return ids[:, self.component :: self.components] if self.examples == "split" else ids


class Fit:
    """Trains networks of one kind together.

    Args:
        build: makes the compiled model, as `Program` needs it.
        rows: seed → the examples that train.
        newton: IVON for the random weights.
        buckets: all rows by the width of their inputs; none trains whole inputs. A batch is of one bucket.
        parts: of an epoch, in each of which the rate is constant and every bucket has its share of the steps.
    """

    def __init__(
        self,
        build: Callable[[], keras.Model],
        x: np.ndarray,
        y: np.ndarray,
        *,
        rows: Callable[[int], np.ndarray],
        size: int,
        num_data: int,
        newton: bool = False,
        buckets: Sequence[Bucket] = (),
        parts: int = 1,
    ):
        self.build, self.rows, self.size, self.num_data, self.newton = build, rows, size, num_data, newton
        self.buckets, self.parts = buckets, parts
        self.program = Program(lambda seed: build(), x, y, num_data, lambda *_: np.arange(size)[None], epochs=0)
        self.model, self.values = self.program.model, self.program.values
        self._data = [(self.program.data[0][:, : one.width], self.program.data[1]) for one in buckets]
        self._scratch: keras.Model | None = None
        self._epoch = jax.jit(jax.vmap(self._train, in_axes=(0, 0, 0, None)), donate_argnums=0)

    @property
    def num_parameters(self) -> int:
        """How many parameters one network trains."""
        return sum(math.prod(variable.shape) for variable in self.model.trainable_variables)

    def train(
        self,
        networks: Sequence[Network],
        starts: Sequence[list[np.ndarray] | None],
        on_epoch: Callable[[int], None] = lambda epoch: None,
    ) -> State:
        """Returns the states of all networks after training, stacked; all have the same number of epochs.

        Args:
            starts: means and plain weights to start at, from `start_at`, or None for the initializer's.
        """
        (epochs,) = {network.settings.epochs for network in networks}
        states = [self._start(network, start) for network, start in zip(networks, starts, strict=True)]
        state: Any = jax.tree.map(lambda *values: jax.device_put(np.stack(values)), *states)
        weights = jnp.array([network.settings.beta / self.num_data for network in networks], "float32")
        if self.program.kl_scale is not None:
            state[1][self.program.kl_scale] = jnp.zeros_like(weights) if self.newton else weights
        newton = []
        if self.newton:
            pairs = [(state[0][i], state[1][j]) for i, j in zip(self.values, self.program.references, strict=True)]
            newton = [jax.vmap(ivon.begin)(values, reference, weights) for values, reference in pairs]
        state = (state, newton)
        for epoch in range(epochs):
            self._warm_up(state[0], networks, epoch)
            buckets: Sequence[Bucket | None] = self.buckets or [None]
            batches = [self._batches(networks, epoch, bucket) for bucket in buckets]
            for part in range(self.parts):
                falling = 0.5 * (1 + math.cos(math.pi * (epoch + part / self.parts) / epochs))
                rates = self._rates(networks, falling)
                for every, own in zip(batches, self._data or [self.program.data], strict=True):
                    steps = every.shape[1] // self.parts
                    state = self._epoch(state, rates, every[:, part * steps : (part + 1) * steps], own)
                on_epoch(epoch)
        return state[0]

    def _warm_up(self, state: State, networks: Sequence[Network], epoch: int) -> None:
        """Sets the KL weights of an epoch where they rise."""
        if self.program.kl_scale is None or self.newton or not any(one.settings.warmup for one in networks):
            return
        shares = [min(1.0, epoch / one.settings.warmup) if one.settings.warmup else 1.0 for one in networks]
        weights = [one.settings.beta / self.num_data * share for one, share in zip(networks, shares, strict=True)]
        state[1][self.program.kl_scale] = jnp.array(weights, "float32")

    def _batches(self, networks: Sequence[Network], epoch: int, bucket: Bucket | None) -> np.ndarray:
        """Returns the examples of an epoch, of a bucket alone where it is given: (networks, steps, examples)."""
        orders: dict[tuple, np.ndarray] = {}
        for one in networks:
            key = self._order_key(one)
            if key not in orders:
                rows = self.rows(one.seed)
                if bucket is not None:
                    rows = np.intersect1d(rows, bucket.rows)
                orders[key] = one.order(rows, self.size, epoch)
        return np.stack([orders[self._order_key(one)] for one in networks])

    def start_at(self, model: keras.Model, weights: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the weights with which this model starts at a trained deterministic one, by an SVD for factors.

        Args:
            model: a deterministic network of the same layers; biases may be plain that are random here.
            weights: values of its trainable variables.
        """
        if self._scratch is None:
            self._scratch = self.build()
        given = {
            id(variable): np.asarray(value) for variable, value in zip(model.trainable_variables, weights, strict=True)
        }
        biases = {
            id(ours.bias_posterior): theirs.bias
            for ours, theirs in zip(self._scratch.layers, model.layers, strict=True)
            if getattr(ours, "bias_posterior", None) is not None and theirs.bias_posterior is None
        }
        matrices = [one for one in find_posteriors(self._scratch) if id(one) not in biases]
        for ours, theirs in zip(matrices, find_posteriors(model), strict=True):
            (kernel,) = theirs.trainable_variables
            ours.center(given[id(kernel)])
        for ours in find_posteriors(self._scratch):
            if id(ours) in biases:
                ours.center(given[id(biases[id(ours)])][None])
        random = {id(variable) for variable in biases.values()}
        plain = [variable for variable in _plain_variables(model) if id(variable) not in random]
        for variable, other in zip(_plain_variables(self._scratch), plain, strict=True):
            variable.assign(given[id(other)])
        return [np.asarray(variable) for variable in self._scratch.trainable_variables]

    def _start(self, network: Network, start: list[np.ndarray] | None) -> State:
        if start is None and network.settings.spread:
            start = self._spread(network)
        return self.program.start(network.member, start)

    def _spread(self, network: Network) -> list[np.ndarray]:
        """Returns the initial weights of every layer at another standard deviation; biases stay."""
        weights = list(self.program.start(network.member)[0])
        layers = [layer for layer in self.model.layers if hasattr(layer, "posterior")]
        variables = [id(variable) for variable in self.model.trainable_variables]
        for layer, std in zip(layers, network.settings.spread, strict=True):
            (factor,) = layer.posterior.factors
            i = variables.index(id(factor.values))
            rank = layer.posterior.effective_rank
            # Entries of A Bᵀ have the variance r a⁴ where those of the factors have a².
            wanted = std if rank is None else math.sqrt(std / math.sqrt(rank))
            weights[i] = np.stack([weights[i][0] * wanted / weights[i][0].std(), weights[i][1]])
        return weights

    @staticmethod
    def _order_key(network: Network) -> tuple:
        return network.seed, 0 if network.examples == "repeat" else network.component

    def _rates(self, networks: Sequence[Network], falling: float) -> dict[str, jax.Array]:
        own = [network.settings for network in networks]
        found = {
            "rate": [falling * (1.0 if self.newton else one.rate / RATE) for one in own],
            "newton": [falling * one.rate for one in own],
            "rho": [one.rho_lr for one in own],
            "decay": [one.decay * RATE for one in own],
            "weight": [one.beta / self.num_data for one in own],
        }
        return {name: jnp.array(values, "float32") for name, values in found.items()}

    def _train(self, state, rates, orders, data):
        slopes = jax.value_and_grad(self.model.compute_loss_and_updates, has_aux=True)

        def step(state, ids):
            (old, others, optimizer, metrics), newton = state
            x, y = jax.tree.map(lambda array: array[ids], data)
            options = {"training": True, "optimizer_variables": optimizer}
            (_, found), slope = slopes(old, others, metrics, x, y, None, **options)
            new, optimizer = self.model.optimizer.stateless_apply(optimizer, slope, old)
            moved = []
            for i, (before, after) in enumerate(zip(old, new, strict=True)):
                change = after - before  # Adam's step does not depend on the gradient's scale, so these are rates
                if i in self.values:
                    change = change * jnp.stack([jnp.ones(()), rates["rho"]]).reshape(2, *[1] * (change.ndim - 1))
                elif change.ndim > 1:
                    change = change - rates["decay"] * before
                moved.append(before + rates["rate"] * change)
            if self.newton:
                following = []
                for i, j, own in zip(self.values, self.program.references, newton, strict=True):
                    moved[i], own = ivon.step(old[i], slope[i], own, others[j], rates["weight"], rates["newton"])
                    following.append(own)
                newton = following
            return ([moved, list(found[2]), list(optimizer), metrics], newton), None

        return jax.lax.scan(step, state, orders)[0]


def _plain_variables(model: keras.Model) -> list:
    """Returns the trainable variables outside of posteriors."""
    inside = {id(variable) for one in find_posteriors(model) for variable in one.trainable_variables}
    return [variable for variable in model.trainable_variables if id(variable) not in inside]
