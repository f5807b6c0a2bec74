"""Beijing: windows in the order of time, other cities in its terms, scores in µg/m³, and the published network."""

import os

import keras
import made_up_air
import numpy as np
import pytest
import tiny
from keras import ops
from singularbayes_experiments import config, data, records, scores
from singularbayes_experiments.methods import Member, Trainer, Weights
from singularbayes_experiments.problems import air

from singularbayes.models import count_trained
from singularbayes.prediction import ValuePredictive

HOURS, SIZES = 6, (200, 60, 50)
PLACE = {name: i for i, name in enumerate(air.FEATURES)}
PAPER = config.read("beijing").chosen("paper", "low_rank")[1]
needs_data = pytest.mark.skipif("SINGULARBAYES_DATA" not in os.environ, reason="needs $SINGULARBAYES_DATA")


@pytest.fixture(scope="module")
def rows():
    return air.rows_of(made_up_air.beijing())


def test_a_window_is_the_standardised_rows_before_its_target(rows):
    parts, scaling = air.split(rows, SIZES, HOURS)
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    for i in (0, 199, 200, 259, 260, 309):
        np.testing.assert_allclose(x[i], (rows[i : i + HOURS] - scaling.mean) / scaling.std, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scaling.micrograms(y), rows[HOURS : HOURS + 310, 0], rtol=1e-5)
    assert [len(part.x) for part in parts] == list(SIZES)
    seen = rows[: SIZES[0] + HOURS - 1]  # every row of the training windows once
    np.testing.assert_allclose(scaling.mean, seen.mean(axis=0))
    np.testing.assert_allclose(scaling.std, np.where(np.ptp(seen, axis=0) > 0, seen.std(axis=0), 1))
    with pytest.raises(ValueError, match=r"need 397 rows; got 390"):
        air.split(rows, (281, 60, 50), HOURS)


def test_what_comes_after_the_training_windows_changes_nothing_in_them(rows):
    (first, *_), _ = air.split(rows, SIZES, HOURS)
    changed = rows.copy()
    changed[SIZES[0] + HOURS :] *= 100  # behind the last target of training
    (other, *_), _ = air.split(changed, SIZES, HOURS)
    np.testing.assert_array_equal(other.x, first.x)
    np.testing.assert_array_equal(other.y, first.y)


def test_features_are_those_of_the_complete_rows_of_the_table():
    table = made_up_air.beijing()
    rows, whole = air.rows_of(table), table.dropna()
    assert rows.shape == (390, 15)
    np.testing.assert_array_equal(rows[:, : len(air.NUMBERS)], whole[list(air.NUMBERS)])
    np.testing.assert_array_equal(rows[:, PLACE["SE"]], whole["cbwd"] == "SE")
    for unit, size in (("hour", 24), ("month", 12)):
        angle = np.arctan2(rows[:, PLACE[f"{unit}_sin"]], rows[:, PLACE[f"{unit}_cos"]])
        np.testing.assert_allclose(np.rint(angle * size / (2 * np.pi)) % size, whole[unit] % size)


def test_another_city_is_told_in_the_terms_of_beijing():
    table = made_up_air.city()
    table.loc[10:13, ["DEWP", "HUMI"]] = -9999
    table.loc[20, "PM_Somewhere"] = np.nan
    rows, kept = air.rows_of_city(table), table.drop(index=[10, 11, 12, 13, 20])
    np.testing.assert_array_equal(rows[:, 0], kept["PM_US Post"])
    np.testing.assert_array_equal(rows[:, PLACE["cv"]], kept["cbwd"].isin(["SW", "cv"]))
    snow, rain, counts = 0, 0, []
    for temperature, amount in zip(table["TEMP"], table["precipitation"], strict=True):
        snow = snow + 1 if amount > 0 and temperature <= 0 else 0
        rain = rain + 1 if amount > 0 and temperature > 0 else 0
        counts.append((snow, rain))
    np.testing.assert_array_equal(rows[:, [PLACE["Is"], PLACE["Ir"]]], np.array(counts)[kept.index])


