"""Keras's own layer test, its training check on."""

import keras
import pytest
from keras.src.testing import TestCase
from layer_table import LAYERS, PAIRS
from posterior_table import ON_TORCH, POSTERIORS, RANDOM

from singularbayes import FullRank, layers

pytestmark = pytest.mark.backend
WEIGHED = {name: (lambda make=make: make(kl_weight=1e-3)) for name, make in RANDOM.items()}
WEIGHED["deterministic"] = POSTERIORS["deterministic"]


class _Battery(TestCase):
    """Only `run_layer_test` is wanted."""

    __test__ = False

    def runTest(self):
        """What TestCase needs to be made."""

    def assertLen(self, iterable, expected_len, msg=None):
        """On torch a KL weight is a parameter of the module, though Keras counts it among no weights."""
        if msg == "Unexpected number of torch_params":
            iterable = [path for path in iterable if not path.endswith("kl_scale")]
        super().assertLen(iterable, expected_len, msg=msg)


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


def _run_row(name, posterior, **arguments):
    option = LAYERS[name]
    layer, theirs, x = option.make(posterior, **arguments), option.keras(), option.inputs[0]
    shape, masks = x.shape, True  # of a block that Keras has not
    if theirs is not None:
        tensors = [keras.KerasTensor(x.shape, str(x.dtype)) for x in option.inputs]
        shape, masks = theirs(*tensors, **option.call).shape, theirs.supports_masking
    _Battery().run_layer_test(
        SelfAttention if option.layer == "MultiHeadAttention" else type(layer),
        _arguments(layer),
        input_shape=x.shape,
        input_dtype=str(x.dtype),
        expected_output_shape=shape,
        supports_masking=masks,
        call_kwargs=option.call,
    )


# It calls an untied embedding in one direction, so the other table has no gradient where no KL gives it one.
@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables")
@pytest.mark.all_rows
@pytest.mark.parametrize(("layer", "posterior"), PAIRS)
def test_every_layer_and_every_posterior_pass(layer, posterior):
    _run_row(layer, WEIGHED[posterior](), bias_posterior=WEIGHED["rank_one"]() if posterior == "low_rank" else None)


@ON_TORCH
def test_attention_passes_as_keras_tests_it():
    # With two inputs, where Keras has no training check.
    option = LAYERS["attention"]
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
