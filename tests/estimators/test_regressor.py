"""Regressors: standard deviations, intervals and samples agree with the posterior, whatever the units."""

import copy
from dataclasses import replace

import keras
import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from small_tables import MLP, SMALL, build, table

import singularbayes as sb
from singularbayes.estimators import BayesianMLPRegressor, BayesianRegressor, base, regressors
from singularbayes.estimators.calibration import (
    between_components,
    mean_of_unseen_components,
    pooled_error,
    second_held_out,
)
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.network import WeightedMeanScale
from singularbayes.estimators.training import Batches, Data, draw, train
from singularbayes.estimators.variance import Tail, VarianceModel, variance_over_square

X, Y = table(120)
NEW, TARGETS = table(500, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return BayesianMLPRegressor(**MLP, noise="constant").fit(X, Y)


@pytest.mark.backend
def test_predictions_are_those_of_the_model_in_the_units_of_the_data():
    model = BayesianMLPRegressor(**MLP | {"max_iter": 2}, calibrate=None).fit(X, Y)
    standardised = (NEW - X.mean(axis=0)) / X.std(axis=0)
    p = sb.predict(model.model_, standardised.astype("float32"), draws=20, seed=model._seed, likelihood="mean_scale")
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, Y.mean() + Y.std() * p.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(std, Y.std() * np.sqrt(p.variance("total")), rtol=1e-5)


def test_predictions_do_not_depend_on_units(fitted):
    other = BayesianMLPRegressor(**MLP, noise="constant").fit(X * 1e6 - 3e6, 2e8 * Y + 1e9)
    mean, std = fitted.predict(NEW, return_std=True)
    for ours, theirs in zip((mean, std), other.predict(NEW * 1e6 - 3e6, return_std=True), strict=True):
        moved = 2e8 * ours + (1e9 if ours is mean else 0)
        np.testing.assert_allclose(theirs, moved, rtol=0, atol=0.02 * 2e8)


@pytest.mark.backend
def test_the_same_random_state_gives_the_same_numbers_and_leaves_global_generators():
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    options = MLP | {"max_iter": 2, "calibrate": "split"}
    one, two = (BayesianMLPRegressor(**options).fit(X, Y).predict(NEW) for _ in range(2))
    other = BayesianMLPRegressor(**options | {"random_state": 1}).fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 1e-3
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_samples_have_the_predicted_mean_and_standard_deviation(fitted):
    samples = fitted.sample_y(NEW[:40], n_samples=2_000, random_state=3)
    mean, std = fitted.set_params(draws=2_000).predict(NEW[:40], return_std=True)
    fitted.set_params(draws=20)
    error = std / np.sqrt(2_000)
    assert samples.shape == (40, 2_000)
    assert np.abs(samples.mean(axis=1) - mean).max() < 6 * error.max()
    np.testing.assert_allclose(samples.std(axis=1), std, rtol=0.12)  # 4 standard errors are 0.06
    np.testing.assert_array_equal(samples, fitted.sample_y(NEW[:40], n_samples=2_000, random_state=3))


def test_a_sample_is_one_function_of_all_rows(fitted):
    """Epistemic errors of near inputs go together; independent noise does not."""
    near = np.repeat(3 * NEW[:1], 2, axis=0)
    samples = fitted.sample_y(near, n_samples=1_000)
    epistemic = sb.predict(
        fitted.model_, fitted._features.transform(near).astype("float32"), 1_000, fitted._seed, likelihood="mean_scale"
    ).std
    share = (epistemic[0] * fitted._values.scale_ * np.sqrt(fitted._variance.own[0])) ** 2 / samples.var(axis=1).mean()
    assert abs(np.corrcoef(samples)[0, 1] - share) < 0.15


@pytest.mark.backend
def test_intervals_are_as_wide_as_the_total_standard_deviation_says():
    """Of each output in its own unit; the epistemic part alone varies otherwise over rows."""
    y = np.stack([Y, 50 * X[:, 2] + 7 * np.cos(Y)], axis=1)
    model = BayesianMLPRegressor(**MLP | {"max_iter": 3, "calibrate": "split"}, noise="constant").fit(X, y)
    rows = NEW[:60] * np.linspace(0.2, 6, 60)[:, None]  # from the middle of the data to far outside
    mean, std = model.predict(rows, return_std=True)
    low, high = model.predict_interval(rows, coverage=0.8)
    per_deviation = (high - low) / std
    np.testing.assert_allclose(per_deviation, np.tile(per_deviation[:1], (60, 1)), rtol=1e-4)
    np.testing.assert_allclose((low + high) / 2, mean, rtol=1e-4, atol=1e-4)
    share = model._predictive(rows).std / std
    assert (share.max(axis=0) > 1.5 * share.min(axis=0)).all() and per_deviation[0, 0] != per_deviation[0, 1]


@pytest.mark.parametrize("calibrate", ["split", "folds"])
def test_intervals_cover_as_often_as_promised(calibrate):
    """Over 8 data sets; the network is trained badly on purpose, and the noise depends on the input."""
    options = MLP | {"max_iter": 3, "validation_fraction": 0.5, "noise": "constant", "calibrate": calibrate}
    covered = []
    for seed in range(8):
        x, y = table(120, seed=100 + seed, noise=lambda x: 0.1 + np.abs(x[:, 0]))
        low, high = BayesianMLPRegressor(**options | {"random_state": seed}).fit(x, y).predict_interval(NEW, 0.8)
        new = table(500, seed=1, noise=lambda x: 0.1 + np.abs(x[:, 0]))[1]
        covered.append(np.mean((low <= new) & (new <= high)))
    error = np.std(covered, ddof=1) / np.sqrt(len(covered))
    assert np.mean(covered) > 0.8 - 2 * error
    # With n held-out rows the promise is at most 1 / (n + 1) too careful; folds are more so.
    assert np.mean(covered) < 0.8 + 2 * error + (1 / 61 if calibrate == "split" else 0.04)


def test_the_variance_is_scaled_to_the_errors_on_held_out_rows(fitted):
    held_out, data = fitted._held_out
    y = data.y
    assert sorted(y[:, 0]) == sorted(
        fitted._values.transform(Y[:, None])[:, 0].astype("float32")
    )  # with folds every row was held out once
    scale = np.mean((y - held_out.mean) ** 2 / held_out.variance("total"))
    p = sb.predict(
        fitted.model_, fitted._features.transform(NEW).astype("float32"), 20, fitted._seed, likelihood="mean_scale"
    )
    assert abs(scale - 1) > 0.02
    np.testing.assert_allclose(
        fitted.predict(NEW, return_std=True)[1], Y.std() * np.sqrt(scale * p.variance("total")), rtol=1e-4
    )


@pytest.mark.parametrize("calibrate", ["split", "folds"])
def test_no_network_predicts_rows_for_calibration_that_it_was_trained_on(calibrate, monkeypatch):
    trained, predicted = {}, []

    def spy_on_training(network, data, *others):
        trained[id(network)] = set(map(tuple, data.x))
        return train(network, data, *others)

    def spy_on_draws(network, x, **others):
        predicted.append((network, set(map(tuple, x))))
        return draw(network, x, **others)

    monkeypatch.setattr(base, "train", spy_on_training)
    monkeypatch.setattr(base, "draw", spy_on_draws)
    BayesianMLPRegressor(**MLP | {"max_iter": 1, "calibrate": calibrate}).fit(X, Y)
    assert len(predicted) == (5 if calibrate == "folds" else 1)
    assert sum(len(rows) for _, rows in predicted) == (120 if calibrate == "folds" else 12)
    for network, rows in predicted:
        assert not rows & trained[id(network)] and len(trained[id(network)]) + len(rows) == 120


def test_rows_have_noise_of_their_own_where_the_noise_depends_on_the_input():
    options = MLP | {"max_iter": 20, "components": 5}
    x, y = table(400, noise=lambda x: np.exp(1.5 * x[:, 2] - 1))
    varied = BayesianMLPRegressor(**options).fit(x, y)
    same = BayesianMLPRegressor(**options).fit(*table(400)).predict(NEW, return_std=True)[1]
    assert np.log(same).std() < 0.25
    std = varied.predict(NEW, return_std=True)[1]
    assert np.corrcoef(np.log(std), NEW[:, 2])[0, 1] > 0.8
    head = BayesianMLPRegressor(**options | {"components": 1, "calibrate": None}, noise="head").fit(x, y)
    assert np.corrcoef(np.log(head.predict(NEW, return_std=True)[1]), NEW[:, 2])[0, 1] > 0.8


def test_components_calibrate_with_the_rows_that_they_were_trained_without(monkeypatch):
    trained = []

    def spy_on_training(network, data, recipe, seed, watch=None, used=None):
        trained.append(used)
        return train(network, data, recipe, seed, watch, used)

    monkeypatch.setattr(base, "train", spy_on_training)
    model = BayesianMLPRegressor(**MLP | {"components": 10, "max_iter": 10}).fit(X, Y)
    (used,) = trained
    count = (~used).sum(axis=1)
    assert model.n_iter_ == 10 and np.bincount(count).tolist() == [0, 96, 24] and (~used).sum(axis=0).min() >= 12
    p, data = model._held_out
    np.testing.assert_array_equal(data.y, model._values.transform(Y[:, None]).astype("float32"))
    # The mean is that of the components that did not see the row, but for a factor that makes the error the pool's.
    draws = sb.predict(model.model_, data.x, 20, model._seed, likelihood="mean_scale", keep_draws=True).draws
    by_component = draws.reshape(-1, 10, 120)
    unseen = [by_component[:, ~used[i], i] for i in range(120)]
    own = np.array([each.mean() for each in unseen])
    factor = (data.y - p.mean)[:, 0] / (data.y[:, 0] - own)
    for component in range(10):
        alone = factor[(count == 1) & ~used[:, component]]
        np.testing.assert_allclose(alone, alone[0], rtol=1e-3)
        assert 0.3 < alone[0] < 1.5
    # Its variance has a part that the components differ by, the same for all rows: that of a row would tell its error.
    apart = p.std[:, 0] ** 2 - np.array([each.var(axis=0).mean() for each in unseen])
    means = by_component.mean(axis=0)[..., None]
    np.testing.assert_allclose(apart, 0.9 * between_components(means, ~used)[0], rtol=1e-3)


@pytest.mark.backend
def test_a_component_whose_training_failed_is_replaced_by_a_copy_of_a_good_one(monkeypatch):
    broken = []

    def break_a_component(*arguments, **options):
        network = train(*arguments, **options)
        if broken:
            model = network.model
            for variable in model.layers[0].trainable_variables:
                values = np.array(keras.ops.convert_to_numpy(variable))
                values[2] = 30.0
                variable.assign(values)
            network.take(model)
        return network

    monkeypatch.setattr(base, "train", break_a_component)
    options = MLP | {"components": 5, "max_iter": 20}
    whole = BayesianMLPRegressor(**options).fit(X, Y)
    broken.append(True)
    with pytest.warns(ConvergenceWarning, match="1 of 5 components did not train and were replaced by copies"):
        model = BayesianMLPRegressor(**options).fit(X, Y)
    assert (whole.n_replaced_components_, model.n_replaced_components_) == (0, 1)
    own, copies = (
        each._by_component(each._network, each._features.transform(NEW).astype("float32"))[0].mean(axis=0)
        for each in (whole, model)
    )
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(copies[kept], own[kept], rtol=1e-4, atol=1e-5)
    nearest = np.abs(copies[2] - own[kept]).mean(axis=(1, 2))  # of the same weights, but other draws
    assert nearest.min() < 0.1 * np.abs(own[0] - own[1]).mean()
    assert np.abs(model.predict(NEW) - whole.predict(NEW)).mean() < 0.2 * Y.std()
    # Rows that only the broken component did not see calibrate nothing.
    assert len(whole._held_out[1]) == 120 and 96 <= len(model._held_out[1]) < 120
    # So it is without folds, and when training resumes.
    for calibrate in (None, "split"):
        model = BayesianMLPRegressor(
            **options | {"max_iter": 5, "calibrate": calibrate}, warm_start=True, noise="constant"
        )
        for _ in range(2):
            with pytest.warns(ConvergenceWarning, match="lower learning_rate_init=0.03"):
                model.fit(X, Y)
            values = keras.ops.convert_to_numpy(model.model_.trainable_variables[0])
            assert model.n_replaced_components_ == 1 and np.abs(values).max() < 30
            assert sum(np.array_equal(values[2], values[other]) for other in kept) == 1


def test_of_many_rows_some_are_held_out_from_all_components_and_give_the_intervals(monkeypatch):
    defaults = replace(base.DEFAULTS, untouched_from=100, untouched=0.2)
    for module in (base, regressors):
        monkeypatch.setattr(module, "DEFAULTS", defaults)
    model = BayesianMLPRegressor(**MLP | {"components": 5, "max_iter": 5}).fit(X, Y)
    (_, data), (held_out, others) = model._untouched_rows, model._held_out
    assert len(data) == 24 and len(others) == len(held_out) == 96
    rows = {tuple(row) for row in model._features.transform(X).astype("float32")}
    assert {tuple(row) for row in (*data.x, *others.x)} == rows and len(rows) == 120
    # The intervals are split conformal on these rows: they contain ⌈25 · 0.8⌉ = 20 of the 24.
    low, high = model.predict_interval(X, coverage=0.8)
    place = {tuple(row): i for i, row in enumerate(model._features.transform(X).astype("float32"))}
    own = [place[tuple(row)] for row in data.x]
    assert ((low <= Y) & (high >= Y))[own].sum() == 20


@pytest.mark.backend
def test_a_component_is_not_moved_by_rows_that_it_leaves_out():
    options = MLP | {"components": 3, "max_iter": 1, "calibrate": None}
    used = np.ones((120, 3), bool)
    used[:60, 0] = False
    values = []
    for shift in (0.0, 1.0):
        model = BayesianMLPRegressor(**options, noise="constant").fit(X[:32], Y[:32])
        y = (Y + shift * (np.arange(120) < 60))[:, None].astype("float32")
        network = train(model._network, Data(X.astype("float32"), y, np.ones(120)), model._recipe(120), 0, None, used)
        values.append(keras.ops.convert_to_numpy(network.model.trainable_variables[0]))
    moved = np.abs(values[0] - values[1]).reshape(3, -1).max(axis=1)
    assert moved[0] < 1e-5 < 1e-3 < moved[1:].min()  # but for rounding


@pytest.mark.parametrize(("rows", "size", "shape"), [(65, 64, 40), (120, 32, 32), (20, 64, 24), (3, 1, 1)])
def test_batches_are_of_like_size_and_one_shape(rows, size, shape):
    x, weight = np.arange(rows), np.linspace(1, 2, rows)
    batches = Batches(x, x, weight, size, True, 0)
    seen, total = [], 0.0
    for i in range(len(batches)):
        own, _, weights = batches[i]
        assert own.shape == weights.shape == (shape,)
        seen += own[weights > 0].tolist()
        real = np.count_nonzero(weights)
        np.testing.assert_allclose(weights[:real] * real / shape, weight[own[:real]], rtol=1e-6)
        total += real
    assert sorted(seen) == x.tolist() and total == rows
    batches.on_epoch_end()
    assert rows == 3 or batches[0][0].tolist() != seen[:shape]


def test_the_error_of_a_pool_is_that_of_members_less_their_variance():
    rng = np.random.default_rng(0)
    each = rng.normal(size=(1, 40, 2_000, 1))  # 40 components around 0 for 2,000 rows of noise 1
    held_out = np.arange(2_000)[:, None] % 20 == np.arange(40) % 20
    y = rng.normal(size=(2_000, 1))
    mean = mean_of_unseen_components(each[0], held_out)
    np.testing.assert_allclose(mean[:, 0], [each[0, held_out[i], i, 0].mean() for i in range(2_000)])
    factor = pooled_error((y - each[0]) ** 2, np.ones(1), held_out)
    assert np.mean((factor * (y - mean)) ** 2) == pytest.approx(1 + 1 / 40, abs=0.1)


def test_the_loss_of_a_noise_head_counts_rows_by_their_weights_and_no_padding():
    rng = np.random.default_rng(0)
    y, outputs = rng.normal(size=(6, 1)).astype("float32"), rng.normal(size=(6, 2)).astype("float32")
    loss, weight = WeightedMeanScale(), np.array([1, 2, 3, 1, 2, 1], "float32")
    repeated = loss(np.repeat(y, weight.astype(int), axis=0), np.repeat(outputs, weight.astype(int), axis=0))
    padding = np.full((10, 2), 9.0, "float32")  # of another row, whose noise is large
    padded = np.concatenate([weight * 16 / weight.sum(), np.zeros(10, "float32")])
    found = loss(np.concatenate([y, padding[:, :1]]), np.concatenate([outputs, padding]), padded)
    np.testing.assert_allclose(float(found), float(repeated), rtol=1e-5)
    assert float(loss(y, outputs)) != pytest.approx(float(repeated), rel=0.01)


def test_the_variance_between_components_is_that_of_rows_that_they_did_not_see():
    rng = np.random.default_rng(0)
    held_out = np.arange(4_000)[:, None] % 8 == np.arange(8)
    held_out |= second_held_out(held_out, 0.5, rng)
    assert np.bincount(held_out.sum(axis=1)).tolist() == [0, 2_000, 2_000]
    # On rows that they did not see, components scatter with variance 1; on the others they know the target, 0.
    means = np.where(held_out.T, rng.normal(size=(8, 4_000)), 0.1 * rng.normal(size=(8, 4_000)))[..., None]
    found = between_components(means, held_out)
    spread = means.var(axis=0, ddof=1)
    twice = held_out.sum(axis=1) > 1
    np.testing.assert_allclose(found, spread.mean() * min(4.0, 1.0 / spread[twice].mean()), rtol=0.1)
    np.testing.assert_allclose(between_components(rng.normal(size=(8, 4_000, 1)), held_out), 1, rtol=0.1)
    # A copy is held out from no row: what the others are multiplied by does not depend on it.
    held_out[:, 7] = False
    means[7] = means[0]
    means, held_out = means[:, held_out.any(axis=1)], held_out[held_out.any(axis=1)]
    whole, others = (
        between_components(means[:k], held_out[:, :k]) / means[:k].var(axis=0, ddof=1).mean() for k in (8, 7)
    )
    assert 1.5 < others < 3.9
    np.testing.assert_allclose(whole, others)


def test_a_component_that_is_far_off_does_not_widen_the_errors_of_a_pool():
    rng = np.random.default_rng(0)
    each = 0.1 * rng.normal(size=(8, 80_000, 1))
    each[0] = rng.normal(size=(80_000, 1))  # a component that learned nothing
    held_out = np.arange(80_000)[:, None] % 8 == np.arange(8)
    factor = pooled_error(each**2, each.var(axis=0, ddof=1).mean(axis=0), held_out)
    errors = (factor * mean_of_unseen_components(each, held_out))[:, 0]
    own = [np.mean(errors[held_out[:, k]] ** 2) for k in range(8)]
    np.testing.assert_allclose(own, np.mean(own), rtol=0.15)
    # The mean of all components has an eighth of its error: 1/64 and a little, where one component has 1/8 on average.
    assert np.mean(each.mean(axis=0) ** 2) < np.mean(own) < 0.2 * 1.2 * np.mean(each**2)


def test_a_constant_target_is_predicted():
    model = BayesianMLPRegressor(**MLP | {"max_iter": 100}).fit(X, np.full(len(X), 7e9))
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, 7e9, rtol=1e-8)
    assert np.isfinite(std).all()


