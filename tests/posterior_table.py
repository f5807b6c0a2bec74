"""The table of posteriors and the helpers that invariants are stated with; `layer_table.py` has the table of layers."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from singularbayes import (
    Adapter,
    AdaptiveLowRank,
    Deterministic,
    FullRank,
    LowRank,
    Mixture,
    RankOne,
    draw_weights,
    find_posteriors,
)
from singularbayes.posteriors import noise

SHAPE = (5, 4)
BACKEND = keras.backend.backend()
# For tests marked `backend`: where they run in `make test`, `make test-torch`, `make test-tensorflow`; elsewhere they
# are in `make test-all`.
JAX_FIRST = pytest.mark.backend if BACKEND == "jax" else pytest.mark.exhaustive
# Python around layers that no backend sees, which JAX may run less of: TensorFlow needs no third look.
TORCH_FIRST = pytest.mark.exhaustive if BACKEND == "tensorflow" else pytest.mark.backend
# Broad products of arithmetic: torch compiles nothing, so a row costs a tenth of what it costs on JAX.
ON_TORCH = pytest.mark.backend if BACKEND == "torch" else pytest.mark.exhaustive


def on_torch(rows, everywhere):
    """Returns the rows of a test: torch runs all of them, the other backends those in `everywhere`."""
    return [row if row in everywhere else pytest.param(row, marks=ON_TORCH) for row in rows]


def jax_first(rows, everywhere):
    """Returns the rows of a test: JAX runs all of them in `make test`, the other backends those in `everywhere`."""
    return [row if row in everywhere else pytest.param(row, marks=JAX_FIRST) for row in rows]


def _adaptive(prior=None, **arguments):
    """Its prior is about whole columns, whatever prior a test gives to all posteriors."""
    return AdaptiveLowRank(2, **arguments)


# Each makes a fresh, unbuilt posterior and takes further arguments.
POSTERIORS = {
    "low_rank": partial(LowRank, 2),
    "low_rank_laplace": partial(LowRank, 2, family="laplace"),
    "full_rank": FullRank,
    "full_rank_laplace": partial(FullRank, family="laplace"),
    "rank_one": RankOne,
    "rank_one_outer": partial(RankOne, "outer"),
    "rank_one_scale": partial(RankOne, "scale"),
    "adapter": partial(Adapter, 2),
    "adaptive_low_rank": _adaptive,
    "deterministic": Deterministic,
}
RANDOM = {name: make for name, make in POSTERIORS.items() if name != "deterministic"}
# Rows of a posterior that has another row: layers and priors see the same matrices and factors. Their own tests and
# those of pairs have them all.
SECOND = ("low_rank_laplace", "full_rank_laplace", "rank_one_outer", "rank_one_scale")
# For the invariants of whole layers: the arrays of a mixture are those of the posterior inside, stacked.
MIXTURES = {"mixture": lambda **kwargs: Mixture(LowRank(2, **kwargs), components=2)}
SCALAR_PRIOR = {name: make for name, make in RANDOM.items() if name != "adaptive_low_rank"}  # any prior of one weight


def one_row_each(names):
    """Returns the names as rows of a test: one of every posterior, and the others on torch."""
    return [pytest.param(name, marks=ON_TORCH) if name in SECOND else name for name in names]


def stirred_layer(layer, inputs, seed=0):
    """Returns the layer or model, built on the inputs, with weights of order one that differ in every entry."""
    layer(inputs)
    return stir(layer, seed)


def stir(layer, seed=0):
    """Returns a built layer or model with weights of order one that differ in every entry."""
    rng = np.random.default_rng(seed)
    for posterior in find_posteriors(layer):
        for factor in posterior.factors:
            set_factor(factor, rng.normal(0.3, 0.7, factor.shape), rng.uniform(0.2, 0.7, factor.shape))
    stacked = {id(factor.values) for posterior in find_posteriors(layer) for factor in posterior.factors}
    for variable in layer.trainable_variables:
        if id(variable) not in stacked:
            variable.assign(rng.normal(0.3, 0.7, variable.shape))
    return layer


def draw_of(layer, seed=0):
    """Returns the arrays of one draw of every posterior of a layer or model: what `scope.fix_draws` takes."""
    words = np.random.default_rng(seed).integers(0, 2**31 - 1, (len(find_posteriors(layer)), 2))
    pairs = zip(find_posteriors(layer), noise.as_keys(words), strict=True)
    return {id(posterior): posterior.draw(key) for posterior, key in pairs}


def dense_of(posterior, arrays):
    """Returns the matrix that the arrays of a draw stand for, as NumPy."""
    return ops.convert_to_numpy(posterior.weight(arrays).dense())


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
    factor.set(loc, scale)


def over_keys(function, num, seed=0, compiled=True):
    """Returns function(key) for `num` independent keys, on the first axis; all at once where the backend can.

    Not compiled, JAX does one operation after another, so that what two functions share is the same to the last bit.
    """
    words = np.random.default_rng(seed).integers(0, 2**31 - 1, (num, 2))
    return map_keys(function, words, compiled)


def map_keys(function, words, compiled=True):
    """Returns function(key) for each row of `words`, stacked on the first axis, as NumPy."""
    keys = noise.as_keys(np.asarray(words))
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        mapped = jax.vmap(function)
        return _numpy((jax.jit(mapped) if compiled else mapped)(keys))
    if backend == "tensorflow":
        import tensorflow as tf

        first = tf.nest.map_structure(lambda v: tf.TensorSpec(v.shape, v.dtype), function(keys[0]))
        return _numpy(tf.function(lambda k: tf.map_fn(function, k, fn_output_signature=first))(keys))
    import torch

    with torch.no_grad():
        return _numpy(keras.tree.map_structure(lambda *v: ops.stack(v), *[function(key) for key in keys]))


def as_program(function):
    """Returns the function; on JAX as one program, which compiles far less than its operations one by one."""
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def over_seeds(posterior, function, num, seed=0):
    """Returns function() for `num` independent states of the posterior's seed generator, on the first axis."""

    def at(key):
        state = posterior.seed_generator.state
        with keras.StatelessScope(state_mapping=[(state, ops.cast(key, state.dtype))]):
            return function()

    return over_keys(at, num, seed)


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
    return _numpy(slope(function, variable))


