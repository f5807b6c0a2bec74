"""The image experiments: published sizes, networks and splits as said, and records that can be trusted."""

from dataclasses import dataclass, replace
from functools import cache

import keras
import made_up_images
import numpy as np
import pytest
from keras import ops
from made_up import Answers, scored_by_hand
from posterior_table import JAX_FIRST
from singularbayes_experiments import data
from singularbayes_experiments.methods import class_scores, methods, trainers
from singularbayes_experiments.methods.posterior_scores import of_posteriors
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import cnn, fashion_mnist, images, kl_study, mnist
from singularbayes_experiments.records import record
from singularbayes_experiments.records.checkpoints import Keep

import singularbayes as sb
from singularbayes.models import count_trained

pytestmark = pytest.mark.on_torch

PUBLISHED = {"low_rank": 245_810, "low_rank_laplace": 245_810, "full_rank": 4_788_010, "rank_one": 2_406_398}
OURS = {"deterministic": 2_395_210, "low_rank_10": 114_290, "low_rank_50": 465_010}
TINY = images.ImageSettings(
    num_train=192,
    num_validation=60,
    units=(12,),
    ranks=(4, 2),
    epochs=3,
    warmup=1,
    cosine=True,
    batch_size=64,
    draws=4,
    members=2,
    svd_epochs=2,
    swag_epochs=2,
)
TINY_CNN = cnn.CNNSettings(filters=(4, 6), units=(8,), ranks=(2, 3, 3, 2))
CONVOLUTIONS = {"low_rank": 58_450, "full_rank": 211_610, "deterministic": 105_866}


@pytest.fixture(autouse=True)
def sets(monkeypatch):
    made_up_images.install(monkeypatch)


class Untrained:
    """Makes networks and leaves them as they start."""

    def __init__(self, problem, method, settings):
        self.network, self.settings = problem.network_of(method, settings), settings
        self.made = []

    def fit(self, make, seeds, settings, name):
        models = []
        for seed in seeds:
            keras.utils.set_random_seed(seed)
            models.append(make(seed))
        self.made.append(models)
        return models


def untrained(problem, method, settings, seeds=(0,)):
    trainer = Untrained(problem, method, settings)
    return methods.find_method(method).train(trainer, list(seeds)), trainer


@pytest.mark.parametrize(("method", "parameters"), {**PUBLISHED, **OURS}.items())
def test_the_networks_have_the_published_parameters(method, parameters):
    (model,), _ = untrained(mnist.EXPERIMENT.problem, method, images.ImageSettings())
    assert count_trained(model) == parameters


@pytest.mark.parametrize(("method", "parameters"), CONVOLUTIONS.items())
def test_the_convolutional_network_has_the_parameters_of_its_ranks(method, parameters):
    # Low rank: 2 Σ r (m + n) + biases over 9 × 16, 144 × 32, 1568 × 64 and 64 × 10.
    (model,), _ = untrained(cnn.EXPERIMENT.problem, method, cnn.CNNSettings())
    assert count_trained(model) == parameters


