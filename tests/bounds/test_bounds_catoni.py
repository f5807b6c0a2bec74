"""Catoni's bound, the hold-out bound and the scaling comparison: identities, coverage, and what δ is spent on."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from singularbayes.bounds import (
    CONSTANTS,
    catoni,
    catoni_constant,
    empirical_risk,
    kl_inverse,
    mean_at_most,
    pac_bayes,
)


@pytest.mark.parametrize("risk, kl, n", [(0.02, 1.0, 18_000), (0.1, 4000.0, 60_000), (0.0, 3.0, 500)])
def test_with_the_best_constant_it_is_the_inverse_of_the_kl_without_the_logarithm_of_n(risk, kl, n):
    constant = catoni_constant(risk, kl, n, 0.04)
    found = catoni(risk, kl, n, 0.04, constant)
    expected = kl_inverse(risk, (kl + math.log(1 / 0.04)) / n)
    assert found.value == pytest.approx(expected, rel=1e-6) and found.value >= expected * (1 - 1e-12)
    assert found.value < pac_bayes(risk, kl, n, 0.04).value
    for other in (constant / 2, constant * 2):
        assert catoni(risk, kl, n, 0.04, other).value >= found.value
    assert f"C = {constant:.4g} fixed without these examples" in found.assumptions[-1]


def test_a_grid_pays_for_all_its_constants():
    found = catoni(0.02, 2.0, 18_000, 0.05, share=0.5)
    each = [catoni(0.02, 2.0, 18_000, 0.05 * 0.5 / len(CONSTANTS), c).value for c in CONSTANTS]
    assert found.value == pytest.approx(min(each), rel=1e-12)
    assert found.terms["C"] == CONSTANTS[int(np.argmin(each))]
    assert not any("fixed without" in a and "constant" in a for a in found.assumptions)


def test_it_fails_at_most_as_often_as_it_says_where_the_supremum_over_all_posteriors_is_known():
    """One hypothesis, N coin tosses: P(bound < p) by the binomial distribution, exactly, and near δ for the best C."""
    n, p, delta = 60, 0.3, 0.1
    for constant in (0.1, 0.5, catoni_constant(0.2, 0.0, n, delta), 3.0):
        fails = [k for k in range(n + 1) if catoni(k / n, 0.0, n, delta, constant).value < p]
        assert binom.pmf(fails, n, p).sum() <= delta
    # C in place of 1 − e^(−C) below the fraction would fail more often: the test has force.
    wrong = [k for k in range(n + 1) if -math.expm1(-1.5 * k / n - math.log(10) / n) / 1.5 < p]
    assert binom.pmf(wrong, n, p).sum() > delta


def test_the_risk_of_draws_brings_its_delta():
    risk = empirical_risk(np.full(500, 0.1), 0.01)
    found = catoni(risk, 5.0, 1000, 0.04, 0.5)
    assert found.deltas == {"data": 0.04, "Monte Carlo": 0.01} and found.confidence == pytest.approx(0.95)
    assert found.value == catoni(risk.value, 5.0, 1000, 0.04, 0.5).value
    assert catoni(0.9, 1e6, 100).value == 1.0


def test_the_hold_out_bound_is_clopper_pearson_and_covers():
    n, delta = 200, 0.05
    for count in (0, 7, 200):
        losses = (np.arange(n) < count).astype(float)
        expected = 1.0 if count == n else beta.ppf(1 - delta, count + 1, n - count)
        assert mean_at_most(losses, delta).value == pytest.approx(expected, rel=1e-9)
    for p in (0.02, 0.3):
        bounds = [mean_at_most((np.arange(n) < k).astype(float), delta).value for k in range(n + 1)]
        assert binom.pmf([k for k in range(n + 1) if bounds[k] < p], n, p).sum() <= delta
    with pytest.raises(ValueError, match="losses of 0 or 1"):
        mean_at_most(np.array([0.5]))
    with pytest.raises(ValueError, match="one loss per example"):
        mean_at_most(np.zeros((2, 2)))


def test_a_hold_out_of_other_losses_covers_by_betting():
    rng = np.random.default_rng(0)
    losses = rng.beta(1, 9, size=(400, 150))  # mean 0.1
    fails = sum(mean_at_most(row, 0.1, "betting").value < 0.1 for row in losses)
    assert fails <= 0.1 * 400 + 2 * math.sqrt(0.1 * 0.9 * 400)
    assert (losses.mean(axis=1) < 0.1).mean() > 0.3  # the mean alone would fail often


@pytest.mark.parametrize("bad", [{"constant": 0.0}, {"constant": -1.0}, {"delta": 1.0}, {"kl": -1.0}, {"share": 0.0}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="catoni needs"):
        catoni(**{"risk": 0.1, "kl": 1.0, "num_data": 10, **bad})
