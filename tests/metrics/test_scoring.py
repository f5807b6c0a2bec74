"""Scores of classes equal the paper's numbers and scikit-learn's, whatever the order of examples and classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from singularbayes.metrics import accuracy, auroc, brier, negative_log_likelihood

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


def test_the_brier_score_is_at_least_half_the_error_rate_which_the_printed_ones_are_not(vectors):
    case = vectors["brier_lower_bound"]
    for error, printed, bound in zip(*case["inputs"].values(), case["expected"]["lower_bound"], strict=True):
        assert 0.5 * error / 100 == pytest.approx(bound)
        wrong = round(error * 100)  # of 10,000 examples, each as sure as a wrong answer can be at the least cost
        p = np.tile([0.5, 0.5], (10_000, 1))
        p[wrong:] = [1, 0]
        p[:wrong] += [1e-12, -1e-12]
        labels = np.zeros(10_000, int)
        labels[:wrong] = 1
        assert accuracy(p, labels) == pytest.approx(1 - error / 100)
        assert brier(p, labels) == pytest.approx(bound) and printed < bound < 10 * printed


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


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), power=st.floats(0.2, 5))
def test_a_monotone_transform_leaves_auroc(seed, power):
    p, labels = made_up(seed, classes=2)
    one = p[:, 1] ** power
    assert auroc(np.stack([1 - one, one], axis=1), labels) == pytest.approx(auroc(p, labels), rel=1e-12)


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