def test_at_its_means_the_network_is_the_plain_one():
    (model,), _ = untrained(mnist.EXPERIMENT.problem, "low_rank", TINY)
    x = np.random.default_rng(0).uniform(0, 2, (5, 784)).astype("float32")
    expected = x
    for i, layer in enumerate(model.layers):
        a, b = np.split(ops.convert_to_numpy(layer.posterior.ab.loc), [layer.posterior.rows])
        expected = expected @ a @ b.T + ops.convert_to_numpy(layer.bias)
        expected = np.maximum(expected, 0) if i < len(TINY.units) else expected
    np.testing.assert_allclose(ops.convert_to_numpy(model(x)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("problem", "settings"), [(mnist.EXPERIMENT.problem, TINY), (cnn.EXPERIMENT.problem, TINY_CNN)], ids=["mlp", "cnn"]
)
def test_the_warm_start_is_the_best_low_rank_approximation_of_the_point_network(problem, settings):
    (model,), trainer = untrained(problem, "low_rank_svd", settings)
    ((point,), _) = trainer.made
    pairs = list(zip(sb.find_posteriors(point), sb.find_posteriors(model), strict=True))
    assert [posterior.rank for _, posterior in pairs] == list(settings.ranks)
    for whole, posterior in pairs:
        w = ops.convert_to_numpy(whole.mean().dense()).astype("float64")
        u, s, vt = np.linalg.svd(w, full_matrices=False)
        best = (u[:, : posterior.rank] * s[: posterior.rank]) @ vt[: posterior.rank]
        np.testing.assert_allclose(ops.convert_to_numpy(posterior.mean().dense()), best, atol=1e-4)
        assert posterior.prior == sb.ScaleMixture() and posterior.rho_lr == settings.rho_lr


def test_the_split_leaves_no_image_in_two_parts_and_depends_on_no_seed():
    found = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        found.append(mnist.EXPERIMENT.problem.split(TINY))
    for one, other in zip(*found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    (x, y), (x_validation, y_validation) = found[0]
    assert (len(x), len(y), len(x_validation), len(y_validation)) == (192, 192, 60, 60)
    every = np.concatenate([x, x_validation])
    assert len(np.unique(every, axis=0)) == len(every)
    pixels, labels = data.mnist().train
    place = {image.tobytes(): label for image, label in zip(pixels, labels, strict=True)}
    for image, label in zip(x[:20], y[:20], strict=True):
        assert place[np.round(image * 126).astype("uint8").tobytes()] == label


def test_more_images_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"mnist needs num_train \+ num_validation <= 260 images; got 250 \+ 60"):
        mnist.EXPERIMENT.problem.run("low_rank", 0, replace(TINY, num_train=250))


def test_an_unknown_method_is_refused():
    for experiment in (mnist, fashion_mnist, cnn, kl_study):
        with pytest.raises(ValueError, match="run needs method to be one of"):
            experiment.EXPERIMENT.problem.run("dropout", 0)


@cache
def alone(method):
    """A run, and the epochs that a watch saw."""
    seen = []
    return fashion_mnist.EXPERIMENT.problem.run(method, 5, TINY, watch=lambda epoch, logs: seen.append(epoch)), seen


def test_a_trial_reads_no_test_image_and_is_else_the_same_run(monkeypatch):
    def read(*_):
        raise AssertionError("a trial read the test images")

    whole, _ = alone("low_rank")
    monkeypatch.setattr(images.ImageProblem, "testing", read)
    found = fashion_mnist.EXPERIMENT.problem.run("low_rank", 5, TINY, preset="trial")
    assert {name.split("_")[0] for name in found.metrics} == {"validation", "posterior"}
    assert found.preset == "trial" and not found.arrays
    assert found.name == whole.name and found.parameters == whole.parameters
    for name, value in found.metrics.items():
        # The same seed, the same posterior; predictions round differently in programs for other numbers of rows.
        assert whole.metrics[name] == (value if "posterior" in name else pytest.approx(value, rel=1e-7)), name


def test_the_arrays_of_a_record_give_its_scores_again():
    found, _ = alone("low_rank")
    assert found.settings["beta"] == 1.0 and found.paper["num_train"] == 50_000
    sets = {name: class_scores.read_back(name, found.arrays, TINY.draws) for name in ("test", "mnist", "notmnist")}
    again = class_scores.of_test(sets.pop("test"), found.arrays["test_labels"], sets)
    assert again.keys() < found.metrics.keys() and len(again) >= 60
    for name, value in again.items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    held = class_scores.read_back("validation", found.arrays, TINY.draws)
    labels = found.arrays["validation_labels"]
    assert sb.metrics.accuracy(held.mean, labels) == pytest.approx(found.metrics["validation_accuracy"])


def test_every_set_is_scored_by_its_own_name_and_labels():
    ask = Answers(10)
    found, _ = fashion_mnist.EXPERIMENT.problem.tested(ask, TINY)
    (_, (_, y)), ((_, y_test), ood) = (
        fashion_mnist.EXPERIMENT.problem.split(TINY),
        fashion_mnist.EXPERIMENT.problem.testing(TINY),
    )
    assert list(ood) == ["mnist", "notmnist"]
    expected = scored_by_hand(ask.given, y_test, y, {name: ask.given[name] for name in ood})
    assert "recalibrated_temperature" in expected and found == pytest.approx(expected)


@JAX_FIRST
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="seeds are one program on JAX alone")
@pytest.mark.parametrize("method", ["low_rank_svd", "swag"])
def test_a_seed_in_one_program_with_others_gives_what_it_gives_alone(method):
    single, _ = alone(method)
    other, member = fashion_mnist.EXPERIMENT.problem.run_many(method, [4, 5], TINY)
    assert (member.name, member.parameters, member.stored) == (single.name, single.parameters, single.stored)
    assert member.machine == single.machine | {"trained_together": 2} and other.seed == 4
    assert member.metrics.keys() == single.metrics.keys()
    for name, array in single.arrays.items():
        np.testing.assert_allclose(member.arrays[name], array, rtol=2e-3, atol=2e-5, err_msg=name)
    assert np.abs(other.arrays["test_mean"] - member.arrays["test_mean"]).max() > 1e-3


