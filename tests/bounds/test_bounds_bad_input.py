"""Bad numbers are refused where they enter, with what is needed and what was got."""

import re

import numpy as np
import pytest

from singularbayes.bounds import (
    Bound,
    GaussianLayer,
    LayerFacts,
    NetworkClass,
    best_gauge,
    betting_mean,
    binary_kl,
    break_even_rank,
    budget_probability,
    complexity_ratio,
    complexity_risk,
    critical_rank,
    deviation,
    empirical_risk,
    gaussian_complexity,
    gaussian_norm,
    good_event_failure,
    good_event_risk,
    kl_inverse,
    learned_bound,
    linear_complexity,
    loss_constants,
    margin_risk,
    matrix_failure,
    mixture_kl,
    normal_kl,
    output_variance,
    pac_bayes,
    probability_at_least,
    project_spectral,
    reasons_outside,
    relative_perturbation,
    risk_certificate,
    small_variance,
    spectral_penalty,
    stochastic_bound,
    stratify,
    sum_budget,
    sum_threshold,
    truncated_kl,
    truncation_bound,
)

NAN, INF = float("nan"), float("inf")
G = Bound("Ĝ", "made up", 0.1)
R = complexity_risk(0.1, G, 100)
CLASS = NetworkClass([1.0], [1], [2, 2])
EYE, DRAWS = np.eye(2), np.stack([np.eye(2)] * 3)
LAYER = GaussianLayer.from_factors((EYE, EYE + 0.1), (EYE, EYE + 0.1))
RISKS, SUMS = np.full(9, 0.1), np.full(9, 0.1)

# Everything that takes a δ or another probability strictly between 0 and 1.
DELTAS = {
    "pac_bayes": lambda d: pac_bayes(0.1, 1.0, 100, d),
    "risk_certificate": lambda d: risk_certificate(RISKS, 1.0, 100, d),
    "empirical_risk": lambda d: empirical_risk(RISKS, d),
    "betting_mean": lambda d: betting_mean(RISKS, d),
    "probability_at_least": lambda d: probability_at_least(5, 9, d),
    "critical_rank": lambda d: critical_rank(0.1, 1.0, [(2, 2)], 100, d),
    "linear_complexity": lambda d: linear_complexity(EYE, 2, 1, 1.0, d),
    "complexity_risk": lambda d: complexity_risk(0.1, G, 100, 1.0, d),
    "good_event_risk": lambda d: good_event_risk(R, d),
    "good_event_failure": lambda d: good_event_failure([0.1, d]),
    "matrix_failure": lambda d: matrix_failure(d, 2),
    "gaussian_norm": lambda d: gaussian_norm(EYE, 0.1, d),
    "mixture_kl": lambda d: mixture_kl(0.0, 1.0, d),
    "small_variance": lambda d: small_variance(SUMS, 0.5, failure=d),
    "sum_budget": lambda d: sum_budget([LAYER], d),
    "margin_risk": lambda d: margin_risk(0.1, 1.0, 100, d),
}


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, NAN, "0.1", True])
@pytest.mark.parametrize("name", DELTAS)
def test_probabilities_lie_between_0_and_1(name, delta):
    with pytest.raises(ValueError, match=r"needs 0 < \w+ < 1; got"):
        DELTAS[name](delta)


# Of these 1 is allowed: all of δ, and an event that is sure.
@pytest.mark.parametrize("part", [0.0, -0.1, 1.5, NAN])
@pytest.mark.parametrize(
    "call",
    [
        lambda s: pac_bayes(0.1, 1.0, 100, share=s),
        lambda s: empirical_risk(RISKS, share=s),
        lambda s: complexity_risk(0.1, G, 100, share=s),
        lambda s: truncated_kl(1.0, s),
    ],
)
def test_shares_are_parts_of_a_whole(call, part):
    call(1.0)
    with pytest.raises(ValueError, match=r"needs 0 < (share|probability) < 1; got"):
        call(part)


UNIT = {
    "pac_bayes": lambda r: pac_bayes(r, 1.0, 100),
    "pac_bayes published": lambda r: pac_bayes(r, 1.0, 100, variant="published"),
    "empirical_risk": lambda r: empirical_risk(np.array([0.1, r])),
    "risk_certificate": lambda r: risk_certificate(np.array([0.1, r]), 1.0, 100),
    "betting_mean": lambda r: betting_mean(np.array([0.1, r]), 0.1),
    "complexity_risk": lambda r: complexity_risk(r, G, 100),
    "critical_rank": lambda r: critical_rank(r, 1.0, [(2, 2)], 100),
    "margin_risk": lambda r: margin_risk(r, 1.0, 100),
    "kl_inverse": lambda r: kl_inverse(r, 0.1),
    "binary_kl": lambda r: binary_kl(r, 0.5),
}