def slope(function, variable):
    """Returns d function() / d variable as a tensor, so that it can run inside `over_keys`."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        def at(value):
            with keras.StatelessScope(state_mapping=[(variable, value)]):
                return function()

        return jax.jit(jax.grad(at))(variable.value)
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            value = function()
        return tape.gradient(value, variable.value)
    import torch

    with torch.enable_grad():
        return torch.autograd.grad(function(), variable.value)[0]


def input_gradient(function, x):
    """Returns d sum(function(x)²) / dx as NumPy."""
    backend = keras.backend.backend()
    x = ops.convert_to_tensor(x)
    if backend == "jax":
        import jax

        return _numpy(jax.jit(jax.grad(lambda x: ops.sum(ops.square(function(x)))))(x))
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            value = ops.sum(ops.square(function(x)))
        return _numpy(tape.gradient(value, x))
    x = x.detach().requires_grad_()
    ops.sum(ops.square(function(x))).backward()
    return _numpy(x.grad)


def repeated(layer, x, num=400):
    """Returns the outputs of `num` forward passes of a built layer or model, each with fresh draws, as NumPy."""
    backend = keras.backend.backend()
    with draw_weights(layer):
        if backend == "jax":
            import jax

            step, outputs = jax.jit(layer.stateless_call), []
            trainable = [variable.value for variable in layer.trainable_variables]
            state = [variable.value for variable in layer.non_trainable_variables]
            for _ in range(num):
                output, state = step(trainable, state, x)
                outputs.append(output)
        elif backend == "tensorflow":
            import tensorflow as tf

            step = tf.function(layer)
            outputs = [step(x) for _ in range(num)]
        else:
            outputs = [layer(x) for _ in range(num)]
    return [_numpy(output) for output in outputs]