def test_a_run_of_several_parts_goes_on_after_an_interruption(tmp_path):
    def interrupt(now, logs):
        if now == 2:  # the deterministic network is trained, and SWAG has one snapshot
            raise KeyboardInterrupt

    whole, seen = alone("swag")
    assert seen == [0, 1, 2] and methods.count_epochs("swag", TINY) == 3
    # 784 · 12 + 12 · 10 + 22; SWAG keeps a mean, variances and one deviation
    assert (whole.parameters, whole.stored) == (9_550, 3 * 9_550)
    with pytest.raises(KeyboardInterrupt):
        fashion_mnist.EXPERIMENT.problem.run("swag", 5, TINY, watch=interrupt, keep=Keep(tmp_path, every=0))
    later = []
    rest = fashion_mnist.EXPERIMENT.problem.run(
        "swag", 5, TINY, watch=lambda now, logs: later.append(now), keep=Keep(tmp_path, every=0)
    )
    assert later == [2]
    assert rest == whole
    assert all(np.array_equal(rest.arrays[name], array) for name, array in whole.arrays.items())


@pytest.mark.parametrize("kind", [sb.DeepEnsemble, sb.LowRankEnsemble])
def test_the_members_of_an_ensemble_are_those_of_the_library(kind):
    method = {sb.DeepEnsemble: "deep_ensemble", sb.LowRankEnsemble: "low_rank_ensemble"}[kind]
    ensembles, trainer = untrained(mnist.EXPERIMENT.problem, method, TINY, seeds=[3, 8])
    for seed, ensemble in zip([3, 8], ensembles, strict=True):
        assert isinstance(ensemble, kind) and len(ensemble.models) == TINY.members
        for member, model in zip(kind(keras.Model, TINY.members, seed).seeds, ensemble.models, strict=True):
            keras.utils.set_random_seed(member)
            own = trainer.network(Weights("low_rank" if "low" in method else "deterministic", TINY))
            for ours, theirs in zip(own.trainable_weights, model.trainable_weights, strict=True):
                assert np.array_equal(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs))


def test_the_study_spans_six_decades_and_says_its_beta(monkeypatch):
    betas = np.array(kl_study.BETAS)
    assert betas.max() / betas.min() == pytest.approx(1e6)
    assert np.diff(np.log10(betas)).max() < 0.53
    asked = []

    def run(problem, method, seed, settings, *, watch, keep, preset):
        asked.append((problem.name, method, settings.beta))
        return record.Record(problem.name, method, seed, record.plain(settings), {"nll": 0.5}, 1, 0.0, preset=preset)

    monkeypatch.setattr(images.ImageProblem, "run", run)
    found = kl_study.EXPERIMENT.problem.run("beta_100", 3)
    assert asked == [("kl_study", "low_rank", 100.0)]
    assert (found.experiment, found.method, found.metrics) == ("kl_study", "beta_100", {"nll": 0.5, "beta": 100.0})
    assert found.name == record.identity("kl_study", "beta_100", 3, record.plain(kl_study.KLStudySettings()))


def test_a_posterior_is_summed_up_by_its_numbers():
    start = keras.initializers.Constant(np.log(np.expm1(0.5)))
    layer = sb.layers.Dense(2, posterior=sb.FullRank(prior="normal", rho_initializer=start))
    model = keras.Sequential([keras.Input((2,)), layer])
    layer.posterior.w.set_loc(np.array([[0.1, 1.0], [-2.0, 3.0]]))
    found = of_posteriors([model])
    assert found["posterior_sd_median"] == pytest.approx(0.5)
    assert found["posterior_signal"] == pytest.approx(3.0)  # of 0.2, 2, 4, 6
    assert found["posterior_pruned"] == 0.25
    assert found["posterior_kl"] == pytest.approx(sb.kl(model, "exact"), rel=1e-5)
    assert of_posteriors([model, model]) == pytest.approx(found)  # means over members
    assert of_posteriors([keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])]) == {}


