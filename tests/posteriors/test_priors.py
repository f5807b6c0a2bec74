"""Priors: the KL is a sum in nats, equal to quadrature, right in the tails, and its gradient is its own."""

import math
from itertools import pairwise

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from posterior_table import RANDOM, assert_unbiased, built, gradient, over_keys, over_seeds, set_factor, stirred
from scipy import integrate, special

from singularbayes import FullRank, Laplace, LowRank, Normal, ScaleMixture
from singularbayes.posteriors import families, priors
from singularbayes.posteriors.factor import standardised

pytestmark = pytest.mark.backend

NUM_DRAWS = 1000 if keras.backend.backend() == "jax" else 200

PRIORS = {
    "normal": Normal(0.7),
    "laplace": Laplace(0.4),
    "scale_mixture": ScaleMixture(),
    "variance_reading": ScaleMixture(0.3, 2.0, sigma2_is_variance=True),
    "spike_first": ScaleMixture(0.25, math.exp(-6), 1.0),
}
CLOSED = ["normal", "laplace"]
MIXTURES = [name for name in PRIORS if name not in CLOSED]
FAMILIES = ["gaussian", "laplace"]
# Means and scales on the spike, at its edge, beside it, far out, and wide.
LOC = np.array([0.0, 0.001, 0.006, -0.1, 0.5, -2.0, 8.0, 0.3])
SCALE = np.array([0.002, 0.003, 0.01, 0.05, 0.1, 0.02, 0.5, 2.0])


def _log_normal(w, scale):
    return -0.5 * (w / scale) ** 2 - math.log(scale) - 0.5 * math.log(2 * math.pi)


def _log_laplace(w, scale):
    return -abs(w) / scale - math.log(2 * scale)


def _log_density(prior, w):
    """Returns log p(w) in double precision."""
    if isinstance(prior, ScaleMixture):
        sigma2 = math.sqrt(prior.sigma2) if prior.sigma2_is_variance else prior.sigma2
        first, second = _log_normal(w, prior.sigma1), _log_normal(w, sigma2)
        return np.logaddexp(math.log(prior.pi) + first, math.log(1 - prior.pi) + second)
    return {Normal: _log_normal, Laplace: _log_laplace}[type(prior)](w, prior.scale)


def _kl(prior, family, loc, scale):
    """Returns KL(q ‖ p) by adaptive quadrature with break points at the spike and at both centres."""
    log_q, reach = {"gaussian": (_log_normal, 9), "laplace": (_log_laplace, 38)}[family]
    low, high = loc - reach * scale, loc + reach * scale
    spike = math.exp(-6) * np.array([0, 1, 2, 3, 4, 6, 9, 20])
    cuts = np.concatenate([spike, -spike, loc + scale * np.array([-5, -2, -1, 0, 1, 2, 5]), [-0.3, -0.1, 0.1, 0.3]])
    cuts = np.unique(np.concatenate([cuts[(cuts > low) & (cuts < high)], [low, high]]))

    def integrand(w):
        log = log_q(w - loc, scale)
        return math.exp(log) * (log - _log_density(prior, w))

    return sum(integrate.quad(integrand, *ends, epsabs=1e-11)[0] for ends in pairwise(cuts))


def _quadrature(prior, family):
    return np.array([_kl(prior, family, m, s) for m, s in zip(LOC, SCALE, strict=True)])


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(params=PRIORS)
def prior(request):
    return PRIORS[request.param]


def _tensors(*values):
    return [ops.convert_to_tensor(np.asarray(v, "float32")) for v in values]


def _number(value):
    return float(ops.convert_to_numpy(value))


# -- the exact KL ----------------------------------------------------------------------------------------------------


def test_the_exact_kl_equals_adaptive_quadrature(prior, family):
    exact = prior.kl_exact(families.get_family(family), LOC, SCALE)
    np.testing.assert_allclose(exact, _quadrature(prior, family), rtol=1e-7, atol=1e-8)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(loc=st.floats(-10, 10), log_scale=st.floats(-10, 1), near=st.sampled_from([0.0, 1.0]))
def test_the_exact_kl_sees_the_spike_from_any_mean_and_scale(loc, log_scale, near):
    # Half of the cases lie within a few widths of the spike.
    loc = math.exp(-6) * loc if near else loc
    exact = ScaleMixture().kl_exact(families.get_family("gaussian"), np.array([loc]), np.array([math.exp(log_scale)]))
    assert exact[0] == pytest.approx(_kl(ScaleMixture(), "gaussian", loc, math.exp(log_scale)), rel=1e-7, abs=1e-7)


