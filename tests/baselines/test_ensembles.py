"""Ensembles: one member is its model, equal members agree, and every draw of every member counts the same."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST
from scipy import special

import singularbayes as sb
from singularbayes import DeepEnsemble, LowRank, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch, TORCH_FIRST]
RNG = np.random.default_rng(4)
X = RNG.normal(size=(20, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")


def _compiled(model):
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def point():
    return _compiled(keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]))


def random():
    return _compiled(keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank(2, eta=0.5))]))


def _same(one, other, rtol=1e-6):
    for name in ("mean", "std", "mutual_information", "expected_entropy"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-7)
    assert one.num_draws == other.num_draws


@pytest.mark.parametrize("build", [point, random])
def test_an_ensemble_of_one_equals_its_member(build):
    model = build()
    _same(DeepEnsemble.from_models([model]).predict(X, draws=30, seed=3), sb.predict(model, X, draws=30, seed=3))


def test_members_are_those_of_fit_many_and_the_first_of_a_larger_ensemble():
    two, three = (DeepEnsemble(point, members, seed=1).fit(X, Y, epochs=2) for members in (2, 3))
    (alone,) = sb.fit_many(point, X, Y, three.seeds[:1], epochs=2)
    weights = [ops.convert_to_numpy(model.weights[0]) for model in (*two.models, *three.models[:2], alone.model)]
    for same in ((0, 2), (1, 3), (0, 4)):
        np.testing.assert_allclose(weights[same[0]], weights[same[1]], rtol=1e-5)
    assert not set(two.seeds) & set(DeepEnsemble(point, 2, seed=2).seeds)
    assert [len(history.history["loss"]) for history in three.histories] == [2, 2, 2]


def test_probabilities_of_members_are_averaged():
    ensemble = DeepEnsemble.from_models([point(), point(), point()])
    each = np.stack([special.softmax(ops.convert_to_numpy(model(X)), axis=-1) for model in ensemble.models])
    p = ensemble.predict(X, keep_draws=True)
    np.testing.assert_allclose(p.draws, each, rtol=1e-5)
    np.testing.assert_allclose(p.mean, each.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(p.std, each.std(axis=0), rtol=1e-4, atol=1e-6)
    information = special.entr(each.mean(axis=0)).sum(-1) - special.entr(each).sum(-1).mean(axis=0)
    np.testing.assert_allclose(p.mutual_information, information, rtol=1e-4, atol=1e-6)


def test_the_draws_of_all_members_are_pooled_and_no_two_members_draw_alike():
    one, other = random(), random()
    ensemble = DeepEnsemble.from_models([one, other])
    p = ensemble.predict(X, draws=40, seed=5, keep_draws=True)
    assert p.num_draws == 40 and p.draws.shape == (40, 20, 3)
    np.testing.assert_allclose(p.mean, p.draws.mean(axis=0), rtol=1e-6)
    information = special.entr(p.mean).sum(-1) - special.entr(p.draws).sum(-1).mean(axis=0)
    np.testing.assert_allclose(p.mutual_information, information, rtol=1e-6, atol=1e-9)
    whole = [sb.predict(model, X, draws=40, seed=5, keep_draws=True).draws for model in (one, other)]
    np.testing.assert_allclose(p.draws, np.concatenate([whole[0][:20], whole[1][20:]]), rtol=1e-5, atol=1e-6)


@JAX_FIRST
def test_an_ensemble_stores_all_its_members():
    assert DeepEnsemble.from_models([point(), point()]).num_stored == 2 * 15
    assert DeepEnsemble.from_models([random(), random()]).num_trained == 2 * (2 * 2 * (4 + 3) + 3)


@JAX_FIRST
def test_the_paper_s_ensemble_is_counted_as_printed(vectors):
    widths = [keras.Input((44,)), *[keras.layers.Dense(n) for n in (128, 128, 1)]]
    counted = DeepEnsemble.from_models(keras.models.clone_model(keras.Sequential(widths)) for _ in range(5)).num_stored
    assert counted == vectors["parameter_counts"]["expected"]["mimic_ensemble"]


@pytest.mark.parametrize("build", [point, random])
def test_a_saved_ensemble_predicts_the_same(build, tmp_path):
    ensemble = DeepEnsemble.from_models([build(), build()])
    DeepEnsemble.from_models([point() for _ in range(3)]).save(tmp_path / "ensemble")  # which it replaces
    ensemble.save(tmp_path / "ensemble")
    with pytest.raises(FileNotFoundError, match="a folder that DeepEnsemble"):
        DeepEnsemble.load(tmp_path)
    again = DeepEnsemble.load(tmp_path / "ensemble")
    _same(again.predict(X, draws=10), ensemble.predict(X, draws=10))
    with pytest.raises(ValueError, match="needs build, and this ensemble was made from models"):
        again.fit(X, Y, epochs=1)


@pytest.mark.parametrize("bad", [0, 2.5])
@TORCH_FIRST
def test_a_number_of_members_that_is_not_whole_and_above_0_is_refused(bad):
    with pytest.raises(ValueError, match=rf"DeepEnsemble needs members to be an integer >= 1; got members={bad!r}"):
        DeepEnsemble(point, bad)


@JAX_FIRST
def test_an_ensemble_needs_different_trained_members():
    with pytest.raises(ValueError, match="needs trained members; call fit first"):
        DeepEnsemble(point).predict(X)
    with pytest.raises(ValueError, match="one or more different models; got 0"):
        DeepEnsemble.from_models([])
    model = point()
    with pytest.raises(ValueError, match="one or more different models; got 2"):
        DeepEnsemble.from_models([model, model])


@JAX_FIRST
def test_draws_that_members_cannot_share_are_rounded_up():
    ensemble = DeepEnsemble.from_models([random(), random()])
    assert ensemble.predict(X, draws=5).num_draws == 6
    np.testing.assert_array_equal(ensemble.predict(X, draws=5).mean, ensemble.predict(X, draws=6).mean)


@JAX_FIRST
def test_members_whose_outputs_mean_something_else_are_refused():
    calm, loud = point(), point()
    calm.compile("sgd", sb.Gaussian(0.1))
    loud.compile("sgd", sb.Gaussian(2.0))
    with pytest.raises(ValueError, match=r"outputs mean the same; got .* with another loss than the first"):
        DeepEnsemble.from_models([calm, loud]).predict(X)
    assert DeepEnsemble.from_models([calm, loud]).predict(X, likelihood=sb.Gaussian(0.5)).noise == 0.5
