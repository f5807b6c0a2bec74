"""Detectors of one deterministic network: which images are inside and outside, exact scores, and nothing done twice."""

import keras
import made_up_images
import made_up_reviews
import numpy as np
import pytest
from posterior_table import JAX_FIRST
from singularbayes_experiments import data
from singularbayes_experiments.problems import network_detectors, reviews, text
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.records import record
from test_images import TINY

from singularbayes import metrics

pytestmark = pytest.mark.on_torch
TINY_TEXT = reviews.ReviewSettings(
    vocabulary=len(made_up_reviews.WORDS),
    length=8,
    width=8,
    blocks=1,
    heads=2,
    feed_forward=8,
    rank=3,
    embedding_rank=3,
    num_train=64,
    num_validation=20,
    batch_size=16,
    epochs=3,
    patience=2,
    draws=6,
    members=2,
)


@pytest.fixture
def images(monkeypatch):
    made_up_images.install(monkeypatch)
    return EXPERIMENTS["mnist"].problem


def test_held_out_classes_are_in_no_training_image_and_are_all_the_others(images):
    found = network_detectors.sets(images, TINY, held_out=(0, 9))
    pixels, labels = data.mnist().test
    np.testing.assert_array_equal(found.others["held_out"], images.inputs(pixels[np.isin(labels, (0, 9))], TINY))
    assert len(found.test) == (~np.isin(labels, (0, 9))).sum() and found.classes == 8
    (x, y), _ = images.split(TINY)
    known = ~np.isin(y, (0, 9))
    np.testing.assert_array_equal(found.train[0], x[known])
    np.testing.assert_array_equal(found.train[1], y[known] - 1)  # labels without gaps


@JAX_FIRST
def test_records_have_the_scores_of_the_network_and_are_not_made_twice(images, monkeypatch, tmp_path):
    networks, run, detect = [], network_detectors.run, network_detectors.detect
    monkeypatch.setattr(
        network_detectors, "detect", lambda one, sets, head: networks.append((one, sets)) or detect(one, sets, head)
    )
    monkeypatch.setattr(network_detectors, "run", lambda name, kind, seed: run(name, kind, seed, TINY))
    lines = list(network_detectors.run_network_detectors(["mnist"], [42], tmp_path))
    assert len(lines) == 5 and list(network_detectors.run_network_detectors(["mnist"], [42], tmp_path)) == []
    found = {(one.settings["kind"], one.method): one for one in record.read(tmp_path)}
    assert {kind for kind, _ in found} == set(network_detectors.KINDS)
    assert {one.preset for one in found.values()} == {"simple"}
    [(network, sets), (small, _)] = networks
    assert network.output_shape[-1] == 10 and small.output_shape[-1] == 8
    logits = {name: np.array(network(x)) for name, x in {"test": sets.test, **sets.others}.items()}
    energy = {name: metrics.energy_score(values) for name, values in logits.items()}
    expected = {f"{name}/auroc_ood": metrics.auroc_ood(energy["test"], energy[name]) for name in sets.others}
    assert found["all classes", "energy"].metrics == pytest.approx(expected, abs=1e-6)
    assert set(found["held out", "mahalanobis"].metrics) == {"held_out/auroc_ood"}
    assert set(found["held out", "more_pixels"].metrics) == {"held_out/auroc_ood"}
    by_draws = found["held out, low-rank", "low_rank_held_out"].metrics
    assert set(by_draws) == {"held_out/auroc_ood_mi", "held_out/auroc_ood_entropy"}
    one = {"deep_ensemble": ("held out", "energy"), "low_rank_ensemble": ("held out, low-rank", "low_rank_held_out")}
    for method, member in one.items():
        ensemble = found[f"held out by {method}", f"{method}_held_out"]
        assert ensemble.parameters == TINY.members * found[member].parameters
        assert set(ensemble.metrics) == set(by_draws) and ensemble.settings["held_out"] == [8, 9]