def test_training_resumes_with_warm_start():
    options = MLP | {"max_iter": 5, "learning_rate": "constant"}
    model = BayesianMLPRegressor(**options, warm_start=True).fit(X, Y)
    before = model.loss_curve_
    model.fit(X, Y)
    assert model.n_iter_ == 10 and model.loss_curve_[:5] == before
    assert model.loss_curve_[5] < before[0] - 0.5 * (before[0] - before[-1])
    assert BayesianMLPRegressor(**options).fit(X, Y).fit(X, Y).n_iter_ == 5


@pytest.mark.backend
def test_early_stopping_keeps_the_best_epoch():
    estimator = BayesianMLPRegressor(**MLP | {"learning_rate": "constant", "n_iter_no_change": 3, "calibrate": None})
    values, scores = [], iter([1.0, 3.0, 2.0, 2.5, 2.0, 9.0])

    def watch(network):
        values.append(network.values)
        return next(scores)

    network = estimator.fit(X[:20], Y[:20])._network
    data = Data(X.astype("float32"), Y[:, None].astype("float32"), np.ones(120))
    train(network, data, estimator._recipe(120), 0, watch)
    assert network.scores == [1, 3, 2, 2.5, 2] and len(network.losses) == 5
    assert network.values is values[1] and np.abs(values[1][0] - values[4][0]).max() > 0


