"""Local reparameterisation: the same distribution of one example's outputs, less noise in the gradients."""

from functools import cache

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import (
    LOCAL,
    SHAPE,
    TORCH_FIRST,
    assert_unbiased,
    assert_uncorrelated,
    map_keys,
    over_keys,
    slope,
    stirred,
)
from scipy import stats

from singularbayes import FullRank, LowRank, RankOne, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch, TORCH_FIRST]

NUM_DRAWS = 5000 if keras.backend.backend() == "jax" else 800
X = np.random.default_rng(2).normal(size=SHAPE[0]).astype("float32")  # one example


@cache
def _outputs(name):
    """Returns the posterior, its shared outputs for X, (draws, columns), and local ones for X twice, (draws, 2, …)."""
    posterior = stirred(LOCAL[name]())
    twice = ops.convert_to_tensor(np.stack([X, X]))

    def both(key):
        return posterior.weight(posterior.draw(key[:2])).apply(twice[:1])[0], posterior.local(key[2:]).apply(twice)

    return posterior, *map_keys(both, np.random.default_rng(0).integers(0, 2**31 - 1, (NUM_DRAWS, 4)))


@pytest.fixture(params=LOCAL)
def outputs(request):
    return _outputs(request.param)


def test_outputs_have_the_mean_and_covariance_of_the_shared_estimator(outputs):
    posterior, _, local = outputs
    rows, columns = SHAPE
    mean = X @ ops.convert_to_numpy(posterior.mean().dense())
    pairs = [
        [((i, j), (s, t)) for i in range(rows) for s in range(rows)] for j in range(columns) for t in range(columns)
    ]
    # Cov(y_j, y_t) = Σ_is x_i x_s Cov(W_ij, W_st)
    covariance = [sum(X[e[0]] * X[o[0]] * posterior.covariance(e, o) for e, o in pair) for pair in pairs]
    for example in (local[:, 0], local[:, 1]):
        assert_unbiased(example, mean)
        away = example - mean
        assert_unbiased(away[:, :, None] * away[:, None, :], np.reshape(covariance, (columns, columns)))


def test_outputs_have_the_distribution_of_the_shared_estimator(outputs):
    _, shared, local = outputs
    for column in range(SHAPE[1]):
        assert stats.ks_2samp(shared[:, column], local[:, 0, column], method="asymp").pvalue > 1e-3
    # Also in the tails, which for products of Gaussians are heavier than Gaussian.
    shared, local = (((v - shared.mean(axis=0)) / shared.std(axis=0)) ** 4 for v in (shared, local[:, 0]))
    error = np.sqrt((shared.var(axis=0) + local.var(axis=0)) / NUM_DRAWS)
    assert np.all(np.abs(shared.mean(axis=0) - local.mean(axis=0)) < 4.5 * error)


def test_examples_of_a_batch_are_independent(outputs):
    _, shared, local = outputs
    assert_uncorrelated(local[:, 0], local[:, 1])
    assert_uncorrelated((local[:, 0] - shared.mean(axis=0)) ** 2, (local[:, 1] - shared.mean(axis=0)) ** 2)


@pytest.mark.parametrize("name", ["low_rank", "full_rank", "k_tied"])
def test_the_gradient_has_the_same_mean_and_less_variance(name):
    posterior = stirred(LOCAL[name]())
    variable = posterior.factors[0].values
    x = ops.convert_to_tensor(np.random.default_rng(3).normal(size=(16, SHAPE[0])).astype("float32"))

    def loss(matrix):
        return ops.mean(ops.square(matrix.apply(x) - 1.0))

    def both(key):
        shared = slope(lambda: loss(posterior.weight(posterior.draw(key))), variable)
        return shared, slope(lambda: loss(posterior.local(key)), variable)

    shared, local = over_keys(both, 300)
    error = np.sqrt((shared.var(axis=0) + local.var(axis=0)) / 300)
    assert np.all(np.abs(shared.mean(axis=0) - local.mean(axis=0)) < 4.5 * error)
    assert local.var(axis=0).sum() < 0.5 * shared.var(axis=0).sum()


@pytest.mark.parametrize("name", ["low_rank", "full_rank", "k_tied", "adapter"])
def test_inputs_of_zeros_give_no_output_and_finite_gradients(name):
    posterior = stirred(LOCAL[name]())
    zeros = ops.zeros((3, SHAPE[0]))

    def outputs(key):
        return posterior.local(key).apply(zeros)

    def both(key):
        return outputs(key), [slope(lambda: ops.sum(outputs(key)), factor.values) for factor in posterior.factors]

    values, gradients = over_keys(both, 5)
    assert np.abs(values).max() < 1e-6
    assert all(np.isfinite(found).all() for found in gradients)


def test_weights_are_drawn_outside_training(outputs):
    posterior = outputs[0]
    posterior.set_kl_weight(1.0)
    assert posterior.sample(training=False, estimator="local").dense().shape == SHAPE
    with pytest.raises(AttributeError, match="dense"):  # in training there is no one matrix
        posterior.sample(training=True, estimator="local").dense()


@pytest.mark.parametrize("make", [lambda **k: LowRank.paper(2, **k), FullRank, RankOne], ids=["low", "full", "one"])
def test_other_families_are_refused(make):
    with pytest.raises(
        ValueError, match=r'estimator="local" needs the Gaussian family.* Got family=.laplace. in Dense'
    ):
        layers.Dense(4, posterior=make(family="laplace"), estimator="local")
    with pytest.raises(ValueError, match=r'estimator="local" needs the Gaussian family'):
        layers.Dense(4, posterior=make(), bias_posterior=FullRank(family="laplace"), estimator="local")
