"""Gaussian complexity: the paper's numbers, refutations of its printed forms, and coverage of the sound ones."""

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
    good_event_failure,
    good_event_risk,
    linear_complexity,
    matrix_failure,
    stratify,
)

VARIANTS = ("explicit", "sound", "pinto", "published")
quick = settings(max_examples=60, deadline=None, derandomize=True)
# Half the outputs of all functions into [0, 1] can be 1 where γ > 0: Ĝ = E max(γ, 0).
EVERYTHING = Bound("Ĝ", "all functions into [0, 1]", 1 / math.sqrt(2 * math.pi))


def _network(case, h0=10**9):
    return NetworkClass(case["C"], case["r"], [case.get("h0", h0), *case["h"]])


# -- numbers of the paper --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(4))
def test_bounds_of_the_complexity_are_the_paper_s(vectors, case):
    case = vectors["gaussian_complexity_bounds"]["expected"]["cases"][case]

    def value(variant, k1=1.0, k2=1.0):
        return gaussian_complexity(_network(case), case["X_frob"], case["m"], variant, k1, k2).value

    assert value("published") == pytest.approx(case["published_C0_1"], rel=1e-12)
    assert value("published", 2.0) == pytest.approx(case["published_C0_2"], rel=1e-12)
    assert value("pinto") == pytest.approx(case["pinto_thm7_K1_1_K2_1"], rel=1e-12)
    assert value("sound") == pytest.approx(case["sound_K1_1_K2_1"], rel=1e-12)
    assert value("sound", 2.0, 3.0) == pytest.approx(case["sound_K1_2_K2_3"], rel=1e-12)


def test_the_bound_with_explicit_constants_is_the_paper_s(vectors):
    expected = vectors["gaussian_complexity_explicit_dudley"]["expected"]
    for case in expected["cases"]:
        found = gaussian_complexity(_network(case), case["X_frob"], case["m"])
        assert found.value == pytest.approx(case["bound"], rel=1e-9)
    for depth, integral in expected["I_D"].items():
        one = NetworkClass([1.0] * int(depth), [1] * int(depth), [1] * (int(depth) + 1))
        found = gaussian_complexity(one, 1.0, 1).value / (12 * math.sqrt(2 * int(depth)))
        assert integral <= found <= integral * (1 + 1e-9)


def test_pinto_s_rank_factor_is_that_of_its_diameter(vectors):
    case = vectors["mse_pinto_vs_trivial_diameter"]
    rank = case["inputs"]["r"]
    network = NetworkClass([1.0, case["inputs"]["prod"]], [rank, rank], [50, 50, 50])
    first, sound, pinto = (
        gaussian_complexity(network, 1.0, 1, variant, k2=k2).value
        for variant, k2 in (("sound", 1e-300), ("sound", 1.0), ("pinto", 1.0))
    )
    ratio = case["expected"]["pinto"] / case["expected"]["trivial"]
    assert (pinto - first) / (sound - first) == pytest.approx(ratio, rel=1e-12)


def test_pinto_s_bound_has_the_smallest_rank_so_far():
    network = NetworkClass([2.0, 3.0, 0.5], [3, 8, 5], [9, 10, 12, 20])
    found = gaussian_complexity(network, 1.0, 1, "pinto", k1=1.5, k2=2.0).value
    layers = 1.5 * 2 * math.sqrt(2 * 3) * math.sqrt(8 * 12) + 2 * math.sqrt(2 * 3) * math.sqrt(5 * 20)
    assert found == pytest.approx(3.0 * (1.5**2 * math.sqrt(3 * 10) + 2 * layers), rel=1e-12)


def test_gap_and_slack_are_the_paper_s(vectors):
    inputs, expected = vectors["gap_term_constants"]["inputs"], vectors["gap_term_constants"]["expected"]
    complexity = Bound("Ĝ", "made up", inputs["G"])
    for i, lipschitz in enumerate(inputs["Lip"]):
        for variant, key in (("sound", "corrected"), ("published", "published")):
            bound = complexity_risk(0.0, complexity, inputs["N"], lipschitz, inputs["delta"], variant=variant)
            assert bound.terms["gap"] == pytest.approx(expected[key][i], rel=1e-12)
            assert bound.terms["slack"] == pytest.approx(expected["slack_term"], rel=1e-12)


