"""The table of layers: ours and Keras's, arguments, inputs, and how Keras's layer gets the matrices of a draw."""

from dataclasses import dataclass, field

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import ON_TORCH, POSTERIORS, dense_of, stir

from singularbayes import layers

RNG = np.random.default_rng(3)
SEQUENCE = RNG.normal(size=(3, 5, 4)).astype("float32")
SHORT = RNG.normal(size=(3, 2, 6)).astype("float32")
IMAGE = RNG.normal(size=(2, 6, 7, 4)).astype("float32")
VOLUME = RNG.normal(size=(2, 4, 3, 5, 4)).astype("float32")
IDS = RNG.integers(0, 5, (3, 4)).astype("int32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], "bool")
PAIRS_SEEN = np.tril(np.ones((3, 5, 5), "bool")) & (np.arange(5) != 1) | np.eye(5, dtype="bool")
STATE = RNG.normal(size=(3, 3)).astype("float32")
ROWS = RNG.normal(size=(6, 5)).astype("float32")


@dataclass(frozen=True)
class Option:
    """One layer with one set of arguments, called in one way."""

    layer: str  # its name in both libraries
    arguments: dict
    inputs: tuple = (SEQUENCE,)
    call: dict = field(default_factory=dict)

    def make(self, posterior, **arguments):
        """Returns our layer; a layer without a bias takes no posterior over it."""
        if "Embedding" in self.layer:
            arguments.pop("bias_posterior", None)
        return getattr(layers, self.layer)(**self.arguments, posterior=posterior, **arguments)

    def keras(self, **arguments):
        """Returns the Keras layer of the same name; None where Keras has none."""
        if self.layer == "TransformerEncoder":
            return None
        given = {k: v for k, v in self.arguments.items() if k != "per_head"}
        return getattr(keras.layers, self.layer)(**given, **arguments)

    def weights(self, layer, dense) -> list:
        """Returns the weights of the Keras layer, where dense(posterior) is a matrix of our layer."""
        return WEIGHTS[self.layer](layer, dense)


def _bias(layer, dense):
    if not getattr(layer, "use_bias", False):
        return []
    if layer.bias is not None:
        return [ops.convert_to_numpy(layer.bias)]
    return [dense(layer.bias_posterior).reshape(layer._bias_shape)]


def _matrix(layer, dense):
    return [dense(layer.posterior), *_bias(layer, dense)]


def _recurrent(layer, dense):
    return [dense(layer.posterior), dense(layer.recurrent_posterior), *_bias(layer, dense)]


def _convolution(layer, dense):
    kernel = dense(layer.posterior)
    return [kernel.reshape(*layer.kernel_size, -1, layer.filters), *_bias(layer, dense)]


def _transposed(layer, dense):
    kernel = dense(layer.posterior).reshape(*layer.kernel_size, -1, layer.filters)
    return [kernel.swapaxes(-2, -1), *_bias(layer, dense)]


def _separable(layer, dense):
    ones = [1] * layer.rank
    pointwise = dense(layer.posterior).reshape(*ones, -1, layer.filters)
    return [ops.convert_to_numpy(layer.depthwise_kernel), pointwise, *_bias(layer, dense)]


def _einsum(layer, dense):
    left, _ = layer.equation.split("->")
    letters = left.split(",")[1]
    order = layer.row_letters + layer.column_letters
    kernel = dense(layer.posterior)
    sizes = (*_row_sizes(layer, kernel.shape[0]), *layer.column_sizes)
    return [kernel.reshape(sizes).transpose([order.index(letter) for letter in letters]), *_bias(layer, dense)]


def _row_sizes(layer, rows):
    return (rows,) if len(layer.row_letters) == 1 else ROW_SIZES[layer.equation]


def _attention(layer, dense):
    gate = [layer._gate_dense] if layer._use_gate else []
    inner = [layer._query_dense, layer._key_dense, *gate, layer._value_dense]
    weights = [w for projection in inner for w in _heads(projection, dense)]
    return [*weights, *_output(layer, dense)]


def _heads(projection, dense):
    if hasattr(projection, "heads"):
        parts = [[dense(head.posterior), *_bias(head, dense)] for head in projection.heads]
        kernel = np.stack([part[0] for part in parts], axis=1)
        return [kernel, *([np.stack([part[1] for part in parts])] if len(parts[0]) == 2 else [])]
    kernel = dense(projection.posterior)
    return [kernel.reshape(kernel.shape[0], *projection.column_sizes), *_bias(projection, dense)]


def _output(layer, dense):
    kernel = dense(layer._output_dense.posterior)
    shape = (layer.num_heads, layer.value_dim, *layer._output_dense.column_sizes)
    return [kernel.reshape(shape), *_bias(layer._output_dense, dense)]


def _reversible(layer, dense):
    return [dense(layer.posterior), *([] if layer.tie_weights else [dense(layer.reverse_posterior)])]


ROW_SIZES = {"abcd,cde->abe": (7, 4), "abcd,dce->abe": (4, 7), "acbd,bde->ace": (7, 4)}
WEIGHTS = {
    "Dense": _matrix,
    "Embedding": _matrix,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "Conv1D": _convolution,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "Conv2DTranspose": _transposed,
    "SeparableConv1D": _separable,
    "SeparableConv2D": _separable,
    "EinsumDense": _einsum,
    "MultiHeadAttention": _attention,
    "ReversibleEmbedding": _reversible,
}

_RNN = {
    "plain": ({}, {}),
    "sequences": ({"return_sequences": True}, {}),
    "states": ({"return_sequences": True, "return_state": True}, {}),
    "no_bias": ({"use_bias": False}, {}),
    "backwards": ({"go_backwards": True, "return_sequences": True, "return_state": True}, {}),
    "mask": ({"return_sequences": True}, {"mask": MASK}),
    "zero_masked": ({"return_sequences": True, "zero_output_for_mask": True}, {"mask": MASK}),
    "unrolled": ({"unroll": True, "return_sequences": True}, {"mask": MASK}),
    "other_activations": ({"activation": "relu", "recurrent_activation": "hard_sigmoid"}, {}),
}
OPTIONS = {
    **{f"lstm_{name}": Option("LSTM", {"units": 3, **a}, call=c) for name, (a, c) in _RNN.items()},
    "lstm_initial_state": Option("LSTM", {"units": 3}, call={"initial_state": [STATE, 2 * STATE]}),
    "lstm_closed_forget_gate": Option("LSTM", {"units": 3, "unit_forget_bias": False}),
    **{f"gru_{name}": Option("GRU", {"units": 3, **a}, call=c) for name, (a, c) in _RNN.items()},
    "gru_reset_before": Option("GRU", {"units": 3, "reset_after": False, "return_sequences": True}),
    "gru_initial_state": Option("GRU", {"units": 3}, call={"initial_state": [STATE]}),
    **{
        f"conv1d_{name}": Option("Conv1D", {"filters": 4, "kernel_size": 2, **a})
        for name, a in {
            "plain": {"activation": "relu"},
            "strides": {"strides": 2, "use_bias": False},
            "same": {"padding": "same"},
            "causal_dilated": {"padding": "causal", "dilation_rate": 2},
            "groups": {"groups": 2},
        }.items()
    },
    "conv1d_channels_first": Option("Conv1D", {"filters": 3, "kernel_size": 2, "data_format": "channels_first"}),
    **{
        f"conv2d_{name}": Option("Conv2D", {"filters": 4, "kernel_size": (3, 2), **a}, (IMAGE,))
        for name, a in {
            "plain": {"activation": "tanh"},
            "strides": {"strides": (2, 1), "padding": "same"},
            "dilated": {"dilation_rate": 2, "use_bias": False},
            "groups": {"groups": 2, "padding": "same"},
        }.items()
    },
    "conv2d_channels_first": Option(
        "Conv2D", {"filters": 3, "kernel_size": 2, "data_format": "channels_first", "strides": 2}, (IMAGE,)
    ),
    **{
        f"conv3d_{name}": Option("Conv3D", {"filters": 4, "kernel_size": (2, 1, 3), **a}, (VOLUME,))
        for name, a in {
            "plain": {"activation": "tanh"},
            "strides": {"strides": (2, 1, 1), "padding": "same", "use_bias": False},
            "groups": {"groups": 2, "padding": "same"},
        }.items()
    },
    "conv3d_dilated": Option("Conv3D", {"filters": 3, "kernel_size": 2, "dilation_rate": (1, 1, 2)}, (VOLUME,)),
    "conv3d_channels_first": Option(
        "Conv3D", {"filters": 3, "kernel_size": 2, "data_format": "channels_first"}, (VOLUME,)
    ),
    **{
        f"transpose_{name}": Option("Conv2DTranspose", {"filters": 5, "kernel_size": (3, 2), **a}, (IMAGE,))
        for name, a in {
            "plain": {"activation": "tanh"},
            "strides": {"strides": 2, "padding": "same", "use_bias": False},
            "output_padding": {"strides": (2, 3), "output_padding": (1, 2)},
            "dilated": {"dilation_rate": 2, "padding": "same"},
            "channels_first": {"strides": 2, "data_format": "channels_first"},
        }.items()
    },
    **{
        f"separable1d_{name}": Option("SeparableConv1D", {"filters": 5, "kernel_size": 2, **a})
        for name, a in {"plain": {"activation": "relu"}, "dilated": {"dilation_rate": 2, "depth_multiplier": 2}}.items()
    },
    **{
        f"separable2d_{name}": Option("SeparableConv2D", {"filters": 5, "kernel_size": (3, 2), **a}, (IMAGE,))
        for name, a in {
            "plain": {"activation": "tanh", "depth_multiplier": 2},
            "strides": {"strides": 2, "padding": "same", "use_bias": False},
            "channels_first": {"data_format": "channels_first"},
        }.items()
    },
    **{
        f"einsum_{equation}": Option("EinsumDense", {"equation": equation, "output_shape": shape, **a}, inputs)
        for equation, shape, a, inputs in [
            ("abc,cd->abd", (None, 3), {"bias_axes": "d", "activation": "tanh"}, (SEQUENCE,)),
            ("abc,cde->abde", (None, 3, 2), {"bias_axes": "de"}, (SEQUENCE,)),
            ("abc,dec->abde", (None, 3, 2), {"bias_axes": "e"}, (SEQUENCE,)),
            ("abc,bd->adc", (3, 4), {"bias_axes": "d"}, (SEQUENCE,)),
            ("...c,cd->...d", (3,), {"bias_axes": "d"}, (IMAGE,)),
            ("ab...,bc->ac...", (3,), {}, (SEQUENCE,)),
            ("abcd,cde->abe", (None, 3), {}, (IMAGE,)),
            ("abcd,dce->abe", (None, 3), {"bias_axes": "e"}, (IMAGE,)),
            ("acbd,bde->ace", (6, 3), {"bias_axes": "ce"}, (IMAGE,)),
            ("abc,cd->ad", (3,), {"bias_axes": "d"}, (SEQUENCE,)),
        ]
    },
    **{
        f"attention_{name}": Option("MultiHeadAttention", {"num_heads": 2, "key_dim": 3, **a}, inputs, c)
        for name, a, inputs, c in [
            ("self", {}, (SEQUENCE, SEQUENCE), {}),
            ("no_bias", {"use_bias": False}, (SEQUENCE, SEQUENCE), {}),
            ("causal", {}, (SEQUENCE, SEQUENCE), {"use_causal_mask": True}),
            ("masked", {}, (SEQUENCE, SEQUENCE), {"query_mask": MASK, "value_mask": MASK}),
            ("explicit_mask", {}, (SEQUENCE, SEQUENCE), {"attention_mask": PAIRS_SEEN}),
            ("key_mask", {}, (SEQUENCE, SEQUENCE), {"key_mask": MASK}),
            ("scores", {"value_dim": 4}, (SEQUENCE, SEQUENCE), {"return_attention_scores": True}),
            ("cross", {}, (SEQUENCE, SHORT, SHORT[..., :3]), {}),
            ("wide_output", {"output_shape": (2, 3)}, (SEQUENCE, SEQUENCE), {}),
            ("gated", {"use_gate": True}, (SEQUENCE, SEQUENCE), {}),
            ("over_rows", {"attention_axes": 2}, (IMAGE, IMAGE), {}),
            ("window", {"sliding_window": 2}, (SEQUENCE, SEQUENCE), {}),
        ]
    },
    "embedding_forth": Option("ReversibleEmbedding", {"input_dim": 5, "output_dim": 4}, (IDS,)),
    "embedding_back": Option("ReversibleEmbedding", {"input_dim": 5, "output_dim": 4}, call={"reverse": True}),
    "embedding_back_capped": Option(
        "ReversibleEmbedding",
        {"input_dim": 5, "output_dim": 4, "logit_soft_cap": 0.5, "reverse_dtype": "float32"},
        call={"reverse": True},
    ),
    "embedding_back_untied": Option(
        "ReversibleEmbedding", {"input_dim": 5, "output_dim": 4, "tie_weights": False}, call={"reverse": True}
    ),
}

# One row per layer, for the invariants of whole layers. Their kernels take every posterior of the other table.
LAYERS = {
    "dense": Option("Dense", {"units": 4, "activation": "tanh"}, (ROWS,)),
    "embedding": Option("Embedding", {"input_dim": 5, "output_dim": 4}, (IDS,)),
    "lstm": OPTIONS["lstm_sequences"],
    "gru": OPTIONS["gru_reset_before"],
    "conv1d": OPTIONS["conv1d_causal_dilated"],
    "conv2d": OPTIONS["conv2d_plain"],
    "conv3d": OPTIONS["conv3d_plain"],
    "conv2d_transpose": OPTIONS["transpose_plain"],
    "separable_conv2d": OPTIONS["separable2d_plain"],
    "einsum_dense": OPTIONS["einsum_abc,cde->abde"],
    "attention": OPTIONS["attention_self"],
    "attention_per_head": Option(
        "MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "per_head": True}, (SEQUENCE, SEQUENCE)
    ),
    "reversible_embedding": OPTIONS["embedding_forth"],
    "reversible_embedding_untied": OPTIONS["embedding_back_untied"],
    "transformer": Option("TransformerEncoder", {"intermediate_dim": 6, "num_heads": 2}),
}


ALL_PAIRS = [(layer, name) for layer in LAYERS for name in POSTERIORS]


KINDS = ("dense", "lstm", "conv2d", "attention", "embedding")  # one layer of each


def _mark(layer, posterior):
    """Torch has every posterior in a dense layer and every layer with `low_rank`, the others one layer of each kind.

    `make test-all` adds the other pairs.
    """
    if posterior == "low_rank" and layer in KINDS:
        return ()
    return ON_TORCH if posterior == "low_rank" or layer == "dense" else pytest.mark.exhaustive


PAIRS = [pytest.param(layer, posterior, marks=_mark(layer, posterior)) for layer, posterior in ALL_PAIRS]


def alone(option: Option, posterior, **arguments):
    """Returns a model of our layer alone with weights that differ in every entry, and its inputs."""
    inputs = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in option.inputs]
    outputs = option.make(posterior, **arguments)(*inputs, **option.call)
    single = len(inputs) == 1
    return stir(keras.Model(inputs[0] if single else inputs, outputs)), option.inputs[0] if single else option.inputs


def load(option: Option, layer, counterpart, draw) -> None:
    """Gives the Keras layer the matrices of the draw."""
    counterpart.set_weights(option.weights(layer, lambda posterior: dense_of(posterior, draw[id(posterior)])))


def counterpart_of(option: Option, layer, inputs, draw, **arguments):
    """Returns the Keras layer of the same name, loaded with the matrices of the draw."""
    counterpart = option.keras(**arguments)
    counterpart(inputs)
    load(option, layer, counterpart, draw)
    return counterpart
