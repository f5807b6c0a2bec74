"""Certificates, detectors and tables: problems that do their tasks themselves."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest
import tiny
from scipy import special
from singularbayes_experiments import config, data, records, study
from singularbayes_experiments.problems import certificates, detectors, tables
from singularbayes_experiments.problems.base import Data, Part
from singularbayes_experiments.problems.certificates import CertificateSettings
from sklearn import metrics as sklearn_metrics

from singularbayes import metrics
from singularbayes.models import count_trained

RNG = np.random.default_rng(0)


def outcomes(experiment, task, method, preset="quick", **changes):
    found = config.read(experiment)
    (own,) = found.runs_of(preset, tasks=[task], methods=[method], changes=changes)
    return list(study.run(found.problem, own.only([0])))


# -- certificates ------------------------------------------------------------------------------------------------------

MADE_UP = data.Images(
    (RNG.integers(0, 255, (300, 28, 28), "uint8"), np.arange(300) % 10),
    (RNG.integers(0, 255, (100, 28, 28), "uint8"), np.arange(100) % 10),
    tuple("0123456789"),
)


def test_the_network_is_the_papers_with_drawn_biases():
    biases = 1200 + 1200 + 10
    model = certificates.network(CertificateSettings(filters=1.0))
    assert count_trained(model) == 245_810 + biases  # a scale for every bias, which the paper has not
    full = certificates.network(CertificateSettings(rank=None, share=0.7))
    assert count_trained(full) == 2 * (784 * 1200 + 1200 * 1200 + 1200 * 10 + biases)


def test_certificates_pay_for_what_was_chosen_by_hand():
    problem, learned = config.read("certificates").problem, CertificateSettings(share=0.7, epochs=60, start=0.003)
    assert problem.count_paid("certificates", CertificateSettings()) == 8 * 6 * 4
    assert problem.count_paid("certificates", learned) == 4 * 4 * 2 * 2 * 4 * 4 * 4 // (2 * 2 * 2 * 8)
    assert problem.count_paid("sharp_certificates", replace(learned, epochs=20)) == 64
    with pytest.raises(ValueError, match=r"pays for epochs among \[5, 10, 20, 40\], which it must be; got 60"):
        problem.count_paid("sharp_certificates", learned)


@pytest.mark.parametrize(
    ("task", "method"), [("certificates", "low_rank_initial"), ("sharp_certificates", "cnn_low_rank")]
)
def test_a_certificate_is_above_its_mistakes_and_pays_for_its_grid(task, method, monkeypatch):
    monkeypatch.setattr(data, "mnist", lambda: MADE_UP)
    (found,) = outcomes("certificates", task, method, units=16, rank=2, draws=60, batch_size=50)
    scores = found.metrics
    assert 1 >= scores["certificate"] >= scores["mistakes of the draws"] > 0
    assert scores["N"] == (300 if task == "certificates" else 90)
    assert scores["tried"] == (192 if task == "certificates" else 64)
    if task == "sharp_certificates":
        assert scores["averaged hold-out"] <= 1 and scores["chosen shift"] in (1, 2)


def test_the_rule_takes_the_first_of_least_mistakes_and_reads_no_certifying_image(monkeypatch):
    asked = {}

    def fit(wanted, seed, images):
        asked[len(wanted)] = images
        return [*wanted]

    monkeypatch.setattr(certificates, "fit_priors", fit)
    monkeypatch.setattr(certificates, "drawn_risks", lambda own, x, y, draws, seed: np.array([own.dropout + own.beta]))
    x, y = np.arange(60.0)[:, None], np.arange(60)
    rule = {"beta": (0.01, 0.001), "dropout": (0.2, 0.0)}
    found = certificates.apply_rule(rule, (x, y), 3, CertificateSettings(share=0.5))
    best = min(found, key=found.__getitem__)
    assert len(found) == 4 and (best.beta, best.dropout) == (0.001, 0.0)
    np.testing.assert_array_equal(asked[4][1], np.arange(50))


# -- detectors ---------------------------------------------------------------------------------------------------------


def test_scores_of_a_network_are_those_of_its_logits_and_hidden_layer():
    keras.utils.set_random_seed(0)
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(3, name="head")])
    x, test, far = (RNG.normal(size=(rows, 3)).astype("float32") for rows in (60, 20, 25))
    y = np.arange(60) % 3
    sets = detectors.Sets("a", Data(Part(x, y), test=Part(test, y)), {"b/": far}, 3)
    found = {name: score["b/auroc_ood"] for name, score in detectors.of_network(network, sets, "head").items()}
    hidden = lambda rows: np.array(network.layers[0](rows))  # noqa: E731
    distance = metrics.MahalanobisDistance(hidden(x), y)
    logits = [np.array(network(each)).astype("float64") for each in (test, far)]
    p = [special.softmax(each, axis=1) for each in logits]
    wanted = {
        "mahalanobis": [distance(hidden(each)) for each in (test, far)],
        "energy": [-special.logsumexp(each, axis=1) for each in logits],
        "max_softmax": [1 - each.max(axis=1) for each in p],
    }
    assert found == pytest.approx({name: metrics.auroc_ood(*pair) for name, pair in wanted.items()}, abs=1e-6)


@pytest.mark.parametrize("method", ["more_pixels", "energy", "low_rank_held_out", "deep_ensemble_held_out"])
def test_detectors_of_images_have_the_recorded_names(method, monkeypatch):
    tiny.install(monkeypatch)
    own = detectors.settings_of
    few = {**tiny._BRIEF, **tiny._FEW, **tiny.CHANGES["mnist"]}
    monkeypatch.setattr(detectors, "settings_of", lambda *a: config.typed(own(*a), few, "here"))
    known = detectors.held_out("mnist", detectors.DetectorSettings())
    assert set(known.data.train.y) <= set(range(8)) and len(known.test) == 40 and len(known.others["held_out/"]) == 10
    (found,) = outcomes("detectors", "mnist", method)
    recorded = records.connect().execute(
        "SELECT DISTINCT metric FROM scores WHERE experiment = 'detectors' AND task = 'mnist' AND method = ?", [method]
    )
    names = {name for (name,) in recorded.fetchall()} - {"seconds", "parameters", "stored"}
    assert set(found.metrics) - {"parameters", "stored"} == names


# -- tables ------------------------------------------------------------------------------------------------------------


def test_scores_of_tables_are_those_of_draws_and_of_scikit_learn():
    y, mean, std = RNG.normal(size=8), RNG.normal(size=8), RNG.uniform(0.5, 2, 8)
    draws = mean + std * np.sqrt(0.6) * RNG.standard_t(5, size=(2, 200_000, 8))
    expected = np.abs(draws[0] - y).mean() - np.abs(draws[0] - draws[1]).mean() / 2
    found = tables.value_scores(y, mean, std, mean - 1, mean + 1, freedom=5.0)
    assert found["crps"] == pytest.approx(expected, abs=4e-3)
    assert found["coverage"] == np.mean(np.abs(y - mean) <= 1) and found["width"] == 2
    labels, p = np.arange(9) % 3, RNG.dirichlet(np.ones(3), 9)
    found = tables.class_scores(labels, p)
    assert found["nll"] == pytest.approx(sklearn_metrics.log_loss(labels, p))
    assert found["accuracy"] == sklearn_metrics.accuracy_score(labels, p.argmax(axis=1))


def test_the_grids_are_those_whose_recorded_choices_have_the_least_validation_nll():
    rows = records.connect().execute(
        "SELECT task, method, stage, configuration, settings, metric, value FROM scores WHERE experiment = 'tables' "
        "AND preset = 'tuned' AND counts AND metric IN ('validation_nll', 'nll') AND seed = 0"
    )
    nll, choices = {}, {}
    for task, method, stage, configuration, settings, metric, value in rows.fetchall():
        if stage == "tuning" and metric == "validation_nll":
            nll.setdefault((task, method), {})[int(configuration)] = value
        elif stage == "result" and metric == "nll":
            choices[task, method] = json.loads(settings)["choice"]
    assert len(choices) > 140 and choices.keys() == nll.keys()
    for (task, method), choice in choices.items():
        kinds = tables.REGRESSION if task in data.UCI_SETS else tables.CLASSIFICATION
        options, found = kinds[method].configurations, nll[task, method]
        assert len(options) == len(found) == 8
        assert json.loads(json.dumps(options[min(found, key=found.__getitem__) - min(found)])) == choice


QUICKLY = {
    "ours": {"max_iter": 2, "hidden_layer_sizes": (4,)},
    "ours, full rank": {"max_iter": 2, "hidden_layer_sizes": (4,)},
    "deep ensemble": {"steps": 2},
    "MC dropout": {"steps": 2},
    "NGBoost": {"n_estimators": 3},
    "CatBoost": {"iterations": 3},
}


@pytest.mark.parametrize("method", tables.Tables.methods)
def test_methods_predict_rows_they_have_not_seen(method):
    pytest.importorskip({"NGBoost": "ngboost", "CatBoost": "catboost", "MLP + MAPIE": "mapie"}.get(method, "sklearn"))
    rows, x = np.arange(60), RNG.normal(size=(60, 3))
    for kinds, y in (
        (tables.REGRESSION, 50 + 10 * x[:, 0]),
        (tables.CLASSIFICATION, np.digitize(x[:, 0], [-0.4, 0.4])),
    ):
        if method in kinds:
            one = tables.Table(x, y, ((rows[:45], rows[45:]),))
            found = tables.scores_of_fit(one, kinds[method].fit, QUICKLY.get(method, {}), *one.splits[0], 0)
            assert np.isfinite(list(found.values())).all() and found["rows"] == 15
