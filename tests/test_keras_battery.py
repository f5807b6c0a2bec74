"""Keras's own layer test, its training check on, for every layer × posterior."""

import numpy as np
import pytest
from keras.src.testing import TestCase
from table import LAYERS, POSTERIORS, RANDOM

from singularbayes import FullRank

pytestmark = pytest.mark.backend


class _Battery(TestCase):
    """Only `run_layer_test` is wanted."""

    __test__ = False

    def runTest(self):
        """What TestCase needs to be made."""


def _arguments(layer):
    """Returns the arguments that make the layer anew: what is not an argument of `Layer` itself."""
    return {k: v for k, v in layer.get_config().items() if k not in ("name", "trainable", "dtype")}


def _run(case, layer):
    twin = case.keras()
    x = case.inputs(np.random.default_rng(0))
    _Battery().run_layer_test(
        type(layer),
        _arguments(layer),
        input_shape=x.shape,
        input_dtype=str(x.dtype),
        expected_output_shape=twin.compute_output_shape(x.shape),
        supports_masking=twin.supports_masking,
    )


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_and_posterior_passes(layer, name):
    posterior = RANDOM[name](kl_weight=1e-3) if name in RANDOM else POSTERIORS[name]()
    _run(LAYERS[layer], LAYERS[layer].make(posterior))


@pytest.mark.parametrize("layer", [name for name in LAYERS if name != "embedding"])
def test_every_layer_with_a_bayesian_bias_passes(layer):
    posteriors = {"posterior": RANDOM["low_rank"](kl_weight=1e-3), "bias_posterior": FullRank(kl_weight=1e-3)}
    _run(LAYERS[layer], LAYERS[layer].make(**posteriors))
