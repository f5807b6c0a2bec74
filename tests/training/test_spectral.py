"""Spectral control: each way bounds what it claims, and nothing else is touched."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy.stats import ks_2samp
from table import over_keys, set_factor

import singularbayes as sb
from singularbayes import Adapter, FullRank, LowRank, RankOne, SpectralPenalty, SpectralProjection, layers
from singularbayes.bounds import truncated_kl
from singularbayes.posteriors import noise
from singularbayes.training import truncation

pytestmark = pytest.mark.backend
X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
Y = (3 * X[:, :1] - X[:, 1:2]).astype("float32")


def _network(kernel=None):
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(5, posterior=kernel or LowRank(2), bias_posterior=FullRank()),
            layers.Dense(1, posterior=FullRank()),
        ]
    )
    model.compile(keras.optimizers.SGD(0.002), "mse")
    return model


def _norms(arrays):
    return [float(np.linalg.norm(np.asarray(a, "float64"), 2)) for a in arrays]


def _mean_norms(posterior):
    return _norms(posterior.matrices(ops.convert_to_numpy(posterior.factors[0].loc)))


@pytest.mark.parametrize("kernel", [LowRank(2), FullRank(), Adapter(2)], ids=["low_rank", "full_rank", "adapter"])
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


@pytest.mark.parametrize("make", [LowRank, Adapter, lambda r, **k: FullRank(**k)], ids=["low_rank", "adapter", "full"])
def test_clipped_draws_never_exceed_the_limit_and_others_stay(make):
    clipped, free = make(2, clip=1.5), make(2)
    for posterior in (clipped, free):
        posterior.build((6, 5))
        set_factor(posterior.factors[0], 0.25, 0.3)
    own, other = (over_keys(lambda key, q=q: q.draw(key)[0], 200) for q in (clipped, free))
    before, after = _norms(other), _norms(own)
    assert max(after) <= 1.5 and max(before) > 1.5 > min(before)
    for a, b, norm in zip(own, other, before, strict=True):
        np.testing.assert_allclose(a, b * min(1.0, 1.5 / norm), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "make, scale", [(LowRank, 0.3), (lambda _, **options: FullRank(**options), 0.15)], ids=["low_rank", "full"]
)
def test_redrawn_ones_have_the_law_of_those_within_the_limit(make, scale):
    limit = 1.5
    redrawn, free = make(2, clip=limit, redraws=7), make(2)
    for posterior in (redrawn, free):
        posterior.build((6, 5))
        set_factor(posterior.factors[0], 0.25, scale)
    own, other = (over_keys(lambda key, q=q: q.draw(key)[0], 600, compiled=False) for q in (redrawn, free))
    norms, within = np.array(_norms(own)), np.array([norm for norm in _norms(other) if norm <= limit])
    assert norms.max() <= limit and 0.3 < len(within) / 600 < 0.95
    for a, b, norm in zip(own, other, _norms(other), strict=True):
        if norm <= 0.999 * limit:
            np.testing.assert_array_equal(a, b)
    # The distribution of the norm is that of free draws within; clipped ones would pile up at the limit.
    assert ks_2samp(norms, within).pvalue > 1e-3
    assert (norms > 0.9999 * limit).mean() < 0.02


def test_training_moves_a_posterior_whose_draws_are_made_again():
    model = _network(LowRank(2, clip=0.6, redraws=2))
    posterior = model.layers[0].posterior
    set_factor(posterior.factors[0], 0.1, 0.15)
    before = ops.convert_to_numpy(posterior.factors[0].values)
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X))])
    after = ops.convert_to_numpy(posterior.factors[0].values)
    assert np.isfinite(after).all() and (after != before).any(axis=(1, 2)).all()  # means and scales
    draws = [array for key in _keys(20) for array in posterior.draw(key)]
    assert max(_norms(map(ops.convert_to_numpy, draws))) <= 0.6


def test_clipping_holds_in_prediction_and_training_and_files(tmp_path):
    model = _network(LowRank(2, clip=0.3, redraws=1))
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X))])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    assert again.layers[0].posterior.clip == 0.3
    assert repr(again.layers[0].posterior) == "LowRank(2, clip=0.3, redraws=1)"
    p, q = (sb.predict(m, X, draws=4, likelihood="gaussian") for m in (model, again))
    np.testing.assert_allclose(p.mean, q.mean, rtol=1e-5)


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: RankOne(clip=1.0), "RankOne needs clip=None"),
        (lambda: LowRank(2, clip=0.0), "clip > 0"),
        (lambda: LowRank(2, redraws=3), "LowRank needs redraws .* only with clip; got redraws=3 and clip=None"),
        (lambda: FullRank(clip=1.0, redraws=-1), "FullRank needs redraws to be an integer >= 0"),
        (lambda: SpectralProjection(0.0), "limit > 0"),
        (lambda: SpectralPenalty(1.0, weight=-1.0), "weight >= 0"),
        (lambda: layers.Embedding(5, 4, posterior=LowRank(2, clip=1.0))(np.zeros((2, 3), "int32")), "row by row"),
        (lambda: truncation(_network(RankOne()), 1.0, 1.0), "low-rank or full-rank posteriors"),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_local_reparameterisation_draws_no_weights_to_clip():
    model = keras.Sequential([keras.Input((6,)), layers.Dense(2, posterior=LowRank(2, clip=1.0), estimator="local")])
    sb.set_kl(model, 10)
    with pytest.raises(ValueError, match='clip needs estimator="shared"'):
        model(X, training=True)


def test_the_penalty_is_added_to_the_loss_and_goes_with_the_end_of_training():
    model = _network()
    sb.set_kl(model, len(X), beta=0.0)
    posterior = model.layers[0].posterior
    set_factor(posterior.factors[0], 1.0, 0.1)
    expected = 2.0 * sum(max(0.0, norm - 0.7) ** 2 for norm in _mean_norms(posterior))
    penalty = SpectralPenalty(0.7, weight=2.0)
    penalty.set_model(model)
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
