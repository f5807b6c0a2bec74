"""Ensembles: one member is its model, equal members agree, and every draw of every member counts the same."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST
from scipy import special

import singularbayes as sb
from singularbayes import DeepEnsemble, LowRank, LowRankEnsemble, layers
from singularbayes.models import count_stored

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


@pytest.mark.parametrize(("kind", "build"), [(DeepEnsemble, point), (LowRankEnsemble, random)])
def test_an_ensemble_of_one_equals_its_member(kind, build):
    model = build()
    _same(kind.from_models([model]).predict(X, draws=30, seed=3), sb.predict(model, X, draws=30, seed=3))


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


def test_members_that_are_identical_have_no_mutual_information():
    one, other = point(), point()
    other.set_weights(one.get_weights())
    assert DeepEnsemble.from_models([one, other]).predict(X).mutual_information.max() < 1e-6


def test_the_draws_of_all_members_are_pooled_and_no_two_members_draw_alike():
    one, other = random(), random()
    ensemble = LowRankEnsemble.from_models([one, other])
    p = ensemble.predict(X, draws=40, seed=5, keep_draws=True)
    assert p.num_draws == 40 and p.draws.shape == (40, 20, 3)
    np.testing.assert_allclose(p.mean, p.draws.mean(axis=0), rtol=1e-6)
    information = special.entr(p.mean).sum(-1) - special.entr(p.draws).sum(-1).mean(axis=0)
    np.testing.assert_allclose(p.mutual_information, information, rtol=1e-6, atol=1e-9)
    whole = [sb.predict(model, X, draws=40, seed=5, keep_draws=True).draws for model in (one, other)]
    np.testing.assert_allclose(p.draws, np.concatenate([whole[0][:20], whole[1][20:]]), rtol=1e-5, atol=1e-6)


def test_a_low_rank_ensemble_trains_by_the_elbo():
    ensemble = LowRankEnsemble(random, 2).fit(X, Y, epochs=2, callbacks=lambda: [sb.KLSchedule(num_data=20, beta=1.0)])
    assert all({"nll", "kl"} <= set(history.history) for history in ensemble.histories)
    assert ensemble.predict(X, draws=10).num_draws == 10


@JAX_FIRST
def test_an_ensemble_stores_all_its_members():
    assert DeepEnsemble.from_models([point(), point()]).num_stored == 2 * 15
    assert LowRankEnsemble.from_models([random(), random()]).num_trained == 2 * (2 * 2 * (4 + 3) + 3)


@JAX_FIRST
def test_the_paper_s_ensemble_is_counted_as_printed(vectors):
    widths = [keras.Input((44,)), *[keras.layers.Dense(n) for n in (128, 128, 1)]]
    counted = DeepEnsemble.from_models(keras.models.clone_model(keras.Sequential(widths)) for _ in range(5)).num_stored
    assert counted == vectors["parameter_counts"]["expected"]["mimic_ensemble"]


@pytest.mark.parametrize(("kind", "build"), [(DeepEnsemble, point), (LowRankEnsemble, random)])
def test_a_saved_ensemble_predicts_the_same(kind, build, tmp_path):
    ensemble = kind.from_models([build(), build()])
    for _ in range(2):  # a second time over the first
        ensemble.save(tmp_path / "ensemble")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ensemble"]
    again = kind.load(tmp_path / "ensemble")
    _same(again.predict(X, draws=10), ensemble.predict(X, draws=10))
    with pytest.raises(ValueError, match="needs build, and this ensemble was made from models"):
        again.fit(X, Y, epochs=1)


@JAX_FIRST
def test_folders_that_are_something_else_are_refused_and_left(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    ensemble = DeepEnsemble.from_models([point()])
    with pytest.raises(ValueError, match="save needs a new folder, or one that a baseline was saved in"):
        ensemble.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(FileNotFoundError, match=r"load needs a folder that DeepEnsemble.save wrote"):
        DeepEnsemble.load(tmp_path)
    ensemble.save(tmp_path / "deep")
    with pytest.raises(ValueError, match=r"a folder of LowRankEnsemble; got .*holds 'DeepEnsemble'"):
        LowRankEnsemble.load(tmp_path / "deep")


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, None])
@TORCH_FIRST
def test_a_number_of_members_that_is_not_whole_and_above_0_is_refused(bad):
    with pytest.raises(ValueError, match=rf"DeepEnsemble needs members to be an integer >= 1; got members={bad!r}"):
        DeepEnsemble(point, bad)


@JAX_FIRST
def test_an_ensemble_is_asked_only_with_members_of_its_kind():
    with pytest.raises(ValueError, match="needs trained members; call fit first"):
        DeepEnsemble(point).predict(X)
    with pytest.raises(ValueError, match="one or more different models; got 0"):
        DeepEnsemble.from_models([])
    model = point()
    with pytest.raises(ValueError, match="one or more different models; got 2"):
        DeepEnsemble.from_models([model, model])
    with pytest.raises(ValueError, match=r"deterministic networks; got .* with a random posterior. Use Low"):
        DeepEnsemble.from_models([random()])
    with pytest.raises(ValueError, match=r"members with a random posterior.* got .* Use DeepEnsemble"):
        LowRankEnsemble.from_models([point()])


@JAX_FIRST
def test_draws_that_members_cannot_share_are_rounded_up():
    ensemble = LowRankEnsemble.from_models([random(), random()])
    assert ensemble.predict(X, draws=5).num_draws == 6
    np.testing.assert_array_equal(ensemble.predict(X, draws=5).mean, ensemble.predict(X, draws=6).mean)


@JAX_FIRST
def test_members_whose_outputs_mean_something_else_are_refused():
    calm, loud = point(), point()
    calm.compile("sgd", sb.GaussianNLL(0.1))
    loud.compile("sgd", sb.GaussianNLL(2.0))
    with pytest.raises(ValueError, match=r"outputs mean the same; got .* with another loss than the first"):
        DeepEnsemble.from_models([calm, loud]).predict(X)
    assert DeepEnsemble.from_models([calm, loud]).predict(X, likelihood=sb.Gaussian(0.5)).noise == 0.5


@JAX_FIRST
def test_an_ensemble_of_one_keeps_as_many_numbers_as_its_member():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])
    model.layers[0].trainable = False
    assert DeepEnsemble.from_models([model]).num_stored == count_stored(model) == 16 + 16
    assert DeepEnsemble.from_models([model]).num_trained == 8


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="there are compiled programs on JAX alone")
def test_members_alike_are_compiled_once_and_others_apart():
    calls = []

    class Counted(keras.layers.Dense):
        def call(self, x):
            calls.append(self.units)
            return super().call(x)

    def build(units):
        return _compiled(keras.Sequential([keras.Input((4,)), Counted(units), keras.layers.Dense(3)]))

    models = [build(2), build(2), build(5)]
    DeepEnsemble.from_models(models[:1]).predict(X)
    calls.clear()
    p = DeepEnsemble.from_models(models).predict(X, keep_draws=True)
    assert set(calls) == {5}
    for model, draw in zip(models, p.draws, strict=True):
        expected = special.softmax(ops.convert_to_numpy(model(X)), axis=-1)
        np.testing.assert_allclose(draw, expected, rtol=1e-5)
