"""Training and prediction of one image network of the library as two compiled JAX programs.

A step draws the weights once, takes a random crop of every image and flips half of them, and adds the KL of the
posteriors to the mean NLL. Means and plain weights take steps of SGD with Nesterov momentum, kernels without a
posterior with weight decay; ρ takes steps of Adam, because its gradient, about β / num_data per weight, is far too
small for the rate of the means.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.posteriors import find_posteriors, find_random_posteriors, inverse_softplus, scope
from singularbayes.training import set_kl
from singularbayes_experiments.methods.configured_fit import orthogonal_factors

State = dict[str, Any]
MOMENTUM = 0.9
SQUARES = 0.99  # Adam's second decay, of ρ
PADDING = 4
MEAN, STD = (125.31, 122.95, 113.87), (62.99, 62.09, 66.70)  # of the training images, per channel


@dataclass(frozen=True)
class Step:
    """Settings of a training: peak rates of means and ρ, weight decay, weight of the KL, and its number of steps."""

    rate: float
    rho_rate: float
    decay: float
    kl_weight: float
    steps: int
    warm_up: float

    def numbers(self) -> dict[str, np.float32]:
        """Returns what the program takes."""
        names = ("rate", "rho_rate", "decay", "kl_weight", "steps", "warm_up")
        return {name: np.float32(getattr(self, name)) for name in names}


class ImageProgram:
    """One network with outputs logits and features; posteriors have a centred prior of unit width.

    Args:
        build: makes the model.
        batch: images of a step.
        chunk: steps of a call of `train`.
        block: images of a call of `predict`.
    """

    def __init__(self, build: Callable[[], keras.Model], batch: int, chunk: int, block: int):
        self.batch, self.chunk, self.block = batch, chunk, block
        with jax.default_device(jax.devices("cpu")[0]):  # hundreds of small operations, which compile quicker there
            self.model = build()
            self.random = find_random_posteriors(self.model)
            if self.random:
                set_kl(self.model, 1)
        self.kernels = list(find_posteriors(self.model))
        trainable, other = self.model.trainable_variables, self.model.non_trainable_variables
        factors = [factor for posterior in self.random for factor in posterior.factors]
        self.values = [_index(trainable, factor.values) for factor in factors]
        self.references = [_index(other, factor.reference) for factor in factors]
        self.decayed = {
            _index(trainable, plain) for posterior in self.kernels if (plain := posterior.dense_weight) is not None
        }
        self.kl_scale = _index(other, self.random[0].kl_scale) if self.random else None
        self.seed = _index(other, self.random[0].seed_generator.state) if self.random else None
        dropping = [layer for layer in self.model.layers if hasattr(layer, "share")]
        self.dropout = [(_index(other, one.share), _index(other, one.seed_generator.state)) for one in dropping]
        self._start = [np.asarray(variable) for variable in trainable], [np.asarray(variable) for variable in other]

    @property
    def num_parameters(self) -> int:
        """How many parameters are trained and stored."""
        return sum(math.prod(variable.shape) for variable in self.model.trainable_variables)

    # -- starts --------------------------------------------------------------------------------------------------------

    def start(self, seed: int, eta: float = 0.0, width: float = 1.0, dropout: float = 0.0) -> State:
        """Returns the state in which a network begins: He's variance for kernels, zero for rank-one vectors.

        Args:
            eta: posterior scales as a multiple of those of the means.
            width: standard deviation of the prior around 0.
            dropout: share of activations to drop, where the network has such layers.
        """
        rng = np.random.default_rng([seed, 1])
        weights, others = [list(group) for group in self._start]
        for number, (share, state) in enumerate(self.dropout):
            others[share] = np.array(dropout, "float32")
            others[state] = np.array([seed, number], others[state].dtype)
        for posterior in self.kernels:
            rows, columns = posterior.shape
            std = math.sqrt((2.0 if columns > 10 else 1.0) / rows)
            for variable, start in self._kernel_start(posterior, rng, std, eta):
                weights[_index(self.model.trainable_variables, variable)] = start.astype("float32")
        return self._state(weights, others, seed, width)

    def _kernel_start(self, posterior, rng: np.random.Generator, std: float, eta: float):
        """Yields the variables of a posterior and where they start."""
        dense = posterior.dense_weight
        if dense is not None:
            yield dense, std * rng.standard_normal(posterior.shape)
        if posterior.random:
            (factor,) = posterior.factors
            if dense is not None:
                loc, scale = np.zeros(factor.shape), eta
            elif posterior.effective_rank is None:
                loc, scale = std * rng.standard_normal(factor.shape), eta * std
            else:
                # Entries of A Bᵀ have the variance r s⁴ where those of the factors have s².
                s = math.sqrt(std / math.sqrt(factor.shape[1]))
                loc, scale = orthogonal_factors(rng.standard_normal(factor.shape), posterior.shape[0], s), eta * s
            yield factor.values, np.stack([loc, np.full(factor.shape, inverse_softplus(scale))])

    def factors_at(self, given: "ImageProgram", state: State) -> list[np.ndarray]:
        """Returns the means of the factors at the SVDs of the kernels of a trained deterministic network."""
        theirs = dict(zip(map(id, given.model.trainable_variables), state["weights"], strict=True))
        pairs = zip(self.kernels, given.kernels, strict=True)
        return [svd_factors(theirs[id(other.w)], ours.factors[0].shape[1]) for ours, other in pairs]

    def start_at(
        self, given: "ImageProgram", state: State, factors: Sequence[np.ndarray], seed: int, eta: float, width: float
    ) -> State:
        """Returns the state that begins at a trained deterministic network, its kernels at `factors`."""
        weights, others = (list(group) for group in self._start)
        means = dict(zip(map(id, self.kernels), factors, strict=True))
        theirs = dict(zip(map(id, given.model.trainable_variables), state["weights"], strict=True))
        moments = dict(zip(map(id, given.model.non_trainable_variables), state["others"], strict=True))
        for ours, other in zip(self.model.layers, given.model.layers, strict=True):
            if hasattr(other, "posterior"):
                (factor,) = ours.posterior.factors
                kernel = np.asarray(theirs[id(other.posterior.w)])
                loc = means[id(ours.posterior)]
                scale = eta * math.sqrt(np.std(kernel) / math.sqrt(factor.shape[1]))
                start = np.stack([loc, np.full(factor.shape, inverse_softplus(scale))]).astype("float32")
                weights[_index(self.model.trainable_variables, factor.values)] = start
                if other.use_bias:
                    weights[_index(self.model.trainable_variables, ours.bias)] = np.asarray(theirs[id(other.bias)])
                continue
            for group, values, found in (("trainable", weights, theirs), ("non_trainable", others, moments)):
                pairs = zip(*(getattr(each, f"{group}_variables") for each in (ours, other)), strict=True)
                for variable, source in pairs:
                    values[_index(getattr(self.model, f"{group}_variables"), variable)] = np.asarray(found[id(source)])
        return self._state(weights, others, seed, width)

    def start_from(self, state: State, seed: int) -> State:
        """Returns the state that resumes from trained weights of this program."""
        return self._state(list(state["weights"]), list(state["others"]), seed, 1.0)

    def _state(self, weights: list, others: list, seed: int, width: float) -> State:
        for i in self.references:
            others[i] = np.stack([np.zeros(others[i].shape[1:]), np.full(others[i].shape[1:], width)]).astype("float32")
        if self.seed is not None:
            others[self.seed] = np.array([seed, 0], others[self.seed].dtype)
        return {
            "weights": weights,
            "others": others,
            "velocities": [np.zeros_like(weight) for weight in weights],
            "squares": [np.zeros_like(weights[i][1]) for i in self.values],
            "key": np.array([seed, 2], "uint32"),
            "step": np.zeros((), "int32"),
        }

    # -- steps ---------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def train(self):
        """Compiled: state, ids (chunk, batch), data, numbers of `Step` → state, mean NLL of the chunk.

        `data` is padded images, labels and the mask that is added to logits.
        """
        return jax.jit(self._train, donate_argnums=0)

    def _train(self, state: State, ids, data, numbers):
        images, labels, mask = data

        def step(state, rows):
            key = jax.random.fold_in(jax.random.wrap_key_data(state["key"]), state["step"])
            x = augmented(key, images[rows])
            y = jax.nn.one_hot(labels[rows], mask.shape[0])
            others = list(state["others"])
            if self.kl_scale is not None:
                others[self.kl_scale] = numbers["kl_weight"]

            def loss(weights):
                (logits, _), new, losses = self.model.stateless_call(
                    weights, others, normalised(x), training=True, return_losses=True
                )
                nll = -(y * jax.nn.log_softmax(logits + mask)).sum(axis=1).mean()
                return nll + sum(losses), (nll, new)

            slopes, (nll, others) = jax.grad(loss, has_aux=True)(state["weights"])
            return self._moved(state, slopes, list(others), numbers), nll

        state, nll = jax.lax.scan(step, state, ids)
        return state, nll.mean()

    def _moved(self, state: State, slopes, others: list, numbers) -> State:
        """Returns the state after one step along the slopes."""
        share = schedule(state["step"] / numbers["steps"], numbers["warm_up"])
        count = (state["step"] + 1).astype("float32")
        weights, velocities, squares = [], [], list(state["squares"])
        for i, (weight, slope, velocity) in enumerate(zip(state["weights"], slopes, state["velocities"], strict=True)):
            slope = slope + numbers["decay"] * weight if i in self.decayed else slope
            moved = MOMENTUM * velocity + slope
            change = numbers["rate"] * (slope + MOMENTUM * moved)
            if i in self.values:
                place = self.values.index(i)
                squares[place] = SQUARES * squares[place] + (1 - SQUARES) * slope[1] ** 2
                mean = (1 - MOMENTUM) * moved[1] / (1 - MOMENTUM**count)
                root = jnp.sqrt(squares[place] / (1 - SQUARES**count))
                change = jnp.stack([change[0], numbers["rho_rate"] * mean / (root + 1e-12)])
            weights.append(weight - share * change)
            velocities.append(moved)
        return {
            **state,
            "weights": weights,
            "others": others,
            "velocities": velocities,
            "squares": squares,
            "step": state["step"] + 1,
        }

    @functools.cached_property
    def predict(self):
        """Compiled: weights, others, seed of a draw, images (block, …), mask → logits, features."""
        return jax.jit(self._predict)

    def _predict(self, weights, others, seed, images, mask):
        others = list(others)
        if self.seed is not None:
            others[self.seed] = jnp.stack([seed, jnp.zeros_like(seed)])
        for number, (_, place) in enumerate(self.dropout):
            others[place] = jnp.stack([seed, jnp.full_like(seed, 1000 + number)])
        with scope.drawing(self.random):
            (logits, features), _ = self.model.stateless_call(weights, others, normalised(images), training=False)
        return logits + mask, features.astype("float32")


def svd_factors(kernel: np.ndarray, rank: int) -> np.ndarray:
    """Returns U √S above V √S of the best approximation U S Vᵀ of that rank.

    V comes from the eigenvectors of Kᵀ K, which is far quicker for tall kernels and exact enough in float64.
    """
    kernel = np.asarray(kernel, "float64")
    if len(kernel) < kernel.shape[1]:
        u, v = np.split(svd_factors(kernel.T, rank), [kernel.shape[1]])
        return np.concatenate([v, u])
    squares, vectors = np.linalg.eigh(kernel.T @ kernel)
    v = vectors[:, ::-1][:, :rank]
    s = np.sqrt(np.maximum(squares[::-1][:rank], squares[-1] * 1e-14))
    return np.concatenate([kernel @ v / np.sqrt(s), v * np.sqrt(s)])


def schedule(progress, warm_up):
    """Returns the share of the peak rate: up linearly, then down linearly to 0.

    >>> [float(schedule(p, 0.2)) for p in (0.1, 0.2, 0.6)]
    [0.5, 1.0, 0.5]
    """
    return jnp.minimum(progress / warm_up, (1 - progress) / (1 - warm_up))


def normalised(images):
    return (images.astype("float32") - jnp.array(MEAN)) / jnp.array(STD)


def augmented(key, padded):
    """Returns a random crop of every padded image, half of them flipped."""
    corners, flips = jax.random.split(key)
    at = jax.random.randint(corners, (len(padded), 2), 0, 2 * PADDING + 1)
    return cropped(padded, at, jax.random.bernoulli(flips, shape=(len(padded),)))


def cropped(padded, corners, flips):
    """Returns the crop of every padded image at its corner, flipped where `flips` is set."""
    side = padded.shape[1] - 2 * PADDING
    x = jax.vmap(lambda image, corner: jax.lax.dynamic_slice(image, (*corner, 0), (side, side, 3)))(padded, corners)
    return jnp.where(flips[:, None, None, None], x[:, :, ::-1], x)


def padded(images: np.ndarray) -> np.ndarray:
    """Returns images with reflected borders, to crop from."""
    edge = (PADDING, PADDING)
    return np.pad(images, ((0, 0), edge, edge, (0, 0)), mode="reflect")


def _index(variables: Sequence, wanted: Any) -> int:
    return next(i for i, variable in enumerate(variables) if variable is wanted)