def test_gaussian_kl_is_the_paper_s(vectors):
    cases, expected = vectors["kl_gauss_gauss"]["inputs"]["cases_m1_s1_m2_s2"], vectors["kl_gauss_gauss"]["expected"]
    for (m1, s1, _, s2), kl in zip(cases, expected["kl"], strict=True):
        assert Normal(s2).kl_exact(families.get_family("gaussian"), np.array(m1), np.array(s1)) == pytest.approx(
            kl, abs=1e-12
        )
        estimate = Normal(s2).kl(families.get_family("gaussian"), *_tensors([m1], [s1]))
        assert float(estimate) == pytest.approx(kl, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("prior", "exact", "bound"),
    [
        (ScaleMixture(), "kl_sigma2_is_std_e_minus_6", "upper_bound_std_reading"),
        (ScaleMixture(sigma2_is_variance=True), "kl_variance_is_e_minus_6", "upper_bound_variance_reading"),
    ],
)
def test_mixture_kl_and_its_bound_are_the_paper_s(vectors, prior, exact, bound):
    vector = vectors["kl_gauss_scale_mixture"]
    loc, scale = np.array(vector["inputs"]["cases_mu_sigma"]).T
    kl = prior.kl_exact(families.get_family("gaussian"), loc, scale)
    np.testing.assert_allclose(kl, vector["expected"][exact], rtol=1e-8)
    bounds = [
        float(prior.kl_bound(families.get_family("gaussian"), *_tensors([m], [s])))
        for m, s in zip(loc, scale, strict=True)
    ]
    np.testing.assert_allclose(bounds, vector["expected"][bound], rtol=1e-5)


def test_sigma2_is_a_standard_deviation_unless_said_to_be_a_variance():
    def kl(**arguments):
        return ScaleMixture(**arguments).kl_exact(families.get_family("gaussian"), LOC, SCALE)

    variance = kl(sigma2=math.exp(-6), sigma2_is_variance=True)
    np.testing.assert_allclose(variance, kl(sigma2=math.exp(-3)), rtol=1e-14)
    assert np.abs(variance - kl(sigma2=math.exp(-6))).max() > 1


# -- the density -----------------------------------------------------------------------------------------------------


def test_the_density_and_its_slope_are_right_near_the_spike_and_far_out(prior):
    w = keras.Variable(np.array([-40.0, -8.0, -1.0, -0.1, 0.01, 0.004, 0.001, 0.2, 3.0, 8.0, 100.0], "float32"))
    at = ops.convert_to_numpy(w).astype("float64")
    value = ops.convert_to_numpy(prior.log_density(ops.convert_to_tensor(w)))
    np.testing.assert_allclose(value, _log_density(prior, at), rtol=2e-5)
    step = 1e-6 * np.abs(at)
    slope = (_log_density(prior, at + step) - _log_density(prior, at - step)) / (2 * step)
    found = gradient(lambda: ops.sum(prior.log_density(ops.convert_to_tensor(w))), w)
    np.testing.assert_allclose(found, slope, rtol=1e-4)


def test_the_mixture_s_density_is_the_paper_s(vectors):
    vector = vectors["log_scale_mixture_density"]
    w = np.array(vector["inputs"]["w"])
    for reading, name in [(False, "logp"), (True, "logp_variance_reading")]:
        prior = ScaleMixture(sigma2_is_variance=reading)
        found = ops.convert_to_numpy(prior.log_density(*_tensors(w)))
        np.testing.assert_allclose(found, vector["expected"][name], rtol=2e-6)


def test_the_mixture_s_tail_is_not_floored():
    w = keras.Variable(np.array([-8.0, 8.0], "float32"))
    density = ops.convert_to_numpy(ScaleMixture().log_density(ops.convert_to_tensor(w)))
    np.testing.assert_allclose(density, math.log(0.5) - 32 - 0.5 * math.log(2 * math.pi), rtol=1e-6)  # −33.6
    slope = gradient(lambda: ops.sum(ScaleMixture().log_density(ops.convert_to_tensor(w))), w)
    np.testing.assert_allclose(slope, [8.0, -8.0], rtol=1e-5)


