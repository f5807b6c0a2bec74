"""Printed bounds are the paper's numbers and false where the notes say; constants and ranks are the paper's."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi
from singularbayes_experiments.theory.against_rank import (
    break_even_rank,
    complexity_ratio,
    critical_rank,
    index_curve,
    pac_bayes_curve,
)
from singularbayes_experiments.theory.loss_constants import LOSSES, PRINTED_SOFTMAX_SMOOTHNESS, loss_constants
from singularbayes_experiments.theory.printed import (
    gaussian_norm,
    peeled_complexity,
    printed_complexity,
    printed_norm,
    printed_risk,
)

from singularbayes.bounds import Bound, NetworkClass, complexity_risk, gaussian_complexity, normal_kl, pac_bayes

# Half the outputs of all functions into [0, 1] can be 1 where γ > 0: Ĝ = E max(γ, 0).
EVERYTHING = Bound("Ĝ", "all functions into [0, 1]", 1 / math.sqrt(2 * math.pi))
PAGE = (Path(__file__).parents[2] / "docs" / "bounds.md").read_text(encoding="utf-8")


# -- Gaussian complexity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(4))
def test_bounds_of_the_complexity_are_the_paper_s(vectors, case):
    case = vectors["gaussian_complexity_bounds"]["expected"]["cases"][case]
    network = NetworkClass(case["C"], case["r"], [case.get("h0", 10**9), *case["h"]])
    given = network, case["X_frob"], case["m"]
    assert printed_complexity(*given).value == pytest.approx(case["published_C0_1"], rel=1e-12)
    assert printed_complexity(*given, 2.0).value == pytest.approx(case["published_C0_2"], rel=1e-12)
    assert peeled_complexity(*given).value == pytest.approx(case["sound_K1_1_K2_1"], rel=1e-12)
    assert peeled_complexity(*given, 2.0, 3.0).value == pytest.approx(case["sound_K1_2_K2_3"], rel=1e-12)


@pytest.mark.parametrize("c0", [0.5, 1.0, 2.0, 5.0])
def test_the_printed_complexity_is_false_for_every_constant(c0):
    # h = (1, k), all inputs e₁: the class holds v(w x) with |w| ≤ c, ‖v‖ ≤ 1/c, so Ĝ = E‖Σ γ_j‖/N = E χ_k/√N.
    k, n = math.ceil(16 * c0**4 * 1.1) + 1, 50
    c = k**0.25 / c0
    network = NetworkClass([c, 1 / c], [1, 1], [1, 1, k])
    truth = chi(k).mean() / math.sqrt(n)
    printed = printed_complexity(network, math.sqrt(n), n, c0)
    assert printed.value == pytest.approx(2 * c0 * k**0.25 / math.sqrt(n), rel=1e-12)
    assert printed.value < truth and not printed.is_certificate and "earlier layers" in printed.defect
    assert gaussian_complexity(network, math.sqrt(n), n).value > truth


def test_the_printed_complexity_of_one_layer_counts_its_norm_twice(vectors):
    inputs, expected = (vectors["refutation_D1_extra_C1"][key] for key in ("inputs", "expected"))
    given = NetworkClass([inputs["C1"]], [1], [1, 1]), inputs["x_norm"], inputs["m"]
    assert printed_complexity(*given).value == pytest.approx(expected["published"], rel=1e-12)
    assert peeled_complexity(*given).value == pytest.approx(expected["correct_upper"], rel=1e-12)
    assert printed_complexity(*given).value < expected["true"] < peeled_complexity(*given).value
    assert peeled_complexity(*given).is_certificate


def test_norms_may_be_shifted_between_layers_but_not_in_the_printed_bound(vectors):
    inputs, expected = (vectors["homogeneity_check_gc"][key] for key in ("inputs", "expected"))
    a, b = (NetworkClass(inputs[key], inputs["r"], [16, *inputs["h"]]) for key in ("C_a", "C_b"))
    size = inputs["X_frob"], inputs["m"]
    assert peeled_complexity(a, *size).value == pytest.approx(peeled_complexity(b, *size).value, rel=1e-12)
    assert peeled_complexity(a, *size).value == pytest.approx(expected["sound_a"], rel=1e-12)
    assert not peeled_complexity(a, *size).is_certificate
    printed = [printed_complexity(network, *size).value for network in (a, b)]
    assert printed == pytest.approx([expected["published_a"], expected["published_b"]], rel=1e-12)


def test_the_contraction_constant_is_refuted_and_the_sound_one_attained(vectors):
    inputs, expected = (vectors["refutation_contraction_constant"][key] for key in ("inputs", "expected"))
    given = 0.0, EVERYTHING, inputs["m"], inputs["L"], inputs["delta"]
    printed, sound = printed_risk(*given), complexity_risk(*given)
    assert printed.terms["uncapped"] == pytest.approx(expected["sqrt_pi_L_bound"], rel=1e-12)
    assert printed.value < expected["true_gap"] <= sound.terms["uncapped"]
    assert not printed.is_certificate and sound.terms["gap"] == pytest.approx(1.0, rel=1e-12)


def test_memorising_coin_flips_breaks_the_printed_risk():
    # Outputs 0 or 1/c are remembered for every example, loss |c z − y|: 0 in training, ½ on new inputs.
    c, n = 100.0, 1000
    complexity = Bound("Ĝ", "functions into [0, 1/c]", EVERYTHING.value / c)
    assert printed_risk(0.0, complexity, n, lipschitz=c).value < 0.5 <= complexity_risk(0.0, complexity, n, c).value


# -- norms and losses ------------------------------------------------------------------------------------------------


def test_the_norm_of_a_factor_needs_the_largest_of_its_scales():
    scale = np.full((100, 5), 1e-9)
    scale[0] = 1.0  # one wild row
    norms = np.linalg.norm(scale * np.random.default_rng(0).standard_normal((1000, 100, 5)), 2, axis=(1, 2))
    printed = printed_norm(np.zeros((100, 5)), scale)
    assert printed.value < 0.2 < norms.mean() and "unequal" in printed.defect
    assert (norms > gaussian_norm(np.zeros((100, 5)), scale, 0.05)).mean() <= 0.05
    assert printed_norm(np.ones((3, 2)), np.full((3, 2), 0.1)).is_certificate


def test_the_softmax_cross_entropy_is_steeper_than_printed():
    """With logits ±ε/√2 around 0 the expected loss rises by a quarter of the variance of ε; ¼ allows an eighth."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z = math.sqrt(0.01 / 2) * nodes  # the variance of ε is 0.01
    rise = weights @ np.log1p(np.exp(-2 * z)) / weights.sum() - math.log(2)
    allowed = [0.5 * smoothness * 0.01 for smoothness in (PRINTED_SOFTMAX_SMOOTHNESS, 0.5)]
    assert allowed[0] < rise <= allowed[1] and loss_constants("softmax_ce").smoothness == 0.5