# -- refutations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c0", [0.5, 1.0, 2.0, 5.0])
def test_the_published_bound_is_false_for_every_constant(c0):
    # h = (1, k), all inputs e₁: the class holds v(w x) with |w| ≤ c, ‖v‖ ≤ 1/c, so Ĝ = E‖Σ γ_j‖/N = E χ_k/√N.
    k, n = math.ceil(16 * c0**4 * 1.1) + 1, 50
    c = k**0.25 / c0
    network = NetworkClass([c, 1 / c], [1, 1], [1, 1, k])
    truth = chi(k).mean() / math.sqrt(n)
    published = gaussian_complexity(network, math.sqrt(n), n, "published", c0)
    assert published.value == pytest.approx(2 * c0 * k**0.25 / math.sqrt(n), rel=1e-12)
    assert published.value < truth and not published.is_certificate and "earlier layers" in published.defect
    assert gaussian_complexity(network, math.sqrt(n), n).value > truth


def test_the_published_bound_is_false_where_the_notes_say(vectors):
    inputs, expected = (vectors["refutation_published_explicit_bound"][key] for key in ("inputs", "expected"))
    network = NetworkClass([inputs["c"], 1 / inputs["c"]], [1, 1], [1, 1, inputs["k"]])
    values = {v: gaussian_complexity(network, math.sqrt(inputs["m"]), inputs["m"], v).value for v in VARIANTS}
    truth = expected["true_gaussian_complexity"]
    assert values["published"] == pytest.approx(expected["published_bound"], rel=1e-12)
    assert values["sound"] == pytest.approx(expected["sound_bound_K1_1_K2_1"], rel=1e-12)
    assert values["published"] < truth < min(values["sound"], values["explicit"])


def test_the_published_bound_of_one_layer_counts_its_norm_twice(vectors):
    inputs, expected = (vectors["refutation_D1_extra_C1"][key] for key in ("inputs", "expected"))
    network = NetworkClass([inputs["C1"]], [1], [1, 1])
    published, sound = (
        gaussian_complexity(network, inputs["x_norm"], inputs["m"], variant) for variant in ("published", "sound")
    )
    assert published.value == pytest.approx(expected["published"], rel=1e-12)
    assert sound.value == pytest.approx(expected["correct_upper"], rel=1e-12)
    assert published.value < expected["true"] < sound.value
    assert sound.is_certificate and not published.is_certificate


def test_norms_may_be_shifted_between_layers_but_not_in_the_published_bound(vectors):
    inputs, expected = (vectors["homogeneity_check_gc"][key] for key in ("inputs", "expected"))

    def value(norms, variant):
        network = NetworkClass(norms, inputs["r"], [16, *inputs["h"]])
        return gaussian_complexity(network, inputs["X_frob"], inputs["m"], variant).value

    for variant in ("explicit", "sound", "pinto"):
        assert value(inputs["C_a"], variant) == pytest.approx(value(inputs["C_b"], variant), rel=1e-12)
    assert value(inputs["C_a"], "sound") == pytest.approx(expected["sound_a"], rel=1e-12)
    assert value(inputs["C_a"], "published") == pytest.approx(expected["published_a"], rel=1e-12)
    assert value(inputs["C_b"], "published") == pytest.approx(expected["published_b"], rel=1e-12)


def test_the_contraction_constant_is_refuted_and_the_sound_one_attained(vectors):
    inputs, expected = (vectors["refutation_contraction_constant"][key] for key in ("inputs", "expected"))
    assert EVERYTHING.value == pytest.approx(expected["Ghat"], rel=1e-12)
    sound, published = (
        complexity_risk(0.0, EVERYTHING, inputs["m"], inputs["L"], inputs["delta"], variant=variant)
        for variant in ("sound", "published")
    )
    assert published.terms["uncapped"] == pytest.approx(expected["sqrt_pi_L_bound"], rel=1e-12)
    assert sound.terms["uncapped"] == pytest.approx(expected["sqrt_2pi_L_bound"], rel=1e-12)
    assert published.value < expected["true_gap"] <= sound.terms["uncapped"]
    assert sound.terms["gap"] == pytest.approx(1.0, rel=1e-12)


def test_memorising_coin_flips_breaks_the_published_bound():
    # Outputs 0 or 1/c are remembered for every example, loss |c z − y|: 0 in training, ½ on new inputs.
    c, n = 100.0, 1000
    complexity = Bound("Ĝ", "functions into [0, 1/c]", EVERYTHING.value / c)
    assert complexity_risk(0.0, complexity, n, lipschitz=c, variant="published").value < 0.5
    assert complexity_risk(0.0, complexity, n, lipschitz=c).value >= 0.5