# -- the KL that trains ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.rows_on_torch
def test_training_uses_the_closed_form_where_there_is_one(name, family):
    family, prior = families.get_family(family), PRIORS[name]
    exact = prior.kl_exact(family, LOC, SCALE).sum()
    for kl in (prior.kl, prior.kl_bound):
        assert float(kl(family, *_tensors(LOC, SCALE))) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("name", ["scale_mixture", "variance_reading"])
@pytest.mark.rows_on_torch
def test_the_sampled_kl_is_unbiased_for_every_weight(name, family):
    prior, family = PRIORS[name], families.get_family(family)
    # The mean over many equal weights, so that rare noise on the spike is met in every estimate.
    many = [[ops.full((400,), value) for value in pair] for pair in zip(LOC, SCALE, strict=True)]
    estimates = over_keys(lambda key: ops.stack([prior.kl(family, *pair, keys=lambda: key) / 400 for pair in many]), 50)
    assert_unbiased(estimates, prior.kl_exact(family, LOC, SCALE))


def test_the_single_sample_estimate_is_the_paper_s_with_the_entropy_for_its_expectation(vectors):
    # −log q(w) has the entropy as its expectation, so training does not sample it; log p(w) is the paper's.
    vector = vectors["reparam_single_sample_kl"]
    inputs, expected = vector["inputs"], vector["expected"]
    factor = built(FullRank(), (1, 1)).w
    factor.values.assign(np.array([[[inputs["mu"]]], [[inputs["rho"]]]], "float32"))
    w = factor.loc + factor.scale * inputs["eps"]
    family, prior = factor.family, ScaleMixture(inputs["pi"], inputs["sigma1"], inputs["sigma2"])
    log_q, log_p = family.log_density(w, factor.loc, factor.scale), prior.log_density(w)
    found = [ops.convert_to_numpy(v).item() for v in (factor.scale, w, log_q, log_p, log_q - log_p)]
    np.testing.assert_allclose(found, [expected[k] for k in ("sigma", "w", "log_q", "log_p", "kl_hat")], rtol=1e-5)


def _bound(family, loc, scale):
    """Returns −log(½ e^(−KL₁) + ½ e^(−KL₂)) for the paper's prior in double precision."""
    kls = np.stack([Normal(sigma).kl_exact(family, loc, scale) for sigma in (1.0, math.exp(-6))])
    return -special.logsumexp(-kls, axis=0, b=0.5)


