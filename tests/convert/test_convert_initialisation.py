"""Where a converted layer starts: its scales as new, and its weights where it is frozen."""

import keras
import numpy as np
import pytest
from convertible import RNG, array, not_on_jax, stirred
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import LowRank, find_posteriors

pytestmark = [pytest.mark.backend, TORCH_FIRST]
L = keras.layers


@not_on_jax
def test_scales_start_as_those_of_a_new_layer():
    model = stirred(keras.Sequential([keras.Input((6,)), L.Dense(5)]))
    (svd,), (fresh,) = (
        find_posteriors(sb.bayesianize(model, LowRank(2, eta=0.1), init=init)) for init in ("svd", "random")
    )
    np.testing.assert_allclose(*(ops.convert_to_numpy(p.ab.scale) for p in (svd, fresh)), rtol=1e-6)


@not_on_jax
def test_scales_follow_the_trained_weights_where_they_are_requested_to():
    model = keras.Sequential([keras.Input((6,)), L.Dense(5)])
    model.layers[0].kernel.assign(RNG.normal(0, 30, (6, 5)))
    normal = keras.initializers.RandomNormal
    choose = lambda layer: LowRank(2, initializer=normal(stddev=float(layer.get_weights()[0].std())))  # noqa: E731
    (posterior,) = find_posteriors(sb.bayesianize(model, choose, init="svd"))
    expected = 0.1 * (array(model.layers[0].kernel).std() ** 2 / 2) ** 0.25
    np.testing.assert_allclose(array(posterior.ab.scale), expected, rtol=1e-5)
    u, s, vt = np.linalg.svd(array(model.layers[0].kernel))
    np.testing.assert_allclose(array(posterior.mean().dense()), (u[:, :2] * s[:2]) @ vt[:2], rtol=1e-4, atol=1e-4)


FROZEN = {
    "dense": lambda: (L.Dense(4), (6,)),
    "lstm": lambda: (L.LSTM(4), (5, 6)),
    "embedding": lambda: (L.Embedding(9, 4), (5,)),
}


@pytest.mark.parametrize("kind", FROZEN)
@not_on_jax
def test_a_frozen_layer_stays_frozen_at_its_weights(kind, tmp_path):
    layer, shape = FROZEN[kind]()
    model = keras.Sequential([keras.Input(shape), layer, L.Flatten(), L.Dense(2)])
    layer.trainable = False
    bayes = sb.bayesianize(model, 2)
    assert len(bayes.trainable_variables) == 2  # the posterior and the bias of the last layer
    assert "frozen: starts at its weights" in str(sb.plan(model, 2))
    exact = sb.bayesianize(model, sb.FullRank())
    means = [ops.convert_to_numpy(posterior.mean().dense()).ravel() for posterior in find_posteriors(exact)]
    assert any(np.array_equal(mean, ops.convert_to_numpy(layer.weights[0]).ravel()) for mean in means)
    bayes.save(tmp_path / "frozen.keras")
    assert len(sb.load(tmp_path / "frozen.keras").trainable_variables) == 2
    assert len(sb.collapse(bayes, merge=True).trainable_variables) == 2


def test_no_start_is_drawn_that_the_trained_weights_replace(monkeypatch):
    """On JAX every shape of a random start costs a compilation."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5), keras.layers.Dense(2)])
    kinds = (keras.initializers.RandomNormal, keras.initializers.RandomUniform, keras.initializers.Orthogonal)
    for kind in kinds:
        monkeypatch.setattr(kind, "__call__", lambda *_, **__: pytest.fail("a start was drawn"))
    x = np.ones((1, 6), "float32")
    for posterior in (LowRank(8), sb.FullRank(), sb.AdaptiveLowRank()):
        assert sb.plan(model, posterior).after
        np.testing.assert_allclose(
            *(ops.convert_to_numpy(m(x)) for m in (sb.bayesianize(model, posterior), model)), 1e-4
        )
    with pytest.raises(pytest.fail.Exception, match="a start was drawn"):  # the centres of its prior
        sb.bayesianize(model, LowRank(8, prior=sb.Anchored(0.1, anchor="random")))
