"""Spectral norms: constants that hold for unequal scales, and what each way to keep norms small guarantees."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from singularbayes.bounds import (
    gaussian_norm,
    norm_probability,
    normal_kl,
    project_spectral,
    spectral_penalty,
    truncated_kl,
)


def _draws(rng, loc, scale, draws=400):
    return np.linalg.norm(loc + scale * rng.standard_normal((draws, *loc.shape)), 2, axis=(1, 2))


@pytest.mark.parametrize("delta", [0.5, 0.05])
@pytest.mark.parametrize("shape", [(1, 1), (30, 4), (4, 30), (40, 40)])
def test_the_norm_exceeds_its_bound_at_most_delta_of_the_time(shape, delta):
    rng = np.random.default_rng(0)
    for scale in (np.full(shape, 0.3), rng.uniform(0.01, 0.5, shape)):
        loc = rng.normal(size=shape)
        bound = gaussian_norm(loc, scale, delta)
        assert (_draws(rng, loc, scale, 200) > bound.value).sum() <= binom.ppf(1 - 1e-4, 200, delta)


def test_the_bound_is_attained_in_one_dimension():
    # A 1 × 1 factor at its mean 0: s (1 + 1) + s √(2 ln(1/δ)), and the tail of |g| is below e^(−u²/2).
    assert gaussian_norm(np.zeros((1, 1)), 0.5, math.exp(-2)).value == pytest.approx(0.5 * (2 + 2))


def test_the_largest_scale_is_needed(vectors):
    inputs, expected = (vectors["van_handel_needs_max_sigma"][key] for key in ("inputs", "expected"))
    shape = inputs["h"], inputs["r"]
    scale = np.full(shape, 1e-12)
    scale[0] = 1.0
    actual = _draws(np.random.default_rng(0), np.zeros(shape), scale, 4000).mean()
    assert actual == pytest.approx(expected["actual_mean_norm_mc"], abs=0.05)
    sound, mean = (gaussian_norm(np.zeros(shape), scale, 0.05, variant) for variant in ("sound", "published"))
    assert sound.terms["spread"] == pytest.approx(expected["valid_bound_max_sigma"], rel=1e-9)
    assert mean.terms["spread"] == pytest.approx(expected["bound_with_mean_sigma"], rel=1e-9)
    rms = gaussian_norm(np.zeros(shape), float(np.sqrt((scale**2).mean()))).terms["spread"]
    assert rms == pytest.approx(expected["bound_with_rms_sigma"], rel=1e-9)
    # Also with its tail the published bound is below the mean norm, so most draws break it.
    assert mean.value < actual and not mean.is_certificate
    assert actual < sound.value and sound.is_certificate


def test_with_equal_scales_the_published_bound_holds_and_is_looser():
    loc = np.ones((6, 2))
    sound, published = (gaussian_norm(loc, 0.1, 0.05, variant) for variant in ("sound", "published"))
    assert published.is_certificate and published.value > sound.value


def test_projection_is_the_paper_s_and_leaves_small_matrices(vectors):
    case = vectors["spectral_projection"]
    a = np.array(case["inputs"]["A"])
    np.testing.assert_allclose(project_spectral(a, case["inputs"]["C"]), case["expected"]["A"], rtol=1e-12)
    np.testing.assert_array_equal(project_spectral(a, 3.5), a)
    np.testing.assert_array_equal(project_spectral(np.zeros((3, 2)), 1.0), 0.0)


def test_clipped_draws_stay_within_the_limit_and_draws_around_projected_means_do_not():
    rng = np.random.default_rng(0)
    mean = project_spectral(rng.normal(size=(20, 3)), 1.0)
    draws = mean + 0.3 * rng.standard_normal((100, 20, 3))
    assert np.linalg.norm(mean, 2) <= 1 + 1e-12
    assert (np.linalg.norm(draws, 2, axis=(1, 2)) > 1).all()
    assert (np.linalg.norm(project_spectral(draws, 1.0), 2, axis=(1, 2)) <= 1 + 1e-12).all()


def test_the_penalty_is_the_squared_excess():
    stack = np.stack([np.diag([3.0, 1.0]), np.diag([1.0, 0.5])])
    np.testing.assert_allclose(spectral_penalty(stack, 2.0), [1.0, 0.0])


@pytest.mark.parametrize("shape", [(1, 1), (30, 4), (40, 40)])
def test_the_probability_of_a_norm_is_a_lower_bound_and_undoes_the_bound_of_the_norm(shape):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=shape), rng.uniform(0.01, 0.5, shape)
    limit = gaussian_norm(loc, scale, 0.05).value
    assert norm_probability(loc, scale, limit).value == pytest.approx(0.95)
    within = _draws(rng, loc, scale, 200) <= limit
    assert within.sum() >= binom.ppf(1e-4, 200, 0.95)
    assert norm_probability(loc, scale, 0.9 * np.linalg.norm(loc, 2)).vacuous


@pytest.mark.parametrize("loc, scale, limit", [(0.3, 0.5, 0.6), (1.0, 0.2, 1.1), (0.0, 1.0, 0.3), (-0.8, 0.7, 2.0)])
@pytest.mark.parametrize("redraws", [0, 1, 3, 50])
def test_the_kl_of_redrawn_numbers_is_at_most_the_formula_s(loc, scale, limit, redraws):
    """One number: a density inside, and two points on the limit, where the last of the draws is clipped to."""
    q, p = norm(loc, scale), norm(0, 1)
    outside = np.array([q.cdf(-limit), q.sf(limit)])
    z = 1 - outside.sum()
    never = outside.sum() ** (redraws + 1)  # no draw is inside
    inside = quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), -limit, limit)[0]
    exact = (1 - never) * (math.log((1 - never) / z) + inside / z)
    points = never * outside / outside.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        exact += np.nansum(points * np.log(points / [p.cdf(-limit), p.sf(limit)]))
    kl = float(normal_kl(loc, scale))
    assert exact <= truncated_kl(kl, z) + 1e-9
    if not redraws:
        assert exact <= kl + 1e-9  # clipped alone
    for less in (0.5 * z, 0.9 * z):
        assert truncated_kl(kl, less) >= truncated_kl(kl, z)
