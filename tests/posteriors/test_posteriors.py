"""Posteriors: draws have the closed-form moments, matrices equal their dense forms, and no two things share noise."""

from functools import cache

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import (
    JAX_FIRST,
    POSTERIORS,
    RANDOM,
    SHAPE,
    assert_unbiased,
    assert_uncorrelated,
    built,
    jax_first,
    map_keys,
    set_factor,
    stirred,
)

import singularbayes as sb
from singularbayes import (
    Adapter,
    Centred,
    Deterministic,
    FullRank,
    LowRank,
    Normal,
    RankOne,
    layers,
)
from singularbayes.posteriors import entry_correlation, noise, scope

pytestmark = pytest.mark.backend

NUM_DRAWS = 6000 if keras.backend.backend() == "jax" else 1500
# Thousands of draws are one program on JAX, and one after the other on torch.
EVERYWHERE = ["low_rank", "full_rank"]
ENTRIES = [(i, j) for i in range(SHAPE[0]) for j in range(SHAPE[1])]


def _key(first=11, second=12):
    return noise.as_keys(np.array([first, second]))


def _dense(posterior, key):
    """Returns the draw that the key names as a full matrix."""
    return posterior.weight(posterior.draw(key)).dense()


@cache
def _drawn(name):
    posterior = stirred(RANDOM[name]())
    draws, values = map_keys(
        lambda key: (_dense(posterior, key), posterior.draw(key)), _next_keys(posterior, NUM_DRAWS)
    )
    return posterior, draws, values


def _next_keys(posterior, num):
    """Returns the keys of the next samples: a seed generator counts its second word up."""
    first, second = (int(word) for word in ops.convert_to_numpy(posterior.seed_generator.state))
    return np.stack([np.full(num, first), second + np.arange(num)], axis=1)


@pytest.fixture(params=jax_first(RANDOM, EVERYWHERE))
def drawn(request):
    """A posterior and its next draws, (draws, rows, columns)."""
    return _drawn(request.param)[:2]


def _mean(posterior):
    return ops.convert_to_numpy(posterior.mean().dense()).astype("float64")


def _covariances(posterior, entries=ENTRIES):
    return np.array([[posterior.covariance(entry, other) for other in entries] for entry in entries])


# -- the distribution of draws ---------------------------------------------------------------------------------------


def test_draws_average_to_the_mean(drawn):
    posterior, draws = drawn
    assert_unbiased(draws, _mean(posterior))


def test_entries_have_the_closed_form_variances_and_covariances(drawn):
    posterior, draws = drawn
    away = (draws - _mean(posterior)).reshape(NUM_DRAWS, -1)
    # Products of Laplace numbers have such tails that the largest of 400 errors is not yet normal in 1,500 draws.
    z = 6 if posterior.family == "laplace" else 4.5
    assert_unbiased(away[:, :, None] * away[:, None, :], _covariances(posterior), z)


def test_the_variance_is_the_covariance_of_an_entry_with_itself(posterior):
    covariances = _covariances(posterior)
    np.testing.assert_allclose(posterior.variance().ravel(), np.diag(covariances), rtol=1e-12)
    np.testing.assert_allclose(covariances, covariances.T, rtol=1e-12)


@pytest.mark.parametrize("name", ["low_rank", "rank_one", "adapter"])
def test_entries_covary_exactly_when_they_share_a_row_or_a_column(name):
    covariances = _covariances(stirred(RANDOM[name]()))
    shares = np.array([[i == s or j == t for s, t in ENTRIES] for i, j in ENTRIES])
    np.testing.assert_array_equal(covariances != 0, shares)


@pytest.mark.parametrize("make", [LowRank, Adapter])
@pytest.mark.parametrize("name", ["w_entry_moments", "zero_mean_factors_are_uncorrelated"])
def test_moments_of_a_product_are_the_paper_s(vectors, name, make):
    inputs, expected = vectors[name]["inputs"], vectors[name]["expected"]
    posterior = built(make(2), (2, 3))
    fixed = ops.convert_to_numpy(posterior.w0) if make is Adapter else 0.0
    set_factor(posterior.ab, *(np.concatenate([inputs[f"{name}A"], inputs[f"{name}B"]]) for name in ("mu", "sigma")))
    covariances = _covariances(posterior, [(i, j) for i in range(2) for j in range(3)])
    np.testing.assert_allclose(posterior.variance(), expected["var_W"], rtol=1e-5)
    if name == "w_entry_moments":
        np.testing.assert_allclose(_mean(posterior) - fixed, expected["mean_W"], atol=1e-6)
        np.testing.assert_allclose(covariances, expected["cov_rowmajor"], rtol=1e-5, atol=1e-7)
    else:
        assert np.abs(covariances - np.diag(np.diag(covariances))).max() == expected["cov_offdiag_max"]