def test_early_stopping_watches_rows_that_are_not_trained_on():
    options = MLP | {"max_iter": 300, "beta": 0.0, "learning_rate": "constant", "calibrate": None}
    model = BayesianMLPRegressor(**options, early_stopping=True, n_iter_no_change=5).fit(*table(60))
    assert model.n_iter_ == len(model.validation_scores_) < 300


@pytest.mark.backend
def test_rows_come_in_parts():
    x, y = table(1_200, seed=4)
    model = BayesianMLPRegressor(**MLP | {"learning_rate_init": 0.013})
    for start in range(0, 1_200, 100):
        model.partial_fit(x[start : start + 100], y[start : start + 100])
    assert model.n_samples_seen_ == 1_200 and model.n_iter_ == 13  # the first rows are learned in two parts
    weight = sb.find_posteriors(model.model_)[0].kl_scale
    assert float(keras.ops.convert_to_numpy(weight)) == pytest.approx(DEFAULTS.beta / 1_200)
    low, high = model.predict_interval(NEW, coverage=0.9)
    assert 0.84 < np.mean((low <= TARGETS) & (high >= TARGETS)) < 0.97
    assert model.score(NEW, TARGETS) > 0.5


def test_of_the_first_rows_some_are_trained_on_whatever_the_fraction():
    model = BayesianMLPRegressor(**MLP, validation_fraction=0.9)
    for rows in (slice(0, 2), slice(2, 5)):
        model.partial_fit(X[rows], Y[rows])
    assert model.n_samples_seen_ == 5 and np.isfinite(model.predict(NEW)).all()