def test_the_page_has_the_constants_of_every_loss():
    written = {"none": None, "½": 0.5, "¼": 0.25, "√2": 2**0.5, "2B": 6.0, "4B": 12.0}  # with B = 3
    rows = re.findall(r"^\| .*? \| `(\w+)` \| (\S+) \| (\S+) \| .*\|$", PAGE, flags=re.MULTILINE)
    assert sorted(name for name, *_ in rows) == sorted(LOSSES)
    for name, *shown in rows:
        found = loss_constants(name, output_bound=3.0)
        expected = [written[text] if text in written else float(text) for text in shown]
        assert [found.lipschitz, found.smoothness] == pytest.approx(expected)


# -- against the rank ------------------------------------------------------------------------------------------------


def test_ratios_and_break_even_ranks_are_the_paper_s(vectors):
    for case in vectors["pac_complexity_ratio"]["expected"]["cases"]:
        shape = case["m"], case["n"]
        assert complexity_ratio(*shape, case["r"]) == pytest.approx(case["ratio"], rel=1e-12)
        assert break_even_rank(*shape) == pytest.approx(case["break_even_rank"], rel=1e-12)
        assert (complexity_ratio(*shape, case["r"]) < 1) is (case["r"] < break_even_rank(*shape)) is case["helps"]


def test_the_critical_rank_is_the_last_of_the_curve_below_one(vectors):
    inputs, expected = (vectors["critical_rank"][key] for key in ("inputs", "expected"))
    given = inputs["emp"], inputs["C_max"], inputs["dims"], inputs["N"], inputs["delta"]
    found = critical_rank(*given)
    curve = pac_bayes_curve([found, found + 1], *given)
    assert found == expected["r_star_int"]
    assert curve == pytest.approx([expected["bound_at_floor"], expected["bound_at_floor_plus_1"]], rel=1e-12)
    assert critical_rank(0.5, weight_kl=100.0, shapes=[(500, 500)], num_data=100) == 0


def test_the_index_is_the_printed_bound_of_the_matrices_in_a_row():
    shapes, norms = [(24, 64), (64, 64), (64, 1)], [2.0, 0.5, 1.5]
    own = NetworkClass(norms, [14, 14, 1], [24, 64, 64, 1])
    assert index_curve([14], norms, shapes, 30.0, 100)[0] == printed_complexity(own, 30.0, 100).value


def test_a_nearly_certain_posterior_has_a_large_kl():
    """The paper's remark that its PAC-Bayes gap goes to 0 is backwards."""
    kl = [float(normal_kl(0.0, scale)) for scale in (1.0, 0.1, 1e-2, 1e-4)]
    gaps = [pac_bayes(0.1, 1000 * value, 50_000).value for value in kl]
    assert kl == sorted(kl) and kl[-1] > 8.7 and gaps == sorted(gaps)
