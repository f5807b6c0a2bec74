"""Scores of classes and their calibration equal the paper's numbers and scikit-learn's, in any order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from singularbayes.metrics import (
    accuracy,
    auroc,
    brier,
    calibration_errors,
    expected_calibration_error,
    negative_log_likelihood,
    ood_scores,
    reliability_curve,
)
from singularbayes.prediction import ClassPredictive

SCORES = [accuracy, auroc, negative_log_likelihood, brier]
TWINS = {
    accuracy: lambda p, y: accuracy_score(y, p.argmax(axis=1)),
    auroc: lambda p, y: roc_auc_score(y, p, multi_class="ovr"),
    negative_log_likelihood: lambda p, y: log_loss(y, p, labels=range(p.shape[1])),
    brier: lambda p, y: brier_score_loss(y, p, labels=range(p.shape[1]), scale_by_half=False),
}


def made_up(seed=0, examples=97, classes=4):
    """Returns probabilities with many ties, none of them 0, and labels that know a little about them."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 6, (examples, classes)).astype(float)
    labels = np.where(rng.random(examples) < 0.5, p.argmax(axis=1), rng.integers(0, classes, examples))
    labels[:classes] = np.arange(classes)
    return p / p.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize(
    ("score", "name"), [(accuracy, "accuracy"), (negative_log_likelihood, "nll"), (brier, "brier_sum")]
)
def test_scores_equal_the_papers_numbers(score, name, vectors):
    case = vectors["mutual_information"]
    probabilities = np.mean(case["inputs"]["probs_TxNxC"], axis=0)
    assert score(probabilities, np.array(case["inputs"]["y"])) == pytest.approx(case["expected"][name], rel=1e-12)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("seed", range(3))
def test_scores_of_several_classes_are_scikit_learns(score, seed):
    p, labels = made_up(seed)
    assert score(p, labels) == pytest.approx(TWINS[score](p, labels), rel=1e-12)


def test_scores_of_two_classes_are_scikit_learns():
    p, labels = made_up(classes=2)
    assert auroc(p, labels) == pytest.approx(roc_auc_score(labels, p[:, 1]), rel=1e-12)
    assert brier(p, labels) == pytest.approx(2 * brier_score_loss(labels, p[:, 1]), rel=1e-12)


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), classes=st.integers(2, 5))
def test_the_order_of_examples_and_the_names_of_classes_do_not_matter(score, seed, classes):
    p, labels = made_up(seed, classes=classes)
    rng = np.random.default_rng(seed)
    p *= rng.uniform(1, 1.001, p.shape)  # no ties: of them the first class counts
    p /= p.sum(axis=1, keepdims=True)
    order, names = rng.permutation(len(labels)), rng.permutation(classes)
    expected = score(p, labels)
    assert score(p[order], labels[order]) == pytest.approx(expected, rel=1e-12)
    assert score(p[:, np.argsort(names)], names[labels]) == pytest.approx(expected, rel=1e-12)


def test_a_perfect_and_a_useless_predictor_get_the_textbook_values():
    labels = np.arange(12) % 4
    perfect, useless = np.eye(4)[labels], np.full((12, 4), 0.25)
    assert [score(perfect, labels) for score in SCORES] == [1, 1, 0, 0]
    assert [score(useless, labels) for score in SCORES] == pytest.approx([0.25, 0.5, np.log(4), 0.75])
    assert brier(np.roll(perfect, 1, axis=1), labels) == 2


def test_an_impossible_label_costs_infinitely_much():
    assert negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([1])) == np.inf


@pytest.mark.parametrize("score", SCORES)
def test_labels_may_be_a_column_booleans_or_whole_floats(score):
    p, labels = made_up(classes=2)
    for same in (labels[:, None], labels.astype(bool), labels.astype("float32"), labels.tolist()):
        assert score(p, same) == score(p, labels)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rounded_probabilities_are_accepted(dtype):
    p, labels = made_up(examples=400, classes=300)
    assert negative_log_likelihood(p.astype(dtype), labels) == pytest.approx(
        negative_log_likelihood(p, labels), rel=float(np.finfo(dtype).eps)
    )


# -- calibration -----------------------------------------------------------------------------------------------------


def two_classes(confidence, correct):
    confidence = np.array(confidence)
    return np.stack([confidence, 1 - confidence], axis=1), 1 - np.array(correct)


@pytest.mark.parametrize("scheme", ["equal_width", "equal_mass"])
def test_errors_equal_the_papers_numbers(scheme, vectors):
    case = vectors["ece"]
    p, labels = two_classes(**case["inputs"])
    found = calibration_errors(p, labels, bins=(5, 10, 15, 20))
    for bins, expected in case["expected"][scheme].items():
        assert expected_calibration_error(p, labels, int(bins), scheme) == pytest.approx(expected, rel=1e-12)
        assert found[f"{scheme}_{bins}"] == pytest.approx(expected, rel=1e-12)
    assert len(found) == 8


