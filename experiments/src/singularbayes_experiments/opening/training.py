"""Training of one network under one setting, to be mapped over settings, splits and seeds."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from singularbayes_experiments.opening.networks import Network

PRIOR, LOC_RATE, DRAWS, STOP_DRAWS = 0.3, 0.4, 32, 4
MEANS, RHO, PLAIN = "means", "rho", "plain"


@dataclass(frozen=True)
class Plan:
    """What all networks of one program share."""

    network: Network
    low_rank: bool
    classes: bool
    batch: int
    epochs: int
    steps: int  # of an epoch
    least_rank: int = 8


def rank(rows: int, columns: int, least: int = 8) -> int:
    """Returns the rank that the trial gives a matrix: a fifth of its parameters, scales counted, but at least 8.

    >>> rank(784, 1200), rank(64, 64), rank(64, 2)
    (47, 8, 2)
    """
    return min(max(least, int(rows * columns / (10 * (rows + columns)))), rows, columns)


def begin(plan: Plan, key, eta) -> dict:
    """Returns the weights at the start: means with Glorot's variance, ρ at η times the scale of the means."""
    means, rho = {}, {}
    for i, (name, (m, n)) in enumerate(plan.network.shapes.items()):
        first, second = jax.random.split(jax.random.fold_in(key, i))
        variance = 2 / (m + n)
        if not plan.low_rank:
            means[name] = math.sqrt(3 * variance) * jax.random.uniform(first, (m, n), minval=-1, maxval=1)
            continue
        r = rank(m, n, plan.least_rank)
        gain = (m * n * variance / r) ** 0.25
        for side, size, own in (("A", m, first), ("B", n, second)):
            means[f"{name}{side}"] = gain * jnp.linalg.qr(jax.random.normal(own, (size, r)))[0]
            rho[f"{name}{side}"] = jnp.full((size, r), jnp.log(jnp.expm1(eta * (variance / r) ** 0.25)))
    return {MEANS: means, RHO: rho, PLAIN: plan.network.plain}


def outputs(plan: Plan, weights: dict, key, x, noise):
    """Returns the outputs of one draw, its noise times `noise`."""
    drawn = dict(weights[MEANS])
    for i, name in enumerate(weights[RHO]):
        scale = noise * jax.nn.softplus(weights[RHO][name])
        drawn[name] += scale * jax.random.normal(jax.random.fold_in(key, i), scale.shape)
    sides = ("A", "B") if plan.low_rank else ("",)
    matrices = {name: tuple(drawn[f"{name}{side}"] for side in sides) for name in plan.network.shapes}
    return plan.network.outputs(matrices, weights[PLAIN], x)


def log_likelihood(plan: Plan, found, y):
    if plan.classes:
        return jnp.take_along_axis(jax.nn.log_softmax(found), y[:, None], axis=1)[:, 0]
    mean, log_scale = found[:, 0], jnp.clip(found[:, 1], -7, 5)
    return -0.5 * ((y - mean) * jnp.exp(-log_scale)) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)


def kl(weights: dict):
    total = jnp.zeros(())
    for name, rho in weights[RHO].items():
        scale, mean = jax.nn.softplus(rho), weights[MEANS][name]
        total += jnp.sum(jnp.log(PRIOR / scale) + (scale**2 + mean**2) / (2 * PRIOR**2) - 0.5)
    return total


def draws(plan: Plan, weights, key, x, noise, count: int):
    """Returns the outputs of `count` draws."""
    return lax.map(lambda own: outputs(plan, weights, own, x, noise), jax.random.split(key, count))


def predictive(plan: Plan, found, y):
    """Returns the log of the likelihoods' mean over draws, for every example."""
    each = jax.vmap(lambda out: log_likelihood(plan, out, y))(found)
    return jax.nn.logsumexp(each, axis=0) - jnp.log(len(found))


