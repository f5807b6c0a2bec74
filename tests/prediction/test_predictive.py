"""The predictive distribution of each example, against NumPy over all draws at once."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictions import class_predictive, value_predictive
from scipy import stats

from singularbayes import metrics
from singularbayes.likelihoods import ClassPredictive, RunningMoments, ValuePredictive


def test_mutual_information_is_the_paper_s(vectors):
    case = vectors["mutual_information"]
    p, expected = class_predictive(case["inputs"]["probs_TxNxC"]), case["expected"]
    np.testing.assert_allclose(p.mean, expected["mean_p"])
    np.testing.assert_allclose(p.entropy, expected["total_entropy"])
    np.testing.assert_allclose(p.expected_entropy, expected["expected_entropy"])
    np.testing.assert_allclose(p.mutual_information, expected["mi"], atol=1e-15)
    np.testing.assert_allclose(p.std[:, 1], expected["std_p1"], atol=1e-15)
    np.testing.assert_array_equal(p.predicted_labels == case["inputs"]["y"], True)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_moments_are_numpy_s_however_the_draws_and_examples_arrive(data):
    draws, examples = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 7))
    tail = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    seed = data.draw(st.integers(0, 2**20))
    # A mean far from 0 shows cancellation.
    values = np.random.default_rng(seed).normal(1e4, 1.0, (draws, examples, *tail))

    def cuts(total):
        inner = data.draw(st.sets(st.integers(0, total)))
        edges = sorted({0, total, *inner})
        return list(itertools.pairwise(edges))

    moments = RunningMoments(examples)
    for first, last in cuts(draws):
        for start, stop in cuts(examples):
            moments.update(slice(start, stop), values[first:last, start:stop])
    np.testing.assert_allclose(moments.mean, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, values.var(0), rtol=1e-7, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(2, 5), st.integers(0, 2**20), st.floats(-3, 3))
def test_mutual_information_is_a_number_between_0_and_the_entropy(draws, examples, classes, seed, sharpness):
    logits = 10**sharpness * np.random.default_rng(seed).normal(size=(draws, examples, classes))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    p = class_predictive(weights / weights.sum(-1, keepdims=True))
    assert (p.mutual_information >= 0).all()
    assert (p.mutual_information <= p.entropy + 1e-12).all()
    assert (p.entropy <= np.log(classes) + 1e-12).all()


def test_quantiles_and_class_intervals_are_numpy_s_over_the_draws():
    draws = np.random.default_rng(0).dirichlet([1, 2, 3], (50, 4))
    p = class_predictive(draws)
    np.testing.assert_array_equal(p.quantile(0.3), np.quantile(draws, 0.3, axis=0))
    np.testing.assert_array_equal(p.quantile([0.1, 0.9]), np.quantile(draws, [0.1, 0.9], axis=0))
    lower, upper = p.interval(0.8)
    np.testing.assert_allclose(lower, np.quantile(draws, 0.1, axis=0))
    np.testing.assert_allclose(upper, np.quantile(draws, 0.9, axis=0))
    assert len(p) == 4


def test_intervals_of_values_are_gaussian_of_the_variance_that_is_named():
    draws = np.random.default_rng(0).normal(2.0, 0.3, (40, 5, 1))
    p = value_predictive(draws, noise=0.4)
    np.testing.assert_allclose(p.variance("epistemic"), draws.var(0))
    np.testing.assert_allclose(p.variance("total"), draws.var(0) + 0.16)
    for kind in ("epistemic", "total"):
        lower, upper = p.interval(0.9, variance=kind)
        expected = stats.norm(draws.mean(0), np.sqrt(p.variance(kind)))
        np.testing.assert_allclose([lower, upper], [expected.ppf(0.05), expected.ppf(0.95)])


def test_quantiles_need_the_draws():
    for p in (class_predictive(np.full((3, 2, 2), 0.5), keep=False), value_predictive(np.zeros((3, 2, 1)), keep=False)):
        with pytest.raises(
            ValueError, match=r"neither they nor the draws were kept; call predict\(\.\.\., quantiles=\(0\.5,\)\)"
        ):
            p.quantile(0.5)
    with pytest.raises(ValueError, match="keep_draws=True"):
        class_predictive(np.full((3, 2, 2), 0.5), keep=False).interval()


def test_total_variance_needs_the_noise():
    with pytest.raises(ValueError, match=r"Gaussian\(scale\)"):
        value_predictive(np.zeros((3, 2, 1))).variance("total")
    with pytest.raises(ValueError, match=r"The aleatoric variance needs the noise, .*MeanScale\(\)"):
        value_predictive(np.zeros((3, 2, 1))).variance("aleatoric")
    with pytest.raises(ValueError, match=r"one of \['epistemic', 'aleatoric', 'total'\]; got variance='noise'"):
        value_predictive(np.zeros((3, 2, 1))).variance("noise")


@pytest.mark.parametrize("noise", [0.4, np.linspace(0.1, 2, 5)[:, None]])
def test_total_variance_is_epistemic_plus_aleatoric_for_one_noise_or_one_an_example(noise):
    p = value_predictive(np.random.default_rng(0).normal(size=(40, 5, 1)), noise)
    np.testing.assert_allclose(p.variance("total"), p.variance("epistemic") + p.variance("aleatoric"))
    np.testing.assert_allclose(p.variance("aleatoric"), np.broadcast_to(np.square(noise), (5, 1)))


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, float("nan")])
def test_an_interval_needs_a_level_between_0_and_1(level):
    for p in (class_predictive(np.full((3, 2, 2), 0.5)), value_predictive(np.zeros((3, 2, 1)))):
        with pytest.raises(ValueError, match="interval needs 0 < level < 1; got level="):
            p.interval(level)


def test_predictions_from_draws_are_those_of_predict():
    rng = np.random.default_rng(3)
    draws = rng.dirichlet(np.ones(3), size=(7, 5))
    p = ClassPredictive.of_draws(draws)
    np.testing.assert_allclose(p.mutual_information, metrics.mutual_information(draws))
    np.testing.assert_allclose(p.std, draws.std(axis=0))
    values = ValuePredictive.of_draws(draws[..., 0], noise=0.5)
    np.testing.assert_allclose(values.variance("total"), draws[..., 0].var(axis=0) + 0.25)
    assert p.num_draws == values.num_draws == 7 and len(p) == len(values) == 5


@pytest.mark.parametrize(
    "draws", [np.zeros((0, 2, 2)), np.ones((2, 2)), np.full((1, 1, 2), np.nan), np.ones((1, 1, 2))]
)
def test_draws_that_are_no_probabilities_are_refused(draws):
    with pytest.raises(ValueError, match=r"ClassPredictive\.of_draws needs"):
        ClassPredictive.of_draws(draws)


def test_mutual_information_needs_the_entropy_of_draws():
    with pytest.raises(ValueError, match="mutual_information needs the entropy of single draws"):
        _ = ClassPredictive(np.full((1, 2), 0.5), np.zeros((1, 2)), 3).mutual_information


def test_a_prediction_shows_itself_in_one_line_however_many_examples_it_has():
    p = ClassPredictive.of_draws(np.full((3, 5000, 2), 0.5))
    assert repr(p) == (
        "ClassPredictive(3 draws, mean of shape (5000, 2); on average entropy 0.6931, mutual information 0)"
    )
    alone = ClassPredictive(p.mean, p.std, 1)
    assert repr(alone) == "ClassPredictive(1 draw, mean of shape (5000, 2); on average entropy 0.6931)"
    values = np.stack([np.zeros((4, 1)), np.ones((4, 1))])
    shown = "ValuePredictive(2 draws, mean of shape (4, 1); on average std 0.5"
    assert repr(ValuePredictive.of_draws(values)) == f"{shown})"
    assert repr(ValuePredictive.of_draws(values, np.array([[0.2], [0.4], [0.2], [0.4]]))) == f"{shown}, noise 0.3)"


def test_positions_become_examples_of_their_own():
    rng = np.random.default_rng(0)
    draws, y, weights = rng.dirichlet(np.ones(3), (4, 5, 7)), rng.integers(0, 3, (5, 7)), rng.random(5)
    sequences = replace(ClassPredictive.of_draws(draws), targets=y, weights=weights, quantiles={0.5: draws[0]})
    p, where = sequences.flattened(), rng.random((5, 7)) < 0.5
    np.testing.assert_array_equal(p.quantile(0.5), np.median(draws, axis=0).reshape(-1, 3))
    some = replace(sequences, draws=None).positions(where)
    np.testing.assert_array_equal(some.quantile(0.5), draws[0][where])
    assert some.weights is None and some.targets is None  # which are of whole examples
    rows = ClassPredictive.of_draws(draws.reshape(4, 35, 3))
    for name in ("mean", "std", "draws", "entropy", "mutual_information", "predicted_labels"):
        np.testing.assert_array_equal(getattr(p, name), getattr(rows, name))
    np.testing.assert_array_equal(p.targets, y.reshape(-1))
    np.testing.assert_array_equal(p.weights, np.repeat(weights, 7))
    values = ValuePredictive.of_draws(draws, noise=draws[0]).flattened()
    np.testing.assert_allclose(values.variance("total"), (draws.var(0) + draws[0] ** 2).reshape(-1))


def test_a_table_has_a_row_per_prediction_with_everything_in_its_column():
    rng = np.random.default_rng(0)
    p = replace(ClassPredictive.of_draws(rng.dirichlet(np.ones(2), (9, 5, 3))), targets=rng.integers(0, 2, (5, 3)))
    table = p.to_dataframe(level=0.8)
    assert list(table["example"]) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3 and len(table) == 15
    np.testing.assert_array_equal(table["position"], np.tile(range(3), 5))
    np.testing.assert_array_equal(table["predicted_label"], p.predicted_labels.reshape(-1))
    np.testing.assert_array_equal(table["upper_1"], np.quantile(p.draws[..., 1], 0.9, axis=0).reshape(-1))
    np.testing.assert_array_equal(table["mutual_information"], p.mutual_information.reshape(-1))
    np.testing.assert_array_equal(table["target"], p.targets.reshape(-1))
    values = ValuePredictive.of_draws(rng.normal(size=(9, 4)), noise=0.5)
    table = values.to_dataframe()
    assert list(table) == ["mean", "epistemic_std", "total_std", "lower", "upper"]
    np.testing.assert_array_equal(table["lower"], values.interval()[0])
    alone = ValuePredictive(values.mean, values.std * 0, 1).to_dataframe()
    assert list(alone) == ["mean"] and len(alone) == 4


def test_a_figure_shows_each_prediction_and_marks_what_is_wrong():
    rng = np.random.default_rng(0)
    p = ClassPredictive.of_draws(rng.dirichlet(np.ones(2), (9, 40)))
    right, wrong = p.plot(np.zeros(40, int)).axes[0].lines
    assert (
        len(right.get_xdata()) == (p.predicted_labels == 0).sum() and len(wrong.get_xdata()) == p.predicted_labels.sum()
    )
    values = ValuePredictive.of_draws(rng.normal(size=(9, 30)), noise=0.5)
    y = values.mean + 3 * rng.normal(size=30)
    lower, upper = values.interval(0.95)
    *_, outside = values.plot(y).axes[0].lines
    assert len(outside.get_xdata()) == ((y < lower) | (y > upper)).sum() > 0
    with pytest.raises(ValueError, match="one target per prediction, 30; got 3"):
        values.plot(y[:3])
