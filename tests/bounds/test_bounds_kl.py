"""The KL of weights is exact or from above, never below."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singularbayes import ScaleMixture
from singularbayes.bounds import mixture_kl, normal_kl
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