def share_of_draws(plan: Plan, found):
    """Returns which share of the entropy, or of the variance, comes from the draws."""
    if plan.classes:
        p = jax.nn.softmax(found)

        def entropy(q):
            return -jnp.sum(q * jnp.log(q + 1e-12), axis=-1)

        whole = entropy(p.mean(0)).mean()
        return (whole - entropy(p).mean()) / whole
    between, within = found[..., 0].var(0).mean(), jnp.exp(2 * jnp.clip(found[..., 1], -7, 5)).mean()
    return between / (between + within)


def train(plan: Plan, data: dict, key, setting: dict) -> dict:
    """Returns scores on the rows of `data["score"]`; `setting` has rate, cosine, noise, eta, share and beta."""
    (x, y), total = data["train"], plan.epochs * plan.steps
    start = begin(plan, jax.random.fold_in(key, 1), setting["eta"])
    zeros = jax.tree.map(jnp.zeros_like, start)
    rates = {MEANS: LOC_RATE if plan.low_rank else 1.0, RHO: 1.0, PLAIN: 1.0}

    def loss(weights, own, ids, done):
        ramp = jnp.clip(done / jnp.maximum(setting["share"], 1e-6), 0.0, 1.0)
        found = outputs(plan, weights, own, x[ids], ramp * setting["noise"])
        return ramp * setting["beta"] * kl(weights) / len(x) - log_likelihood(plan, found, y[ids]).mean()

    def step(state, at):
        weights, first, second = state
        ids, i = at
        gradient = jax.grad(loss)(weights, jax.random.fold_in(key, i), ids, i / total)
        first = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, second, gradient)
        decayed = jnp.where(setting["cosine"] > 0, 0.5 * (1 + jnp.cos(jnp.pi * i / total)), 1.0)
        one, two = 1 - 0.9 ** (i + 1.0), 1 - 0.999 ** (i + 1.0)
        moved = {
            part: jax.tree.map(
                lambda w, a, b, part=part: (
                    w - setting["rate"] * decayed * rates[part] * (a / one) / (jnp.sqrt(b / two) + 1e-7)
                ),
                weights[part],
                first[part],
                second[part],
            )
            for part in weights
        }
        return (moved, first, second), None

    def epoch(state, e):
        *inner, best, least = state
        wanted = plan.steps * plan.batch
        shuffles = jax.random.split(jax.random.fold_in(key, 1_000_000 + e), -(-wanted // len(x)))
        ids = jnp.concatenate([jax.random.permutation(own, len(x)) for own in shuffles])[:wanted]
        numbers = e * plan.steps + jnp.arange(plan.steps)
        inner, _ = lax.scan(step, tuple(inner), (ids.reshape(plan.steps, plan.batch), numbers))
        found = draws(
            plan, inner[0], jax.random.fold_in(key, 2_000_000 + e), data["stop"][0], setting["noise"], STOP_DRAWS
        )
        value = -predictive(plan, found, data["stop"][1]).mean()
        eligible = (e + 1) / plan.epochs >= setting["share"]
        value = jnp.where(eligible & jnp.isfinite(value), value, jnp.inf)
        best = jax.tree.map(lambda a, b: jnp.where(value < least, b, a), best, inner[0])
        return (*inner, best, jnp.minimum(value, least)), value

    (*_, best, _), values = lax.scan(epoch, (start, zeros, zeros, start, jnp.inf), jnp.arange(plan.epochs))
    held, truth = data["score"]
    found = draws(plan, best, jax.random.fold_in(key, 3), held, setting["noise"], DRAWS)
    off = log_likelihood(plan, outputs(plan, best, key, held, 0.0), truth)
    likelihood = predictive(plan, found, truth)
    scores = {"nll": -likelihood.mean(), "noise_off": -off.mean(), "share_of_draws": share_of_draws(plan, found)}
    return {**scores, "epoch": values.argmin() + 1, "log_likelihood": likelihood}
