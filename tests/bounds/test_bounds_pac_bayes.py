"""PAC-Bayes: the paper's numbers, rigorous inverses, coverage where the true risk is known, and what δ is spent on."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import comb, rel_entr
from scipy.stats import binom

from singularbayes.bounds import (
    Bound,
    betting_mean,
    empirical_risk,
    kl_inverse,
    pac_bayes,
    probability_at_least,
)

FORMS = ("kl", "sqrt", "quadratic")
quick = settings(max_examples=100, deadline=None, derandomize=True)
shares = st.floats(0.001, 0.999)
risks = st.floats(0.0, 1.0)
divergences = st.floats(0.0, 1e5)
sizes = st.integers(1, 10**7)


def binary_kl(q, p):
    return rel_entr(q, p) + rel_entr(1 - q, 1 - p)


# -- numbers of the paper --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(4))
def test_bounds_are_the_paper_s(vectors, case):
    case = vectors["mcallester_bound"]["expected"]["cases"][case]
    arguments = case["emp"], case["KL"], case["N"], case["delta"]
    root, inverse = pac_bayes(*arguments, form="sqrt"), pac_bayes(*arguments)
    assert root.terms["uncapped"] == pytest.approx(case["mcallester"], rel=1e-12)
    assert math.sqrt(root.terms["budget"] / 2) == pytest.approx(case["complexity"], rel=1e-12)
    assert root.value == pytest.approx(min(1.0, case["mcallester"]), rel=1e-12)
    assert root.vacuous is case["vacuous"]
    assert inverse.value == pytest.approx(case["pac_bayes_kl_inverse"], rel=1e-9)


# -- the inverse -----------------------------------------------------------------------------------------------------


@quick
@given(q=risks, c=st.floats(1e-12, 50.0))
def test_the_inverse_never_falls_below_the_largest_p_and_is_tight(q, c):
    p = kl_inverse(q, c)
    assert p >= q
    assert p == 1 or binary_kl(q, p) >= c
    # A little less is within the budget, up to what rounding of kl allows.
    less = q + (p - q) * (1 - 1e-4)
    assert less == p or binary_kl(q, less) <= c * (1 + 1e-6) + 1e-14


@quick
@given(q=risks, c=st.floats(1e-15, 30.0))
def test_the_inverse_holds_in_arithmetic_of_fifty_digits(q, c):
    p = kl_inverse(q, c)
    with localcontext(prec=50):
        first, second = Decimal(q), 1 - Decimal(q)
        terms = [x * (x / y).ln() for x, y in ((first, Decimal(p)), (second, 1 - Decimal(p))) if x and y]
        assert p == 1 or sum(terms) >= Decimal(c)


def test_the_constant_of_the_bound_holds_for_every_small_number_of_examples():
    # E exp(N kl(k/N ‖ p)) = Σ C(N, k) (k/N)^k (1 − k/N)^(N−k) ≤ 2√N; Maurer's proof starts at N = 8.
    for n in range(1, 60):
        k = np.arange(n + 1)
        assert np.sum(comb(n, k) * (k / n) ** k * (1 - k / n) ** (n - k)) <= 2 * math.sqrt(n) + 1e-12


# -- order and monotonicity ------------------------------------------------------------------------------------------


@quick
@given(risk=risks, kl=divergences, n=sizes, delta=shares)
def test_the_inverse_form_is_the_tightest_and_all_lie_between_risk_and_one(risk, kl, n, delta):
    tight, root, quadratic = (pac_bayes(risk, kl, n, delta, form=form).value for form in FORMS)
    assert risk <= tight <= min(root, quadratic) + 1e-12
    assert max(root, quadratic) <= 1


@pytest.mark.parametrize("form", FORMS)
@quick
@given(risk=risks, kl=divergences, n=sizes, delta=shares, factor=st.floats(1.0, 10.0))
def test_bounds_rise_with_risk_kl_and_candidates_and_fall_with_data_and_delta(form, risk, kl, n, delta, factor):
    def value(risk=risk, kl=kl, n=n, delta=delta, share=1.0):
        return pac_bayes(risk, kl, n, delta, form, share).terms["uncapped"]

    slack = 1e-12
    assert value() <= value(kl=kl * factor) + slack
    assert value() <= value(risk=min(1.0, risk * factor)) + slack
    assert value() <= value(delta=delta / factor) + slack
    assert value() <= value(share=0.5) + slack
    # The budget falls with N from N = 1 on where KL + ln(2/δ) ≥ 1.
    assert value(kl=kl + 1, n=int(n * factor) + 1) <= value(kl=kl + 1) + slack


def test_an_infinite_kl_is_vacuous():
    bound = pac_bayes(0.0, math.inf, 1000)
    assert bound.value == 1.0 and bound.vacuous and bound.is_certificate


# -- what δ is spent on ----------------------------------------------------------------------------------------------


def test_a_defect_of_the_risk_is_a_defect_of_the_bound():
    assert pac_bayes(Bound("x", "risk", 0.1, defect="made up"), 1.0, 100).defect == "made up"


def test_parts_of_delta_that_leave_no_confidence_are_refused():
    with pytest.raises(ValueError, match=r"add to less than 1; got data 0\.6, Monte Carlo 0\.5"):
        pac_bayes(empirical_risk(np.full(9, 0.1), 0.5), 1.0, 100, delta=0.6)


def test_what_is_printed_holds_too():
    assert "≤ 0.1235 " in repr(Bound("x", "y", 0.123401, deltas={"d": 0.1}))
    assert "≥ 0.1234\n" in repr(Bound("x", "y", 0.123499, side="≥"))
    assert "≤ 1.235e+06\n" in repr(Bound("x", "y", 1234001.0))
    assert "≤ inf" in repr(Bound("x", "y", math.inf))


# -- coverage --------------------------------------------------------------------------------------------------------


def _within_binomial_error(failures, trials, delta):
    """Whether so many failures could come from a chance of δ: not above its 1 − 10⁻⁴ quantile."""
    return failures <= binom.ppf(1 - 1e-4, trials, delta)


@pytest.fixture(scope="module")
def gibbs():
    """Posteriors fitted to 30 flips of each of 2000 fair coins, 1000 times: KL, empirical and true risk, 30 draws."""
    rng = np.random.default_rng(0)
    size, flips, trials = 2000, 30, 1000
    true = np.full(size, 0.5)
    losses = rng.binomial(flips, true, (trials, size)) / flips
    weights = np.exp(-20 * flips * (losses - losses.min(axis=1, keepdims=True)))
    q = weights / weights.sum(axis=1, keepdims=True)
    kl = (q * np.log(np.maximum(q, 1e-300) * size)).sum(axis=1)
    drawn = np.stack([rng.choice(losses[i], 30, p=q[i]) for i in range(trials)])
    return kl, (q * losses).sum(axis=1), q @ true, drawn, flips


@pytest.mark.parametrize("form", FORMS)
def test_the_true_risk_exceeds_the_bound_at_most_delta_of_the_time(gibbs, form):
    kl, empirical, true, _, flips = gibbs
    bounds = [pac_bayes(e, k, flips, 0.2, form).value for e, k in zip(empirical, kl, strict=True)]
    assert _within_binomial_error((true > bounds).sum(), len(true), 0.2)
    # The KL is needed: without it the chosen coins are worse than promised nearly always.
    without = [pac_bayes(e, 0.0, flips, 0.2, form).value for e in empirical]
    assert form == "quadratic" or (true > without).mean() > 0.9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [1, 3, 10, 200])
def test_for_one_coin_the_chance_to_exceed_the_bound_is_below_delta_exactly(form, n):
    delta, flips = 0.3, np.arange(n + 1)
    bounds = np.array([pac_bayes(k / n, 0.0, n, delta, form).value for k in flips])
    for p in np.linspace(0.01, 0.99, 50):
        assert binom.pmf(flips, n, p) @ (bounds < p) <= delta


def test_the_empirical_risk_exceeds_its_bound_at_most_delta_of_the_time(gibbs):
    _, empirical, _, drawn, _ = gibbs
    bounds = np.array([empirical_risk(d, 0.2).value for d in drawn[:400]])
    assert _within_binomial_error((empirical[:400] > bounds).sum(), 400, 0.2)


def test_the_bound_of_a_mean_covers_it_for_rare_ones_too():
    # One in 50 draws is 1, the others 0: the case that a bound with too little slack fails.
    rng = np.random.default_rng(1)
    bounds = [empirical_risk(d, 0.1).value for d in rng.binomial(1, 0.02, (400, 40)).astype(float)]
    assert _within_binomial_error((np.array(bounds) < 0.02).sum(), 400, 0.1)


def test_betting_gives_up_where_it_must():
    assert betting_mean(np.ones(10), 0.05) == 1.0
    assert betting_mean(np.array([0.5]), 0.01) == 1.0


def test_clopper_pearson_is_above_the_probability_at_most_delta_of_the_time():
    p, draws, delta = 0.6, 50, 0.1
    lower = np.array([probability_at_least(k, draws, delta).value for k in range(draws + 1)])
    assert binom.pmf(np.arange(draws + 1), draws, p) @ (lower > p) <= delta
    assert lower[0] == 0.0 and probability_at_least(0, 10).vacuous
    # All of n: p^n = δ at the bound.
    assert lower[-1] ** draws == pytest.approx(delta, rel=1e-9)