@pytest.mark.parametrize("risk", [-0.01, 1.01, NAN, INF])
@pytest.mark.parametrize("name", UNIT)
def test_losses_lie_in_the_unit_interval(name, risk):
    with pytest.raises(ValueError, match=r"in \[0, 1\]; got"):
        UNIT[name](risk)


@pytest.mark.parametrize("kl", [-1e-9, NAN, -INF, "1"])
@pytest.mark.parametrize(
    "call",
    [
        lambda kl: pac_bayes(0.1, kl, 100),
        lambda kl: risk_certificate(RISKS, kl, 100),
        lambda kl: margin_risk(0.1, kl, 100),
        lambda kl: truncated_kl(kl, 0.9),
        lambda kl: kl_inverse(0.1, kl),
    ],
)
def test_a_divergence_is_not_negative(call, kl):
    with pytest.raises(ValueError, match=r"needs (kl|c) >= 0; got"):
        call(kl)


@pytest.mark.parametrize("count", [0, -5, 2.5, NAN, True, "7"])
@pytest.mark.parametrize(
    "call",
    [
        lambda n: pac_bayes(0.1, 1.0, n),
        lambda n: risk_certificate(RISKS, 1.0, 100, tried=n),
        lambda n: margin_risk(0.1, 1.0, n),
        lambda n: complexity_risk(0.1, G, n),
        lambda n: gaussian_complexity(CLASS, 1.0, n),
        lambda n: critical_rank(0.1, 1.0, [(2, 2)], n),
        lambda n: critical_rank(0.1, 1.0, [(2, n)], 100),
        lambda n: complexity_ratio(4, 4, n),
        lambda n: break_even_rank(n, 4),
        lambda n: linear_complexity(EYE, 2, n, 1.0),
        lambda n: NetworkClass([1.0], [n], [2, 2]),
        lambda n: NetworkClass([1.0], [1], [2, n]),
        lambda n: matrix_failure(0.1, n),
        lambda n: probability_at_least(0, n),
    ],
)
def test_counts_are_whole_numbers_from_one(call, count):
    with pytest.raises(ValueError, match=r"to be an integer >= [12]; got"):
        call(count)


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF])
@pytest.mark.parametrize(
    "call",
    [
        lambda v: normal_kl(0.0, v),
        lambda v: normal_kl(0.0, 1.0, 0.0, v),
        lambda v: mixture_kl(0.0, np.array([1.0, v])),
        lambda v: mixture_kl(0.0, 1.0, 0.5, v),
        lambda v: best_gauge((EYE, np.full((2, 2), v)), (EYE, EYE + 1), normal_kl),
        lambda v: gaussian_norm(EYE, v),
        lambda v: project_spectral(EYE, v),
        lambda v: spectral_penalty(EYE, v),
        lambda v: NetworkClass([v], [1], [2, 2]),
        lambda v: gaussian_complexity(CLASS, v, 10),
        lambda v: linear_complexity(EYE, 2, 1, v),
        lambda v: complexity_risk(0.1, G, 100, v),
        lambda v: stratify([1.0, v]),
        lambda v: truncation_bound([1.0], 0, v, 1.0),
        lambda v: learned_bound(EYE, EYE, 1, 1.0, v),
        lambda v: stochastic_bound(0.0, (0.0, 0.0), 1.0, v, 1.0),
        lambda v: loss_constants("mse_no_half", v),
        lambda v: deviation([0.1], [v], 1.0),
        lambda v: sum_threshold(v, [1.0], 1.0),
        lambda v: small_variance(SUMS, v),
        lambda v: budget_probability([LAYER], v),
        lambda v: critical_rank(0.1, v, [(2, 2)], 100),
    ],
)
def test_scales_norms_and_margins_are_positive(call, value):
    with pytest.raises(ValueError, match="> 0 and finite; got"):
        call(value)


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize(
    "call",
    [
        lambda v: normal_kl(v, 1.0),
        lambda v: mixture_kl(v, 1.0),
        lambda v: gaussian_norm(EYE + v, 1.0),
        lambda v: project_spectral(EYE + v, 1.0),
        lambda v: linear_complexity(EYE + v, 2, 1, 1.0),
        lambda v: truncation_bound([1.0, v], 1, 1.0, 1.0),
        lambda v: learned_bound(EYE + v, EYE, 1, 1.0, 1.0),
        lambda v: output_variance(np.array([v, 1.0]), (EYE, EYE), (EYE, EYE)),
        lambda v: relative_perturbation(DRAWS + v, DRAWS, EYE, EYE),
        lambda v: small_variance(SUMS + v, 1.0),
        lambda v: best_gauge((EYE + v, EYE + 1), (EYE, EYE + 1), normal_kl),
    ],
)
def test_arrays_are_finite(call, value):
    with pytest.raises(ValueError, match=r"needs finite numbers; got \S+ in \S+ at"):
        call(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pac_bayes(0.1, 1.0, 100, form="cube"),
        lambda: pac_bayes(0.1, 1.0, 100, variant="pinto"),
        lambda: empirical_risk(RISKS, method="guess"),
        lambda: gaussian_complexity(CLASS, 1.0, 10, "printed"),
        lambda: complexity_risk(0.1, G, 100, variant="pinto"),
        lambda: good_event_risk(R, 0.1, approach="C"),
        lambda: matrix_failure(0.1, 2, approach="C"),
        lambda: gaussian_norm(EYE, 0.1, 0.1, "pinto"),
        lambda: truncation_bound([1.0], 0, 1.0, 1.0, "frobenius"),
        lambda: learned_bound(EYE, EYE, 1, 1.0, 1.0, "frobenius"),
        lambda: loss_constants("brier"),
        lambda: deviation([0.1], [1.0], 1.0, "cube"),
        lambda: sum_threshold(1.0, [1.0], 1.0, "product"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(call):
    with pytest.raises(ValueError, match=r"to be one of \(.*\); got"):
        call()


SHAPES = [
    (
        lambda: pac_bayes(RISKS, 1.0, 100),
        "pac_bayes needs one risk, or empirical_risk(risks); got an array of shape (9,)",
    ),
    (
        lambda: empirical_risk(np.ones((2, 3))),
        "empirical_risk needs one risk per draw, an array (draws,); got shape (2, 3)",
    ),
    (lambda: empirical_risk(np.array([])), "empirical_risk needs risks in [0, 1]; got array([]"),
    (lambda: probability_at_least(6, 5), "probability_at_least needs successes <= draws; got 6 of 5"),
    (lambda: critical_rank(0.1, 1.0, [], 100), "critical_rank needs the shape of at least one layer; got none"),
    (lambda: NetworkClass([1.0], [1, 1], [2, 2]), "got 1 norms, 2 ranks and 2 widths"),
    (lambda: NetworkClass([], [], [2]), "got 0 norms, 0 ranks and 1 widths"),
    (
        lambda: linear_complexity(np.ones(3), 2, 1, 1.0),
        "linear_complexity needs inputs (examples, …, features); got shape (3,)",
    ),
    (lambda: gaussian_norm(np.ones(3), 0.1), "gaussian_norm needs loc (rows, rank) and scale alike; got (3,) and ()"),
    (lambda: project_spectral(np.ones(3), 0.1), "project_spectral needs matrices (…, rows, columns); got shape (3,)"),
    (lambda: learned_bound(EYE, np.ones((3, 2)), 1, 1.0, 1.0), "learned_bound needs two matrices of one shape"),
    (lambda: best_gauge((EYE, EYE[:1] + 1), (EYE, EYE + 1), normal_kl), "best_gauge needs means and scales of shape"),
    (
        lambda: best_gauge((EYE[:, :1] + 1,) * 2, (EYE + 1,) * 2, normal_kl),
        "best_gauge needs factors of one rank; got 1 and 2 columns",
    ),
    (lambda: relative_perturbation(DRAWS, DRAWS[:2], EYE, EYE), "the same number of draws of both factors"),
    (lambda: relative_perturbation(DRAWS, DRAWS, 0 * EYE, EYE), "needs a mean weight other than 0; got Ā B̄ᵀ = 0"),
    (lambda: deviation([0.1, 0.2], [1.0], 1.0), "deviation needs one perturbation per norm; got 2 and 1"),
    (lambda: deviation([-0.1], [1.0], 1.0), "deviation needs perturbation >= 0; got perturbation=-0.1"),
    (lambda: small_variance(-SUMS, 1.0), "small_variance needs sums >= 0, one per draw; got shape (9,) from -0.1"),
    (lambda: budget_probability([], 1.0), "budget_probability needs at least one layer; got none"),
    (lambda: sum_budget([]), "sum_budget needs at least one layer; got none"),
]


@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_arrays_and_lists_have_the_right_shapes(case):
    call, message = SHAPES[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_a_complexity_is_a_bound_and_not_a_number():
    with pytest.raises(
        TypeError, match="complexity_risk needs complexity as gaussian_complexity returns it; got float"
    ):
        complexity_risk(0.1, 0.3, 100)


def test_a_network_outside_the_assumptions_has_a_reason_and_one_inside_has_none():
    assert reasons_outside([LayerFacts("LSTM", False)]) == (
        "layer 1 (LSTM) is not a dense layer of a feed-forward network",
    )
    assert not reasons_outside([LayerFacts("Dense", False, "relu")])
