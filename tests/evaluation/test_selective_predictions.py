"""Selective prediction from predictions is the curve of their uncertainty and error."""

import numpy as np
import pytest
from predictions import class_predictive, value_predictive

import singularbayes as sb
from singularbayes import metrics

RNG = np.random.default_rng(5)
DRAWS, LABELS = RNG.dirichlet([1, 1, 1], (20, 50)), RNG.integers(0, 3, 50)
VALUES, TARGETS = RNG.normal(size=(20, 50, 2)) * RNG.uniform(0.1, 2, (50, 1)), RNG.normal(size=(50, 2))


def _same(curve, other):
    np.testing.assert_allclose(curve.thresholds, other.thresholds)
    np.testing.assert_allclose(curve.risk, other.risk)


def test_classes_are_kept_by_entropy_or_what_is_chosen():
    p = class_predictive(DRAWS)
    wrong = p.predicted_labels != LABELS
    _same(sb.selective(p, LABELS), metrics.selective_curve(p.entropy, wrong))
    _same(sb.selective(p, LABELS, by="mi"), metrics.selective_curve(p.mutual_information, wrong))
    _same(
        sb.selective(p, LABELS, by="std"),
        metrics.selective_curve(DRAWS.std(axis=0)[range(50), p.predicted_labels], wrong),
    )
    point = sb.selective(p, LABELS).for_coverage(0.6)
    assert (p.entropy <= point.threshold).mean() == point.coverage
    assert wrong[p.entropy <= point.threshold].mean() == pytest.approx(point.risk)


def test_values_are_kept_by_total_or_epistemic_deviation_over_outputs():
    p = value_predictive(VALUES, noise=RNG.uniform(0.1, 3, (50, 2)))
    errors = np.abs(p.mean - TARGETS).mean(axis=1)
    for kind, curve in (("total", sb.selective(p, TARGETS)), ("epistemic", sb.selective(p, TARGETS, by="epistemic"))):
        _same(curve, metrics.selective_curve(np.sqrt(p.variance(kind).mean(axis=1)), errors))


def test_an_uncertainty_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"by= to be one of \['entropy', 'mi', 'std'\].*got by='total'"):
        sb.selective(class_predictive(DRAWS), LABELS, by="total")
    with pytest.raises(ValueError, match=r"no uncertainty by='mi': it is deterministic.*Others are \['entropy'\]"):
        sb.selective(class_predictive(DRAWS[:1]), LABELS, by="mi")
    with pytest.raises(
        ValueError, match=r"by='total': the likelihood does not specify the noise. Others are \['epistemic'\]"
    ):
        sb.selective(value_predictive(VALUES), TARGETS)
    with pytest.raises(TypeError, match="selective needs a Predictive, as predict returns it; got ndarray"):
        sb.selective(DRAWS, LABELS)
    with pytest.raises(ValueError, match="selective needs one label per example"):
        sb.selective(class_predictive(DRAWS), LABELS[:4])
