"""Every layer with a mixture: K networks, each of which sees every example."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import LAYERS, OPTIONS, alone
from posterior_table import ON_TORCH, set_factor, stir

import singularbayes as sb
from singularbayes import layers
from singularbayes.posteriors import in_blocks, noise, scope

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]

K = 2
CASES = {
    **LAYERS,
    **{name: OPTIONS[name] for name in ("lstm_mask", "gru_initial_state", "attention_masked", "attention_cross")},
    "attention_scores": OPTIONS["attention_scores"],
    "embedding_back": OPTIONS["embedding_back"],
    "einsum_reordered": OPTIONS["einsum_abc,bd->adc"],
}


def _numpy(x):
    return [ops.convert_to_numpy(part) for part in keras.tree.flatten(x)]


def _layer(case, inside=None, components=K, **arguments):
    """Returns a model of one layer with a mixture, and its inputs as a list."""
    inside = inside or sb.LowRank(2, kl_weight=0.1)
    if "Embedding" not in case.layer:
        arguments.setdefault("bias_posterior", sb.FullRank(kl_weight=0.1))
    model, x = alone(case, sb.Mixture(inside, components), **arguments)
    return model, [x] if isinstance(x, np.ndarray) else list(x)


def _call(model, x, case, training):
    layer = model.layers[-1]
    return layer(*map(ops.convert_to_tensor, x), **case.call, training=training)


def _tiled(value):
    if isinstance(value, list):
        return [_tiled(part) for part in value]
    return np.concatenate([value] * K) if isinstance(value, np.ndarray) and value.dtype != object else value


def _pass(model, x, case):
    """Returns the outputs of a training pass, (components, examples, …), and the draws of every component."""
    keys = {id(q): ops.convert_to_numpy(q.seed_generator.state) for q in sb.find_posteriors(model)}
    call = {name: _tiled(value) for name, value in case.call.items()}
    with in_blocks(K):
        inputs = [ops.convert_to_tensor(_tiled(part)) for part in x]
        outputs = _numpy(model.layers[-1](*inputs, **call, training=True))
    parts = []
    for k in range(K):
        arrays = {id(q): q._draw(noise.as_keys(keys[id(q)])) for q in sb.find_posteriors(model)}
        parts.append({place: (k, *[v[k] for v in drawn]) for place, drawn in arrays.items()})
    return [part.reshape(K, -1, *part.shape[1:]) for part in outputs], parts


@pytest.fixture(scope="module", params=CASES)
def trained(request):
    case = CASES[request.param]
    plain_bias = request.param in ("dense", "lstm", "transformer", "conv1d")
    model, x = _layer(case, bias_posterior=None) if plain_bias else _layer(case)
    return case, model, x


def test_a_block_of_examples_is_predicted_by_its_component(trained):
    case, model, x = trained
    outputs, parts = _pass(model, x, case)
    for k, part in enumerate(parts):
        with scope.fix_draws(part):  # one draw of this component for all examples
            alone = _numpy(_call(model, x, case, training=False))
        for ours, theirs in zip(outputs, alone, strict=True):
            np.testing.assert_allclose(ours[k], theirs, rtol=2e-4, atol=2e-5)
    assert not np.allclose(outputs[0][0], outputs[0][1])


@pytest.mark.parametrize("bias", [None, sb.FullRank(kl_weight=0.1)], ids=["plain", "posterior"])
def test_a_pass_that_draws_adds_the_bias_of_the_component_whose_kernel_it_drew(bias):
    inside = sb.Mixture(sb.LowRank(2, kl_weight=0.1), 3)
    model = stir(keras.Sequential([keras.Input((5,)), layers.Dense(4, posterior=inside, bias_posterior=bias)]))
    layer, x = model.layers[0], np.random.default_rng(6).normal(size=(7, 5)).astype("float32")
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            set_factor(factor, ops.convert_to_numpy(factor.loc), 1e-6)  # a draw is the mean of its component

    def kernel_and_bias(k):
        own = _numpy(layer.bias)[0][k] if bias is None else _numpy(layer.bias_posterior.component(k).mean().dense())[0]
        return _numpy(layer.posterior.component(k).mean().dense())[0], own.reshape(4)

    alone = [x @ kernel + own for kernel, own in map(kernel_and_bias, range(3))]
    seen = set()
    for _ in range(20):
        with sb.draw_weights(model):
            found = _numpy(model(x))[0]
        seen |= {k for k in range(3) if np.allclose(found, alone[k], rtol=1e-3, atol=1e-3)} or {None}
    assert seen == {0, 1, 2}


@ON_TORCH
def test_layers_of_different_batches_are_refused_and_time_distributed_ones_work():
    inside = sb.Mixture(sb.LowRank(2, kl_weight=0.1), K)
    x = keras.Input((3, 5))
    steps = keras.layers.TimeDistributed(layers.Dense(4, posterior=inside))(x)
    whole = layers.Dense(4, posterior=inside)(x)
    model = stir(keras.Model(x, [steps, whole]))
    sb.set_kl(model, num_data=4)
    assert all(np.isfinite(part).all() for part in _numpy(model(np.ones((4, 3, 5)), training=True)))
    twice = keras.Model(x, [whole, layers.Dense(2, posterior=inside)(ops.concatenate([x, x], axis=0))])
    sb.set_kl(twice, num_data=4)
    with pytest.raises(ValueError, match="got first axes of"):
        twice(np.ones((4, 3, 5)), training=True)


@ON_TORCH
def test_a_model_of_many_layers_fits_and_predicts():
    def inside(rank=2):
        return sb.Mixture(sb.LowRank(rank), 3)

    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(9, 4, mask_zero=True, posterior=inside()),
            layers.TransformerEncoder(6, num_heads=2, dropout=0.1, posterior=inside()),
            layers.GRU(3, posterior=inside(), bias_posterior=sb.FullRank()),
            layers.Dense(2, posterior=inside()),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (10, 6)).astype("int32"), rng.integers(0, 2, 10)
    before = [ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[sb.KLSchedule(10, beta=1.0)]).history
    assert np.isfinite(history["nll"]).all()
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert (np.abs(ops.convert_to_numpy(weight) - old).reshape(3, -1).max(axis=1) > 0).all(), weight.path
    np.testing.assert_allclose(sb.predict(model, x, draws=3).mean.sum(axis=1), 1, rtol=1e-5)


def test_a_stateful_layer_is_refused_in_training():
    layer = layers.LSTM(3, stateful=True, posterior=sb.Mixture(sb.LowRank(2, kl_weight=0.1), K))
    with pytest.raises(ValueError, match="stateful=False"):
        layer(np.ones((4, 3, 5), "float32"), training=True)
