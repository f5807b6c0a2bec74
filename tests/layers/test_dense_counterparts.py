"""Every layer under every option is the Keras layer of its name, loaded with the dense matrices of a draw."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import IDS, MASK, OPTIONS, PAIRS_SEEN, SEQUENCE, load
from posterior_table import (
    JAX_FIRST,
    ON_TORCH,
    POSTERIORS,
    as_program,
    draw_of,
    gradient,
    input_gradient,
    on_torch,
    stir,
)

from singularbayes import Deterministic, FullRank, LowRank, find_posteriors, layers
from singularbayes.posteriors import scope

pytestmark = pytest.mark.backend
BACKEND = keras.backend.backend()
# What a backend may do in a way of its own, beyond the layers of test_pairs.py: loops, masks, strides and paddings.
EVERYWHERE = ["lstm_mask", "gru_backwards", "conv2d_strides", "conv2d_groups", "transpose_output_padding"]
EVERYWHERE += ["attention_masked", "attention_window", "embedding_back"]
# Gradients are those of the draw's own operations: one of each kind on JAX, where compiling takes long.
WITH_GRADIENT = ["lstm_plain", "conv2d_groups", "transpose_plain", "attention_self"]


def _numpy(values):
    return [ops.convert_to_numpy(ops.cast(v, "float32")) for v in keras.tree.flatten(values)]


def _skip_on_this_backend(name):
    if BACKEND == "tensorflow" and name.endswith("channels_first"):
        pytest.skip("TensorFlow has no channels-first convolution on a CPU, so Keras's layer cannot run")
    if BACKEND == "tensorflow" and name == "transpose_dilated":
        import tensorflow as tf

        try:
            keras.layers.Conv2DTranspose(**OPTIONS[name].arguments)(*OPTIONS[name].inputs)
        except tf.errors.InvalidArgumentError:
            pytest.skip("TensorFlow runs Keras's layer only where oneDNN is on, which depends on the CPU")


def _pair(option, posterior, **arguments):
    """Returns our layer with stirred weights, one draw of it, and the Keras layer loaded with that draw."""
    ours = option.make(posterior=posterior, bias_posterior=FullRank(), **arguments)
    counterpart = getattr(keras.layers, option.layer)(**option.arguments)
    for layer in (ours, counterpart):
        layer(*(keras.KerasTensor(x.shape, str(x.dtype)) for x in option.inputs), **option.call)
    stir(ours)
    draw = draw_of(ours)
    load(option, ours, counterpart, draw)
    return ours, counterpart, draw


def _assert_equal(ours, counterpart, rtol=2e-4, atol=2e-5):
    for a, b in zip(_numpy(ours), _numpy(counterpart), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@pytest.mark.all_rows
@pytest.mark.parametrize("name", on_torch(OPTIONS, EVERYWHERE))
def test_a_draw_is_the_keras_layer_with_the_dense_kernels(name):
    _skip_on_this_backend(name)
    option = OPTIONS[name]
    ours, counterpart, draw = _pair(option, LowRank(2))
    with scope.fix_draws(draw):
        _assert_equal(*(as_program(lambda *x, f=f: f(*x, **option.call))(*option.inputs) for f in (ours, counterpart)))
        if BACKEND != "jax":  # where compiling takes long, the invariants below check gradients of the main options
            _assert_equal_gradients(option, ours, counterpart)


def _assert_equal_gradients(option, ours, counterpart):
    first, *rest = option.inputs
    if first.dtype.kind == "f":
        functions = (
            lambda x, layer=layer: _sum_of_squares(layer(x, *rest, **option.call)) for layer in (ours, counterpart)
        )
        a, b = (input_gradient(function, first) for function in functions)
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4 * np.abs(b).max())


def _sum_of_squares(outputs):
    return ops.sqrt(sum(ops.sum(ops.square(output)) for output in keras.tree.flatten(outputs)))


@pytest.mark.parametrize(
    "posterior", [pytest.param(p, marks=[] if p == "low_rank" else pytest.mark.exhaustive) for p in POSTERIORS]
)
@pytest.mark.parametrize("name", WITH_GRADIENT)
@JAX_FIRST
def test_so_it_is_for_the_gradient_of_the_inputs_with_every_posterior(name, posterior):
    option = OPTIONS[name]
    ours, counterpart, draw = _pair(option, POSTERIORS[posterior]())
    with scope.fix_draws(draw):
        _assert_equal(*(as_program(lambda *x, f=f: f(*x, **option.call))(*option.inputs) for f in (ours, counterpart)))
        _assert_equal_gradients(option, ours, counterpart)


PAIRS = {
    "lstm_sequences": lambda ours, counterpart: [
        (ours.posterior, counterpart.cell.kernel),
        (ours.recurrent_posterior, counterpart.cell.recurrent_kernel),
    ],
    "gru_sequences": lambda ours, counterpart: [
        (ours.posterior, counterpart.cell.kernel),
        (ours.recurrent_posterior, counterpart.cell.recurrent_kernel),
    ],
    "conv1d_same": lambda ours, counterpart: [(ours.posterior, counterpart._kernel)],
    "conv2d_groups": lambda ours, counterpart: [(ours.posterior, counterpart._kernel)],
    "einsum_abc,cde->abde": lambda ours, counterpart: [(ours.posterior, counterpart._kernel)],
    "attention_causal": lambda ours, counterpart: [
        (ours._query_dense.posterior, counterpart._query_dense._kernel),
        (ours._output_dense.posterior, counterpart._output_dense._kernel),
    ],
}


def _split(posterior, values):
    """Returns the arrays of a draw from an array as the posterior stores it: A above B, or the matrix itself."""
    return tuple(ops.split(values, [posterior.rows])) if isinstance(posterior, LowRank) else (values,)


@pytest.mark.filterwarnings("ignore:A gradient was taken at the posterior mean")
@pytest.mark.parametrize("name", on_torch(PAIRS, ["lstm_sequences"]))
def test_gradients_of_the_factors_follow_from_the_gradient_of_the_kernel(name):
    # With W = A Bᵀ at the mean and G = dL/dW: dL/dA = G B and dL/dB = Gᵀ A.
    option = OPTIONS[name]
    ours, counterpart, _ = _pair(option, LowRank(2))
    posteriors = find_posteriors(ours)
    mean = {id(p): _split(p, p.factors[0].loc) for p in posteriors}
    load(option, ours, counterpart, mean)

    def loss(layer):
        return lambda: ops.sum(ops.tanh(layer(*option.inputs, **option.call)) ** 2)

    for posterior, kernel in PAIRS[name](ours, counterpart):
        a, b = (ops.convert_to_numpy(part).astype("float64") for part in _split(posterior, posterior.ab.loc))
        g = gradient(loss(counterpart), kernel).reshape(len(a), len(b))
        expected = posterior.ab.rates.loc * np.concatenate([g @ b, g.T @ a])
        got = gradient(loss(ours), posterior.ab.values)[0]
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("rates", [(0.4, 0.0), (0.4, 0.3)], ids=["inputs", "inputs_and_states"])
@pytest.mark.rows_on_torch
def test_dropout_is_keras_s_to_the_last_mask(kind, rates):
    arguments = {"units": 3, "dropout": rates[0], "recurrent_dropout": rates[1], "seed": 7, "return_sequences": True}
    option = OPTIONS[f"{kind.lower()}_plain"]
    ours = getattr(layers, kind)(**arguments, posterior=LowRank(2, kl_weight=0.0), bias_posterior=None)
    counterpart = getattr(keras.layers, kind)(**arguments, use_cudnn=False)
    ours.build(SEQUENCE.shape)
    counterpart.build(SEQUENCE.shape)
    stir(ours)
    draw = draw_of(ours)
    load(option, ours, counterpart, draw)
    with scope.fix_draws(draw):
        masked, plain = ours(SEQUENCE, training=True), ours(SEQUENCE, training=False)
    _assert_equal(masked, counterpart(SEQUENCE, training=True))
    assert np.abs(_numpy(masked)[0] - _numpy(plain)[0]).max() > 0.01


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.rows_on_torch
def test_a_stateful_layer_goes_on_where_it_stopped(kind):
    option = OPTIONS[f"{kind.lower()}_plain"]
    ours = getattr(layers, kind)(3, stateful=True, posterior=LowRank(2))
    counterpart = getattr(keras.layers, kind)(3, stateful=True)
    for layer in (ours, counterpart):
        layer(SEQUENCE)
        layer.reset_state()
    draw = draw_of(ours)
    load(option, ours, counterpart, draw)
    with scope.fix_draws(draw):
        for _ in range(2):
            _assert_equal(ours(SEQUENCE), counterpart(SEQUENCE))


@ON_TORCH
def test_bidirectional_reads_both_ways_with_a_posterior_each():
    ours = keras.layers.Bidirectional(layers.LSTM(3, return_sequences=True, posterior=LowRank(2)))
    counterpart = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    for layer in (ours, counterpart):
        layer(SEQUENCE)
    stir(ours)
    draw = draw_of(ours)
    for mine, theirs in (
        (ours.forward_layer, counterpart.forward_layer),
        (ours.backward_layer, counterpart.backward_layer),
    ):
        load(OPTIONS["lstm_plain"], mine, theirs, draw)
    with scope.fix_draws(draw):
        _assert_equal(ours(SEQUENCE, mask=MASK), counterpart(SEQUENCE, mask=MASK))
    assert len({id(p) for p in find_posteriors(ours)}) == 4


def test_per_head_factors_make_blocks_of_the_projection():
    option = OPTIONS["attention_causal"]
    ours, counterpart, draw = _pair(option, LowRank(2), per_head=True)
    with scope.fix_draws(draw):
        _assert_equal(*(as_program(lambda *x, f=f: f(*x, **option.call))(*option.inputs) for f in (ours, counterpart)))
    # query, key and value have two heads each, the output one matrix; every bias is Bayesian.
    assert len(find_posteriors(ours)) == 2 * (3 * 2 + 1)


@pytest.mark.parametrize("masks", [{"mask": MASK}, {"attention_mask": PAIRS_SEEN}], ids=["mask", "attention_mask"])
@pytest.mark.parametrize("first", [True, False], ids=["pre_norm", "post_norm"])
@pytest.mark.rows_on_torch
def test_a_transformer_block_is_attention_and_a_dense_network_with_residuals(first, masks):
    seen = {"query_mask": MASK, "value_mask": MASK} if "mask" in masks else masks
    block = layers.TransformerEncoder(6, 2, normalize_first=first, posterior=LowRank(2), bias_posterior=FullRank())
    block(SEQUENCE)
    stir(block)
    with scope.fix_draws(draw_of(block)):
        h = ops.convert_to_tensor(SEQUENCE)
        if first:
            n = block.attention_norm(h)
            h = h + block.attention(n, n, **seen)
            h = h + block.outer(block.inner(block.dense_norm(h)))
        else:
            h = block.attention_norm(h + block.attention(h, h, **seen))
            h = block.dense_norm(h + block.outer(block.inner(h)))
        _assert_equal(block(SEQUENCE, **masks), h)


@pytest.mark.parametrize("silent", ["attention", "dense"])
@pytest.mark.rows_on_torch
def test_dropout_acts_on_the_attention_weights_and_on_both_residual_branches_of_a_transformer_block(silent):
    block = layers.TransformerEncoder(6, 2, dropout=0.5, posterior=Deterministic())
    block(SEQUENCE)
    stir(block)
    for variable in (block.attention._output_dense if silent == "attention" else block.outer).trainable_variables:
        variable.assign(np.zeros(variable.shape))
    plain, dropped = (_numpy(block(SEQUENCE, training=training))[0] - SEQUENCE for training in (False, True))
    kept = dropped != 0
    assert 0.25 < kept.mean() < 0.75
    doubled = np.isclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5).mean()
    assert doubled == 1 if silent == "attention" else doubled < 0.5  # other weights give another attention


def test_the_mask_of_an_embedding_reaches_every_layer():
    def network(embedding, lstm):
        ids = keras.Input((4,), dtype="int32")
        return keras.Model(ids, lstm(embedding(ids)))

    ours = network(
        layers.ReversibleEmbedding(5, 4, mask_zero=True, posterior=FullRank()), layers.LSTM(3, posterior=FullRank())
    )
    stir(ours)
    draw = draw_of(ours)
    padded = np.concatenate([np.maximum(IDS[:, :2], 1), 0 * IDS[:, 2:]], axis=1)
    with scope.fix_draws(draw):
        embedding, lstm = ours.layers[1:]
        whole, cut = as_program(ours), as_program(lambda ids: lstm(embedding(ids)))
        _assert_equal(whole(padded), cut(padded[:, :2]))


@pytest.mark.parametrize("policy", on_torch(["mixed_float16", "mixed_bfloat16"], ["mixed_float16"]))
@pytest.mark.parametrize(
    "name", ["lstm_sequences", "gru_sequences", "conv1d_same", "conv2d_plain", "attention_self", "embedding_back"]
)
@pytest.mark.rows_on_torch
def test_mixed_precision_computes_in_half_and_keeps_weights_in_float32(name, policy):
    option = OPTIONS[name]
    ours, counterpart, draw = _pair(option, LowRank(2), dtype=policy)
    with scope.fix_draws(draw):
        outputs = ours(*option.inputs, **option.call)
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    precision = {"mixed_float16": 2**-11, "mixed_bfloat16": 2**-8}[policy]
    expected = _numpy(counterpart(*option.inputs, **option.call))[0]
    np.testing.assert_allclose(_numpy(outputs)[0], expected, atol=24 * precision * np.abs(expected).max())
    assert {keras.backend.standardize_dtype(w.dtype) for w in ours.trainable_weights} == {"float32"}
