"""Gaussian complexity: the paper's numbers, what rescaling leaves, and coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi

from singularbayes.bounds import (
    Bound,
    NetworkClass,
    complexity_risk,
    gaussian_complexity,
    linear_complexity,
    stratify,
)

quick = settings(max_examples=60, deadline=None, derandomize=True)
# Half the outputs of all functions into [0, 1] can be 1 where γ > 0: Ĝ = E max(γ, 0).
EVERYTHING = Bound("Ĝ", "all functions into [0, 1]", 1 / math.sqrt(2 * math.pi))


def _network(case, h0=10**9):
    return NetworkClass(case["C"], case["r"], [case.get("h0", h0), *case["h"]])


# -- numbers of the paper --------------------------------------------------------------------------------------------


def test_the_bound_with_explicit_constants_is_the_paper_s(vectors):
    expected = vectors["gaussian_complexity_explicit_dudley"]["expected"]
    for case in expected["cases"]:
        found = gaussian_complexity(_network(case), case["X_frob"], case["m"])
        assert found.value == pytest.approx(case["bound"], rel=1e-9)
    for depth, integral in expected["I_D"].items():
        one = NetworkClass([1.0] * int(depth), [1] * int(depth), [1] * (int(depth) + 1))
        found = gaussian_complexity(one, 1.0, 1).value / (12 * math.sqrt(2 * int(depth)))
        assert integral <= found <= integral * (1 + 1e-9)


def test_gap_and_slack_are_the_paper_s(vectors):
    inputs, expected = vectors["gap_term_constants"]["inputs"], vectors["gap_term_constants"]["expected"]
    complexity = Bound("Ĝ", "made up", inputs["G"])
    for i, lipschitz in enumerate(inputs["Lip"]):
        bound = complexity_risk(0.0, complexity, inputs["N"], lipschitz, inputs["delta"])
        assert bound.terms["gap"] == pytest.approx(expected["corrected"][i], rel=1e-12)
        assert bound.terms["slack"] == pytest.approx(expected["slack_term"], rel=1e-12)


def test_norms_may_be_shifted_between_layers(vectors):
    inputs = vectors["homogeneity_check_gc"]["inputs"]
    networks = [NetworkClass(inputs[key], inputs["r"], [16, *inputs["h"]]) for key in ("C_a", "C_b")]
    first, second = (gaussian_complexity(network, inputs["X_frob"], inputs["m"]).value for network in networks)
    assert first == pytest.approx(second, rel=1e-12)


def test_the_contraction_constant_is_attained(vectors):
    inputs, expected = (vectors["refutation_contraction_constant"][key] for key in ("inputs", "expected"))
    sound = complexity_risk(0.0, EVERYTHING, inputs["m"], inputs["L"], inputs["delta"])
    assert sound.terms["uncapped"] == pytest.approx(expected["sqrt_2pi_L_bound"], rel=1e-12)
    assert expected["true_gap"] <= sound.terms["uncapped"] and sound.terms["gap"] == pytest.approx(1.0, rel=1e-12)


@quick
@given(scale=st.floats(0.01, 100), lipschitz=st.floats(0.1, 10), value=st.floats(0.001, 1))
def test_units_of_the_outputs_do_not_matter(scale, lipschitz, value):
    def gap(g, slope):
        return complexity_risk(0.0, Bound("Ĝ", "made up", g), 100, slope).terms["gap"]

    assert gap(value / scale, lipschitz * scale) == pytest.approx(gap(value, lipschitz), rel=1e-9)


def test_a_defect_of_the_complexity_is_a_defect_of_the_risk():
    assert complexity_risk(0.1, Bound("Ĝ", "made up", 0.1, defect="an index"), 10).defect == "an index"


def test_a_rank_above_the_widths_is_that_of_the_widths():
    narrow, over = (NetworkClass([1.0], [rank], [256, 2]) for rank in (2, 16))
    assert gaussian_complexity(narrow, 1.0, 1).value == gaussian_complexity(over, 1.0, 1).value


@quick
@given(factor=st.floats(1.0, 5.0), rank=st.integers(1, 8))
def test_the_complexity_rises_with_norms_and_ranks(factor, rank):
    def value(norm, rank):
        return gaussian_complexity(NetworkClass([norm, 0.7], [rank, 3], [9, 9, 9]), 3.0, 20).value

    assert value(1.0, rank) <= value(factor, rank) * (1 + 1e-12)
    assert value(1.0, rank) <= value(1.0, rank + 1)


# -- one linear layer, exactly ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 20])
def test_one_input_gives_the_mean_of_a_chi_variable(width):
    inputs = np.random.default_rng(0).normal(size=(50, 1))
    exact = 2.0 * np.linalg.norm(inputs) * chi(width).mean() / 50
    bound = linear_complexity(inputs, width, rank=1, norm=2.0, draws=4000)
    spread = 2.0 * np.linalg.norm(inputs) * chi(width).std() / 50 / math.sqrt(4000)
    assert bound.terms["estimate"] == pytest.approx(exact, abs=4 * spread)
    network = NetworkClass([2.0], [1], [1, width])
    assert exact < bound.value < gaussian_complexity(network, float(np.linalg.norm(inputs)), 50).value


def test_the_value_of_a_draw_is_attained_by_a_matrix_of_that_rank_and_norm():
    # sup ⟨ΓX, W⟩ over ‖W‖ ≤ 1, rank ≤ r is the sum of the r largest singular values of ΓX, found here by U_r V_rᵀ.
    rng = np.random.default_rng(3)
    inputs, draws = rng.normal(size=(30, 4)), 4000
    attained = []
    for gamma in rng.normal(size=(draws, 3, 30)):
        u, _, vt = np.linalg.svd(gamma @ inputs, full_matrices=False)
        attained.append(np.sum(gamma * (u[:, :2] @ vt[:2] @ inputs.T)) / 30)
    estimate = linear_complexity(inputs, 3, 2, 1.0, draws=draws, rng=rng).terms["estimate"]
    error = math.sqrt(2) * np.std(attained) / math.sqrt(draws)
    assert estimate == pytest.approx(np.mean(attained), abs=4 * error)


def test_a_layer_on_every_time_step_has_the_complexity_that_a_search_over_weights_finds():
    # W = C u vᵀ over all pairs of angles: the sup of (1/N) Σ ⟨γ_jt, W x_jt⟩ itself, with no singular values.
    rng = np.random.default_rng(4)
    inputs, draws, norm = rng.normal(size=(6, 5, 2)), 2000, 1.5
    inputs[..., 1] += 1  # the time steps of an example are alike
    angles = np.linspace(0, 2 * np.pi, 180, endpoint=False)
    units = np.stack([np.cos(angles), np.sin(angles)])
    found = []
    for gamma in rng.normal(size=(draws, 6, 5, 2)):
        product = sum(np.outer(gamma[j, t], inputs[j, t]) for j in range(6) for t in range(5))
        found.append(norm / 6 * (units.T @ product @ units).max())
    bound = linear_complexity(inputs, 2, 1, norm, draws=draws, rng=rng)
    error = math.sqrt(2) * np.std(found) / math.sqrt(draws)
    assert bound.terms["estimate"] == pytest.approx(np.mean(found), abs=4 * error + 3e-4 * np.mean(found))
    assert bound.value > np.mean(found)
    steps = linear_complexity(inputs.reshape(30, 2), 2, 1, norm, draws=50)
    assert linear_complexity(inputs, 2, 1, norm, draws=50).value == pytest.approx(5 * steps.value)


def test_the_exact_value_is_exceeded_at_most_delta_of_the_time():
    inputs = np.random.default_rng(0).normal(size=(20, 1))
    exact = np.linalg.norm(inputs) * chi(2).mean() / 20
    bounds = [
        linear_complexity(inputs, 2, 1, 1.0, delta=0.2, draws=5, rng=np.random.default_rng(seed)).value
        for seed in range(400)
    ]
    assert (np.array(bounds) < exact).sum() <= binom.ppf(1 - 1e-4, 400, 0.2)


# -- coverage --------------------------------------------------------------------------------------------------------


def test_the_true_risk_exceeds_the_bound_at_most_delta_of_the_time():
    # x is e₁ or e₂, y a coin of its own; f(x) = ⟨w, x⟩ with ‖w‖ ≤ 1 and loss |f(x) − y|/2 ∈ [0, 1].
    rng = np.random.default_rng(0)
    chance, n, trials, delta = np.array([0.4, 0.6]), 60, 500, 0.2
    failures = 0
    for _ in range(trials):
        counts = np.array([ones := rng.binomial(n, 0.5), n - ones])
        rate = rng.binomial(counts, chance) / np.maximum(counts, 1)
        w = np.where(rate > 0.5, 1.0, 0.0) / max(1.0, math.sqrt((rate > 0.5).sum()))
        losses = [0.5 * np.where(y, 1 - w, w) for y in (0, 1)]
        empirical = float((counts / n) @ ((1 - rate) * losses[0] + rate * losses[1]))
        true = float(np.mean((1 - chance) * losses[0] + chance * losses[1]))
        # Ĝ = E‖(√n₁ g₁, √n₂ g₂)‖/n ≤ 1/√n.
        bound = complexity_risk(empirical, Bound("Ĝ", "the ball", 1 / math.sqrt(n)), n, 0.5, delta)
        failures += true > bound.terms["uncapped"]
    assert failures <= binom.ppf(1 - 1e-4, trials, delta)


# -- strata ----------------------------------------------------------------------------------------------------------


@quick
@given(norms=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5), unit=st.floats(0.1, 10))
def test_strata_hold_the_norms_and_are_no_more_than_twice_as_large(norms, unit):
    cell = stratify(norms, unit)
    assert all(norm <= top <= 2 * norm * (1 + 1e-12) for norm, top in zip(norms, cell.norms, strict=True))
    assert 0 < cell.share < 1


def test_a_norm_just_above_a_power_of_two_goes_to_the_next():
    top = 2.0**40
    assert stratify([math.nextafter(top, math.inf)]).norms == (2 * top,)  # though its logarithm rounds to 40
    assert stratify([top]).norms == (top,)


def test_shares_of_all_strata_add_to_less_than_one():
    shares = [stratify([2.0**k]).share for k in range(-400, 401)]
    tail = 2 / (2.29 * 401)
    assert sum(shares) + tail <= 1.0
    assert stratify([1.0, 1.0]).share == pytest.approx(stratify([1.0]).share ** 2)


def test_learned_norms_cost_the_logarithm_of_their_share():
    cell = stratify([3.0, 0.4])
    alone, stratified = (complexity_risk(0.1, EVERYTHING, 1000, share=share) for share in (1.0, cell.share))
    squared = [(bound.terms["slack"] / 3) ** 2 * 2000 for bound in (alone, stratified)]
    assert squared[1] - squared[0] == pytest.approx(-math.log(cell.share), rel=1e-9)