@quick
@given(scale=st.floats(0.01, 100), lipschitz=st.floats(0.1, 10), value=st.floats(0.001, 1))
def test_units_of_the_outputs_do_not_matter_to_the_sound_gap_alone(scale, lipschitz, value):
    def gap(g, slope, variant):
        return complexity_risk(0.0, Bound("Ĝ", "made up", g), 100, slope, variant=variant).terms["gap"]

    rescaled = value / scale, lipschitz * scale
    assert gap(*rescaled, "sound") == pytest.approx(gap(value, lipschitz, "sound"), rel=1e-9)
    published = gap(*rescaled, "published") / gap(value, lipschitz, "published")
    assert published == pytest.approx(scale**-0.5, rel=1e-9)


# -- what is a certificate -------------------------------------------------------------------------------------------


def test_only_known_constants_make_a_certificate():
    deep, one = NetworkClass([1.0, 1.0], [2, 2], [4, 4, 4]), NetworkClass([1.0], [2], [4, 4])
    found = {v: gaussian_complexity(deep, 1.0, 10, v).is_certificate for v in VARIANTS}
    assert found == {"explicit": True, "sound": False, "pinto": False, "published": False}
    found = {v: gaussian_complexity(one, 1.0, 10, v).is_certificate for v in VARIANTS}
    assert found == {"explicit": True, "sound": True, "pinto": True, "published": False}
    assert not complexity_risk(0.1, gaussian_complexity(deep, 1.0, 10, "sound"), 10).is_certificate


def test_a_rank_above_the_widths_is_that_of_the_widths():
    narrow, over = (NetworkClass([1.0], [rank], [256, 2]) for rank in (2, 16))
    for variant in VARIANTS:
        assert gaussian_complexity(narrow, 1.0, 1, variant).value == gaussian_complexity(over, 1.0, 1, variant).value


@quick
@given(factor=st.floats(1.0, 5.0), rank=st.integers(1, 8), variant=st.sampled_from(VARIANTS))
def test_the_complexity_rises_with_norms_and_ranks(factor, rank, variant):
    def value(norm, rank):
        return gaussian_complexity(NetworkClass([norm, 0.7], [rank, 3], [9, 9, 9]), 3.0, 20, variant).value

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
    assert exact < bound.value < gaussian_complexity(network, float(np.linalg.norm(inputs)), 50, "sound").value


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


# -- strata and the good event ---------------------------------------------------------------------------------------


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


def test_rejection_needs_neither_convexity_nor_the_probability_of_rejection():
    small = Bound("Ĝ", "made up", 0.01)
    plain = complexity_risk(0.1, small, 1000)
    rejection, a, b = (good_event_risk(plain, failure=0.02, approach=x) for x in ("rejection", "A", "B"))
    assert rejection.value == plain.value and rejection.is_certificate
    assert a.value == b.value == pytest.approx(plain.value + 0.02)
    assert not a.is_certificate and not b.is_certificate and "only constants" in a.defect
    repaired = good_event_risk(plain, 0.02, approach="A", convex_on_outputs=True)
    assert repaired.is_certificate and repaired.value == a.value
    assert "empirical risk of the exact mean over accepted draws" in repaired.assumptions
    assert "accepted" in rejection.quantity and "all draws" in a.quantity


def test_published_approaches_name_every_defect():
    published = complexity_risk(0.1, Bound("Ĝ", "made up", 0.01), 1000, variant="published")
    bound = good_event_risk(published, 0.02, approach="B")
    assert bound.variant == "published"
    assert "rescaling" in bound.defect and "convex" in bound.defect


def test_half_the_brier_score_of_a_mixture_is_below_that_of_its_parts():
    # The repair of approach A: on probabilities this loss is convex, in [0, 1] and √2-Lipschitz.
    rng = np.random.default_rng(0)
    good, bad, p = rng.dirichlet(np.ones(4), 500), rng.dirichlet(np.ones(4) * 0.1, 500), rng.uniform(0, 1, (500, 1))
    target = np.eye(4)[rng.integers(0, 4, 500)]

    def loss(f):
        return 0.5 * ((f - target) ** 2).sum(axis=1)

    mixed = p * good + (1 - p) * bad
    assert (loss(mixed) <= p[:, 0] * loss(good) + 1 - p[:, 0]).all()
    assert (np.abs(loss(good) - loss(bad)) <= math.sqrt(2) * np.linalg.norm(good - bad, axis=1) + 1e-12).all()


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_failures_of_the_matrices_add_to_what_was_allowed(depth):
    allowed = 0.1
    for approach, variant, part in (("A", "sound", 1), ("B", "sound", 1), ("B", "published", 0.5)):
        each = matrix_failure(allowed, depth, approach, variant)
        total = good_event_failure([each] * 2 * depth)
        assert 2 * depth * each == pytest.approx(part * allowed)
        assert 0.94 * part * allowed < total <= part * allowed