@pytest.mark.parametrize("name", jax_first(RANDOM, ["low_rank"]))
def test_correlations_of_a_block_are_those_of_draws(name):
    posterior, draws, _ = _drawn(name)
    rows, columns = [0, 3, 4], [2, 0]
    found = entry_correlation(posterior, rows, columns)
    mean, std, block = (v[..., rows, :][..., columns] for v in (_mean(posterior), np.sqrt(posterior.variance()), draws))
    scaled = ((block - mean) / std).reshape(NUM_DRAWS, -1)
    assert_unbiased(scaled[:, :, None] * scaled[:, None, :], found, 6 if posterior.family == "laplace" else 4.5)
    np.testing.assert_allclose(np.diag(found), 1, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_correlations_are_0_without_factors_and_do_not_depend_on_the_scale_of_one():
    np.testing.assert_allclose(entry_correlation(stirred(FullRank()), range(5), range(4)), np.eye(20), rtol=1e-12)
    posterior = stirred(LowRank(2))
    before = entry_correlation(posterior, range(5), range(4))
    loc, scale = (ops.convert_to_numpy(v) for v in (posterior.ab.loc, posterior.ab.scale))
    thrice = np.where(np.arange(9)[:, None] < 5, 3.0, 1.0)  # A, not B
    set_factor(posterior.ab, thrice * loc, thrice * scale)
    np.testing.assert_allclose(entry_correlation(posterior, range(5), range(4)), before, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([], [0], r"rows that are different integers from 0 to 4, at least one; got rows=\[\]"),
        ([0, 0], [0], r"got rows=\[0, 0\]"),
        ([-1], [0], r"got rows=\[-1\]"),
        ([0], [4], r"columns that are different integers from 0 to 3, at least one; got columns=\[4\]"),
    ],
)
def test_a_block_outside_the_weight_is_refused(rows, columns, message):
    with pytest.raises(ValueError, match=message):
        entry_correlation(stirred(LowRank(2)), rows, columns)


def test_entries_that_are_not_random_have_no_correlation():
    with pytest.raises(ValueError, match=r"needs entries that are random; got variance 0 at \(1, 2\)"):
        entry_correlation(built(Deterministic()), [1], [2])


@JAX_FIRST
def test_every_low_rank_draw_has_at_most_that_rank():
    draws = _drawn("low_rank")[1]
    values = np.linalg.svd(draws, compute_uv=False)
    assert np.all(values[:, 2:] < 1e-5 * values[:, :1]) and np.all(values[:, 1] > 0)
    assert np.all(np.linalg.matrix_rank(_drawn("full_rank")[1]) == min(SHAPE))


@JAX_FIRST
def test_every_draw_of_an_adapter_differs_from_its_fixed_part_by_at_most_its_rank():
    posterior, draws, _ = _drawn("adapter")
    fixed = ops.convert_to_numpy(posterior.w0)
    assert np.all(np.linalg.matrix_rank(fixed) == min(SHAPE))
    values = np.linalg.svd(draws - fixed, compute_uv=False)
    assert np.all(values[:, 2:] < 1e-5 * np.maximum(1, values[:, :1])) and np.all(values[:, 1] > 0)


def test_a_deterministic_weight_is_its_mean_and_has_no_kl():
    posterior = built(Deterministic())
    np.testing.assert_array_equal(ops.convert_to_numpy(_dense(posterior, _key())), _mean(posterior))
    assert posterior.variance().max() == posterior.covariance((0, 0), (0, 0)) == 0
    assert not any(hasattr(posterior, name) for name in ("kl", "prior", "kl_scale", "set_kl_weight"))
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, posterior=Deterministic())])
    assert float(sb.kl(model)) == sb.kl(model, "exact") == 0


@pytest.mark.parametrize(
    ("form", "weight"),
    [
        ("product", lambda w0, s, r: w0 * np.outer(1 + s, 1 + r)),
        ("outer", lambda w0, s, r: w0 * (1 + np.outer(s, r))),
        ("scale", lambda w0, s, r: w0 * np.outer(s, r)),
    ],
)
def test_each_form_of_rank_one_is_the_one_it_names(form, weight):
    posterior = stirred(RankOne(form))
    s, r = posterior.draw(_key())
    expected = weight(*(ops.convert_to_numpy(v) for v in (posterior.w0, s, r)))
    np.testing.assert_allclose(ops.convert_to_numpy(posterior.weight((s, r)).dense()), expected, rtol=1e-5, atol=1e-6)


# -- matrices and their dense counterparts -----------------------------------------------------------------------------


