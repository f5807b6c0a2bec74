"""The plan says before a conversion what it would do, and keeps its word."""

import keras
import numpy as np
import pytest
from convertible import CASES, RNG, array, assert_close, case, not_on_jax, sequences, stirred
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import FullRank, LowRank

pytestmark = [pytest.mark.backend, TORCH_FIRST]
L = keras.layers


@pytest.mark.parametrize("name", CASES)
def test_the_plan_counts_what_the_conversion_makes(name):
    model, _, _ = case(name)
    planned = sb.plan(model, LowRank(1), bias_posterior=FullRank())
    bayes = sb.bayesianize(model, LowRank(1), bias_posterior=FullRank())
    size = lambda weights: sum(int(np.prod(w.shape)) for w in weights)  # noqa: E731
    assert planned.before == size(model.weights)
    assert planned.after == size(bayes.weights)
    assert {row.reason for row in planned.rows if not row.posterior} <= {"no weight matrix"}


@not_on_jax
def test_the_plan_has_the_residual_and_share_of_every_svd_start():
    model = stirred(sequences())
    planned = sb.plan(model, 2, init="svd")
    bayes = sb.bayesianize(model, 2, init="svd")
    row = next(row for row in planned.converted if row.kind == "GRU")
    gru, ours = (next(layer for layer in m.layers if layer.name == row.path) for m in (model, bayes))
    kernel, start = array(gru.cell.kernel), array(ours.posterior.mean().dense())
    matrix = next(matrix for matrix in row.matrices if matrix.name == "kernel")
    assert matrix.rank == 2 and matrix.shape == (6, 9)
    np.testing.assert_allclose(matrix.residual, np.linalg.norm(kernel - start), rtol=1e-4)
    both = [array(weight) for weight in (gru.cell.kernel, gru.cell.recurrent_kernel)]
    squares = [np.linalg.svd(weight, compute_uv=False) ** 2 for weight in both]
    kept = sum(s[:2].sum() for s in squares) / sum(s.sum() for s in squares)
    np.testing.assert_allclose(row.explained, kept, rtol=1e-5)
    np.testing.assert_allclose(row.residual, np.hypot(*(m.residual for m in row.matrices)), rtol=1e-6)
    assert f"{row.explained:.1%}" in str(planned)
    assert sb.plan(model, FullRank(), init="svd").converted[0].residual == 0.0


def test_the_plan_ends_with_what_to_do_about_layers_without_a_counterpart():
    stack = [L.DepthwiseConv2D(3), L.DepthwiseConv2D(2), L.Flatten(), L.Dense(2)]
    planned = sb.plan(keras.Sequential([keras.Input((6, 6, 3)), *stack]), 2)
    hint = 'Layers that cannot be converted: 2; unsupported="keep" leaves them as they are.'
    assert str(planned).splitlines()[-1] == hint


def test_the_plan_warns_of_ranks_that_keep_less_than_half_of_a_matrix():
    model = keras.Sequential([keras.Input((4,)), L.Dense(4, name="spread"), L.Dense(4, name="narrow")])
    rotation = np.linalg.qr(RNG.normal(size=(4, 4)))[0].astype("float32")  # every rank-1 part has a quarter of it
    model.get_layer("spread").set_weights([rotation, np.zeros(4, "float32")])
    model.get_layer("narrow").set_weights([np.outer(rotation[0], rotation[1]), np.zeros(4, "float32")])
    planned = sb.plan(model, 1)
    assert [row.path for row in planned.truncated] == ["spread"]
    assert "less than half of ‖W‖_F²: 1 of 2" in str(planned).splitlines()[-1]
    assert sb.plan(model, 2).truncated == sb.plan(model, 1, init="random").truncated == []


@not_on_jax
@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: L.Dense(4), RNG.normal(size=(2, 6)).astype("float32")),
        (lambda: L.EinsumDense("ab,bc->ac", 4), RNG.normal(size=(2, 6)).astype("float32")),
        (lambda: L.Embedding(6, 4), np.arange(6, dtype="int32")[None]),
    ],
    ids=["dense", "einsum", "embedding"],
)
def test_lora_is_merged_and_the_plan_names_it(make, x):
    layer = make()
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype), layer])
    layer.enable_lora(2)
    stirred(model)
    row = sb.plan(model, 2).rows[0]
    assert row.reason == "LoRA merged into the weight" and row.before == model.count_params()
    bayes = sb.bayesianize(model, FullRank(), init="svd")
    assert_close(bayes(x), model(x))
    assert bayes.count_params() < row.before * 2
