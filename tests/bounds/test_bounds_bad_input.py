"""Bad numbers are refused where they enter, with what is needed and what was got."""

import re

import numpy as np
import pytest

from singularbayes.bounds import (
    Bound,
    GaussianLayer,
    NetworkClass,
    betting_mean,
    budget_probability,
    complexity_risk,
    deviation,
    empirical_risk,
    gaussian_complexity,
    kl_inverse,
    linear_complexity,
    mean_at_most,
    mixture_kl,
    normal_kl,
    pac_bayes,
    probability_at_least,
    relative_perturbation,
    small_variance,
    stratify,
    sum_threshold,
)

NAN, INF = float("nan"), float("inf")
G = Bound("Ĝ", "made up", 0.1)
CLASS = NetworkClass([1.0], [1], [2, 2])
EYE, DRAWS = np.eye(2), np.stack([np.eye(2)] * 3)
LAYER = GaussianLayer.from_factors((EYE, EYE + 0.1), (EYE, EYE + 0.1))
RISKS, SUMS = np.full(9, 0.1), np.full(9, 0.1)


def refused(message, call):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, NAN, "0.1", True])
def test_probabilities_lie_between_0_and_1(delta):
    message = r"needs 0 < \w+ < 1; got"
    refused(message, lambda: pac_bayes(0.1, 1.0, 100, delta))
    refused(message, lambda: empirical_risk(RISKS, delta))
    refused(message, lambda: betting_mean(RISKS, delta))
    refused(message, lambda: mean_at_most(RISKS, delta))
    refused(message, lambda: probability_at_least(5, 9, delta))
    refused(message, lambda: linear_complexity(EYE, 2, 1, 1.0, delta))
    refused(message, lambda: complexity_risk(0.1, G, 100, 1.0, delta))
    refused(message, lambda: mixture_kl(0.0, 1.0, delta))


@pytest.mark.parametrize("part", [0.0, -0.1, 1.5, NAN])
@pytest.mark.parametrize(
    "call",
    [
        lambda s: pac_bayes(0.1, 1.0, 100, share=s),
        lambda s: empirical_risk(RISKS, share=s),
        lambda s: complexity_risk(0.1, G, 100, share=s),
    ],
)
def test_shares_are_parts_of_a_whole(call, part):
    call(1.0)
    refused("needs 0 < share < 1; got", lambda: call(part))


@pytest.mark.parametrize("risk", [-0.01, 1.01, NAN, INF])
def test_losses_lie_in_the_unit_interval(risk):
    message = r"in \[0, 1\]; got"
    refused(message, lambda: pac_bayes(risk, 1.0, 100))
    refused(message, lambda: empirical_risk(np.array([0.1, risk])))
    refused(message, lambda: betting_mean(np.array([0.1, risk]), 0.1))
    refused(message, lambda: complexity_risk(risk, G, 100))
    refused(message, lambda: kl_inverse(risk, 0.1))


@pytest.mark.parametrize("kl", [-1e-9, NAN, -INF, "1"])
def test_a_divergence_is_not_negative(kl):
    refused("needs kl >= 0; got", lambda: pac_bayes(0.1, kl, 100))
    refused("needs c >= 0; got", lambda: kl_inverse(0.1, kl))


@pytest.mark.parametrize("count", [0, 2.5, NAN, True, "7"])
def test_counts_are_whole_numbers_from_one(count):
    message = "to be an integer >= 1; got"
    refused(message, lambda: pac_bayes(0.1, 1.0, count))
    refused(message, lambda: complexity_risk(0.1, G, count))
    refused(message, lambda: gaussian_complexity(CLASS, 1.0, count))
    refused(message, lambda: linear_complexity(EYE, 2, count, 1.0))
    refused(message, lambda: NetworkClass([1.0], [count], [2, 2]))
    refused(message, lambda: NetworkClass([1.0], [1], [2, count]))
    refused(message, lambda: probability_at_least(0, count))


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF])
def test_scales_norms_and_margins_are_positive(value):
    message = "> 0 and finite; got"
    refused(message, lambda: normal_kl(0.0, value))
    refused(message, lambda: normal_kl(0.0, 1.0, 0.0, value))
    refused(message, lambda: mixture_kl(0.0, np.array([1.0, value])))
    refused(message, lambda: mixture_kl(0.0, 1.0, 0.5, value))
    refused(message, lambda: NetworkClass([value], [1], [2, 2]))
    refused(message, lambda: gaussian_complexity(CLASS, value, 10))
    refused(message, lambda: linear_complexity(EYE, 2, 1, value))
    refused(message, lambda: complexity_risk(0.1, G, 100, value))
    refused(message, lambda: stratify([1.0, value]))
    refused(message, lambda: deviation([0.1], [value], 1.0))
    refused(message, lambda: sum_threshold(value, [1.0], 1.0))
    refused(message, lambda: small_variance(SUMS, value))
    refused(message, lambda: budget_probability([LAYER], value))


@pytest.mark.parametrize("value", [NAN, INF])
def test_arrays_are_finite(value):
    message = r"needs finite numbers; got \S+ in \S+ at"
    refused(message, lambda: normal_kl(value, 1.0))
    refused(message, lambda: mixture_kl(value, 1.0))
    refused(message, lambda: linear_complexity(EYE + value, 2, 1, 1.0))
    refused(message, lambda: relative_perturbation(DRAWS + value, DRAWS, EYE, EYE))
    refused(message, lambda: small_variance(SUMS + value, 1.0))


def test_unknown_names_are_refused_with_the_known_ones():
    message = r"to be one of \(.*\); got"
    refused(message, lambda: pac_bayes(0.1, 1.0, 100, form="cube"))
    refused(message, lambda: mean_at_most(RISKS, method="guess"))
    refused(message, lambda: deviation([0.1], [1.0], 1.0, "cube"))


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
    (lambda: NetworkClass([1.0], [1, 1], [2, 2]), "got 1 norms, 2 ranks and 2 widths"),
    (lambda: NetworkClass([], [], [2]), "got 0 norms, 0 ranks and 1 widths"),
    (
        lambda: linear_complexity(np.ones(3), 2, 1, 1.0),
        "linear_complexity needs inputs (examples, …, features); got shape (3,)",
    ),
    (lambda: relative_perturbation(DRAWS, DRAWS[:2], EYE, EYE), "the same number of draws of both factors"),
    (lambda: relative_perturbation(DRAWS, DRAWS, 0 * EYE, EYE), "needs a mean weight other than 0; got Ā B̄ᵀ = 0"),
    (lambda: deviation([0.1, 0.2], [1.0], 1.0), "deviation needs one perturbation per norm; got 2 and 1"),
    (lambda: deviation([-0.1], [1.0], 1.0), "deviation needs perturbation >= 0; got perturbation=-0.1"),
    (lambda: small_variance(-SUMS, 1.0), "small_variance needs sums >= 0, one per draw; got shape (9,) from -0.1"),
    (lambda: budget_probability([], 1.0), "budget_probability needs at least one layer; got none"),
]


@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_arrays_and_lists_have_the_right_shapes(case):
    call, message = SHAPES[case]
    refused(re.escape(message), call)


def test_a_complexity_is_a_bound_and_not_a_number():
    with pytest.raises(
        TypeError, match="complexity_risk needs complexity as gaussian_complexity returns it; got float"
    ):
        complexity_risk(0.1, 0.3, 100)
