"""Families: every closed form that priors ask for, against scipy."""

import numpy as np
import pytest
from keras import ops
from scipy import stats
from table import stirred

from singularbayes import FullRank
from singularbayes.posteriors import families
from singularbayes.posteriors.families import float64

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]

FAMILIES = {"gaussian": stats.norm, "laplace": stats.laplace}
LOC = np.array([-3.0, -0.4, 0.0, 0.02, 0.7, 5.0])
SCALE = np.array([0.01, 0.3, 0.5, 0.004, 2.0, 1.0])


@pytest.fixture(params=FAMILIES)
def family(request):
    """A family and the scipy distribution that it should be."""
    return families.get_family(request.param), FAMILIES[request.param](LOC, SCALE)


@pytest.fixture(params=["training", "float64"])
def arithmetic(request):
    """The functions, the loc and the scale of both precisions, and the relative error that each may have."""
    if request.param == "float64":
        return float64, LOC, SCALE, 1e-12
    return ops, *(ops.convert_to_tensor(v.astype("float32")) for v in (LOC, SCALE)), 3e-6


def test_the_density_is_that_of_the_family(family, arithmetic):
    (family, truth), (xp, loc, scale, rtol) = family, arithmetic
    density = ops.convert_to_numpy(family.log_density(loc + 1.7 * scale, loc, scale, xp))
    # w − loc loses digits where the scale is small beside the loc.
    np.testing.assert_allclose(density, truth.logpdf(LOC + 1.7 * SCALE), rtol=50 * rtol)


def test_the_entropy_is_that_of_the_family(family, arithmetic):
    (family, truth), (xp, _, scale, rtol) = family, arithmetic
    np.testing.assert_allclose(ops.convert_to_numpy(family.entropy(scale, xp)), truth.entropy(), rtol=rtol, atol=rtol)


def test_second_moments_are_those_of_the_family(family, arithmetic):
    (family, truth), (_, loc, scale, rtol) = family, arithmetic
    np.testing.assert_allclose(ops.convert_to_numpy(family.variance(scale)), truth.var(), rtol=rtol)
    square = truth.var() + truth.mean() ** 2
    np.testing.assert_allclose(ops.convert_to_numpy(family.mean_square(loc, scale)), square, rtol=rtol)


def test_the_mean_of_the_absolute_value_is_that_of_the_family(family, arithmetic):
    (family, _), (xp, loc, scale, rtol) = family, arithmetic
    # The mean over evenly spaced quantiles.
    noise = FAMILIES[family.name].ppf((np.arange(200_000) + 0.5) / 200_000)
    magnitude = np.abs(LOC[:, None] + SCALE[:, None] * noise).mean(axis=1)
    np.testing.assert_allclose(ops.convert_to_numpy(family.mean_abs(loc, scale, xp)), magnitude, rtol=max(rtol, 1e-5))


def test_cuts_leave_nothing_of_the_density_outside(family):
    family, _ = family
    truth = FAMILIES[family.name]
    assert truth.cdf(family.cuts[0]) + truth.sf(family.cuts[-1]) < 1e-16
    assert list(family.cuts) == sorted(family.cuts) and 0 in family.cuts


def test_the_scale_is_the_softplus_of_rho(vectors):
    rho = np.array(vectors["softplus"]["inputs"]["rho"])
    expected = vectors["softplus"]["expected"]["sigma"]
    for rho_lr in (1.0, 50.0):
        factor = stirred(FullRank(rho_lr=rho_lr), (1, len(rho))).w
        factor.values.assign(np.stack([0 * rho, rho / rho_lr])[:, None].astype("float32"))
        np.testing.assert_allclose(ops.convert_to_numpy(factor.scale)[0], expected, rtol=3e-6)


@pytest.mark.parametrize("name", ["normal", "Gaussian", None])
def test_an_unknown_family_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=rf"family needs to be one of \['gaussian', 'laplace'\]; got family={name!r}"):
        FullRank(family=name)
