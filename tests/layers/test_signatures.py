"""Every layer takes what the Keras layer of its name takes, in the same order; its configuration makes it anew."""

import inspect
import json

import keras
import numpy as np
import pytest
from layer_table import LAYERS, OPTIONS, PAIRS
from posterior_table import POSTERIORS

from singularbayes import FullRank, LowRank, layers

NAMES = (
    "Dense",
    "Embedding",
    "LSTM",
    "GRU",
    "Conv1D",
    "Conv2D",
    "EinsumDense",
    "MultiHeadAttention",
    "ReversibleEmbedding",
)
NAMES += ("Conv3D", "Conv2DTranspose", "SeparableConv1D", "SeparableConv2D")


def _positional(kind):
    made = kind if issubclass(kind, layers.BayesianLayer | layers.MultiHeadAttention) else kind.__init__
    parameters = inspect.signature(made).parameters.values()
    positional = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"}
    return {
        name: 1 if default in ((1, 1), (1, 1, 1)) else default for name, default in positional.items()
    }  # strides of Conv2D


@pytest.mark.parametrize("name", NAMES)
def test_positional_arguments_are_keras_s_in_order_with_its_defaults(name):
    ours, theirs = (_positional(getattr(library, name)) for library in (layers, keras.layers))
    assert list(ours) == list(theirs)
    # None starts the mean by the activation: He for rectified ones, Glorot else.
    for start in ("kernel_initializer", "pointwise_initializer"):
        assert ours.pop(start, None) is None
        theirs.pop(start, None)
    assert ours == theirs


def _json(layer):
    return json.dumps(layer.get_config(), sort_keys=True)


def _again(layer):
    return type(layer).from_config(json.loads(_json(layer)))


@pytest.mark.parametrize("name", {**OPTIONS, **LAYERS})
def test_a_configuration_through_json_makes_the_same_layer(name):
    option = {**OPTIONS, **LAYERS}[name]
    layer = option.make(posterior=LowRank(2, prior="normal", kl_weight=0.5), bias_posterior=FullRank(family="laplace"))
    assert _json(_again(layer)) == _json(layer)
    config = layer.get_config()
    # No argument is left out: each is in the configuration with the value that was given.
    for argument, value in option.arguments.items():
        assert np.all(np.array(config[argument], "object") == np.array(value, "object")), argument  # 2 may be (2, 2)


@pytest.mark.parametrize(("name", "posterior"), PAIRS)
def test_so_it_does_with_every_posterior(name, posterior):
    layer = LAYERS[name].make(POSTERIORS[posterior](), name="layer", dtype="mixed_bfloat16", trainable=False)
    assert _json(_again(layer)) == _json(layer)
