"""What a layer cannot do is refused before any weight is made: what is needed, what was got, and where."""

import re

import keras
import numpy as np
import pytest
from layer_table import LAYERS
from posterior_table import TORCH_FIRST

from singularbayes import LowRank, find_posteriors, layers

pytestmark = pytest.mark.on_torch

SEQUENCE, IMAGE = (None, 5, 4), (None, 7, 7, 4)
CONV = {"filters": 4, "kernel_size": 2}
EINSUM = {"equation": "abc,cd->abd", "output_shape": (None, 3)}
HEADS = {"num_heads": 2, "key_dim": 3}
BLOCK = {"intermediate_dim": 6, "num_heads": 2}
TABLE = {"input_dim": 5, "output_dim": 4}

# Arguments that Keras's layer of the name refuses.
KERAS_REFUSES = (
    ("Dense", {"units": 0}),
    ("LSTM", {"units": 0}),
    ("GRU", {"units": 2, "activation": "odd"}),
    ("Conv1D", {**CONV, "strides": 0}),
    ("Conv2D", {**CONV, "padding": "causal"}),
    ("Conv2DTranspose", {**CONV, "strides": 2, "output_padding": 2}),
    ("SeparableConv2D", {**CONV, "depth_multiplier": 0}),
    ("MultiHeadAttention", {**HEADS, "num_heads": 0}),
    ("Embedding", {**TABLE, "input_dim": 0}),
    ("ReversibleEmbedding", {**TABLE, "output_dim": 1.5}),
)


def _ids(cases):
    return [f"{kind}: {message}" for kind, *_, message in cases]


@pytest.mark.parametrize(("kind", "arguments"), KERAS_REFUSES)
def test_what_keras_refuses_is_refused_in_its_words(kind, arguments):
    with pytest.raises(ValueError) as theirs:
        getattr(keras.layers, kind)(**arguments)
    with pytest.raises(ValueError) as ours:
        getattr(layers, kind)(**arguments, posterior=LowRank(1))
    assert str(ours.value) == str(theirs.value)


REASONS = {
    "regularizer": "the KL to the prior is the regularizer",
    "constraint": "a constraint on one draw does not constrain the posterior",
    "lora_rank": "LoRA is a deterministic adapter",
}
# (layer, arguments, what the error says) where Keras has nothing to refuse.
OURS = (
    *((kind, {"units": 2, "use_cudnn": True}, rf"{kind} needs use_cudnn=.*cuDNN cannot") for kind in ("LSTM", "GRU")),
    *(
        (kind, {**arguments, argument: value}, rf"{kind} needs {argument}=None: {REASONS[reason]}.*Got {argument}=")
        for kind, arguments, weights in (
            ("LSTM", {"units": 2}, ("kernel", "recurrent")),
            ("GRU", {"units": 2}, ("kernel", "recurrent")),
            ("Conv1D", CONV, ("kernel",)),
            ("Conv2D", CONV, ("kernel",)),
            ("Conv2DTranspose", CONV, ("kernel",)),
            ("SeparableConv2D", CONV, ("pointwise",)),
            ("EinsumDense", EINSUM, ("kernel",)),
            ("MultiHeadAttention", HEADS, ("kernel",)),
            ("ReversibleEmbedding", TABLE, ("embeddings",)),
        )
        for weight in weights
        for argument, value, reason in (
            (f"{weight}_regularizer", "l2", "regularizer"),
            (f"{weight}_constraint", "non_neg", "constraint"),
        )
    ),
    ("EinsumDense", {**EINSUM, "lora_rank": 2}, REASONS["lora_rank"]),
    ("EinsumDense", {**EINSUM, "equation": "abc,bcd->abd"}, r"needs one matrix; .* share \['b'\]: one matrix for each"),
    ("EinsumDense", {**EINSUM, "equation": "abc,ccd->abd"}, r"every letter once .*; got equation='abc,ccd->abd'"),
    ("TransformerEncoder", {**BLOCK, "num_heads": 0}, r"TransformerEncoder needs num_heads .*; got num_heads=0"),
    ("TransformerEncoder", {**BLOCK, "intermediate_dim": 2.5}, r"got intermediate_dim=2\.5"),
    ("TransformerEncoder", {**BLOCK, "dropout": 1.5}, r"value between 0 and 1. Received: rate=1\.5"),
    ("LSTM", {"units": 2, "recurrent_posterior": "lowrank"}, r"posterior needs a Posterior .*; got 'lowrank'"),
)