def naive_error(p, labels, bins):
    """Returns the equal-width error by one pass over the bins."""
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == labels
    total = 0.0
    for b in range(1, bins + 1):
        inside = ((b - 1) / bins < confidence) & (confidence <= b / bins)
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    return total


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), bins=st.integers(1, 40))
def test_equal_width_is_a_loop_over_bins_and_ties_on_an_edge_stay_together(seed, bins):
    p, labels = made_up(seed, classes=2)  # confidences such as 0.5 and 0.6 lie on edges
    found = expected_calibration_error(p, labels, bins, "equal_width")
    assert found == pytest.approx(naive_error(p, labels, bins), abs=1e-12)


@pytest.mark.parametrize(("scheme", "strategy"), [("equal_width", "uniform"), ("equal_mass", "quantile")])
def test_the_curve_is_scikit_learns(scheme, strategy):
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 1000)
    correct = rng.random(1000) < confidence**2
    curve = reliability_curve(*two_classes(confidence, correct), bins=10, scheme=scheme)
    accuracies, confidences = calibration_curve(correct, confidence, n_bins=10, strategy=strategy)
    np.testing.assert_allclose(curve.confidence, confidences)
    np.testing.assert_allclose(curve.accuracy, accuracies)
    assert curve.share.sum() == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), bins=st.integers(1, 120), scheme=st.sampled_from(["equal_mass", "equal_width"]))
def test_the_order_of_examples_does_not_matter_even_with_ties(seed, bins, scheme):
    p, labels = made_up(seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    expected = expected_calibration_error(p, labels, bins, scheme)
    assert expected_calibration_error(p[order], labels[order], bins, scheme) == pytest.approx(expected, abs=1e-12)


# -- bad input -------------------------------------------------------------------------------------------------------

HALF = np.full((3, 2), 0.5)
CHECKED = [
    accuracy,
    auroc,
    negative_log_likelihood,
    brier,
    reliability_curve,
]
BAD = {
    "one label too few": (HALF, np.zeros(2, int), r"one label per example; got shapes \(3, 2\) and \(2,\)"),
    "one-hot labels": (HALF, np.eye(2)[[0, 1, 1]], r"got shapes \(3, 2\) and \(3, 2\).*labels.argmax\(axis=1\)"),
    "one column": (
        np.full((3, 1), 0.5),
        np.zeros(3, int),
        r"got \(3, 1\).*np.stack\(\[1 - p, p\], axis=-1\) with p of shape",
    ),
    "no column": (np.full(3, 0.5), np.zeros(3, int), r"\(examples, classes\), not empty; got \(3,\)"),
    "a sequence": (np.full((3, 5, 2), 0.5), np.zeros((3, 5), int), r"got \(3, 5, 2\).*reshape\(-1, classes\)"),
    "empty": (np.ones((0, 2)), np.zeros(0, int), r"not empty; got \(0, 2\)"),
    "a scalar": (np.float64(0.5), np.zeros(1, int), r"not empty; got \(\)"),
    "NaN": (np.where(np.eye(3, 2), np.nan, 0.5), np.zeros(3, int), r"got nan in probabilities at \[0, 0\], and 2 of 6"),
    "not of sum 1": (
        np.ones((3, 2)),
        np.zeros(3, int),
        "sum to 1 over classes; got values from 1 to 1 and sums from 2",
    ),
    "negative": (
        HALF + np.array([0.7, -0.7]),
        np.zeros(3, int),
        "not negative and sum to 1 .* got values from -0.2 to 1.2",
    ),
    "a label too high": (HALF, np.array([0, 1, 2]), "integers from 0 to 1; got int64 from 0 to 2"),
    "a label too low": (HALF, np.array([-1, 1, 1]), "integers from 0 to 1; got int64 from -1 to 1"),
    "a label between": (HALF, np.array([0, 0.5, 1]), "integers from 0 to 1; got float64 from 0.0 to 1.0"),
    "a missing label": (HALF, np.array([0, np.nan, 1]), "integers from 0 to 1; got float64"),
    "words": (HALF, np.array(["cat", "dog", "dog"]), "integers from 0 to 1; got <U3"),
}


@pytest.mark.parametrize("score", CHECKED)
@pytest.mark.parametrize("name", BAD)
def test_wrong_classes_are_refused(score, name):
    probabilities, labels, message = BAD[name]
    with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
        score(probabilities, labels)


def test_predictions_as_a_whole_are_refused_with_the_parts_to_take():
    p = ClassPredictive.of_draws(HALF[None])
    with pytest.raises(TypeError, match=r"accuracy needs an array of numbers in probabilities; got ClassP.* p\.mean"):
        accuracy(p, np.zeros(3, int))
    with pytest.raises(TypeError, match=r"ood_scores needs .* in inside; got ClassPredictive.* p\.mutual_information"):
        ood_scores(p, p)


def test_auroc_needs_every_class():
    p, labels = made_up()
    with pytest.raises(
        ValueError, match=r"auroc needs examples of each of the 4 classes; got none with label \[2, 3\]"
    ):
        auroc(p, labels % 2)
    with pytest.raises(ValueError, match=r"each of the 2 classes; got none with label \[0\]"):
        auroc(HALF, np.ones(3, int))


def test_wrong_bins_and_schemes_are_refused():
    for bins in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"reliability_curve needs bins to be an integer >= 1; got bins={bins}"):
            reliability_curve(*made_up(), bins=bins)
    with pytest.raises(ValueError, match=r"one of \('equal_mass', 'equal_width'\); got scheme='width'"):
        expected_calibration_error(*made_up(), scheme="width")