@pytest.mark.parametrize("prior", [Normal(0.7), Laplace(0.4), ScaleMixture(), ScaleMixture(estimate="bound")], ids=repr)
@pytest.mark.rows_on_torch
def test_the_gradient_of_the_kl_is_unbiased_for_the_gradient_of_the_exact_kl(prior, family):
    exact = _bound if prior == ScaleMixture(estimate="bound") else prior.kl_exact
    # One row a case: every entry of a row is one more estimate of the same slopes. Few of them meet the spike.
    posterior = built(FullRank(prior=prior, family=family), (len(LOC), 60_000))
    set_factor(posterior.w, LOC[:, None], SCALE[:, None])
    found = gradient(posterior.kl, posterior.w.values)  # (2, cases, estimates): by loc and by ρ
    rho = SCALE + np.log(-np.expm1(-SCALE))

    def slope(loc_step, rho_step):
        up, down = (
            exact(posterior.w.family, LOC + sign * loc_step, np.logaddexp(0, rho + sign * rho_step)) for sign in (1, -1)
        )
        return (up - down) / (2 * (loc_step + rho_step))

    truth = np.stack([slope(1e-4 * SCALE, 0), slope(0, 1e-4)])
    error = found.std(axis=-1) / math.sqrt(found.shape[-1])
    assert np.all(np.abs(found.mean(axis=-1) - truth) <= 4.5 * error + 1e-4 * (1 + np.abs(truth)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    loc=st.floats(-10, 10),
    log_scale=st.floats(-10, 1),
    shrink=st.sampled_from([1.0, 1e-2, 1e-3]),
    family=st.sampled_from(FAMILIES),
    name=st.sampled_from(MIXTURES),
)
def test_the_bound_is_never_below_the_kl(loc, log_scale, shrink, family, name):
    prior, family = PRIORS[name], families.get_family(family)
    loc, scale = (np.array([v], "float32") for v in (shrink * loc, math.exp(log_scale)))
    bound, exact = float(prior.kl_bound(family, *_tensors(loc, scale))), prior.kl_exact(family, loc, scale).item()
    assert bound >= exact - 1e-5 * max(1.0, abs(exact))


# -- posteriors add them up ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["low_rank", "full_rank_laplace", "rank_one"])
@pytest.mark.rows_on_torch
def test_the_kl_of_a_posterior_is_unbiased(name):
    posterior = stirred(RANDOM[name]())
    assert_unbiased(over_seeds(posterior, posterior.kl, NUM_DRAWS), posterior.kl_exact())


@pytest.mark.parametrize("how", ["kl", "kl_bound", "kl_exact"])
@pytest.mark.parametrize("name", [*CLOSED, "scale_mixture"])
@pytest.mark.rows_on_torch
def test_the_kl_is_a_sum_over_weights(name, how):
    small, large = (built(FullRank(prior=PRIORS[name]), shape) for shape in [(10, 10), (20, 20)])
    for posterior in (small, large):
        set_factor(posterior.w, 0.4, 0.02)
    # Away from the spike one sample is as good as many, within its noise of 1/√100 of the KL.
    assert _number(getattr(large, how)()) == pytest.approx(4 * _number(getattr(small, how)()), rel=2e-3)


def test_the_kl_of_a_posterior_is_that_of_all_its_factors(random_posterior):
    parts = [f.prior.kl_exact(f.family, *standardised(*f.float64_values())) for f in random_posterior.factors]
    shapes = [f.shape[-1:] if f.prior.by_column else f.shape for f in random_posterior.factors]
    assert [part.shape for part in parts] == shapes
    assert random_posterior.kl_exact() == pytest.approx(sum(part.sum() for part in parts), rel=1e-12)
    exact = random_posterior.kl_exact()
    assert _number(random_posterior.kl_bound()) >= exact - 1e-6 * abs(exact)  # single precision; closed forms are equal


def test_the_kl_of_the_factors_is_at_least_that_of_their_product(vectors):
    vector = vectors["data_processing_inequality"]
    posterior = built(LowRank.paper(1, prior="normal"), (1, 1))
    for factor in posterior.factors:
        set_factor(factor, vector["inputs"]["mu"], vector["inputs"]["sigma"])
    assert posterior.kl_exact() == pytest.approx(vector["expected"]["KL_AB"], rel=1e-6)
    assert posterior.kl_exact() >= vector["expected"]["KL_W"]


# -- priors as values ------------------------------------------------------------------------------------------------


def test_a_prior_comes_back_equal_from_its_config(prior):
    for counterpart in (
        type(prior).from_config(prior.get_config()),
        priors.get_prior(keras.saving.serialize_keras_object(prior)),
        eval(repr(prior)),
    ):
        assert counterpart == prior and hash(counterpart) == hash(prior)


def test_priors_with_other_arguments_are_not_equal():
    different = [Normal(1.0), Normal(2.0), Laplace(1.0), *PRIORS.values(), ScaleMixture(estimate="bound")]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("name", "prior"), [("normal", Normal()), ("laplace", Laplace()), ("scale_mixture", ScaleMixture())]
)
def test_a_prior_can_be_named(name, prior):
    assert priors.get_prior(name) == prior and FullRank(prior=name).prior == prior


@pytest.mark.parametrize("bad", ["gaussian", None, Normal, 1.0])
def test_an_unknown_prior_is_refused_with_the_known_ones(bad):
    with pytest.raises(ValueError, match=r"one of \['anchored', 'laplace', 'normal', 'scale_mixture'\]; got prior="):
        LowRank.paper(2, prior=bad)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    ("make", "name"), [(Normal, "scale"), (Laplace, "scale"), (ScaleMixture, "sigma1"), (ScaleMixture, "sigma2")]
)
def test_a_scale_that_is_not_a_positive_number_is_refused(make, name, bad):
    with pytest.raises(ValueError, match=rf"{make.__name__} needs {name} > 0 and finite; got {name}={bad!r}"):
        make(**{name: bad})


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, math.nan])
def test_a_mixture_without_two_parts_is_refused(bad):
    with pytest.raises(ValueError, match=rf"ScaleMixture needs 0 < pi < 1; got pi={bad}"):
        ScaleMixture(bad)


def test_an_unknown_estimate_is_refused():
    with pytest.raises(ValueError, match=r"needs estimate 'sampled' or 'bound'; got estimate='exact'"):
        ScaleMixture(estimate="exact")
