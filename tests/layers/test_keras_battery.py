"""Keras's own layer test, its training check on, for every layer × posterior."""

import keras
import numpy as np
import pytest
from keras.src.testing import TestCase
from options import ROWS
from table import LAYERS, POSTERIORS, RANDOM

from singularbayes import FullRank, layers

pytestmark = pytest.mark.backend
WEIGHED = {name: (lambda make=make: make(kl_weight=1e-3)) for name, make in RANDOM.items()}
WEIGHED["deterministic"] = POSTERIORS["deterministic"]
EVERY = ("lstm", "conv2d", "einsum_dense", "attention")  # one layer of each kind meets every posterior


class _Battery(TestCase):
    """Only `run_layer_test` is wanted."""

    __test__ = False

    def runTest(self):
        """What TestCase needs to be made."""


@keras.saving.register_keras_serializable(package="tests")
class SelfAttention(layers.MultiHeadAttention):
    """Attention of a sequence to itself: the battery trains layers of one input only."""

    def build(self, input_shape):
        super().build(input_shape, input_shape)

    def call(self, inputs, training=None):
        return super().call(inputs, inputs, training=training)

    def compute_output_spec(self, inputs, training=None):
        return super().compute_output_spec(inputs, inputs)


def _arguments(layer):
    """Returns the arguments that make the layer anew: what is not an argument of `Layer` itself."""
    return {k: v for k, v in layer.get_config().items() if k not in ("name", "trainable", "dtype")}


def _run(layer, x, expected_output_shape, supports_masking, kind=None, **arguments):
    _Battery().run_layer_test(
        kind or type(layer),
        _arguments(layer),
        input_shape=x.shape,
        input_dtype=str(x.dtype),
        expected_output_shape=expected_output_shape,
        supports_masking=supports_masking,
        **arguments,
    )


def _run_case(case, layer):
    twin = case.keras()
    x = case.inputs(np.random.default_rng(0))
    _run(layer, x, twin.compute_output_shape(x.shape), twin.supports_masking)


def _run_row(name, posterior, bias_posterior=None, **arguments):
    option = ROWS[name]
    layer, x = option.make(posterior=posterior, bias_posterior=bias_posterior), option.inputs[0]
    if option.layer == "TransformerEncoder":
        shape, masks = x.shape, True
    else:
        twin = getattr(keras.layers, option.layer)(**{k: v for k, v in option.arguments.items() if k != "per_head"})
        tensors = [keras.KerasTensor(x.shape, str(x.dtype)) for x in option.inputs]
        shape, masks = twin(*tensors, **option.call).shape, twin.supports_masking
    kind = SelfAttention if option.layer == "MultiHeadAttention" else None
    _run(layer, x, shape, masks, kind, call_kwargs=option.call, **arguments)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_and_posterior_passes(layer, posterior):
    _run_case(LAYERS[layer], LAYERS[layer].make(WEIGHED[posterior]()))


@pytest.mark.parametrize("layer", [name for name in LAYERS if name != "embedding"])
def test_every_layer_with_a_bayesian_bias_passes(layer):
    _run_case(LAYERS[layer], LAYERS[layer].make(WEIGHED["low_rank"](), bias_posterior=FullRank(kl_weight=1e-3)))


# Where compiling takes long, an adapter, which is a sum of two of the others, is run in one of these layers.
PAIRS = [(layer, posterior) for layer in EVERY for posterior in POSTERIORS if posterior != "adapter"]
PAIRS += [(layer, "adapter") for layer in EVERY if layer == "conv2d" or keras.backend.backend() != "jax"]


@pytest.mark.parametrize(("layer", "posterior"), PAIRS)
def test_recurrent_convolution_einsum_and_attention_layers_pass_with_every_posterior(layer, posterior):
    # Half precision of every layer is a law of the twins; here it is run once a kind.
    _run_row(layer, WEIGHED[posterior](), run_mixed_precision_check=posterior == "low_rank")


@pytest.mark.parametrize("layer", ROWS)
def test_each_passes_with_a_low_rank_kernel_and_a_rank_one_bias(layer):
    half = layer == "transformer"
    _run_row(layer, WEIGHED["low_rank"](), WEIGHED["rank_one"](), run_mixed_precision_check=half)


def test_attention_passes_as_keras_tests_it():
    # With two inputs, where Keras has no training check.
    option = ROWS["attention"]
    shapes = {"query_shape": (2, 5, 4), "value_shape": (2, 3, 6)}
    layer = option.make(posterior=WEIGHED["low_rank"](), bias_posterior=FullRank())
    _Battery().run_layer_test(
        type(layer),
        _arguments(layer),
        input_shape=shapes,
        expected_output_shape=shapes["query_shape"],
        supports_masking=True,
        run_training_check=False,
    )