def test_tuning_reads_no_test_window_and_no_other_city(monkeypatch):
    made_up_air.install(monkeypatch)
    experiment, task = tiny.task("beijing", "low_rank")
    own = task.settings[0]
    whole = experiment.problem.data("beijing", 0, own, "result")
    changed = made_up_air.beijing()
    changed.loc[changed.dropna().index[sum(own.windows[:2]) + own.hours :], "pm2.5"] = 5.0
    monkeypatch.setattr(data, "beijing_pm25", lambda: data.air.Air(changed, "made up"))
    monkeypatch.delattr(data, "five_cities_pm25")
    tuning = experiment.problem.data("beijing", 0, own, "tuning")
    for part in ("train", "validation"):
        np.testing.assert_array_equal(getattr(tuning, part).x, getattr(whole, part).x)
        np.testing.assert_array_equal(getattr(tuning, part).y, getattr(whole, part).y)
    bare, mapped = whole.ood["guangzhou_bare"], [PLACE[name] for name in air.MAPPED]
    assert not bare[..., mapped].any() and len(whole.ood["guangzhou"]) == 197 and len(whole.ood["shanghai"]) == 66
    np.testing.assert_array_equal(np.delete(bare, mapped, -1), np.delete(whole.ood["guangzhou"][::3], mapped, -1))


def test_scores_are_in_micrograms_and_what_is_fitted_is_fitted_to_validation(monkeypatch):
    """A forecaster that is off by half a standard deviation of the targets, on validation by a quarter."""
    made_up_air.install(monkeypatch)
    experiment, task = tiny.task("beijing", "low_rank", noise="one")
    found = experiment.problem.data("beijing", 0, task.settings[0], "result")
    shifts = {id(found.test.x): (found.test.y, 0.5), id(found.validation.x): (found.validation.y, 0.25)}

    def predict(x):
        y, shift = shifts.get(id(x), (np.zeros((len(x), 1)), 0.0))
        return ValuePredictive(y + shift, np.full((len(x), 1), 0.1), 2, noise=1.0)

    scored, arrays = experiment.problem.score(predict, found, task.settings[0], "result")
    rows = air.rows_of(made_up_air.beijing())
    deviation = rows[3:67, 0].std()
    assert scored["mae"] == pytest.approx(deviation / 2, rel=1e-5)
    assert scored["validation_mae"] == pytest.approx(deviation / 4, rel=1e-5)
    assert scored["last_value_mae"] == pytest.approx(np.abs(np.diff(rows[106:137, 0])).mean(), rel=1e-5)
    assert scored["noise_weight_0"] == pytest.approx(deviation * np.sqrt(0.25**2 - 0.1**2), rel=1e-4)
    assert scored["conformal_mpiw_95"] == pytest.approx(deviation / 2, rel=1e-4) and scored["conformal_picp_95"] == 0
    assert scored["width"] == pytest.approx(2 * 1.959964 * 0.25 * deviation, rel=1e-4)
    assert arrays["histograms/test_std"][1].sum() == pytest.approx(100)


def test_noise_is_weighed_from_what_is_known_before_the_target():
    x = np.zeros((2, 3, 15))
    x[1, :, 0] = 1.0, 4.0, 3.0
    scaling = air.Scaling(np.full(15, 100.0), np.full(15, 10.0), 0.0, 1.0)
    np.testing.assert_allclose(air.noise_kinds(x, scaling, "one"), [[1], [1]])
    np.testing.assert_allclose(air.noise_kinds(x, scaling, "grows"), [[1, 100, 0], [1, 130, 20]])


def test_training_that_watches_the_mae_halves_the_rate_ends_early_and_goes_back(monkeypatch):
    made_up_air.install(monkeypatch)
    experiment, task = tiny.task("beijing", "deterministic", preset="paper", epochs=40, learning_rate=0.3, patience=4)
    own = config.replace(task.settings[0], plateau=2, batch_size=64)
    logs = []
    made = type(experiment.problem).callbacks
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, found: logs.append({**found, "rate": float(watch.model.optimizer.learning_rate)})
    )
    monkeypatch.setattr(type(experiment.problem), "callbacks", lambda self, own: [*made(self, own), watch])
    found = experiment.problem.data("beijing", 0, own, "result")
    (model,) = Trainer(experiment.problem).fit("deterministic", [Member(0, own, found)])
    maes = [each["val_mae"] for each in logs]
    best = int(np.argmin(maes))
    assert len(maes) == best + 5 < 40 and logs[-1]["rate"] == pytest.approx(logs[best]["rate"] / 4)
    said = ops.convert_to_numpy(model(found.validation.x))
    assert np.abs(said - found.validation.y).mean() == pytest.approx(min(maes), rel=1e-4)


