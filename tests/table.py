"""The one table of posteriors, and the few helpers that laws are stated with."""

from functools import partial

import keras
import numpy as np
from keras import ops

from singularbayes import Deterministic, FullRank, LowRank, RankOne
from singularbayes.posteriors import noise

SHAPE = (5, 4)

# Each makes a fresh, unbuilt posterior and takes further arguments.
POSTERIORS = {
    "low_rank": partial(LowRank, 2),
    "low_rank_laplace": partial(LowRank, 2, family="laplace"),
    "full_rank": FullRank,
    "full_rank_laplace": partial(FullRank, family="laplace"),
    "rank_one": RankOne,
    "rank_one_outer": partial(RankOne, "outer"),
    "rank_one_scale": partial(RankOne, "scale"),
    "deterministic": Deterministic,
}
RANDOM = {name: make for name, make in POSTERIORS.items() if name != "deterministic"}
GAUSSIAN = {name: make for name, make in RANDOM.items() if not name.endswith("laplace")}


def built(posterior, shape=SHAPE):
    """Returns the posterior, built for a weight of that shape."""
    posterior.build(shape)
    return posterior


def stirred(posterior, shape=SHAPE, seed=0):
    """Returns the posterior, built, with means and scales of order one that differ in every entry."""
    built(posterior, shape)
    rng = np.random.default_rng(seed)
    for factor in posterior.factors:
        set_factor(factor, rng.normal(0.3, 0.7, factor.shape), rng.uniform(0.2, 0.7, factor.shape))
    return posterior


def set_factor(factor, loc, scale):
    """Gives a factor exactly these means and scales."""
    loc, scale = np.broadcast_to(loc, factor.shape), np.broadcast_to(scale, factor.shape).astype("float64")
    rho = scale + np.log(-np.expm1(-scale))
    factor.values.assign(np.stack([loc, rho / factor.rho_lr]).astype("float32"))


def over_keys(function, num, seed=0):
    """Returns function(key) for `num` independent keys, on the first axis; all at once where the backend can."""
    words = np.random.default_rng(seed).integers(0, 2**31 - 1, (num, 2))
    return map_keys(function, words)


def map_keys(function, words):
    """Returns function(key) for each row of `words`, stacked on the first axis, as NumPy."""
    keys = noise.as_keys(np.asarray(words))
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return _numpy(jax.jit(jax.vmap(function))(keys))
    if backend == "tensorflow":
        import tensorflow as tf

        first = tf.nest.map_structure(lambda v: tf.TensorSpec(v.shape, v.dtype), function(keys[0]))
        return _numpy(tf.function(lambda k: tf.map_fn(function, k, fn_output_signature=first))(keys))
    import torch

    with torch.no_grad():
        return _numpy(keras.tree.map_structure(lambda *v: ops.stack(v), *[function(key) for key in keys]))


def dense_draws(posterior, num, seed=0):
    """Returns `num` independent draws of W, (num, rows, columns)."""
    return over_keys(lambda key: posterior.weight(posterior.draw(key)).dense(), num, seed)


def _numpy(values):
    return keras.tree.map_structure(lambda v: np.asarray(ops.convert_to_numpy(v), "float64"), values)


def assert_unbiased(draws, truth, z=4.5):
    """Asserts that the mean over the first axis of `draws` is `truth` within z standard errors, entry by entry."""
    draws, truth = np.asarray(draws, "float64"), np.asarray(truth, "float64")
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    # Numbers without noise still carry the rounding of float32.
    rounding = 2e-6 * np.maximum(1.0, np.abs(truth))
    distance = (np.abs(draws.mean(axis=0) - truth) - rounding) / np.maximum(error, 1e-300)
    assert np.all(distance <= z), f"{np.max(distance):.1f} standard errors from the truth"


def assert_uncorrelated(x, y, z=4.5):
    """Asserts that every pair of columns of x and y, (num, …), has correlation 0 within z standard errors."""
    x, y = (np.asarray(v, "float64").reshape(len(v), -1) for v in (x, y))
    x, y = ((v - v.mean(axis=0)) / v.std(axis=0) for v in (x, y))
    largest = np.abs(x.T @ y).max() / np.sqrt(len(x))
    assert largest <= z, f"a correlation {largest:.1f} standard errors from 0"


def gradient(function, variable):
    """Returns d function() / d variable as NumPy; `variable` is a Keras variable."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        def at(value):
            with keras.StatelessScope(state_mapping=[(variable, value)]):
                return function()

        return _numpy(jax.grad(at)(variable.value))
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            value = function()
        return _numpy(tape.gradient(value, variable.value))
    variable.value.grad = None
    function().backward()
    return _numpy(variable.value.grad)
