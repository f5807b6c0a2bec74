"""Spectra: singular values are the matrix's, effective ranks are their closed forms, and a rank keeps what it says."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from posterior_table import ON_TORCH

import singularbayes as sb
from singularbayes import Adapter
from singularbayes.convert.spectrum import MatrixSpectrum

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]
VALUES = arrays("float64", st.integers(1, 12), elements=st.floats(1e-3, 1e3)).map(lambda v: np.sort(v)[::-1])


def _row(values):
    return MatrixSpectrum("layer", "Dense", "kernel", (len(values), len(values)), np.asarray(values, "float64"))


def _dense(*sizes, name="small"):
    stack = [keras.layers.Dense(units, name=f"dense_{i}") for i, units in enumerate(sizes[1:])]
    return keras.Sequential([keras.Input((sizes[0],)), *stack], name=name)


def _plain(seed=0):
    """Returns a plain model with a layer of every kind of shape, in a model within a model."""
    keras.utils.set_random_seed(seed)
    images, ids = keras.Input((6, 6, 2)), keras.Input((5,), dtype="int32")
    x = keras.layers.Flatten()(keras.layers.Conv2D(3, 2, name="filters")(images))
    e = keras.layers.Embedding(9, 4, name="words")(ids)
    e = keras.layers.MultiHeadAttention(2, 3, name="attention")(e, e)
    e = keras.layers.LSTM(3, name="memory")(e)
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, name="head")], name="inner")
    x = keras.layers.Concatenate()([keras.layers.LayerNormalization()(x), inner(e)])
    return keras.Model([images, ids], keras.layers.Dense(2, name="head")(x), name="plain")


def test_every_matrix_has_the_singular_values_of_its_kernel():
    model = _plain()
    rows = {row.name: row for row in sb.spectrum(model).rows}
    kernel = keras.ops.convert_to_numpy(model.get_layer("filters").kernel).reshape(-1, 3)
    np.testing.assert_allclose(rows["filters/kernel"].values, np.linalg.svd(kernel, compute_uv=False), rtol=1e-5)
    query = keras.ops.convert_to_numpy(model.get_layer("attention")._query_dense.kernel).reshape(4, 6)
    np.testing.assert_allclose(rows["attention/query/kernel"].values, np.linalg.svd(query)[1], rtol=1e-5)
    assert {name: row.shape for name, row in rows.items()} == {
        "filters/kernel": (8, 3),
        "words/embeddings": (9, 4),
        **{f"attention/{part}/kernel": (4, 6) for part in ("query", "key", "value")},
        "attention/output/kernel": (6, 4),
        "memory/kernel": (4, 12),
        "memory/recurrent_kernel": (3, 12),
        "inner/head/kernel": (3, 5),
        "head/kernel": (5 * 5 * 3 + 5, 2),
    }


@ON_TORCH
def test_a_bayesian_model_has_the_spectrum_of_its_means():
    model = _plain()
    plain, adapted, truncated = (
        sb.spectrum(made) for made in (model, sb.bayesianize(model, Adapter(2)), sb.bayesianize(model, 2, init="svd"))
    )
    for before, same, cut in zip(plain.rows, adapted.rows, truncated.rows, strict=True):
        assert before.name == same.name == cut.name and before.shape == same.shape
        np.testing.assert_array_equal(same.values, before.values)
        np.testing.assert_allclose(cut.values[:2], before.values[:2], rtol=1e-5)
        assert cut.rank_for(1.0) <= 2


def test_effective_ranks_have_their_closed_forms():
    for r in (1, 3, 8):
        equal = _row([2.0] * r + [0.0] * 4)
        assert equal.entropy_rank == pytest.approx(r) and equal.stable_rank == pytest.approx(r)
    # p = (0.8, 0.2): exp(0.8 log 1.25 + 0.2 log 5), and 1 / 0.8.
    uneven = _row([2.0, 1.0])
    assert uneven.entropy_rank == pytest.approx(1.25**0.8 * 5**0.2) and uneven.stable_rank == pytest.approx(1.25)
    zero = _row([0.0, 0.0])
    assert (zero.entropy_rank, zero.stable_rank, zero.rank_for(0.99)) == (0, 0, 1)


@given(VALUES, st.floats(0.01, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_rank_for_a_share_is_the_smallest_that_keeps_it(values, explained):
    row, squares = _row(values), values**2
    rank = row.rank_for(explained)
    kept = [squares[:r].sum() / squares.sum() for r in range(len(values) + 1)]
    assert kept[rank] >= explained - 1e-9 and kept[rank - 1] < explained
    np.testing.assert_allclose(row.explained, kept[1:])


def test_ranks_for_a_share_are_rules_of_a_conversion_that_keeps_it():
    model = _plain()
    found = sb.spectrum(model)
    ranks = found.rank_for(0.8)
    assert ranks["memory"] == max(row.rank_for(0.8) for row in found.rows if row.layer == "memory")
    made = sb.plan(model, rules=ranks)
    assert {row.path for row in made.converted} == set(ranks)
    for row in made.converted:
        assert row.explained >= 0.8 - 1e-6
        assert {matrix.rank for matrix in row.matrices} <= {ranks[row.path], *(min(m.shape) for m in row.matrices)}
    assert next(iter(ranks)) == "inner/head"  # which the rule "head" would fit too


def test_the_table_names_sizes_ranks_and_the_share():
    model = _dense(4, 3, 2)
    for layer, diagonal in zip(model.layers, ([2, 1, 0], [1, 1]), strict=True):
        kernel = np.zeros(layer.kernel.shape)
        np.fill_diagonal(kernel, diagonal)
        layer.kernel.assign(kernel)
    assert str(sb.spectrum(model)).splitlines() == [
        "Spectrum of 'small'",
        "matrix          type   size  largest  entropy rank  stable rank  rank for 90 %",
        "──────────────────────────────────────────────────────────────────────────────",
        "dense_0/kernel  Dense  4×3         2           1.6          1.2              2",
        "dense_1/kernel  Dense  3×2         1           2.0          2.0              2",
    ]
    assert sb.spectrum(model).table(0.75).splitlines()[1].endswith("rank for 75 %")
    assert sb.spectrum(model).table(0.75).splitlines()[3].endswith("1")


@pytest.mark.parametrize("bad", [0, -0.1, 1.1, float("nan"), "0.9", True, None])
def test_a_share_out_of_range_is_refused(bad):
    for ask in (_row([1.0]).rank_for, sb.spectrum(_dense(4, 3)).rank_for, sb.spectrum(_dense(4, 3)).table):
        with pytest.raises(ValueError, match=rf"needs 0 < explained <= 1; got explained={bad!r}"):
            ask(bad)


def test_models_without_matrices_weights_or_finite_numbers_are_refused():
    with pytest.raises(ValueError, match=r"needs a built Keras model.*Call it once"):
        sb.spectrum(keras.Sequential([keras.layers.Dense(3)]))
    with pytest.raises(ValueError, match=r"at least one of \['Dense', .*got 'pool'"):
        sb.spectrum(keras.Sequential([keras.Input((4,)), keras.layers.Activation("relu")], name="pool"))
    model = _dense(4, 3)
    model.layers[0].kernel.assign(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match=r"finite weights; got NaN or infinity in dense_0/kernel"):
        sb.spectrum(model)
