"""Spectral control: each way bounds what it claims, and nothing else is touched."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST, set_factor

import singularbayes as sb
from singularbayes import Adapter, FullRank, LowRank, RankOne, SpectralPenalty, SpectralProjection, layers
from singularbayes.bounds import truncated_kl
from singularbayes.posteriors import noise
from singularbayes.training import truncation

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch, TORCH_FIRST]
X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
Y = (3 * X[:, :1] - X[:, 1:2]).astype("float32")


def _network(kernel=None):
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(5, posterior=kernel or LowRank.paper(2), bias_posterior=FullRank()),
            layers.Dense(1, posterior=FullRank()),
        ]
    )
    model.compile(keras.optimizers.SGD(0.002), "mse")
    return model


def _norms(arrays):
    return [float(np.linalg.norm(np.asarray(a, "float64"), 2)) for a in arrays]


def _mean_norms(posterior):
    return _norms(posterior.matrices(ops.convert_to_numpy(posterior.factors[0].loc)))


@pytest.mark.parametrize("kernel", [LowRank.paper(2), FullRank(), Adapter(2)], ids=["low_rank", "full_rank", "adapter"])
def test_projection_bounds_the_means_after_training_and_not_the_draws(kernel):
    model = _network(kernel)
    posterior = model.layers[0].posterior
    set_factor(posterior.factors[0], 3 * np.ones(posterior.factors[0].shape), 1.0)
    schedule = sb.KLSchedule(len(X), beta=1e-3)
    model.fit(X, Y, epochs=3, batch_size=16, verbose=0, callbacks=[schedule, SpectralProjection(0.5)])
    assert max(_mean_norms(posterior)) <= 0.5
    assert max(_mean_norms(posterior)) > 0.4  # it was the limit that held them
    draws = [posterior.draw(key) for key in _keys(20)]
    assert max(max(_norms(map(ops.convert_to_numpy, draw))) for draw in draws) > 0.5


def test_projection_leaves_means_within_the_limit_as_they_are():
    model = _network()
    before = model.get_weights()
    projection = SpectralProjection(max(_mean_norms(model.layers[0].posterior)))
    projection.set_model(model)
    projection.on_train_begin()
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def _keys(count):
    return [noise.as_keys(words) for words in np.random.default_rng(0).integers(0, 2**31 - 1, (count, 2))]


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: SpectralProjection(0.0), "limit > 0"),
        (lambda: SpectralPenalty(1.0, weight=-1.0), "weight >= 0"),
        (lambda: truncation(_network(RankOne()), 1.0, 1.0), "low-rank or full-rank posteriors"),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_the_penalty_is_added_to_the_loss_and_goes_with_the_end_of_training():
    model = _network()
    sb.set_kl(model, len(X), beta=0.0)
    posterior = model.layers[0].posterior
    set_factor(posterior.factors[0], 1.0, 0.1)
    expected = 2.0 * sum(max(0.0, norm - 0.7) ** 2 for norm in _mean_norms(posterior))
    penalty = SpectralPenalty(0.7, weight=2.0)
    penalty.set_model(model)
    model(X, training=True)
    assert sum(float(ops.convert_to_numpy(loss)) for loss in model.losses) == pytest.approx(expected, rel=1e-4)
    penalty.on_train_end()
    assert sum(float(ops.convert_to_numpy(loss)) for loss in model.losses) == pytest.approx(0.0, abs=1e-9)


def test_a_penalty_pulls_norms_towards_the_limit():
    found = []
    for weight in (0.0, 300.0):
        keras.utils.set_random_seed(3)
        model = _network()
        set_factor(model.layers[0].posterior.factors[0], 0.8, 0.01)
        callbacks = [sb.KLSchedule(len(X), beta=0.0), SpectralPenalty(0.5, weight=weight)]
        model.compile(keras.optimizers.Adam(0.02), "mse")
        model.fit(X, Y, epochs=40, verbose=0, callbacks=callbacks)
        found.append(max(_mean_norms(model.layers[0].posterior)))
    assert found[1] < 0.6 < found[0]


def test_rejection_costs_what_the_formula_says_and_everything_where_nothing_is_rejected():
    model = _network()
    posterior = model.layers[0].posterior
    set_factor(posterior.factors[0], 0.2, 0.3)
    wide = truncation(model, 1e3, kl=10.0, draws=100)
    assert wide.kept.terms["successes"] == 100
    narrow = truncation(model, 1.3, kl=10.0, draws=100)
    assert 0 < narrow.kept.value < wide.kept.value
    assert narrow.kl == truncated_kl(10.0, narrow.kept) > wide.kl > 10.0
    assert truncation(model, 1e-6, kl=10.0, draws=10).kl == float("inf")
