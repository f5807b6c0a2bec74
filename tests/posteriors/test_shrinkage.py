"""The prior that shrinks columns, and the gauge that shows which columns matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from posterior_table import TORCH_FIRST, built, gradient, set_factor
from scipy import integrate, stats
from scipy.special import digamma, gammaln

from singularbayes import Adapter, AdaptiveLowRank, Centred, ColumnShrinkage, FullRank, LowRank, Normal
from singularbayes.posteriors import families
from singularbayes.posteriors.adaptive_low_rank import balanced

pytestmark = pytest.mark.on_torch

ROWS, COLUMNS, RANK = 7, 4, 3


def _numbers(seed=0, rank=RANK):
    rng = np.random.default_rng(seed)
    return rng.normal(0.2, 0.6, (ROWS + COLUMNS, rank)), rng.uniform(0.1, 0.8, (ROWS + COLUMNS, rank))


def _joint_kl(family, loc, scale, shape, rate, a, b):
    """Returns E_q[log q(w) q(τ) − log p(w | τ) p(τ)] of one column for q(τ) = Gamma(a, b), term by term."""
    square = family.mean_square(loc, scale).sum()
    log_tau, tau = digamma(a) - np.log(b), a / b
    weights = 0.5 * len(loc) * (log_tau - np.log(2 * np.pi)) - 0.5 * tau * square
    precision = (a - shape) * digamma(a) - gammaln(a) + gammaln(shape) + shape * np.log(b / rate) + (rate - b) * tau
    return -family.entropy(scale, np).sum() - weights + precision


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_kl_is_that_of_weights_and_precisions_with_the_best_posterior_of_the_precisions(family):
    family, prior = families.get_family(family), ColumnShrinkage(1.5, 0.02)
    loc, scale = _numbers()
    for k, found in enumerate(prior.kl_exact(family, loc, scale)):
        a = 1.5 + 0.5 * len(loc)
        b = a / prior.precisions(family, loc, scale)[k]
        best = _joint_kl(family, loc[:, k], scale[:, k], 1.5, 0.02, a, b)
        np.testing.assert_allclose(found, best, rtol=1e-12)
        worse = [(1.1 * a, b), (0.9 * a, b), (a, 1.1 * b), (a, 0.9 * b)]
        assert all(_joint_kl(family, loc[:, k], scale[:, k], 1.5, 0.02, *other) > best for other in worse)


def test_the_density_is_the_normal_one_with_the_precision_integrated_out():
    prior, w = ColumnShrinkage(1.5, 0.4), np.array([[0.3], [-0.7], [1.1]])

    def joint(tau):
        return stats.norm.pdf(w[:, 0], scale=tau**-0.5).prod() * stats.gamma.pdf(tau, 1.5, scale=1 / 0.4)

    truth = np.log(integrate.quad(joint, 0, np.inf)[0])
    np.testing.assert_allclose(prior.log_density(w, np), [truth], rtol=1e-7)


def test_the_kl_is_above_the_one_to_the_weights_prior_alone():
    prior, family = ColumnShrinkage(), families.get_family("gaussian")
    loc, scale = _numbers(rank=1)
    w = loc[..., None] + scale[..., None] * np.random.default_rng(0).normal(size=(*loc.shape, 20_000))
    log_q = family.log_density(w, loc[..., None], scale[..., None], np).sum((0, 1))
    difference = log_q - prior.log_density(w[:, 0], np)
    truth, error = difference.mean(), difference.std() / np.sqrt(len(difference))
    (bound,) = prior.kl_exact(family, loc, scale)
    assert truth + 4 * error < bound < truth + 1.0


@TORCH_FIRST
def test_training_uses_the_same_kl_and_only_of_the_columns_in_use():
    posterior = built(AdaptiveLowRank(max_rank=RANK), (ROWS, COLUMNS))
    loc, scale = _numbers()
    set_factor(posterior.ab, loc, scale)
    each = posterior.prior.kl_exact(posterior.ab.family, loc, scale)
    np.testing.assert_allclose(float(ops.convert_to_numpy(posterior.kl())), each.sum(), rtol=1e-5)
    posterior.ab.live.assign([1.0, 0.0, 1.0])
    for kl in (posterior.kl(), posterior.kl_bound(), posterior.kl_exact()):
        np.testing.assert_allclose(float(ops.convert_to_numpy(kl)), each[0] + each[2], rtol=1e-5)
    slope = gradient(posterior.kl, posterior.ab.values)
    assert (slope[:, :, 1] == 0).all() and (slope[:, :, [0, 2]] != 0).all()
    precision = posterior.prior.precisions(posterior.ab.family, loc, scale)
    np.testing.assert_allclose(slope[0][:, [0, 2]], (precision * loc)[:, [0, 2]], rtol=1e-4)  # E[τ] E[w]


def test_the_best_scaling_of_a_column_gives_both_its_parts_one_mean_square():
    prior, family = ColumnShrinkage(rate=1e-12), families.get_family("gaussian")
    loc, scale = _numbers(rank=1)
    a, b = slice(ROWS), slice(ROWS, None)

    def kl(c):
        sizes = np.concatenate([np.full((ROWS, 1), c), np.full((COLUMNS, 1), 1 / c)])
        return prior.kl_exact(family, sizes * loc, sizes * scale)[0]

    square = family.mean_square(loc, scale)
    # One mean square, were it not for α.
    best = (square[b].sum() / (COLUMNS + prior.shape) / square[a].sum() * (ROWS + prior.shape)) ** 0.25
    assert kl(best) < min(kl(0.99 * best), kl(1.01 * best))


def _pairs(seed, noise=0.5):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(n, RANK)), rng.uniform(0.02, 1.0, (n, RANK)) * noise) for n in (ROWS, COLUMNS)]


def _kl(a, b):
    loc, variance = (np.concatenate(parts) for parts in zip(a, b, strict=True))
    return ColumnShrinkage(rate=1e-12).kl_exact(families.get_family("gaussian"), loc, np.sqrt(variance)).sum()


seeds = given(seed=st.integers(0, 10_000))


@settings(deadline=None, max_examples=40)
@seeds
def test_balancing_keeps_the_mean_and_does_not_raise_the_kl(seed):
    a, b = _pairs(seed)
    c, d = balanced(a, b, shape=1.0)
    np.testing.assert_allclose(c[0] @ d[0].T, a[0] @ b[0].T, atol=1e-9)
    assert _kl(c, d) <= _kl(a, b) + 1e-9
    squares = [(mean**2 + variance).sum(axis=0) for mean, variance in (c, d)]
    np.testing.assert_allclose(squares[0] / (ROWS + 1), squares[1] / (COLUMNS + 1), rtol=1e-9)


@settings(deadline=None, max_examples=40)
@seeds
def test_without_noise_balanced_factors_are_the_singular_vectors_and_stay_so(seed):
    a, b = _pairs(seed, noise=1e-9)
    c, d = balanced(a, b)
    truth = np.linalg.svd(a[0] @ b[0].T, compute_uv=False)[:RANK]
    sizes = np.linalg.norm(c[0], axis=0) * np.linalg.norm(d[0], axis=0)
    np.testing.assert_allclose(np.sort(sizes)[::-1], truth, rtol=1e-5, atol=1e-4)
    if (np.abs(np.diff(truth)) > 0.1).all() and truth[-1] > 0.1:
        again, _ = balanced(c, d)
        np.testing.assert_allclose(again[0], c[0], atol=1e-5)  # in their places, with their signs


def test_balancing_moves_a_product_that_is_spread_over_all_columns_into_as_many_as_it_has_ranks():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(5, 5))
    a, b = (np.concatenate([rng.normal(size=(n, 2)), np.zeros((n, 3))], axis=1) for n in (ROWS, COLUMNS))
    a, b = a @ mix, b @ np.linalg.inv(mix).T
    tiny = np.full((ROWS, 5), 1e-8), np.full((COLUMNS, 5), 1e-8)
    c, d = balanced((a, tiny[0]), (b, tiny[1]))
    energy = np.sort((c[0] ** 2).sum(axis=0) * (d[0] ** 2).sum(axis=0))
    assert (energy[:3] < 1e-6 * energy[-1]).all() and (energy[3:] > 1e-3 * energy[-1]).all()


def test_columns_of_nothing_are_balanced_too():
    a, b = _pairs(0)
    for mean, variance in (a, b):
        mean[:, 1], variance[:, 1] = 0.0, 0.0
    c, d = balanced(a, b)
    assert all(np.isfinite(part).all() for pair in (c, d) for part in pair)
    np.testing.assert_allclose(c[0] @ d[0].T, a[0] @ b[0].T, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ColumnShrinkage(shape=0), "ColumnShrinkage needs shape > 0"),
        (lambda: ColumnShrinkage(rate=-1.0), "ColumnShrinkage needs rate > 0"),
        (lambda: FullRank(prior=ColumnShrinkage()), "needs a posterior with factors, LowRank or Adapter"),
        (lambda: Centred(ColumnShrinkage()), "Centred needs a prior of single weights"),
        (lambda: AdaptiveLowRank(prior=Normal()), r"needs a prior that shrinks whole columns.*got Normal"),
        (lambda: AdaptiveLowRank(max_rank=0), "AdaptiveLowRank needs max_rank to be an integer >= 1; got max_rank=0"),
        (lambda: AdaptiveLowRank(tolerance=1.0), "AdaptiveLowRank needs 0 <= tolerance < 1; got tolerance=1.0"),
        (lambda: LowRank.paper("all"), "LowRank needs rank to be an integer >= 1; got rank='all'"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_fixed_rank_can_have_the_prior_too():
    for posterior in (LowRank.paper(2, prior=ColumnShrinkage()), Adapter(2, prior=ColumnShrinkage())):
        built(posterior, (ROWS, COLUMNS))
        loc, scale, _ = posterior.ab.float64_values()
        each = posterior.prior.kl_exact(posterior.ab.family, loc, scale)
        np.testing.assert_allclose(posterior.kl_exact(), each.sum())
