"""Trained models as mixtures: one model, or an ensemble whose members become components, and back."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import ON_TORCH, TORCH_FIRST

import singularbayes as sb
from singularbayes.posteriors import Origin

pytestmark = pytest.mark.on_torch

K = 3
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 5)).astype("float32"), RNG.integers(0, 3, 20)


def _numpy(x):
    return ops.convert_to_numpy(x)


def _member(activation="relu", units=6, normalised=True):
    x = keras.Input((5,))
    h = keras.layers.LayerNormalization()(keras.layers.Dense(units, activation)(x))
    h = keras.layers.BatchNormalization(momentum=0.5)(h) if normalised else h
    model = keras.Model(x, keras.layers.Dense(3)(h + keras.layers.Dense(units)(h)))
    for weight in model.weights:
        values = RNG.normal(size=weight.shape)
        weight.assign(np.abs(values) + 0.5 if "variance" in weight.path else values)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.fixture(scope="module")
def members():
    return [_member() for _ in range(K)]


@pytest.fixture(scope="module")
def mixture(members):
    model = sb.bayesianize(members, sb.Mixture(sb.FullRank(), K))
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            factor.set(factor.float64_values()[0], 1e-9 * np.ones(factor.shape))  # next to no noise
    return model


def _outputs(models):
    return np.stack([_numpy(model(X)) for model in models])


@TORCH_FIRST
def test_every_component_is_a_member_with_its_biases_gains_and_statistics(members, mixture):
    expected = _outputs(members)
    np.testing.assert_allclose(_numpy(mixture(X)), expected[0], rtol=1e-5, atol=1e-5)
    p = sb.predict(mixture, X, draws=2 * K, keep_draws=True)
    probabilities = np.exp(expected) / np.exp(expected).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(p.draws, np.concatenate([probabilities] * 2), rtol=1e-3, atol=1e-4)
    back = sb.collapse(mixture, component="all")
    np.testing.assert_allclose(_outputs(back), expected, rtol=1e-5, atol=1e-5)
    kinds = [[type(layer) for layer in model.layers] for model in (*back, members[0])]
    assert all(own == kinds[0] for own in kinds)  # plain Keras layers, normalisations too
    np.testing.assert_allclose(_numpy(sb.collapse(mixture, component=2)(X)), expected[2], rtol=1e-5, atol=1e-5)


@ON_TORCH
def test_components_can_be_taken(members, mixture, tmp_path):
    p = sb.predict(mixture, X, draws=K, keep_draws=True)
    less = sb.take_components(mixture, [0, 2])
    assert {q.components for q in sb.find_posteriors(less)} == {2} and less.compiled
    np.testing.assert_allclose(sb.predict(less, X, draws=2, keep_draws=True).draws, p.draws[[0, 2]], atol=1e-5)
    one = sb.take_components(mixture, 2)
    assert {type(q) for q in sb.find_posteriors(one)} == {sb.FullRank}
    np.testing.assert_allclose(_numpy(one(X)), _numpy(members[2](X)), rtol=1e-5, atol=1e-5)
    less.save(tmp_path / "less.keras")
    again = sb.load(tmp_path / "less.keras")
    np.testing.assert_allclose(sb.predict(again, X, draws=2).mean, p.draws[[0, 2]].mean(axis=0), atol=1e-5)
    frozen = sb.freeze_draws(mixture, K)
    np.testing.assert_allclose(frozen.predict(X, verbose=0)["mean"], p.mean, atol=1e-5)
    with sb.draw_weights(mixture):  # all layers of a pass use one component, normalisations too
        found = _numpy(mixture(X))
    assert np.abs(_outputs(members) - found).max(axis=(1, 2)).min() < 1e-4


@TORCH_FIRST
@pytest.mark.rows_on_torch
def test_a_converted_ensemble_trains_all_that_it_holds_in_every_component(members):
    model = sb.bayesianize(members, sb.Mixture(sb.LowRank(2), K))
    trained = [w for w in model.weights if w.trainable or "moving" in w.path]
    before = [_numpy(w) for w in trained]
    history = model.fit(X, Y, batch_size=10, epochs=1, verbose=0, callbacks=[sb.KLSchedule(20, beta=1.0)]).history
    assert np.isfinite(history["nll"]).all() and len(trained) == 12
    for old, weight in zip(before, trained, strict=True):
        assert len(old) == K
        assert (np.abs(_numpy(weight) - old).reshape(K, -1).max(axis=1) > 0).all(), weight.path


@pytest.mark.parametrize("posterior", ["mixture", sb.Mixture(sb.LowRank(2))], ids=["name", "posterior"])
@TORCH_FIRST
def test_a_mixture_without_a_number_has_a_component_for_each_member(members, posterior):
    model = sb.bayesianize(members, posterior)
    assert {each.components for each in sb.find_posteriors(model)} == {K}
    assert f"Mixture of {K} LowRank" in str(sb.plan(members, posterior))
    assert {each.components for each in sb.find_posteriors(sb.bayesianize(members[0], posterior))} == {4}


def test_a_lower_rank_starts_at_the_truncated_svd_of_each_member(members):
    model = sb.bayesianize(members, sb.Mixture(sb.LowRank(2), K))
    kernels = [[_numpy(layer.kernel) for layer in m.layers if isinstance(layer, keras.layers.Dense)] for m in members]
    for place, posterior in enumerate(sb.find_posteriors(model)):
        for k in range(K):
            u, s, vt = np.linalg.svd(kernels[k][place].astype("float64"), full_matrices=False)
            w = _numpy(posterior.component(k).mean().dense())
            np.testing.assert_allclose(w, (u[:, :2] * s[:2]) @ vt[:2], atol=1e-4)
    plan = sb.plan(members, sb.Mixture(sb.LowRank(2), K))
    assert plan.after == sum(int(np.prod(w.shape)) for w in model.weights if len(w.shape))
    assert plan.before == sum(m.count_params() for m in members)
    assert "Mixture of 3 LowRank(2)" in str(plan) and "one for each component" in str(plan)
    first = [np.linalg.svd(kernels[k][0], compute_uv=False) for k in range(K)]
    residual = np.sqrt(sum((s[2:] ** 2).sum() for s in first))
    assert plan.rows[0].residual == pytest.approx(residual, rel=1e-4)
    converted = sb.spectrum(model).rows[:K]
    assert [row.matrix for row in converted] == [f"kernel[{k}]" for k in range(K)]
    for row, s in zip(converted, first, strict=True):
        np.testing.assert_allclose(row.values[:2], s[:2], rtol=1e-4)


def test_one_model_starts_the_first_component_at_its_weights_and_the_others_around_them(members):
    trained = members[0]
    trained.layers[-1].trainable = False  # a frozen layer stays at its weights in every component
    model = sb.bayesianize(trained, sb.Mixture(sb.FullRank(), K))
    trained.layers[-1].trainable = True
    *moved, frozen = [layer for layer in model.layers if isinstance(layer, sb.layers.Dense)]
    plain = [layer for layer in trained.layers if isinstance(layer, keras.layers.Dense)]
    for ours, theirs in zip(moved, plain, strict=False):
        np.testing.assert_array_equal(_numpy(ours.bias), np.stack([_numpy(theirs.bias)] * K))
        kernel = _numpy(theirs.kernel)
        for k in range(K):
            part = ours.posterior.component(k)
            distance = np.abs(_numpy(part.mean().dense()) - kernel)
            assert distance.max() < 6 * np.sqrt(part.variance().max())
            assert (distance.max() > 0) == (k > 0)
    for k in range(K):
        np.testing.assert_array_equal(_numpy(frozen.posterior.component(k).mean().dense()), _numpy(plain[-1].kernel))
    np.testing.assert_allclose(_numpy(model(X)), _numpy(trained(X)), rtol=1e-5, atol=1e-5)
    assert [type(layer).__name__ for layer in model.layers].count("PerComponent") == 2
    trained.layers[2].trainable = trained.layers[3].trainable = False
    again = sb.bayesianize(trained, sb.Mixture(sb.LowRank(2), K))
    trained.layers[2].trainable = trained.layers[3].trainable = True
    assert "PerComponent" not in [type(layer).__name__ for layer in again.layers]  # frozen gains serve all


def test_an_anchor_of_members_has_to_be_chosen_and_is_marked():
    plain = [keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, use_bias=False)]) for _ in range(2)]
    with pytest.raises(ValueError, match="Anchored needs anchor='random' or anchor='start'"):
        sb.bayesianize(plain, sb.Mixture(sb.LowRank(2, prior="anchored"), 2))
    for anchor, origin in (("random", Origin.INITIAL), ("start", Origin.START)):
        model = sb.bayesianize(plain, sb.Mixture(sb.LowRank(4, loc_lr=1.0, prior=sb.Anchored(anchor=anchor)), 2))
        (factor,) = model.layers[0].posterior.factors
        assert factor.prior_origin() == origin
        loc, _, (centre, _) = factor.float64_values()
        for a_and_b, member in zip(loc, plain, strict=True):
            kernel = _numpy(member.layers[0].kernel)
            np.testing.assert_allclose(a_and_b[:5] @ a_and_b[5:].T, kernel, atol=1e-5)
        assert (np.abs(centre - loc).max() == 0) == (anchor == "start")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda m: sb.bayesianize([m, _member("tanh"), _member()], sb.Mixture(sb.LowRank(2), 3)), "activation='tanh'"),
        (lambda m: sb.bayesianize([m, _member(units=7)], sb.Mixture(sb.LowRank(2), 2)), r"model 1 differs.*\(5, 7\)"),
        (lambda m: sb.bayesianize([m, _member(normalised=False)], sb.Mixture(sb.LowRank(2), 2)), "model 1 differs"),
        (lambda m: sb.bayesianize([m, _member()], sb.Mixture(sb.LowRank(2), 4)), "components=2.*got Mixture.*=4"),
        (lambda m: sb.bayesianize([m, _member()], 2), r"Mixture\(LowRank\(2\), components=2\); got LowRank"),
        (lambda m: sb.bayesianize([m, m], sb.Mixture(sb.LowRank(2), 2)), "different models"),
        (lambda m: sb.bayesianize([], sb.Mixture(sb.LowRank(2), 2)), "a list of built Keras models"),
        (lambda m: sb.bayesianize([m, _member()], sb.Mixture(2, 2), init="random"), 'needs init="svd"'),
        (lambda m: sb.collapse(m, component=1), "one number of components above 1; got none"),
        (lambda m: sb.collapse(m, component="first"), 'a number or "all"'),
        (lambda m: sb.take_components(m, 0), "take_components needs a model whose mixtures"),
    ],
)
def test_bad_input_is_refused(members, make, message):
    with pytest.raises(ValueError, match=message):
        make(members[0])


@pytest.mark.parametrize("numbers", [3, -1, True, 0.0, [], [0, 0], [0, 3]])
def test_components_that_there_are_not_are_refused(mixture, numbers):
    with pytest.raises(ValueError, match=r"needs different components from 0 to 2; got"):
        sb.take_components(mixture, numbers)
