"""Random numbers as pure functions of a key: right distributions, and no two alike."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from keras import ops
from posterior_table import assert_unbiased, assert_uncorrelated, over_keys
from scipy import stats

from singularbayes.posteriors import families, noise

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]

FAMILIES = {"gaussian": stats.norm, "laplace": stats.laplace}


def _key(first=123456789, second=987654321):
    return noise.as_keys(np.array([first, second]))


def _rows(rows, columns, key=None):
    return ops.convert_to_numpy(noise.uniform((rows, columns), _key() if key is None else key))


def _lowbias32(x):
    x = np.asarray(x, "uint32")
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


@pytest.mark.skipif(not noise._HASHED, reason="the other backends have generators")
def test_the_hash_is_lowbias32_on_every_backend():
    words = np.random.default_rng(0).integers(0, 2**31, 200)
    mixed = ops.convert_to_numpy(noise._mix(noise.as_keys(words)))
    np.testing.assert_array_equal(mixed.astype("uint32"), _lowbias32(words))


@pytest.mark.parametrize("name", FAMILIES)
def test_noise_has_the_family_s_distribution(name):
    eps = ops.convert_to_numpy(families.get_family(name).noise((20_000,), _key())).astype("float64")
    truth = FAMILIES[name]
    assert stats.kstest(eps, truth.cdf).pvalue > 1e-3
    assert_unbiased(np.stack([eps, eps**2, eps**4], axis=1), [0.0, truth.var(), truth.moment(4)])


def test_quantiles_are_right_far_into_both_tails():
    u = np.array([2.0**-24, 2.0**-23, 1e-3, 0.25, 0.5, 0.9, 1 - 2.0**-23, 1 - 2.0**-24])
    eps = ops.convert_to_numpy(noise.normal_quantile(ops.convert_to_tensor(u.astype("float32"))))
    np.testing.assert_allclose(eps, stats.norm.ppf(u.astype("float32").astype("float64")), rtol=2e-5, atol=1e-6)


def test_no_two_rows_or_columns_share_noise():
    table = _rows(4000, 16)
    assert len(np.unique(table)) > 0.99 * table.size
    assert_uncorrelated(table[:-1], table[1:])
    columns = np.corrcoef(table, rowvar=False) - np.eye(16)
    assert np.abs(columns).max() < 4.5 / np.sqrt(len(table))


# Keras seeds the generators of other backends with the sum of the words.
SWAPPED = [[[8, 3], [3, 8]]] if noise._HASHED else []


@pytest.mark.parametrize("words", [[[5, 0], [5, 1]], [[5, 6], [5, 7]], [[4, 9], [5, 9]], *SWAPPED])
def test_keys_that_count_up_give_unrelated_rows(words):
    # A SeedGenerator counts its second word up by one: a training step must not see the last step's noise rearranged.
    first, second = (_rows(3000, 8, noise.as_keys(np.array(word))) for word in words)
    assert_uncorrelated(first, second)
    assert_uncorrelated(first[::2], second[1::2])
    assert_uncorrelated(first[1::2], second[::2])
    assert np.isin(first, second).mean() < 0.01


@pytest.mark.parametrize("words", [[0, 0], [0, 1], [5, 5], [123, 456]])
def test_rows_and_columns_share_no_structure(words):
    # A matrix of independent normals is nowhere symmetric, and the corners of its rectangles multiply to 0 on average.
    eps = ops.convert_to_numpy(noise.normal((600, 600), noise.as_keys(np.array(words)))).astype("float64")
    assert abs(np.mean(eps * eps.T) - np.mean(np.diag(eps) ** 2) / 600) * 600 / np.sqrt(2) < 4.5
    corners = eps[:300, :300] * eps[300:, :300] * eps[:300, 300:] * eps[300:, 300:]
    assert abs(corners.mean()) * 300 < 4.5
    assert np.linalg.norm(eps, 2) == pytest.approx(2 * np.sqrt(600), rel=0.03)


def test_split_keys_give_unrelated_noise():
    eps = over_keys(lambda key: ops.stack([noise.normal((3,), k) for k in noise.split(key, 3)]), 2000)
    assert_unbiased(eps, np.zeros((3, 3)))
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        assert_uncorrelated(eps[:, i], eps[:, j])


def test_uniform_numbers_exclude_the_ends():
    u = ops.convert_to_numpy(noise.uniform((50_000,), _key()))
    assert u.min() > 0 and u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3


def test_normal_numbers_are_normal_and_unrelated():
    eps = ops.convert_to_numpy(noise.normal((2, 20_000), _key()))
    assert stats.kstest(eps.ravel(), "norm").pvalue > 1e-3
    for power in (1, 2):  # TensorFlow makes both halves from the same uniform numbers
        assert_uncorrelated(*eps**power)
    assert noise.normal((3, 5), _key()).shape == (3, 5)


def test_integers_are_uniform_below_their_limit():
    drawn = ops.convert_to_numpy(noise.integers((30_000,), 7, _key()))
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > 1e-3
    assert drawn.min() == 0 and drawn.max() == 6


def test_threads_get_the_numbers_of_their_own_keys():
    def mean(seed):
        return float(ops.convert_to_numpy(noise.normal((20_000,), _key(seed))).mean())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(mean, range(200))) == list(map(mean, range(200)))
