"""Attention on the factors of low-rank projections is the attention of the projections."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST, draw_of, on_torch, stir

from singularbayes import FullRank, LowRank, layers
from singularbayes.posteriors import scope

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]
RNG = np.random.default_rng(0)
QUERY, VALUE, KEY = (RNG.normal(size=(2, length, 8)).astype("float32") for length in (5, 7, 7))
CASES = {
    "self": ((QUERY, QUERY), {}),
    "causal": ((QUERY, QUERY), {"use_causal_mask": True}),
    "cross": ((QUERY, VALUE), {}),
    "three inputs": ((QUERY, VALUE, KEY), {}),
    "mask": ((QUERY, VALUE), {"attention_mask": RNG.random((2, 5, 7)) > 0.4}),
    "mask of a head": ((QUERY, VALUE), {"attention_mask": RNG.random((2, 2, 5, 7)) > 0.4}),
    "mask of the values": ((QUERY, VALUE), {"value_mask": np.arange(7) < [[4], [7]]}),
}

BIASES = [{"use_bias": False}, {}, {"bias_posterior": FullRank()}]


def both(layer, arguments, options, monkeypatch):
    """Returns what a layer gives with and without the factored form, under one draw."""
    with scope.fix_draws(draw_of(layer)):
        factored = layer(*arguments, return_attention_scores=True, **options)
        monkeypatch.setattr(type(layer), "_may_be_latent", lambda *_: False)
        return factored, layer(*arguments, return_attention_scores=True, **options)


@pytest.mark.parametrize("biases", on_torch(BIASES, BIASES[2:]), ids=str)
@pytest.mark.parametrize("case", CASES)
@TORCH_FIRST
def test_factors_give_the_attention_of_the_projections(case, biases, monkeypatch):
    arguments, options = CASES[case]
    layer = layers.MultiHeadAttention(2, 6, posterior=LowRank(3), bias_initializer="normal", **biases)
    layer(*arguments)
    stir(layer)
    for got, wanted in zip(*both(layer, arguments, options, monkeypatch), strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(got), ops.convert_to_numpy(wanted), rtol=2e-5, atol=2e-5)


@JAX_FIRST
def test_masks_of_keys_and_of_values_each_leave_out_positions_of_an_example(monkeypatch):
    """Two examples with other lengths, and another mask for the keys than for the values: both must count."""
    layer = layers.MultiHeadAttention(2, 6, posterior=LowRank(3), bias_initializer="normal")
    layer(QUERY, VALUE, KEY)
    stir(layer)
    masks = {"key_mask": np.arange(7) < [[5], [3]], "value_mask": np.arange(7) > [[0], [1]]}
    for names in (["key_mask"], ["value_mask"], ["key_mask", "value_mask"]):
        given = {name: masks[name] for name in names}
        with monkeypatch.context() as patch:
            (outputs, weights), wanted = both(layer, (QUERY, VALUE, KEY), given, patch)
        shown = np.broadcast_to(np.logical_and.reduce(list(given.values()))[:, None, None], weights.shape)
        assert (ops.convert_to_numpy(weights)[~shown] == 0).all()
        for got, expected in zip((outputs, weights), wanted, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def test_only_factors_go_the_factored_way():
    def used(posterior, **options):
        layer = layers.MultiHeadAttention(2, 6, posterior=posterior, **options)
        layer(QUERY, QUERY)
        return layer._factored(ops.convert_to_tensor(QUERY), training=False) is not None

    assert used(LowRank(3)) == (keras.backend.backend() == "jax")
    assert not used(FullRank())
    assert not used(LowRank(7))  # more numbers than a head has
    assert not used(LowRank(3), per_head=True)
    assert not used(LowRank(3), use_gate=True)


def test_dropout_of_the_weights_keeps_the_biases_of_the_values():
    layer = layers.MultiHeadAttention(2, 6, dropout=0.5, posterior=LowRank(3))
    layer(QUERY, QUERY)
    assert layer._factored(ops.convert_to_tensor(QUERY), training=True) is None


@pytest.mark.parametrize("normalize_first", [True, False])
def test_first_positions_are_those_of_the_whole_block(normalize_first):
    whole = layers.TransformerEncoder(16, 2, posterior=LowRank(3), normalize_first=normalize_first)
    first = layers.TransformerEncoder(16, 2, posterior=LowRank(3), normalize_first=normalize_first, positions=2)
    mask = np.arange(7) < [[4], [7]]
    wide = RNG.random((2, 7, 7)) > 0.3
    for layer in (whole, first):
        layer.build(VALUE.shape)
    stir(whole)
    first.set_weights(whole.get_weights())
    outputs = []
    for layer in (whole, first):
        with scope.fix_draws(draw_of(layer)):
            outputs.append(ops.convert_to_numpy(layer(VALUE, attention_mask=wide, mask=ops.convert_to_tensor(mask))))
    np.testing.assert_allclose(outputs[1], outputs[0][:, :2], rtol=2e-5, atol=2e-5)
    assert first.compute_output_shape((None, None, 8)) == (None, 2, 8)
    assert layers.TransformerEncoder.from_config(first.get_config()).positions == 2


def test_norm_is_that_of_keras():
    block = layers.TransformerEncoder(16, 2, posterior=LowRank(3))
    block.build(VALUE.shape)
    stir(block)
    norm = block.attention_norm
    counterpart = keras.layers.LayerNormalization(epsilon=norm.epsilon)
    counterpart.build(VALUE.shape)
    counterpart.set_weights(norm.get_weights())
    np.testing.assert_allclose(ops.convert_to_numpy(norm(VALUE)), ops.convert_to_numpy(counterpart(VALUE)), atol=2e-6)