def test_networks_of_the_user_are_trained_with_their_loss_and_optimizer():
    def compiled(X, y, noise):
        model = build(X, y)
        model.compile(keras.optimizers.SGD(0.005), sb.Gaussian(noise))
        return model

    def with_head(X, y):
        return build(X, np.repeat(y, 2, axis=1))

    options = SMALL | {"calibrate": None}
    plain = BayesianRegressor(build, {"units": 7}, **options).fit(X, Y)
    assert plain.model_.count_params() and plain.model_.layers[-1].__class__.__name__ == "LearnedNoise"
    assert BayesianRegressor(with_head, **options).fit(X, Y).model_.output_shape == (None, 2)
    model = BayesianRegressor(compiled, {"noise": 0.25}, **options).fit(X, Y)
    p = sb.predict(model.model_, model._features.transform(NEW).astype("float32"), 20, model._seed)
    np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], Y.std() * np.sqrt(p.std**2 + 0.25**2), rtol=1e-5)
    assert type(model.model_.optimizer) is keras.optimizers.SGD and model.score(X, Y) > 0.5


def test_components_are_networks_of_their_own():
    model = BayesianMLPRegressor(**MLP | {"components": 3, "calibrate": None}).fit(X, Y)
    assert [posterior.components for posterior in sb.find_posteriors(model.model_)] == [3, 3]
    assert model.sample_y(NEW, n_samples=4).shape == (500, 4) and model.score(NEW, TARGETS) > 0.5
    mean, std = model.predict(20 * NEW[:50], return_std=True)  # where the components are far apart
    alone = np.concatenate([model.sample_y(20 * NEW[:50], random_state=seed) for seed in range(100)], axis=1)
    assert alone.std(axis=1).mean() == pytest.approx(std.mean(), rel=0.2)
    assert np.abs(alone.mean(axis=1) - mean).mean() < 0.3 * std.mean()
    far = model.predict(20 * NEW, return_std=True)[1].mean() / model.predict(NEW, return_std=True)[1].mean()
    single = BayesianMLPRegressor(**MLP | {"calibrate": None}).fit(X, Y)
    assert far > single.predict(20 * NEW, return_std=True)[1].mean() / single.predict(NEW, return_std=True)[1].mean()