def test_temperature_comes_from_validation_and_changes_no_label():
    rng = np.random.default_rng(0)
    p = sb.ClassPredictive.of_draws(rng.dirichlet(np.ones(3), (4, 200)))
    labels = np.where(rng.random(200) < 0.9, p.predicted_labels, 0)
    held = sb.ClassPredictive.of_draws(rng.dirichlet(np.ones(3), (4, 150)))
    known = np.where(rng.random(150) < 0.6, held.predicted_labels, 0)  # wrong more often, so a temperature of its own
    found = class_scores.recalibrated(p, labels, held, known)

    def tempered(prediction, temperature):
        powers = prediction.mean ** (1 / temperature)
        return powers / powers.sum(axis=1, keepdims=True)

    def nll(temperature):
        return sb.metrics.negative_log_likelihood(tempered(held, temperature), known)

    best = found["recalibrated_temperature"]
    assert nll(best) < min(nll(0.98 * best), nll(1.02 * best))
    assert found["recalibrated_accuracy"] == sb.metrics.accuracy(p.mean, labels)
    expected = sb.metrics.negative_log_likelihood(tempered(p, best), labels)
    assert found["recalibrated_nll"] == pytest.approx(expected, rel=1e-6)
    blind = sb.ClassPredictive.of_draws(np.full((2, 200, 3), 1 / 3))
    assert class_scores.recalibrated(blind, labels, blind, labels) == {}


def test_a_start_with_random_biases_takes_over_all_that_the_point_network_learned():
    @dataclass(frozen=True)
    class Drawn(images.ImageSettings):
        bayesian_bias: bool = True

    def network(weights):
        bias = {"bias_posterior": weights.bias()}
        stack = [sb.layers.Dense(6, posterior=weights(6), **bias), keras.layers.LayerNormalization()]
        return keras.Sequential([keras.Input((6,)), *stack, sb.layers.Dense(3, posterior=weights(3), **bias)])

    point, model = (network(Weights(kind, Drawn())) for kind in ("point", "low_rank"))
    for variable in point.trainable_variables:
        variable.assign(np.random.default_rng(len(variable.shape)).normal(size=variable.shape))
    methods.start_at(model, point)
    x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    np.testing.assert_allclose(*(ops.convert_to_numpy(one(x)) for one in (model, point)), atol=1e-5)
    assert Weights("rank_one", Drawn()).bias() is None and Weights("low_rank", images.ImageSettings()).bias() is None


def test_weights_count_in_both_ways_of_training():
    x, y = mnist.EXPERIMENT.problem.split(TINY)[0]
    weight = np.where(y == 3, 5.0, 1.0).astype("float32")
    found = []
    for kind in (trainers.OneByOne, trainers.OneProgram):
        for given in (weight, None):
            trainer = kind(
                mnist.EXPERIMENT.problem.network_of("low_rank", TINY), trainers.Training(x, y, weight=given), TINY
            )
            (model,) = methods.find_method("low_rank").train(trainer, [1])
            # β / num_data, and num_data is the number of images, not of batches.
            weights = [float(posterior.kl_scale) for posterior in sb.find_posteriors(model)]
            assert weights == pytest.approx([TINY.beta / TINY.num_train] * 2)
            found.append(ops.convert_to_numpy(model.trainable_variables[0]))
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (images.mlp, replace(TINY, ranks=(4,)), r"ranks needs 2 numbers, one for each weight; got ranks=\(4,\)"),
        (
            cnn.network,
            replace(TINY_CNN, ranks=(2, 3)),
            r"ranks needs 4 numbers, one for each weight; got ranks=\(2, 3\)",
        ),
        (cnn.network, replace(TINY_CNN, ranks=(2, 3, 3, 2, 2)), "ranks needs 4 numbers"),
    ],
)
def test_a_network_needs_a_rank_for_each_weight(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(Weights("low_rank", settings), settings)
