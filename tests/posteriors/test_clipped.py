"""Clipped: draws within a norm, for every random posterior, and all else as it was."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import RANDOM, TORCH_FIRST, built, one_row_each, over_keys, set_factor, stirred
from scipy.stats import ks_2samp

import singularbayes as sb
from singularbayes import Adapter, AdaptiveLowRank, Clipped, Deterministic, FullRank, LowRank, RankOne, layers
from singularbayes.posteriors import noise, serialize

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]
X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
Y = (3 * X[:, :1] - X[:, 1:2]).astype("float32")


def _network(kernel):
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(5, posterior=kernel), layers.Dense(1, posterior=FullRank(prior="normal"))]
    )
    model.compile(keras.optimizers.SGD(0.002), "mse")
    return model


def _norms(arrays):
    return [float(np.linalg.norm(np.asarray(a, "float64"), 2)) for a in arrays]


@pytest.mark.parametrize("make", [LowRank, Adapter, lambda _: FullRank()], ids=["low_rank", "adapter", "full"])
@TORCH_FIRST
def test_clipped_draws_never_exceed_the_limit_and_others_stay(make):
    clipped, free = Clipped(make(2), 1.5), make(2)
    for posterior in (clipped, free):
        posterior.build((6, 5))
        set_factor(posterior.factors[0], 0.25, 0.3)
    own, other = (over_keys(lambda key, q=q: q.draw(key)[0], 200) for q in (clipped, free))
    before, after = _norms(other), _norms(own)
    assert max(after) <= 1.5 and max(before) > 1.5 > min(before)
    for a, b, norm in zip(own, other, before, strict=True):
        np.testing.assert_allclose(a, b * min(1.0, 1.5 / norm), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", one_row_each(name for name in RANDOM if name != "clipped"))
@TORCH_FIRST
def test_it_fits_every_random_posterior(name):
    free = stirred(RANDOM[name]())
    clipped = stirred(Clipped(RANDOM[name](), limit=0.5))
    if name.startswith("rank_one"):
        clipped.posterior.w0.assign(free.w0)
    if name.startswith("adapter"):
        clipped.posterior.w0.assign(np.zeros(clipped.posterior.w0.shape))
        free.w0.assign(np.zeros(free.w0.shape))
        clipped.posterior.ab.reference.assign(free.ab.reference)  # the anchors are random
    factored = name.startswith("adapter") or len(clipped.matrices(clipped.factors[0].loc)) == 2  # A and B, each
    draws = over_keys(lambda key: clipped.weight(clipped.draw(key)).dense(), 20)
    assert max(_norms(draws)) <= (0.25 if factored else 0.5)
    np.testing.assert_array_equal(*(ops.convert_to_numpy(q.mean().dense()) for q in (free, clipped)))
    np.testing.assert_array_equal(free.variance(), clipped.variance())
    assert free.covariance((0, 1), (0, 2)) == clipped.covariance((0, 1), (0, 2))
    assert free.kl_exact() == clipped.kl_exact() and clipped.certified_kl()[1] == free.certified_kl()[0]
    wide = stirred(Clipped(RANDOM[name](), limit=1e6))
    if hasattr(free, "w0"):
        wide.posterior.w0.assign(free.w0)
    ours, theirs = (over_keys(lambda key, q=q: q.weight(q.draw(key)).dense(), 5) for q in (wide, free))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make, scale", [(LowRank, 0.3), (lambda _: FullRank(), 0.15)], ids=["low_rank", "full"])
def test_redrawn_ones_are_distributed_as_those_within_the_limit(make, scale):
    limit = 1.5
    redrawn, free = Clipped(make(2), limit, redraws=7), make(2)
    for posterior in (redrawn, free):
        posterior.build((6, 5))
        set_factor(posterior.factors[0], 0.25, scale)
    own, other = (over_keys(lambda key, q=q: q.draw(key)[0], 600, compiled=False) for q in (redrawn, free))
    norms, within = np.array(_norms(own)), np.array([norm for norm in _norms(other) if norm <= limit])
    assert norms.max() <= limit and 0.3 < len(within) / 600 < 0.95
    for a, b, norm in zip(own, other, _norms(other), strict=True):
        if norm <= 0.999 * limit:
            np.testing.assert_array_equal(a, b)
    # The norm is distributed as that of free draws within; clipped ones would pile up at the limit.
    assert ks_2samp(norms, within).pvalue > 1e-3
    assert (norms > 0.9999 * limit).mean() < 0.02


def test_training_moves_a_posterior_whose_draws_are_made_again():
    model = _network(Clipped(LowRank.paper(2, prior="normal"), 0.6, redraws=2))
    posterior = model.layers[0].posterior
    assert sb.find_posteriors(model) == [posterior, model.layers[1].posterior]
    set_factor(posterior.factors[0], 0.1, 0.15)
    before = ops.convert_to_numpy(posterior.factors[0].values)
    with pytest.raises(ValueError, match="KL weight is not set"):
        model.fit(X, Y, verbose=0)
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    added = sum(float(ops.convert_to_numpy(loss)) for loss in model.losses)
    assert added == pytest.approx(sb.kl(model, "exact") / len(X), rel=1e-4)  # counted once
    after = ops.convert_to_numpy(posterior.factors[0].values)
    assert np.isfinite(after).all() and (after != before).any(axis=(1, 2)).all()  # means and scales
    keys = map(noise.as_keys, np.random.default_rng(0).integers(0, 2**31 - 1, (20, 2)))
    draws = [array for key in keys for array in posterior.draw(key)]
    assert max(_norms(map(ops.convert_to_numpy, draws))) <= 0.6


def test_clipping_is_kept_in_prediction_and_files(tmp_path):
    model = _network(Clipped(LowRank.paper(2), limit=0.3, redraws=1))
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    assert repr(again.layers[0].posterior) == f"Clipped({LowRank.paper(2)!r}, 0.3, redraws=1)"
    assert again.layers[0].posterior.kl_weight_now == pytest.approx(1 / len(X))
    p, q = (sb.predict(m, X, draws=4, likelihood="gaussian") for m in (model, again))
    np.testing.assert_allclose(p.mean, q.mean, rtol=1e-5)


def test_conversion_lowers_the_rank_of_the_one_inside_and_pruning_its_columns():
    trained = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5), keras.layers.Dense(2)])
    bayes = sb.bayesianize(trained, Clipped(LowRank.paper(4), 2.0))
    assert [q.effective_rank for q in sb.find_posteriors(bayes)] == [4, 2]
    bayes = sb.bayesianize(trained, Clipped(AdaptiveLowRank(4), 2.0), init="svd")
    posterior = bayes.layers[0].posterior
    posterior.ab.live.assign([1, 0, 1, 1])
    assert posterior.learned_rank == 3
    pruned = sb.ranks.prune(bayes, tolerance=0.0).model
    assert repr(pruned.layers[0].posterior) == "Clipped(AdaptiveLowRank(max_rank=3), 2.0)"
    means = []
    for model in (bayes, pruned):
        means.append(ops.convert_to_numpy(model(X)))
    np.testing.assert_allclose(*means, rtol=1e-4, atol=1e-5)


def test_a_copy_is_clipped_at_the_same_limit():
    posterior = Clipped(FullRank(prior="normal"), 2, redraws=3)
    again = sb.posteriors.get_posterior(serialize(posterior))
    assert repr(again) == repr(posterior) == "Clipped(FullRank(prior=Normal(scale=1.0)), 2.0, redraws=3)"
    assert not again.built and again.posterior is not posterior.posterior


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: Clipped(LowRank.paper(2), 0.0), "limit > 0"),
        (lambda: Clipped(LowRank.paper(2), 1.0, redraws=-1), "Clipped needs redraws to be an integer >= 0"),
        (lambda: Clipped(Deterministic(), 1.0), r"draws that are not clipped yet; got Deterministic\(\)"),
        (lambda: Clipped(Clipped(LowRank.paper(2), 1.0), 1.0), "draws that are not clipped yet; got Clipped"),
        (lambda: layers.Dense(2, posterior=Clipped(LowRank.paper(2), 1.0), estimator="local"), 'estimator="shared"'),
        (
            lambda: layers.Embedding(5, 4, posterior=Clipped(LowRank.paper(2), 1.0))(np.zeros((2, 3), "int32")),
            "row by row",
        ),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_a_norm_that_no_formula_bounds_has_no_certificate():
    posterior = Clipped(RankOne(prior="normal"), 1.0, redraws=1)
    with pytest.raises(ValueError, match="factors that are matrices where draws are made again"):
        built(posterior).certified_kl()


def test_its_initializer_is_that_of_the_posterior_inside_unless_that_has_one():
    ones, twos = (keras.initializers.Constant(value) for value in (1.0, 2.0))
    for inside, mean in [(FullRank(), 1.0), (FullRank(initializer=twos), 2.0)]:
        posterior = Clipped(inside, 1.0, initializer=ones)
        posterior.build((3, 2))
        np.testing.assert_array_equal(ops.convert_to_numpy(posterior.mean().dense()), mean)
