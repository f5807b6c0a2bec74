"""Scores against scipy and scikit-learn, and runs that diverged."""

import numpy as np
import pytest
from scipy import special, stats
from singularbayes_experiments import scores
from sklearn import metrics as sklearn_metrics

from singularbayes.prediction import ClassPredictive, ValuePredictive

RNG = np.random.default_rng(4)
LABELS = np.arange(60) % 3
KNOWN = np.array([0] * 5 + [1] * 3 + [2] * 2)
CLASSES = ClassPredictive.of_draws(special.softmax(RNG.normal(size=(7, 60, 3)) + 0.6 * np.eye(3)[LABELS], axis=-1))
OTHERS = ClassPredictive.of_draws(special.softmax(RNG.normal(0, 0.7, (7, 40, 3)), axis=-1))
Y = RNG.normal(2.0, 3.0, 50)
VALUES = ValuePredictive(Y + RNG.normal(0, 1.5, 50), RNG.uniform(0.2, 0.9, 50), 7, noise=RNG.uniform(0.8, 1.6, 50))
FAR = ValuePredictive(np.zeros(30), RNG.uniform(0.5, 3.0, 30), 7, noise=RNG.uniform(0.8, 1.6, 30))


def _auroc(inside, outside):
    truth = np.repeat([0, 1], [len(inside), len(outside)])
    return sklearn_metrics.roc_auc_score(truth, np.concatenate([inside, outside]))


def test_scores_of_classes_are_those_of_scikit_learn():
    p, mean = CLASSES, CLASSES.mean
    found = scores.class_tuning(p, LABELS, OTHERS, KNOWN)
    assert found["nll"] == pytest.approx(sklearn_metrics.log_loss(LABELS, mean))
    assert found["accuracy"] == sklearn_metrics.accuracy_score(LABELS, mean.argmax(axis=1))
    assert found["brier"] == pytest.approx(((mean - np.eye(3)[LABELS]) ** 2).sum(axis=1).mean())
    assert found["without_inputs"] == pytest.approx(-np.log([0.5, 0.3, 0.2]).mean())
    assert found["proxy_ood"] == pytest.approx(_auroc(*(stats.entropy(each.mean, axis=1) for each in (p, OTHERS))))
    result = scores.class_result(p, LABELS, {"other": OTHERS}, KNOWN, (p, LABELS))
    assert result["other/auroc_ood_entropy"] == pytest.approx(found["proxy_ood"])
    assert result["other/auroc_ood_mi"] == pytest.approx(_auroc(p.mutual_information, OTHERS.mutual_information))
    assert result["validation_nll"] == found["nll"] and result["recalibrated_nll"] < found["nll"]
    two = ClassPredictive.of_draws(np.stack([mean[:, :1] + mean[:, 1:2], mean[:, 2:]], axis=-1)[None, :, 0])
    expected = sklearn_metrics.average_precision_score(LABELS == 2, two.mean[:, 1])
    assert scores.class_result(two, (LABELS == 2).astype(int), {}, KNOWN // 2)["auprc"] == pytest.approx(expected)


def test_scores_of_values_are_those_of_scipy():
    std = np.sqrt(VALUES.std**2 + VALUES.noise**2)
    found = scores.value_tuning(VALUES, Y, FAR, Y[:20])
    assert found["nll"] == pytest.approx(-stats.norm.logpdf(Y, VALUES.mean, std).mean())
    assert found["rmse"] == pytest.approx(sklearn_metrics.root_mean_squared_error(Y, VALUES.mean))
    assert found["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(Y, VALUES.mean))
    assert found["coverage"] == np.mean(np.abs(Y - VALUES.mean) <= stats.norm.ppf(0.975) * std)
    assert found["without_inputs"] == pytest.approx(-stats.norm.logpdf(Y, Y[:20].mean(), Y[:20].std()).mean())
    assert found["proxy_ood"] == pytest.approx(_auroc(std, np.sqrt(FAR.std**2 + FAR.noise**2)))
    kept = np.argsort(VALUES.std)[:40]
    result = scores.value_result(VALUES, Y, {"far": FAR}, Y[:20])
    assert result["risk_at_80_epistemic"] == pytest.approx(np.abs(Y - VALUES.mean)[kept].mean())
    assert scores.value_arrays(VALUES, Y)["selective/mae"][1, -1] == pytest.approx(found["mae"])


def test_predictions_that_are_no_numbers_score_what_ignores_the_inputs_alone():
    lost = ValuePredictive(np.full(50, np.nan), np.ones(50), 7, noise=1.0)
    assert list(scores.value_tuning(lost, Y, FAR, Y)) == ["without_inputs"]
    assert list(scores.value_tuning(VALUES, Y, lost, Y)) == ["without_inputs"]
    assert list(scores.value_result(lost, Y, {}, Y)) == ["without_inputs"]