def test_the_cnn_has_no_ensembles():
    assert network_detectors.kinds("cnn") == ("all classes", "held out", "held out, low-rank")


def head_of(units: int) -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(units, name="logit")])


def numbers(classes: int) -> network_detectors.DetectorSets:
    rng = np.random.default_rng(0)
    x, test, far = (rng.normal(size=(rows, 3)).astype("float32") for rows in (60, 20, 25))
    return network_detectors.DetectorSets(
        (x, np.arange(60) % classes if classes else np.linspace(0, 1, 60)), test, {"": far, "b": 2 * far}, classes
    )


def test_one_logit_has_no_energy_and_its_confidence_is_that_of_two_classes():
    network, sets = head_of(1), numbers(classes=2)
    found = network_detectors.detect(network, sets, "logit")
    assert set(found) == {"max_softmax", "mahalanobis"} and set(found["mahalanobis"]) == {"auroc_ood", "b/auroc_ood"}

    def confidence(x):
        p = 1 / (1 + np.exp(-network.predict(x, verbose=0).astype("float64")[:, 0]))
        return metrics.least_confidence(np.stack([1 - p, p], axis=1))

    expected = metrics.auroc_ood(confidence(sets.test), confidence(sets.others[""]))
    assert found["max_softmax"]["auroc_ood"] == pytest.approx(expected)


def test_a_regression_has_the_distance_to_the_mean_of_all_training_inputs_alone():
    network, sets = head_of(1), numbers(classes=0)
    found = network_detectors.detect(network, sets, "logit")
    hidden = keras.Model(network.inputs, network.layers[0].output)
    train, inside, outside = (hidden.predict(x, verbose=0) for x in (sets.train[0], sets.test, sets.others["b"]))
    distance = metrics.MahalanobisDistance(train, np.zeros(60))
    assert set(found) == {"mahalanobis"}
    assert found["mahalanobis"]["b/auroc_ood"] == pytest.approx(
        metrics.auroc_ood(distance(inside), distance(outside)), abs=1e-6
    )


@JAX_FIRST
def test_reviews_of_films_are_told_from_news_products_and_queries(monkeypatch):
    pytest.importorskip("tokenizers")
    for name in ("sst2", "ag_news", "bert_vocab"):
        monkeypatch.setattr(data, name, getattr(made_up_reviews, name))
    snippets = data.Snippets(["w1 w2 fine", "w3 dull"], "made up")
    nobody = ([], np.array([], "int64"))
    intents = data.Intents(nobody, nobody, nobody, ["w4 w5 w6"] * 3, (), "made up")
    monkeypatch.setattr(data, "product_reviews", lambda: snippets)
    monkeypatch.setattr(data, "clinc150", lambda: intents)
    caches = (text.bert, reviews.encoded, reviews._split)
    for cache in caches:
        cache.cache_clear()
    try:
        sets = network_detectors.texts(EXPERIMENTS["sst2"].problem, TINY_TEXT)
        assert {name: len(x) for name, x in sets.others.items()} == {"": 30, "product_reviews": 2, "clinc150": 3}
        (one, *others) = network_detectors.run("sst2", "deep_ensemble", 42, TINY_TEXT)
        plain = network_detectors.run("sst2", "deterministic", 42, TINY_TEXT)
    finally:
        for cache in caches:
            cache.cache_clear()
    names = ("ag_news", "product_reviews", "clinc150")
    assert not others and one.method == "deep_ensemble_texts"
    assert set(one.metrics) == {f"{name}/auroc_ood_{by}" for name in names for by in ("mi", "entropy")}
    assert one.parameters == TINY_TEXT.members * plain[0].parameters
    assert {each.method for each in plain} == {"max_softmax", "energy", "mahalanobis"}
    assert set(plain[0].metrics) == {"auroc_ood", "product_reviews/auroc_ood", "clinc150/auroc_ood"}