def test_a_matrix_its_transpose_rows_and_columns_are_those_of_its_dense_counterpart(posterior):
    for matrix in (posterior.mean(), posterior.weight(posterior.draw(_key()))):
        dense = ops.convert_to_numpy(matrix.dense())
        x = np.random.default_rng(1).normal(size=(2, 3, SHAPE[0])).astype("float32")
        ids = np.array([[4, 0, 2], [2, 1, 1]])
        for inputs in (x, x[0]):
            found = ops.convert_to_numpy(matrix.apply(ops.convert_to_tensor(inputs)))
            np.testing.assert_allclose(found, inputs @ dense, rtol=1e-4, atol=1e-5)
        for rows in (ids, ids[0]):
            found = ops.convert_to_numpy(matrix.rows(ops.convert_to_tensor(rows)))
            np.testing.assert_allclose(found, dense[rows], rtol=1e-5, atol=1e-6)
        for part, expected in ((matrix.transposed(), dense.T), (matrix.columns(1, 3), dense[:, 1:3])):
            inputs = x[0, :, : len(expected)]
            found = ops.convert_to_numpy(part.apply(ops.convert_to_tensor(inputs)))
            np.testing.assert_allclose(found, inputs @ expected, rtol=1e-4, atol=1e-5)


def test_a_matrix_answers_in_the_precision_of_its_inputs(posterior):
    x = ops.ones((2, SHAPE[0]), dtype="float16")
    for matrix in (posterior.mean(), posterior.weight(posterior.draw(_key()))):
        assert keras.backend.standardize_dtype(matrix.apply(x).dtype) == "float16"


class _Half(keras.layers.Layer):
    """Evaluates a function where a layer of half precision casts its variables."""

    def __init__(self, function):
        super().__init__(dtype="mixed_bfloat16")
        self.function = function

    def call(self, x):
        return self.function()


WITH_STATES = {
    **POSTERIORS,
    "centred": lambda: FullRank(prior=Centred(Normal())),
}


@pytest.mark.parametrize("name", WITH_STATES)
@pytest.mark.rows_on_torch
def test_a_draw_is_made_in_float32_also_where_a_layer_computes_in_half_precision(name):
    posterior = stirred(WITH_STATES[name]())

    def numbers():
        kl = posterior.kl_bound() if posterior.random else ops.zeros(())
        return {"draw": _dense(posterior, _key()), "mean": posterior.mean().dense(), "kl": kl}

    inside, outside = _Half(numbers)(np.ones(1)), numbers()
    for what, expected in outside.items():
        assert keras.backend.standardize_dtype(inside[what].dtype) == "float32"
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (inside[what], expected)), err_msg=what)


# -- nothing shares noise --------------------------------------------------------------------------------------------


def test_consecutive_draws_are_independent(drawn):
    _, draws = drawn
    for lag in (1, 2):
        assert_uncorrelated(draws[:-lag], draws[lag:])


OF_TWO = [name for name in RANDOM if not name.startswith("full_rank")]


@pytest.mark.parametrize("name", jax_first(OF_TWO, ["low_rank", "rank_one"]))
def test_the_two_factors_of_a_draw_have_independent_noise(name):
    _, _, (first, second) = _drawn(name)
    assert_uncorrelated(first, second)


def test_a_sample_is_the_draw_of_the_next_key(random_posterior):
    for key in noise.as_keys(_next_keys(random_posterior, 2)):
        with scope.drawing([random_posterior]):
            found, expected = random_posterior.sample().dense(), _dense(random_posterior, key)
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, expected)), rtol=1e-5, atol=1e-6)


def test_one_posterior_given_to_two_layers_makes_two_independent_ones():
    given = LowRank(2)
    first, second = (layers.Dense(SHAPE[1], posterior=given) for _ in range(2))
    for layer in (first, second):
        layer.build((None, SHAPE[0]))
    assert not given.built and first.posterior is not second.posterior
    assert not np.array_equal(_mean(first.posterior), _mean(second.posterior))
    keys = np.concatenate([_next_keys(layer.posterior, 1000) for layer in (first, second)], axis=1)
    draws = map_keys(lambda key: (_dense(first.posterior, key[:2]), _dense(second.posterior, key[2:])), keys)
    assert_uncorrelated(*draws)


def test_posteriors_of_one_kind_start_independent_in_both_factors():
    first, second = (built(LowRank(3), (800, 800)) for _ in range(2))
    locs = [loc for p in (first, second) for loc in np.split(ops.convert_to_numpy(p.ab.loc), 2)]
    for i, loc in enumerate(locs):
        for other in locs[:i]:
            assert_uncorrelated(loc, other)
