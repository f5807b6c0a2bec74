"""Every layer with every posterior: a draw, the mean, the KL and a saved file."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import ALL_PAIRS, KINDS, LAYERS, alone
from posterior_table import MIXTURES, ON_TORCH, POSTERIORS, as_program, dense_of, draw_of

import singularbayes as sb
from singularbayes.posteriors import scope

pytestmark = [pytest.mark.backend, pytest.mark.all_rows]
PAIRED = {**POSTERIORS, **MIXTURES}
WITH_MIXTURES = [*ALL_PAIRS, *((layer, posterior) for layer in LAYERS for posterior in MIXTURES)]


# A layer only sees the matrix of a draw, so one posterior for each form of matrix is enough; Dense has them all.
_FORMS = ("low_rank", "full_rank", "rank_one", "adapter", "deterministic", "mixture")
_LIKE_CONV2D = ("conv3d", "conv2d_transpose", "separable_conv2d")  # they use the matrices as Conv2D does


def _is_representative(layer, posterior):
    if layer in _LIKE_CONV2D:
        return posterior in ("low_rank", "rank_one", "adapter")
    return layer == "dense" or posterior in _FORMS


def _mark(layer, posterior):
    """Every backend has one layer of a kind and a mixture, torch the other pairs."""
    if not _is_representative(layer, posterior):
        return pytest.mark.exhaustive
    everywhere = posterior == "low_rank" and layer in KINDS
    return () if everywhere or (layer, posterior) == ("dense", "mixture") else ON_TORCH


PARAMS = [pytest.param(f"{layer}-{posterior}", marks=_mark(layer, posterior)) for layer, posterior in WITH_MIXTURES]


@pytest.fixture(scope="module", params=PARAMS)
def pair(request):
    """The row of a layer, and a model of this layer alone with its inputs."""
    layer, posterior = request.param.split("-")
    normal = {"prior": sb.Normal(0.5), "kl_weight": 0.1}
    made = PAIRED[posterior]() if posterior == "deterministic" else PAIRED[posterior](**normal)
    return LAYERS[layer], *alone(LAYERS[layer], made, bias_posterior=sb.FullRank(**normal))


def _assert_equal(ours, theirs, rtol=2e-4, atol=2e-5):
    np.testing.assert_allclose(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs), rtol=rtol, atol=atol)


def _assert_is_keras_s(option, model, x, dense):
    """Asserts that the model computes what Keras's layer computes with the matrices dense(posterior)."""
    theirs = option.keras()
    if theirs is None:  # a block of other layers, compared with them in test_dense_counterparts.py
        _assert_equal(model(x), model(x), rtol=0, atol=0)
        return
    theirs(*(keras.KerasTensor(x.shape, str(x.dtype)) for x in option.inputs), **option.call)
    theirs.set_weights(option.weights(model.layers[-1], dense))
    _assert_equal(as_program(lambda x: model(x))(x), as_program(lambda *x: theirs(*x, **option.call))(*option.inputs))


def test_a_draw_is_the_keras_layer_with_the_drawn_matrices(pair):
    draw = draw_of(pair[1])
    with scope.fix_draws(draw):
        _assert_is_keras_s(*pair, lambda posterior: dense_of(posterior, draw[id(posterior)]))


def test_the_mean_is_the_keras_layer_with_the_mean_matrices(pair):
    _assert_is_keras_s(*pair, lambda posterior: ops.convert_to_numpy(posterior.mean().dense()))


def test_the_kl_is_the_sum_over_the_posteriors_however_often_the_layer_is_called(pair):
    _, model, x = pair
    sb.set_kl(model, num_data=10, beta=1.0)  # and deals the examples of a mixture
    model(x, training=True), model(x, training=True)
    exact = sum(posterior.kl_exact() for posterior in sb.find_posteriors(model) if posterior.random)
    assert float(ops.convert_to_numpy(sum(model.losses))) == pytest.approx(0.1 * exact, rel=1e-5)


def test_a_saved_and_loaded_model_is_the_same(pair, tmp_path):
    _, model, x = pair
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        _assert_equal(ours, theirs, rtol=0, atol=0)
    _assert_equal(again(x), model(x), rtol=1e-6)
