"""The forecaster: published sizes, a record in µg/m³ that can be trusted, and trials that see no test window."""

from dataclasses import replace
from pathlib import Path

import keras
import made_up_air
import numpy as np
import pytest
from keras import ops
from singularbayes_experiments import data
from singularbayes_experiments.data.air import Air, Cities
from singularbayes_experiments.methods import value_scores
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import air, beijing, forecast
from singularbayes_experiments.records import record

import singularbayes as sb
from singularbayes.prediction import ValuePredictive

pytestmark = pytest.mark.on_torch

TRIALS = Path(__file__).parents[2] / "experiments" / "results" / "beijing_trials.jsonl"
TINY = beijing.ForecastSettings(
    windows=(200, 60, 50),
    hours=3,
    units=3,
    ranks=(2, 2, 2, 2, 1),
    batch_size=100,
    epochs=3,
    patience=1,
    plateau=1,
    draws=3,
    members=2,
    svd_epochs=1,
    swag_epochs=1,
    every=3,
)
OURS = replace(TINY, noise="grows", from_last=True, patience=None, cosine=True)
OWN = replace(OURS, noise="own")


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Made-up air; what an earlier test has read is forgotten."""
    cities = {name: made_up_air.city(seed=i) for i, name in enumerate(forecast.OOD)}
    monkeypatch.setattr(data, "beijing_pm25", lambda: Air(made_up_air.beijing(), "made up"))
    monkeypatch.setattr(data, "five_cities_pm25", lambda: Cities(cities, "made up"))
    for read in (forecast.windows, forecast.ood_windows):
        read.cache_clear()
    yield
    for read in (forecast.windows, forecast.ood_windows):
        read.cache_clear()


def test_the_values_and_scores_of_a_record_are_in_micrograms():
    found = beijing.EXPERIMENT.problem.run("deep_ensemble", 0, OURS, preset="quick")
    rows = air.rows_of(made_up_air.beijing())
    np.testing.assert_allclose(found.arrays["test_targets"], rows[263:313, 0], rtol=1e-5)
    assert found.metrics["mae"] == pytest.approx(np.abs(found.arrays["test_mean"] - rows[263:313, 0]).mean(), rel=1e-4)
    assert found.metrics["guangzhou/auroc_ood_epistemic"] == found.metrics["auroc_ood_epistemic"]
    p = value_scores.read_back("test", found.arrays, draws=2)
    cities = {"guangzhou": value_scores.read_back("guangzhou", found.arrays, draws=2)}
    for name, value in value_scores.of_test(p, rows[263:313, 0], cities).items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
    assert len(found.arrays["guangzhou_std"]) == 197 and len(found.arrays["shanghai_std"]) == 66
    assert "guangzhou_bare/auroc_ood_epistemic" in found.metrics
    held = value_scores.read_back("validation", found.arrays, draws=2)
    (factor,) = value_scores.noise_weights(held, rows[203:263, 0], held.noise[:, None])
    assert factor == pytest.approx(1, rel=1e-2)  # it is fitted already


def test_standardised_predictions_become_those_of_the_targets_in_micrograms():
    """A forecaster that is off by half a standard deviation of the targets, on validation by a quarter."""
    split = forecast.windows(TINY.windows, TINY.hours)
    targets = {"validation": split.validation.y - 0.25, "test": split.test.y}

    def ask(sets):
        means = {name: targets.get(name, np.zeros(len(x)))[:, None] + 0.5 for name, x in sets.items()}
        return {name: ValuePredictive(mean, np.full(mean.shape, 0.1), 2, noise=1.0) for name, mean in means.items()}

    found, arrays = beijing.EXPERIMENT.problem.tested(ask, TINY)
    rows = air.rows_of(made_up_air.beijing())
    deviation = rows[3:203, 0].std()
    np.testing.assert_allclose(arrays["test_mean"], rows[263:313, 0] + deviation / 2, rtol=1e-5)
    np.testing.assert_allclose(arrays["test_std"], deviation / 10, rtol=1e-5)
    np.testing.assert_allclose(arrays["guangzhou_mean"], rows[3:203, 0].mean() + deviation / 2, rtol=1e-5)
    assert found["mae"] == pytest.approx(deviation / 2, rel=1e-5)
    assert found["last_value_mae"] == pytest.approx(np.abs(np.diff(rows[262:313, 0])).mean(), rel=1e-5)
    # What is fitted after training is fitted to validation: the noise, and the width of the conformal intervals.
    assert found["noise_weight_0"] == pytest.approx(deviation * np.sqrt(0.25**2 - 0.1**2), rel=1e-4)
    assert found["conformal_mpiw_95"] == pytest.approx(deviation / 2, rel=1e-4) and found["conformal_picp_95"] == 0
    trial = beijing.EXPERIMENT.problem.validated(ask, TINY)
    assert trial["validation_mae"] == pytest.approx(deviation / 4, rel=1e-5)
    assert trial == {name: found[name] for name in trial}


def test_a_trial_sees_validation_windows_alone_and_is_else_the_same_run(monkeypatch):
    whole = beijing.EXPERIMENT.problem.run("deterministic", 3, OURS, preset="quick")

    def refused(*_):
        raise AssertionError("a tuning run reads out-of-distribution windows")

    monkeypatch.setattr(data, "five_cities_pm25", refused)
    forecast.ood_windows.cache_clear()
    changed = made_up_air.beijing()
    changed.loc[changed.dropna().index[263:], "pm2.5"] = 5.0
    monkeypatch.setattr(data, "beijing_pm25", lambda: Air(changed, "made up"))
    forecast.windows.cache_clear()
    trial = beijing.EXPERIMENT.problem.run("deterministic", 3, OURS, preset="trial")
    assert set(trial.metrics) == {"validation_mae", "validation_rmse", "validation_nll"} and not trial.arrays
    for name, value in trial.metrics.items():
        assert whole.metrics[name] == value


def test_training_watches_the_mae_of_validation_and_ends_early():
    seen = []
    settings = replace(TINY, epochs=30, learning_rate=0.3, patience=2)
    beijing.EXPERIMENT.problem.run(
        "deterministic", 0, settings, watch=lambda epoch, logs: seen.append(logs), preset="quick"
    )
    losses = [logs["val_mae"] for logs in seen]
    best = int(np.argmin(losses))
    assert len(seen) == best + 3 < 30  # two epochs without a better one end it
    assert seen[-1]["val_mae"] > min(losses)


@pytest.mark.parametrize("settings", [TINY, OWN], ids=["the paper's", "with its own noise"])
def test_at_its_means_the_network_is_keras_lstms_and_the_last_value(settings):
    keras.utils.set_random_seed(0)
    model = beijing.EXPERIMENT.problem.network(Weights("low_rank", settings), settings)
    x = np.random.default_rng(0).normal(size=(5, 3, 15)).astype("float32")
    hidden = x
    for name, sequences in (("first", True), ("second", False)):
        layer = model.get_layer(name)
        plain = keras.layers.LSTM(3, return_sequences=sequences)
        plain.build(hidden.shape)
        kernels = (layer.posterior.mean().dense(), layer.recurrent_posterior.mean().dense())
        bias = layer.bias_posterior.mean().dense()
        weights = [ops.convert_to_numpy(part) for part in (*kernels, bias)]
        plain.set_weights([array.reshape(own.shape) for array, own in zip(weights, plain.weights, strict=True)])
        hidden = ops.convert_to_numpy(plain(hidden))
    heads = [model.get_layer(name) for name in (("mean", "noise") if settings is OWN else ("mean",))]
    kernels = [ops.convert_to_numpy(layer.posterior.mean().dense()) for layer in heads]
    expected = hidden @ np.concatenate(kernels, axis=1)  # their biases start at 0
    if settings.from_last:
        expected[:, 0] += x[:, -1, 0]
    np.testing.assert_allclose(ops.convert_to_numpy(model(x)), expected, rtol=1e-4, atol=1e-5)


def test_noise_is_weighed_from_what_is_known_before_the_target():
    x = np.zeros((2, 3, 15))
    x[1, :, 0] = 1.0, 4.0, 3.0
    p = ValuePredictive(np.zeros(2), np.zeros(2), 1, noise=np.array([2.0, 5.0]))
    scaling = air.AirScaling(np.full(15, 100.0), np.full(15, 10.0), 0.0, 1.0)
    kinds = {n: forecast.noise_kinds(p, x, scaling, replace(TINY, noise=n)) for n in ("one", "grows", "own")}
    np.testing.assert_allclose(kinds["one"], [[1], [1]])
    np.testing.assert_allclose(kinds["grows"], [[1, 100, 0], [1, 130, 20]])  # the last value, the mean |change|
    np.testing.assert_allclose(kinds["own"], [[2], [5]])


def test_hours_one_by_one_are_the_same_function(monkeypatch):
    x, found = np.random.default_rng(0).normal(size=(5, 3, 15)).astype("float32"), []
    for name in ("ANOTHER", forecast.UNROLL):
        monkeypatch.setenv(name, "1")
        keras.utils.set_random_seed(0)
        model = beijing.EXPERIMENT.problem.network(Weights("low_rank", TINY), TINY)
        assert model.get_layer("first").unroll == (name == forecast.UNROLL)
        found.append(ops.convert_to_numpy(model(x)))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)


def test_the_papers_start_of_full_rank_means_is_uniform_and_another_in_every_kernel():
    settings = beijing.EXPERIMENT.presets["paper"]["full_rank"]
    model = beijing.EXPERIMENT.problem.network(Weights("full_rank", settings), settings)
    kernels = [model.get_layer(name).recurrent_posterior for name in ("first", "second")]
    means = [ops.convert_to_numpy(kernel.mean().dense()) for kernel in kernels]
    assert all(np.abs(mean).max() <= 0.2 and abs(mean.std() - 0.4 / np.sqrt(12)) < 2e-3 for mean in means)
    assert np.abs(means[0] - means[1]).max() > 0.1
    scales = np.sqrt(ops.convert_to_numpy(kernels[0].factors[0].variance))
    low, high = np.log1p(np.exp([-3.0, -2.0]))
    assert low <= scales.min() < scales.max() <= high + 1e-6


def test_ranks_are_those_that_the_method_names_and_at_most_the_features():
    settings = beijing.EXPERIMENT.problem.with_rank(beijing.ForecastSettings(), 32)
    assert settings.ranks == (15, 32, 32, 32, 1)
    model = beijing.EXPERIMENT.problem.network_of("low_rank_8", beijing.ForecastSettings())(
        Weights("low_rank", settings)
    )
    assert [q.rank for q in sb.find_posteriors(model) if hasattr(q, "rank")] == [8, 8, 8, 8, 1]


@pytest.mark.skipif(not TRIALS.exists(), reason="no trials are committed")
def test_the_committed_choice_is_that_of_the_committed_trials():
    trials = record.read(TRIALS, arrays=False)
    assert all(one.preset == "trial" and "mae" not in one.metrics for one in trials)
    assert beijing.EXPERIMENT.configurations.best(trials) == beijing.CHOICE


def test_every_method_has_as_many_configurations_and_the_paper_its_own_settings():
    counts = {method: len(beijing.EXPERIMENT.configurations.settings(method)) for method in beijing.EXPERIMENT.methods}
    own = {method: count for method, count in counts.items() if method not in beijing.EXPERIMENT.configurations.shared}
    assert set(own.values()) == {4} and set(beijing.EXPERIMENT.presets["paper"]) == set(beijing.EXPERIMENT.methods)
    assert beijing.EXPERIMENT.presets["paper"]["low_rank"] == beijing.ForecastSettings() and set(beijing.TUNED) == set(
        beijing.EXPERIMENT.methods
    )
    for method in own:
        assert len(set(beijing.EXPERIMENT.configurations.settings(method).values())) == 4


def test_a_network_that_has_learned_nothing_with_the_quick_settings_says_the_last_hour():
    model = beijing.EXPERIMENT.problem.network(Weights("deterministic", beijing.QUICK), beijing.QUICK)
    head = model.get_layer("mean")
    for variable in head.trainable_variables:
        variable.assign(ops.zeros(variable.shape))
    x = np.random.default_rng(0).normal(size=(4, beijing.QUICK.hours, len(air.FEATURES))).astype("float32")
    said = ops.convert_to_numpy(model(x))
    np.testing.assert_allclose(said[:, 0], x[:, -1, air.FEATURES.index("pm2.5")], rtol=1e-6)
