"""A Keras layer becomes ours and back: at the mean and at full rank they are one function."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import LAYERS, OPTIONS, SEQUENCE
from posterior_table import TORCH_FIRST

from singularbayes import Deterministic, FullRank, LowRank, layers
from singularbayes.convert import counterparts
from singularbayes.convert.layer_matrices import find_matrices

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]
BACKEND = keras.backend.backend()
# Compiling takes long on JAX, where one option a layer is enough: the code is the same.
MAIN = ["lstm_no_bias", "gru_plain", "conv1d_causal_dilated", "conv2d_groups", "attention_gated"]
MAIN += ["conv3d_strides", "transpose_output_padding", "separable1d_dilated", "separable2d_plain"]
MAIN += ["embedding_back_untied", "einsum_acbd,bde->ace"]
NAMES = {"torch": [*OPTIONS], "tensorflow": MAIN, "jax": ["conv2d_groups", "transpose_output_padding"]}[BACKEND]
BIASES = (FullRank(),) if BACKEND == "jax" else (None, FullRank())


def _numpy(values):
    return [ops.convert_to_numpy(ops.cast(v, "float32")) for v in keras.tree.flatten(values)]


def _assert_equal(a, b, rtol=1e-4, atol=1e-5):
    for x, y in zip(_numpy(a), _numpy(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def _trained(option):
    """Returns the Keras layer of an option, with weights of order one that differ in every entry."""
    layer = getattr(keras.layers, option.layer)(**option.arguments, name="trained")
    layer(*option.inputs, **option.call)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(0.1, 0.6, w.shape).astype("float32") for w in layer.get_weights()])
    return layer


@pytest.mark.parametrize("name", NAMES)
@TORCH_FIRST
def test_counterparts_at_full_rank_and_back_compute_what_the_layer_did(name):
    if BACKEND == "tensorflow" and name.endswith("channels_first"):
        pytest.skip("TensorFlow has no channels-first convolution on a CPU, so Keras's layer cannot run")
    option = OPTIONS[name]
    layer = _trained(option)
    truth = layer(*option.inputs, **option.call)
    for bias in BIASES:
        counterpart = counterparts.make_counterpart(layer, FullRank(), bias_posterior=bias)
        counterparts.start_from(counterpart, layer)
        _assert_equal(counterpart(*option.inputs, **option.call), truth)
        plain = counterparts.make_plain(counterpart)
        assert type(plain) is type(layer)
        for before, after in zip(layer.get_weights(), plain.get_weights(), strict=True):
            np.testing.assert_array_equal(before, after)
        _assert_equal(plain(*option.inputs, **option.call), truth)


@pytest.mark.parametrize("kind", ["dense", "embedding"])
@TORCH_FIRST
def test_dense_and_embedding_too(kind):
    option = LAYERS[kind]
    layer = option.keras()
    truth = layer(*option.inputs)
    counterpart = counterparts.make_counterpart(layer, Deterministic())
    counterparts.start_from(counterpart, layer)
    _assert_equal(counterpart(*option.inputs), truth)
    _assert_equal(counterparts.make_plain(counterpart)(*option.inputs), truth)


@pytest.mark.parametrize("per_head", [True] if BACKEND == "jax" else [False, True])
def test_heads_have_matrices_of_their_own_when_requested(per_head):
    layer = keras.layers.MultiHeadAttention(2, 3)
    truth = layer(SEQUENCE, SEQUENCE)
    counterpart = counterparts.make_counterpart(layer, FullRank(), per_head=per_head)
    counterparts.start_from(counterpart, layer)
    shapes = {name: matrix.shape for name, matrix in find_matrices(layer, per_head).items()}
    assert shapes == {name: matrix.shape for name, matrix in find_matrices(counterpart).items()}
    assert (shapes.get("query/head_1/kernel") == (4, 3)) == per_head
    _assert_equal(counterpart(SEQUENCE, SEQUENCE), truth)
    _assert_equal(counterparts.make_plain(counterpart)(SEQUENCE, SEQUENCE), truth)


@pytest.mark.parametrize("name", MAIN)
def test_at_a_lower_rank_every_matrix_is_the_truncated_svd(name):
    layer = _trained(OPTIONS[name])
    counterpart = counterparts.make_counterpart(layer, LowRank(2))
    counterparts.start_from(counterpart, layer)
    kept = find_matrices(counterpart)
    for matrix_name, matrix in find_matrices(layer).items():
        u, s, vt = np.linalg.svd(matrix)
        np.testing.assert_allclose(kept[matrix_name], (u[:, :2] * s[:2]) @ vt[:2], atol=1e-5)


def test_arguments_survive():
    def squared(x):
        return x * x

    regularizer = keras.regularizers.L2(0.1)
    layer = keras.layers.Dense(
        3,
        squared,
        kernel_regularizer="l2",
        bias_regularizer=regularizer,
        activity_regularizer=regularizer,
        bias_constraint="non_neg",
        trainable=False,
        dtype="mixed_bfloat16",
        name="head",
    )
    layer.build((None, 4))
    counterpart = counterparts.make_counterpart(layer, LowRank(2))
    for made in (counterpart, counterparts.make_plain(counterpart)):
        assert (made.name, made.trainable, made.dtype_policy.name) == ("head", False, "mixed_bfloat16")
        assert made.activation is layer.activation
        assert made.bias_regularizer.l2 == made.activity_regularizer.l2 == regularizer.l2
        assert isinstance(made.bias_constraint, keras.constraints.NonNeg)
        assert made.path == "head"
    assert counterparts.changes(layer) == ["kernel_regularizer dropped: the prior takes its place"]


class _Squared(keras.layers.Dense):
    def call(self, inputs):
        return super().call(inputs) ** 2


class _Renamed(keras.layers.Dense):
    """Only a name."""


def test_a_subclass_with_code_of_its_own_has_no_counterpart():
    assert counterparts.counterpart_class(_Squared(3)) is None
    assert counterparts.counterpart_class(_Renamed(3)) is layers.Dense
    assert counterparts.counterpart_class(keras.layers.SimpleRNN(3)) is None
    assert counterparts.counterpart_class(keras.layers.DepthwiseConv2D(3)) is None


def test_what_has_a_counterpart_but_cannot_use_it_has_a_reason():
    assert "never built" in counterparts.refusal(keras.layers.Dense(3))
    shared = keras.layers.EinsumDense("abc,acd->abd", (None, 3))
    shared.build((2, 4, 5))
    assert "not one matrix" in counterparts.refusal(shared)
    whole = keras.layers.EinsumDense("...c,cd->...d", 3)
    whole.build((2, 4, 5))
    assert counterparts.refusal(whole) is None
