"""Invariants of combinations: configs, compiled functions, precision, optimizers, states, unbuilt models."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, ON_TORCH

import singularbayes as sb
from singularbayes import FullRank, LowRank, find_posteriors, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
RNG = np.random.default_rng(4)
X = RNG.normal(size=(12, 4)).astype("float32")
Y = RNG.normal(size=(12, 1)).astype("float32")


def _numpy(x):
    return ops.convert_to_numpy(x)


def _regression(**posterior):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(1, posterior=LowRank.paper(1, **posterior))])
    model.compile("adam", "mse")
    return model


@JAX_FIRST
def test_a_weight_that_was_said_is_no_argument_of_the_posterior():
    # Else a copy made from the config would train with it, or with the 0 that annealing starts at.
    layer = layers.Dense(1, posterior=LowRank.paper(1))
    sb.set_kl(layer, num_data=10, beta=1.0)
    assert layer.get_config()["posterior"]["config"]["kl_weight"] is None
    layer(X)
    assert float(_numpy(layer.posterior.kl_scale)) == pytest.approx(0.1)
    copy = layers.Dense.from_config(layer.get_config())
    with pytest.raises(ValueError, match="KL weight is not set"):
        copy(X, training=True)


@pytest.mark.parametrize("method", ["predict", "fit", "evaluate"])
def test_a_shared_layer_is_one_draw_in_every_way_a_model_is_run(method):
    # On JAX these evaluate `model.call` without calling the model.
    shared = layers.Dense(3, posterior=FullRank(eta=1.0))
    x = keras.Input((4,))
    model = keras.Model(x, shared(x) - shared(x))
    model.compile("sgd", "mae")
    sb.set_kl(model, num_data=12, beta=0.0)
    if method == "predict":
        assert np.abs(model.predict(X, verbose=0)).max() == 0
    elif method == "evaluate":
        assert model.evaluate(X, np.zeros((12, 3)), verbose=0) == 0
    else:
        assert model.fit(X, np.zeros((12, 3)), verbose=0).history["loss"] == [0]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_probabilities_in_half_precision_are_probabilities(policy):
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(20, "softmax", posterior=FullRank(), dtype=policy)],
    )
    model.compile(loss="sparse_categorical_crossentropy")
    p = sb.predict(model, X, draws=5)
    np.testing.assert_allclose(p.mean.sum(-1), 1, rtol=1e-12)


def test_an_id_out_of_range_is_named_whatever_the_head():
    ids = keras.Input((2,), dtype="int32")
    h = layers.Embedding(5, 4, posterior=FullRank())(ids)
    model = keras.Model(ids, keras.layers.Dense(3, "softmax")(h[:, 0]))
    model.compile(loss="sparse_categorical_crossentropy")
    with pytest.raises(ValueError, match="needs ids from 0 to 4; got the id 7"):
        sb.predict(model, np.array([[1, 2], [7, 1]]), draws=2)


@pytest.mark.parametrize("wrappers", [0, 1, 2])
@pytest.mark.parametrize("way", ["schedule", "set_kl"])
def test_weight_decay_spares_the_posterior_and_nothing_else(way, wrappers):
    # With no gradient, decay is all that moves a weight.
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=FullRank()), keras.layers.Dense(1)])
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    for _ in range(wrappers):
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)  # as mixed_float16 adds one
    model.compile(optimizer, "mse")
    posterior, dense = model.layers[0].posterior, model.layers[1]
    before, kernel = _numpy(posterior.w.values).copy(), _numpy(dense.kernel).copy()
    if way == "set_kl":
        sb.set_kl(model, num_data=12, beta=0.0)
    callbacks = [sb.KLSchedule(num_data=12, beta=0.0)] if way == "schedule" else []
    model.fit(np.zeros((8, 4)), np.zeros((8, 1)), epochs=2, verbose=0, callbacks=callbacks)
    np.testing.assert_array_equal(_numpy(posterior.w.values), before)
    np.testing.assert_allclose(_numpy(dense.kernel), kernel * 0.95**2, rtol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="a loop in torch")
def test_parameter_groups_spare_the_posterior_from_the_weight_decay_of_torch():
    import torch

    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=FullRank()), keras.layers.Dense(1)])
    before, kernel = (_numpy(v).copy() for v in (model.layers[0].posterior.w.values, model.layers[1].kernel))
    # As the README shows it.
    factors = [factor.values.value for posterior in find_posteriors(model) for factor in posterior.factors]
    others = [p for p in model.parameters() if not any(p is factor for factor in factors)]
    optimizer = torch.optim.AdamW([{"params": factors, "weight_decay": 0.0}, {"params": others}], 0.1, weight_decay=0.5)
    (0.0 * sum(p.sum() for p in model.parameters() if p.requires_grad)).backward()
    optimizer.step()
    np.testing.assert_array_equal(_numpy(model.layers[0].posterior.w.values), before)
    np.testing.assert_allclose(_numpy(model.layers[1].kernel), kernel * 0.95, rtol=1e-5)


def test_weight_decay_of_a_model_that_is_not_built_is_refused_where_it_could_not_be_spared():
    model = keras.Sequential([layers.Dense(1, posterior=FullRank())])
    model.compile(keras.optimizers.AdamW(weight_decay=0.5), "mse")
    with pytest.raises(ValueError, match=r"weight decay of AdamW .* not built yet. Call the model on a batch"):
        sb.set_kl(model, num_data=12, beta=1.0)


@pytest.mark.parametrize("ids", [np.array([[2**32 + 1]]), np.array([[2**32 + 1]], "uint64")], ids=["int64", "uint64"])
def test_an_id_beyond_32_bits_is_no_neighbour(ids):
    with pytest.raises(ValueError, match=f"needs ids from 0 to 4; got the id {2**32 + 1}"):
        layers.Embedding(5, 4, posterior=FullRank())(ids)


@ON_TORCH
def test_an_unbuilt_model_with_a_start_of_particular_values_is_built_by_fit():
    model = keras.Sequential([layers.LSTM(4, posterior=LowRank.paper(2)), layers.Dense(1, posterior=LowRank.paper(1))])
    model.compile("adam", "mse")
    model.fit(RNG.normal(size=(4, 5, 3)), Y[:4], verbose=0, callbacks=[sb.KLSchedule(num_data=4, beta=1.0)])
    recurrent = next(p for p in find_posteriors(model) if p.name == "recurrent_posterior")
    # Orthogonal, cut to rank two: both singular values stay near 1 after one step.
    values = np.linalg.svd(_numpy(recurrent.mean().dense()), compute_uv=False)
    np.testing.assert_allclose(values, [1, 1, 0, 0], atol=0.02)


def test_projections_of_one_block_start_different_also_from_one_initializer():
    block = layers.TransformerEncoder(4, 1, kernel_initializer=keras.initializers.GlorotNormal(), posterior=FullRank())
    block.build((None, 5, 4))
    means = [_numpy(p.mean().dense()) for p in find_posteriors(block)]
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(means) for b in means[:i])
