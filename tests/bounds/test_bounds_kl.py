"""The KL of weights is exact or from above, never below; the choice of factors makes it smallest."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singularbayes import ScaleMixture
from singularbayes.bounds import best_gauge, mixture_kl, normal_kl, pac_bayes, truncated_kl
from singularbayes.posteriors import families

quick = settings(max_examples=80, deadline=None, derandomize=True)


def test_the_normal_kl_is_the_paper_s(vectors):
    case = vectors["kl_gauss_gauss"]
    m1, s1, m2, s2 = np.transpose(case["inputs"]["cases_m1_s1_m2_s2"])
    np.testing.assert_allclose(normal_kl(m1, s1, m2, s2), case["expected"]["kl"], atol=1e-12)


@pytest.mark.parametrize(
    ("width", "exact", "bound"),
    [
        ("sigma2_std_reading", "kl_sigma2_is_std_e_minus_6", "upper_bound_std_reading"),
        ("sigma2_variance_reading", "kl_variance_is_e_minus_6", "upper_bound_variance_reading"),
    ],
)
def test_the_mixture_kl_is_just_above_the_paper_s(vectors, width, exact, bound):
    inputs, expected = vectors["kl_gauss_scale_mixture"]["inputs"], vectors["kl_gauss_scale_mixture"]["expected"]
    loc, scale = np.transpose(inputs["cases_mu_sigma"])
    found = mixture_kl(loc, scale, inputs["pi"], inputs["sigma1"], inputs[width])
    assert (found >= np.array(expected[exact]) - 1e-9).all()
    assert (found <= np.array(expected[exact]) + 5e-4).all()
    assert (found <= np.array(expected[bound]) + 1e-9).all()


@quick
@given(
    loc=st.floats(-5, 5),
    log_scale=st.floats(-10, 1),
    pi=st.floats(0.01, 0.99),
    log_ratio=st.floats(-8, 2),
    near=st.booleans(),
)
def test_the_mixture_kl_is_above_quadrature_by_less_than_it_says(loc, log_scale, pi, log_ratio, near):
    sigma2 = 0.7 * math.exp(log_ratio)
    loc, scale = np.array([loc * sigma2 if near else loc]), np.array([math.exp(log_scale)])
    exact = ScaleMixture(pi, 0.7, sigma2).kl_exact(families.get_family("gaussian"), loc, scale)
    rounding = 1e-9 * max(1.0, exact[0])
    assert exact[0] - rounding <= mixture_kl(loc, scale, pi, 0.7, sigma2)[0] <= exact[0] + 0.002 + rounding


def test_the_mixture_kl_keeps_the_shape_and_works_in_chunks():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(70, 60)), rng.uniform(0.01, 1, (70, 60))
    whole = mixture_kl(loc, scale)
    np.testing.assert_allclose(whole[3, 5], mixture_kl(loc[3, 5], scale[3, 5]), rtol=1e-12)
    assert whole.shape == (70, 60)


def test_equal_components_are_one_normal():
    np.testing.assert_allclose(mixture_kl(0.3, 0.2, 0.5, 0.8, 0.8), normal_kl(0.3, 0.2, 0.0, 0.8), rtol=1e-12)


def test_a_nearly_certain_posterior_has_a_large_kl():
    # The paper's remark that its PAC-Bayes gap goes to 0 is backwards.
    kl = [float(normal_kl(0.0, scale)) for scale in (1.0, 0.1, 1e-2, 1e-4)]
    assert kl == sorted(kl) and kl[-1] > 8.7
    gaps = [pac_bayes(0.1, 1000 * value, 50_000).value for value in kl]
    assert gaps == sorted(gaps)


# -- gauge -----------------------------------------------------------------------------------------------------------


def _factors(rng, rows, rank):
    return rng.normal(size=(rows, rank)), rng.uniform(0.05, 0.5, (rows, rank))


def test_the_gauge_changes_the_kl_as_the_notes_say(vectors):
    mu, sigma = (np.array([[vectors["data_processing_inequality"]["inputs"][key]]]) for key in ("mu", "sigma"))
    kl_ab = vectors["data_processing_inequality"]["expected"]["KL_AB"]
    gauge = best_gauge((4 * mu, 4 * sigma), (mu / 4, sigma / 4), normal_kl)
    assert gauge.kl_before == pytest.approx(10.57, abs=0.005)
    assert gauge.kl_after == pytest.approx(kl_ab, rel=1e-9)
    # The factors' KL is conservative: that of W is smaller still.
    assert vectors["data_processing_inequality"]["expected"]["KL_W"] < gauge.kl_after


def test_the_best_gauge_is_the_closed_form_for_a_normal_prior():
    # (n_B − n_A)/2 · ln u + a u + b/u is smallest at u = D² = (−d + √(d² + 4ab))/(2a).
    rng = np.random.default_rng(0)
    a, b = _factors(rng, 30, 4), _factors(rng, 12, 4)
    s = 0.3
    squares = [(loc**2 + scale**2).sum(axis=0) / (2 * s**2) for loc, scale in (a, b)]
    d = (12 - 30) / 2
    u = (-d + np.sqrt(d**2 + 4 * squares[0] * squares[1])) / (2 * squares[0])
    gauge = best_gauge(a, b, lambda loc, scale: normal_kl(loc, scale, 0.0, s))
    np.testing.assert_allclose(gauge.scales**2, u, rtol=1e-6)


def test_the_gauge_leaves_the_distribution_of_w_and_never_raises_the_kl():
    rng = np.random.default_rng(1)
    a, b = _factors(rng, 8, 3), _factors(rng, 5, 3)
    start = rng.normal(size=(8, 3))

    def centred(loc, scale):
        return normal_kl(loc, scale, start, 0.1)

    gauge = best_gauge(a, b, centred, mixture_kl)
    assert gauge.kl_after <= gauge.kl_before
    (loc_a, loc_b), (scale_a, scale_b) = gauge.apply(a[0], b[0]), gauge.apply(a[1], b[1])
    assert gauge.kl_after == pytest.approx(centred(loc_a, scale_a).sum() + mixture_kl(loc_b, scale_b).sum())
    np.testing.assert_allclose(loc_a @ loc_b.T, a[0] @ b[0].T)
    variance = [
        sa**2 @ (sb**2).T + sa**2 @ (lb**2).T + la**2 @ (sb**2).T
        for la, sa, lb, sb in ((*a, *b), (loc_a, scale_a, loc_b, scale_b))
    ]
    np.testing.assert_allclose(variance[0], variance[1])


def test_a_posterior_at_its_prior_is_left_alone():
    prior = np.zeros((4, 2)), np.ones((4, 2))
    gauge = best_gauge(prior, prior, normal_kl)
    np.testing.assert_array_equal(gauge.scales, 1.0)
    assert gauge.kl_before == gauge.kl_after == 0.0


# -- truncation by rejection -----------------------------------------------------------------------------------------


def test_the_kl_of_a_truncated_gaussian_is_below_its_bound():
    # q = N(1, 0.5²) kept within [−c, c]; KL(q_E ‖ N(0, 1)) by summation on a fine grid.
    w = np.linspace(-6, 8, 400_001)
    step = w[1] - w[0]
    q = np.exp(-0.5 * ((w - 1) / 0.5) ** 2) / (0.5 * math.sqrt(2 * math.pi))
    p = np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
    kl = float(normal_kl(1.0, 0.5))
    for c in (0.5, 1.0, 1.5, 2.0):
        kept = np.where(np.abs(w) <= c, q, 0.0)
        z = kept.sum() * step
        kept = kept / z
        truth = np.sum(kept * np.log(np.maximum(kept, 1e-300) / p)) * step
        assert truth <= truncated_kl(kl, z)


@quick
@given(kl=st.floats(0, 1e4), low=st.floats(0.01, 0.99), more=st.floats(0.001, 1.0))
def test_the_truncated_kl_falls_with_the_kept_probability(kl, low, more):
    assert truncated_kl(kl, low) >= truncated_kl(kl, min(0.999, low + more * (1 - low))) - 1e-9


@pytest.mark.parametrize(
    "loc, scale, sigma2", [(0.0, 1.0, 1e-7), (0.0, 2.76, 1e-6), (2.43, 2.65, 1e-9), (0.0, 1.0, 6e-6)]
)
def test_the_mixture_kl_is_a_bound_for_spikes_far_below_the_posterior_s_scale(loc, scale, sigma2):
    # The spike has no share worth a nat: what is left is half of a Normal, on all but a sliver around 0.
    far = float(normal_kl(loc, scale, 0.0, 1.0)) + np.log(2)
    found = float(mixture_kl(loc, scale, 0.5, 1.0, sigma2))
    sliver = 40 * sigma2 / scale  # its mass, times at most ln(1/sigma2) nats
    assert far - sliver * np.log(1 / sigma2) - 1e-12 <= found <= far + 1e-9


# Quadrature with 40 digits (mpmath), cut at multiples of all scales.
@pytest.mark.parametrize(
    "loc, scale, pi, sigma1, sigma2, exact",
    [
        (0.0, 1.0, 0.5, 1.0, 1e-5, 0.69285056473349745747),
        (0.0, 250.0, 0.5, 1.0, 0.0025, 31244.671572029029601),
        (0.3, 0.1, 0.01, 1.0, 1e-6, 6.4577486534066030396),
        (1000.0, 600.0, 0.4, 0.5, 0.004, 2719993.3261982202862),
    ],
)
def test_the_mixture_kl_is_rounded_up_under_a_posterior_a_hundred_thousand_times_wider_than_the_spike(
    loc, scale, pi, sigma1, sigma2, exact
):
    found = float(mixture_kl(loc, scale, pi, sigma1, sigma2))
    assert exact <= found <= exact + 1e-5
    of_certificates = ScaleMixture(pi, sigma1, sigma2).kl_upper(
        families.get_family("gaussian"), np.array([loc]), np.array([scale])
    )
    assert of_certificates[0] == pytest.approx(found, rel=1e-15)


def test_no_width_of_the_posterior_takes_the_mixture_kl_below_quadrature():
    loc, scale = np.zeros(1000), np.geomspace(1e4, 1e6, 1000) * 1e-5
    exact = ScaleMixture(0.5, 1.0, 1e-5).kl_exact(families.get_family("gaussian"), loc, scale)
    assert (mixture_kl(loc, scale, 0.5, 1.0, 1e-5) >= exact - 1e-12 * (1 + exact)).all()
