"""Loss approximation: the paper's numbers, its constants corrected, and no loss that moves more than its bound."""

import math

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from singularbayes.bounds import (
    SOFTMAX_LIPSCHITZ,
    learned_bound,
    loss_constants,
    output_variance,
    stochastic_bound,
    truncation_bound,
)
from singularbayes.posteriors.moments import product_covariance

VARIANTS = ("sound", "published")


def _truncated(w, rank):
    u, s, vt = np.linalg.svd(w, full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vt[:rank]


def _in_ball(rng, size, radius):
    x = rng.normal(size=size)
    return radius * x / np.maximum(radius, np.linalg.norm(x, axis=-1, keepdims=True))


def test_truncation_bounds_are_the_paper_s(vectors):
    inputs, expected = (vectors["loss_bound_truncation"][key] for key in ("inputs", "expected"))
    values = np.linalg.svd(np.array(inputs["W"]), compute_uv=False)
    for variant, key in zip(VARIANTS, ("spectral", "published_frobenius"), strict=True):
        bound = truncation_bound(values, inputs["r"], inputs["L"], inputs["R"], variant)
        assert bound.value == pytest.approx(expected[key], rel=1e-12) and bound.is_certificate
    inputs, expected = (vectors["loss_bound_from_spectrum"][key] for key in ("inputs", "expected"))
    for i, rank in enumerate(inputs["r"]):
        for variant, key in zip(VARIANTS, ("spectral", "frobenius"), strict=True):
            bound = truncation_bound(inputs["singular_values"], rank, inputs["L"], inputs["R"], variant)
            assert bound.value == pytest.approx(expected[key][i], abs=1e-12)


def test_constants_are_the_corrected_ones(vectors):
    for loss, expected in vectors["loss_constants_corrected"]["expected"].items():
        bounded = isinstance(expected["L"], str)
        found = loss_constants(loss, 3.0 if bounded else None)
        assert found.lipschitz == pytest.approx(3.0 * float(expected["L"][0]) if bounded else expected["L"])
        assert found.smoothness == expected["beta"]
        assert found.in_unit_interval is (expected.get("range") == [0, 1])
    assert loss_constants("mse_no_half").lipschitz is None


def test_the_largest_eigenvalue_of_the_softmax_hessian_is_a_half(vectors):
    case = vectors["softmax_hessian_max_eig"]
    for p, expected in zip(case["inputs"]["p"], case["expected"]["lmax"], strict=True):
        largest = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max()
        assert largest == pytest.approx(expected, rel=1e-12)
        assert largest <= loss_constants("softmax_ce").smoothness + 1e-12 == SOFTMAX_LIPSCHITZ + 1e-12
    assert max(case["expected"]["lmax"]) > loss_constants("softmax_ce", variant="published").smoothness


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_loss_moves_more_than_the_bounds_say(variant):
    rng = np.random.default_rng(0)
    lipschitz, radius = loss_constants("softmax_ce").lipschitz, 2.0
    for _ in range(50):
        w_star = rng.normal(size=(4, 7)) * rng.uniform(0.1, 2)
        rank = int(rng.integers(1, 4))
        w = _truncated(w_star, rank) + _truncated(rng.normal(size=(4, 7)), rank)
        x, y = _in_ball(rng, (200, 7), radius), rng.integers(0, 4, 200)

        def loss(weight, x=x, y=y):
            return -log_softmax(x @ weight.T, axis=1)[np.arange(200), y]

        kept = truncation_bound(np.linalg.svd(w_star)[1], rank, lipschitz, radius, variant).value
        assert np.abs(loss(_truncated(w_star, rank)) - loss(w_star)).max() <= kept
        learned = learned_bound(w, w_star, rank, lipschitz, radius, variant).value
        assert np.abs(loss(w) - loss(w_star)).max() <= learned


def test_learning_error_and_rank_bias_bound_the_whole():
    rng = np.random.default_rng(1)
    w_star = rng.normal(size=(6, 5))
    w = _truncated(w_star, 2) + 0.1 * _truncated(rng.normal(size=(6, 5)), 2)
    sound, published = (learned_bound(w, w_star, 2, 1.0, 1.0, variant) for variant in VARIANTS)
    assert sound.value == pytest.approx(np.linalg.norm(w - w_star, 2))
    assert sound.value <= sound.terms["learning error"] + sound.terms["rank bias"] <= published.value
    assert published.value == pytest.approx(published.terms["learning error"] + published.terms["rank bias"])
    # The best matrix of its rank has a bias alone.
    best = learned_bound(_truncated(w_star, 2), w_star, 2, 1.0, 1.0)
    assert best.terms["learning error"] == pytest.approx(0, abs=1e-12)
    assert best.value == pytest.approx(np.linalg.svd(w_star)[1][2])


def test_a_truncated_minimiser_may_have_the_smaller_loss_at_a_point(vectors):
    # A step of the paper's proof says that it never has; the bound does not need it.
    expected = vectors["pointwise_excess_loss_can_be_negative"]["expected"]
    w_star, w_one, x = np.diag([1.0, 0.5]), np.diag([1.0, 0.0]), np.array([0.0, 1.0])
    excess = [0.5 * sum((w_one @ x - y) ** 2) - 0.5 * sum((w_star @ x - y) ** 2) for y in ([0.0, 0.0], [0.0, 1.0])]
    assert excess == [expected["at_y0"], expected["at_y1"]] and excess[0] < 0
    assert np.mean(excess) == expected["mean_excess"]
    bound = truncation_bound([1.0, 0.5], 1, loss_constants("mse_half_norm_sq", 1.0).lipschitz, 1.0)
    assert abs(np.mean(excess)) <= max(map(abs, excess)) <= bound.value


def test_the_output_variance_is_that_of_the_covariances_of_the_weights():
    rng = np.random.default_rng(2)
    a, b = ((rng.normal(size=(n, 2)), rng.uniform(0.01, 1, (n, 2))) for n in (4, 3))
    x = rng.normal(size=(5, 4))
    found = output_variance(x, a, b)
    for e in range(5):
        for j in range(3):
            pairs = [(i, s) for i in range(4) for s in range(4)]
            expected = sum(x[e, i] * x[e, s] * product_covariance(a, b, (i, j), (s, j)) for i, s in pairs)
            assert found[e, j] == pytest.approx(expected, rel=1e-12)


def test_random_weights_move_the_expected_loss_within_the_bound_of_the_sound_smoothness_alone():
    # Logits ±ε/√2 around (0, 0) with ε ~ N(0, v): E ℓ − ℓ(0) is nearly ½ · ½ · v, twice what ¼ allows.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    variance = 0.01
    z = math.sqrt(variance / 2) * nodes[:, None] * np.array([1.0, -1.0])
    moved = abs(weights @ -log_softmax(z, axis=1)[:, 0] / weights.sum() - math.log(2))
    bounds = {}
    for variant in VARIANTS:
        constants = loss_constants("softmax_ce", variant=variant)
        bounds[variant] = stochastic_bound(0.0, (0.0, variance), constants.lipschitz, constants.smoothness, 1.0).value
    assert bounds["published"] < 0.6 * moved and moved <= bounds["sound"] < 1.01 * moved


def test_random_weights_with_different_means_stay_within_the_bound():
    rng = np.random.default_rng(3)
    constants = loss_constants("softmax_ce")
    for _ in range(10):
        a, b = ((rng.normal(size=(n, 2)), rng.uniform(0.01, 0.3, (n, 2))) for n in (5, 3))
        full = a[0] @ b[0].T + 0.3 * rng.normal(size=(5, 3))
        x = _in_ball(rng, (5,), 1.0)
        draws = [np.sqrt(v) * rng.standard_normal((20_000, *v.shape)) + m for m, v in (a, b)]
        z = np.einsum("i,sik,sjk->sj", x, *draws)
        moved = abs(-log_softmax(z, axis=1)[:, 1].mean() + log_softmax(x @ full)[1])
        gap = np.linalg.norm(full - a[0] @ b[0].T, 2)
        variance = float(output_variance(x, a, b).sum())
        bound = stochastic_bound(gap, (0.0, variance), constants.lipschitz, constants.smoothness, 1.0)
        assert moved <= bound.value


def test_the_softmax_itself_contracts_by_a_half():
    rng = np.random.default_rng(4)
    z, other = rng.normal(size=(2, 2000, 5)) * 3
    moved = np.linalg.norm(softmax(z, axis=1) - softmax(other, axis=1), axis=1)
    assert (moved <= SOFTMAX_LIPSCHITZ * np.linalg.norm(z - other, axis=1)).all()