@pytest.mark.parametrize(("kind", "arguments", "message"), OURS, ids=_ids(OURS))
def test_what_a_posterior_cannot_do_is_refused(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(layers, kind)(**arguments, posterior=LowRank(1))


# (layer, arguments, shapes to build on, what the error says): refused when the sizes are known.
BUILDS = (
    ("LSTM", {"units": 2}, [(None, 5, None)], r"LSTM needs a weight whose sizes .*; got shape \(None, 8\) in layer"),
    (
        "Conv1D",
        {**CONV, "groups": 2},
        [(None, 7, 5)],
        r"channels that groups=2 divides; got .*\(None, 7, 5\) in layer",
    ),
    ("Conv2D", CONV, [(None, 7, 7, None)], r"Conv2D needs a number of input channels .*\(None, 7, 7, None\) in layer"),
    ("SeparableConv2D", CONV, [(None, 7, 7, None)], r"SeparableConv2D needs a number of input channels .* in layer"),
    ("Conv2DTranspose", CONV, [(None, 7, 7, None)], r"Conv2DTranspose needs a number of input channels .* in layer"),
    ("Conv2D", {**CONV, "kernel_size": 8}, [IMAGE], r"output size would be zero or negative.*\(None, 7, 7, 4\)"),
    ("EinsumDense", {**EINSUM, "equation": "abc,cd"}, [SEQUENCE], r"Invalid einsum equation 'abc,cd'"),
    ("EinsumDense", {**EINSUM, "equation": "abc,cd->abx"}, [SEQUENCE], r"Dimension 'x' .* no corresponding dim"),
    ("EinsumDense", {**EINSUM, "equation": "abc,cde->abd"}, [SEQUENCE], r"Weight dimension 'e' did not have a match"),
    ("EinsumDense", {**EINSUM, "bias_axes": "x"}, [SEQUENCE], r"Bias dimension 'x' was requested"),
    ("EinsumDense", {**EINSUM, "output_shape": (4, 3)}, [SEQUENCE], r"do not match at shared dimension 'b'"),
    (
        "EinsumDense",
        {**EINSUM, "output_shape": (None, 0)},
        [SEQUENCE],
        r"sizes .*; got shape \(4, 0\) in layer",
    ),
    ("EinsumDense", EINSUM, [(None, 5, None)], r"EinsumDense needs .*; got shape \(None, 3\) in layer"),
    (
        "MultiHeadAttention",
        HEADS,
        [SEQUENCE, SEQUENCE, (None, 6, 4)],
        r"`value` and `key`, except the last one",
    ),
    (
        "TransformerEncoder",
        {**BLOCK, "num_heads": 3},
        [SEQUENCE],
        r"num_heads=3 divides; .*\(None, 5, 4\) in layer",
    ),
)


@pytest.mark.parametrize(("kind", "arguments", "shapes", "message"), BUILDS, ids=_ids(BUILDS))
def test_sizes_that_do_not_fit_are_named_before_any_weight_is_made(kind, arguments, shapes, message):
    layer = getattr(layers, kind)(**arguments, posterior=LowRank(1), name="layer")
    with pytest.raises(ValueError, match=message):
        layer.build(*shapes)
    assert not layer.weights


# The smaller side of every kernel, in the order of `find_posteriors`.
RANKS = (
    ("Dense", {"units": 3}, [(None, 9)], [3]),
    ("LSTM", {"units": 3}, [(None, 5, 9)], [9, 3]),
    ("GRU", {"units": 5}, [(None, 5, 2)], [2, 5]),
    ("Conv2D", {"filters": 3, "kernel_size": 2}, [IMAGE], [3]),
    ("EinsumDense", EINSUM, [SEQUENCE], [3]),
    ("MultiHeadAttention", {**HEADS, "output_shape": 3}, [SEQUENCE, SEQUENCE], [4, 4, 4, 3]),
    ("ReversibleEmbedding", {"input_dim": 5, "output_dim": 3}, [], [3]),
)


@pytest.mark.parametrize(("kind", "arguments", "shapes", "limits"), RANKS, ids=_ids(RANKS))
def test_a_rank_above_the_smaller_side_of_a_kernel_is_lowered_to_it(kind, arguments, shapes, limits):
    layer = getattr(layers, kind)(**arguments, posterior=4)
    layer.build(*shapes)
    found = find_posteriors(layer)
    assert [q.effective_rank for q in found] == [min(4, limit) for limit in limits]
    assert [q.ab.shape for q in found] == [(sum(q.shape), q.effective_rank) for q in found]
    assert {q.rank for q in found} == {4} and layer.get_config()["posterior"]["config"]["rank"] == 4


WITHOUT = {
    "Dense": (8,),
    "EinsumDense": ("ab,bc->ac", 8),
    "Embedding": (10, 8),
    "ReversibleEmbedding": (10, 8),
    "LSTM": (8,),
    "GRU": (8,),
    "Conv1D": (8, 3),
    "Conv2D": (8, 3),
    "Conv3D": (8, 3),
    "Conv2DTranspose": (8, 3),
    "SeparableConv1D": (8, 3),
    "SeparableConv2D": (8, 3),
    "MultiHeadAttention": (2, 4),
    "TransformerEncoder": (8, 2),
}


def test_a_layer_without_a_posterior_says_what_to_type():
    no_posterior = {"BayesianLayer", "LearnedNoise", "PerComponent"}
    assert set(WITHOUT) == {name for name in layers.__all__ if name[0].isupper()} - no_posterior
    for kind, arguments in WITHOUT.items():
        fix = 'Add posterior="low_rank", a rank such as posterior=32, or a posterior such as posterior=LowRank\\(32\\)'
        with pytest.raises(ValueError, match=f"{kind} needs a posterior, .*; got none. {fix}"):
            getattr(layers, kind)(*arguments)


@TORCH_FIRST
@pytest.mark.rows_on_torch
@pytest.mark.parametrize(
    "row", ["lstm", "gru", "conv1d", "conv2d", "conv2d_transpose", "separable_conv2d", "transformer"]
)
def test_inputs_of_another_rank_or_width_are_refused(row):
    layer, x = LAYERS[row].make(posterior=LowRank(1), name="layer"), LAYERS[row].inputs[0]
    with pytest.raises(ValueError, match=rf"'layer' is incompatible .*ndim={x.ndim}, found ndim=2"):
        layer(x[(0,) * (x.ndim - 2)])
    layer(x)
    expected = (
        rf"axis -?\d of input shape to have value {x.shape[-1]}, but received .*{re.escape(str(x[..., :-1].shape))}"
    )
    with pytest.raises(ValueError, match=expected):
        layer(x[..., :-1])


@TORCH_FIRST
def test_a_wrong_number_of_states_is_named():
    x, state = np.ones((2, 5, 4), "float32"), np.ones((2, 3), "float32")
    for kind, needed in (("LSTM", 2), ("GRU", 1)):
        layer = getattr(layers, kind)(3, posterior=LowRank(1), name="memory")
        with pytest.raises(ValueError, match=rf"{kind} needs {needed} initial states; got 3 in memory"):
            layer(x, initial_state=[state] * 3)


def test_what_keras_can_do_to_a_kernel_is_refused():
    for layer in (layers.Dense(3, posterior=LowRank(1)), layers.LSTM(3, posterior=LowRank(1))):
        layer.build((None, 5, 4))
        with pytest.raises(ValueError, match="LoRA is a deterministic adapter"):
            layer.enable_lora(2)
        with pytest.raises(ValueError, match="a posterior cannot be quantised"):
            layer.quantize("int8")