@pytest.mark.parametrize("from_last", [False, True])
def test_at_its_means_the_network_is_keras_lstms_and_the_last_value(from_last):
    experiment, task = tiny.task("beijing", "low_rank", from_last=from_last)
    model = experiment.problem.network(Weights("low_rank", task.settings[0]), task.settings[0])
    hidden = x = np.random.default_rng(0).normal(size=(5, 3, 15)).astype("float32")
    for name, sequences in (("first", True), ("second", False)):
        layer, plain = model.get_layer(name), keras.layers.LSTM(3, return_sequences=sequences)
        plain.build(hidden.shape)
        parts = (layer.posterior, layer.recurrent_posterior, layer.bias_posterior)
        weights = [ops.convert_to_numpy(part.mean().dense()) for part in parts]
        plain.set_weights([array.reshape(own.shape) for array, own in zip(weights, plain.weights, strict=True)])
        hidden = ops.convert_to_numpy(plain(hidden))
    expected = hidden @ ops.convert_to_numpy(model.get_layer("mean").posterior.mean().dense())  # biases start at 0
    expected += x[:, -1, :1] if from_last else 0
    np.testing.assert_allclose(ops.convert_to_numpy(model(x)), expected, rtol=1e-4, atol=1e-5)


def test_the_papers_start_of_full_rank_means_is_uniform_and_another_in_every_kernel():
    experiment = config.read("beijing")
    settings = experiment.chosen("paper", "full_rank")[1]
    model = experiment.problem.network(Weights("full_rank", settings), settings)
    kernels = [model.get_layer(name).recurrent_posterior for name in ("first", "second")]
    means = [ops.convert_to_numpy(kernel.mean().dense()) for kernel in kernels]
    assert all(np.abs(mean).max() <= 0.2 and abs(mean.std() - 0.4 / np.sqrt(12)) < 2e-3 for mean in means)
    assert np.abs(means[0] - means[1]).max() > 0.1


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("deterministic", 53_569), ("full_rank", 107_138), ("low_rank", 47_144), ("rank_one", 56_161)],
)
def test_the_forecaster_has_the_published_parameters(kind, parameters):
    assert count_trained(config.read("beijing").problem.network(Weights(kind, PAPER), PAPER)) == parameters


@needs_data
def test_the_published_tables_give_the_published_numbers_of_windows():
    found = config.read("beijing").problem.data("beijing", 0, PAPER, "result")
    assert found.train.x.shape == (29_213, 24, 15) and len(found.validation.x) == len(found.test.x) == 6_260
    assert found.ood["guangzhou"].shape == (20_050, 24, 15) and np.abs(found.ood["guangzhou"]).max() < 25  # no −9999
    own, table = data.beijing_pm25().table, data.five_cities_pm25().tables["Beijing"]
    wet, cold = (values.iloc[: len(own)] for values in (table["precipitation"] > 0, table["TEMP"] <= 0))
    mapped = [air.count_in_a_row((wet & kind).to_numpy()) for kind in (~cold, cold)]
    agreement = [np.corrcoef(each, own[name])[0, 1] for each, name in zip(mapped, ("Ir", "Is"), strict=True)]
    np.testing.assert_allclose(agreement, [0.82, 0.63], atol=0.005)


@pytest.mark.parametrize("name", ["sst2", "beijing"])
def test_settings_of_results_are_those_of_the_records(name):
    experiment = config.read(name)
    rows = records.connect().execute(
        "SELECT DISTINCT preset, method, settings FROM runs WHERE experiment = ? AND stage = 'result' "
        "AND list_contains(['paper', 'chosen', 'refit'], preset)",
        [name],
    )
    read = 0
    for preset, method, text in rows.fetchall():
        recorded, own = config.json.loads(text), config.plain(experiment.chosen(preset, method)[1])
        recorded["cosine"] = "step" if recorded["cosine"] else None
        # Those that the method does not read, and those that were told in another way.
        left = {"ranks"} if config.with_named_rank(method, PAPER) != PAPER else set()
        left |= set() if "svd" in method else {"svd_epochs"}
        for key in recorded.keys() & own.keys() - left:
            assert own[key] == recorded[key], (preset, method, key)
        read += 1
    assert read == sum(len(experiment.methods(p)) for p in ("paper", "chosen", "refit") if p in experiment.presets)


def test_histograms_have_the_percentages_of_both_sets_in_the_same_bins():
    values = {"a": np.array([0.0, 0.1, 0.1, 2.4]), "b": np.full(200, 1.0)}
    found = scores.histograms(values)
    np.testing.assert_array_equal(found["histograms/a"][0], found["histograms/b"][0])
    assert found["histograms/a"][1].sum() == found["histograms/b"][1].sum() == 100
    assert found["histograms/a"][1][-1] == 25  # 2.4 is above most