@pytest.mark.parametrize(
    ("spread", "predicted", "power"), [(1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, None)], ids=str
)
def test_variances_are_corrected_by_held_out_errors(spread, predicted, power):
    """Noise varies with a feature or not, and so do the variances that a network predicts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_500, 2))
    true, given = np.exp(spread * x[:, :1]), np.exp(predicted * x[:, :1] - 2)
    squares = true * rng.chisquare(1, size=(1_500, 1))
    model = VarianceModel(x, squares, given, np.ones(1_500))
    corrected = given * model(x, given)
    assert np.log(corrected / true).std() < 0.35 and abs(np.log(corrected / true).mean()) < 0.15
    assert np.mean(squares / (given * model.own)) == pytest.approx(1, abs=0.02)
    if power is not None:
        assert model._outputs[0].power == power
    plain = VarianceModel(x, squares, given, np.ones(1_500), per_row=False)
    np.testing.assert_allclose(plain(x, given), np.mean(squares / given))
    assert not plain.per_row


@pytest.mark.parametrize("freedom", [3.0, 6.0, np.inf])
def test_tails_are_those_of_the_errors(freedom):
    rng = np.random.default_rng(0)
    errors = 2 * (rng.normal(size=4_000) if np.isinf(freedom) else rng.standard_t(freedom, size=4_000))
    tail = Tail.of(errors**2, np.ones(4_000))
    assert tail.freedom == freedom or (np.isinf(freedom) and tail.freedom >= 20)
    assert tail.square == pytest.approx(4, rel=0.1)
    true = stats.t.logpdf(errors, freedom, 0, 2) if np.isfinite(freedom) else stats.norm.logpdf(errors, 0, 2)
    assert abs(np.mean(tail.nll(errors**2) + true)) < 0.003


def test_one_row_that_is_far_off_does_not_widen_all_others():
    rng = np.random.default_rng(0)
    squares, given = rng.chisquare(1, size=(300, 1)), np.ones((300, 1))
    squares[0] = 40.0**2
    model = VarianceModel(rng.normal(size=(300, 2)), squares, given, np.ones(300))
    scale = np.median(model.own) / variance_over_square(model.freedom[0])
    assert np.isfinite(model.freedom).all() and scale < 1.2
    assert np.mean(squares) > 6  # what one normal variance for all would be


def test_the_likelihood_is_that_of_the_predicted_distribution(fitted):
    mean, std = fitted.predict(NEW, return_std=True)
    np.testing.assert_allclose(fitted.log_likelihood(NEW, TARGETS), stats.norm.logpdf(TARGETS, mean, std))
    heavy = copy.deepcopy(fitted)
    heavy._variance.freedom = np.array([5.0])
    expected = stats.t.logpdf(TARGETS, 5, mean, std * np.sqrt(3 / 5))
    np.testing.assert_allclose(heavy.log_likelihood(NEW, TARGETS), expected)
    for targets in (TARGETS[:, None].T, TARGETS[1:]):  # another order of axes would pass for one of rows
        with pytest.raises(ValueError, match=r"targets in the shape of the predictions, \(500,\)"):
            fitted.log_likelihood(NEW, targets)
    samples = heavy.sample_y(NEW[:20], n_samples=4_000)
    np.testing.assert_allclose(samples.std(axis=1), std[:20], rtol=0.1)
    assert stats.kurtosis((samples - mean[:20, None]) / std[:20, None], axis=None) > 1
