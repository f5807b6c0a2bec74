"""Every layer with a mixture: K networks, and each example sees one of them alone."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.src.backend import set_keras_mask
from layer_table import LAYERS, OPTIONS, alone
from posterior_table import ON_TORCH, set_factor, stir

import singularbayes as sb
from singularbayes import layers
from singularbayes.posteriors import scope
from singularbayes.posteriors.assignment import Assignment

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


def _pass(model, x, case):
    """Returns the outputs of a training pass, the component of every example, and the draws of every component."""
    with keras.StatelessScope() as passed:
        outputs = _call(model, x, case, training=True)
    made = passed.__dict__["singularbayes_draws"]
    draws = {id(q): made[id(q)].draws for q in sb.find_posteriors(model) if id(q) in made}
    component = _numpy(made[id(Assignment)].components_of(len(x[0]), K))[0]
    parts = [
        {place: (k, *keras.tree.map_structure(lambda v, k=k: v[k], arrays)) for place, arrays in draws.items()}
        for k in range(K)
    ]
    return _numpy(outputs), component, parts


@pytest.fixture(scope="module", params=CASES)
def trained(request):
    case = CASES[request.param]
    plain_bias = request.param in ("dense", "lstm", "transformer", "conv1d")
    model, x = _layer(case, bias_posterior=None) if plain_bias else _layer(case)
    return case, model, x


def test_an_example_is_predicted_by_one_component_alone(trained):
    case, model, x = trained
    outputs, component, parts = _pass(model, x, case)
    assert set(component) == set(range(K))
    for k, part in enumerate(parts):
        with scope.fix_draws(part):  # one draw of this component for all examples
            alone = _numpy(_call(model, x, case, training=False))
        for ours, theirs in zip(outputs, alone, strict=True):
            np.testing.assert_allclose(ours[component == k], theirs[component == k], rtol=2e-4, atol=2e-5)


_ONE_OF_A_KIND = ("dense", "embedding", "gru", "conv2d", "attention", "transformer")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in _ONE_OF_A_KIND else pytest.mark.exhaustive) for n in LAYERS]
)
def test_one_component_is_the_plain_layer(name):
    case = LAYERS[name]
    model, x = _layer(case, components=1)
    bias = {} if "Embedding" in case.layer else {"bias_posterior": sb.FullRank(kl_weight=0.1)}
    plain, _ = alone(case, sb.LowRank(2, kl_weight=0.1), **bias)
    for ours, theirs in zip(model.trainable_weights, plain.trainable_weights, strict=True):
        theirs.assign(ops.convert_to_numpy(ours)[0])
    for ours, theirs in zip(sb.find_posteriors(model), sb.find_posteriors(plain), strict=True):
        theirs.seed_generator.state.assign(ops.convert_to_numpy(ours.seed_generator.state))
    first, second = (_numpy(_call(m, x, case, training=True)) for m in (model, plain))
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def _masked(name, inputs, masks):
    """Returns the outputs of a training pass of a layer with a mixture, the same noise at each call."""
    keras.utils.set_random_seed(4)
    inside = {"posterior": sb.Mixture(sb.LowRank(2, kl_weight=0.1), K)}
    made = {
        "GRU": lambda: layers.GRU(3, **inside),
        "LSTM": lambda: layers.LSTM(3, **inside),
        "TransformerEncoder": lambda: layers.TransformerEncoder(6, 2, **inside),
        "PerComponent": lambda: layers.PerComponent(keras.layers.LSTM(3), K),
    }
    layer = made.get(name, lambda: layers.MultiHeadAttention(2, 2, **inside))()
    x, mask = ops.convert_to_tensor(inputs), ops.convert_to_tensor(masks)
    attention = name.endswith("_mask")
    layer.build(*([x.shape] * (2 if attention else 1)))
    stir(layer)
    if name == "PerComponent":
        set_keras_mask(x, mask)
    if name == "attention_mask":
        mask = ops.logical_or(ops.expand_dims(mask, 1), ops.eye(x.shape[1], dtype="bool"))
    arguments = {name: mask} if attention else {} if name == "PerComponent" else {"mask": mask}
    with keras.StatelessScope():
        return _numpy(layer(*([x] * (2 if attention else 1)), **arguments, training=True))[0]


@pytest.mark.parametrize(
    "name", ["GRU", "LSTM", "TransformerEncoder", "PerComponent", "key_mask", "value_mask", "attention_mask"]
)
def test_the_mask_of_an_example_changes_the_outputs_of_that_example_alone(name):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(6, 4, 6)).astype("float32")
    masks = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1], [1, 0, 1, 0], [1, 1, 0, 1]], "bool")
    before = _masked(name, x, masks)
    for i in range(6):
        other = masks.copy()
        other[i] = True
        moved = (np.abs(_masked(name, x, other) - before) > 1e-5).reshape(6, -1).any(axis=1)
        np.testing.assert_array_equal(moved, np.arange(6) == i)


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
def test_an_attention_mask_for_all_examples_is_the_one_that_each_of_them_has():
    block = layers.TransformerEncoder(8, num_heads=2, posterior=sb.Mixture(sb.LowRank(2, kl_weight=0.1), K))
    x = np.random.default_rng(0).normal(size=(4, 4, 6)).astype("float32")  # as many positions as examples
    block.build(x.shape)
    causal = np.tril(np.ones((4, 4), bool))

    def outputs(mask):
        with keras.StatelessScope():  # so that every pass has the same draws
            return _numpy(block(x, attention_mask=ops.convert_to_tensor(mask), training=True))[0]

    each = outputs(np.tile(causal, (4, 1, 1)))
    np.testing.assert_allclose(outputs(causal), each, rtol=1e-5)
    np.testing.assert_allclose(outputs(causal[None]), each, rtol=1e-5)


@ON_TORCH
def test_layers_of_different_batches_are_refused_and_time_distributed_ones_work():
    inside = sb.Mixture(sb.LowRank(2, kl_weight=0.1), K)
    x = keras.Input((3, 5))
    steps = keras.layers.TimeDistributed(layers.Dense(4, posterior=inside))(x)
    whole = layers.Dense(4, posterior=inside)(x)
    model = stir(keras.Model(x, [steps, whole]))
    assert all(np.isfinite(part).all() for part in _numpy(model(np.ones((4, 3, 5)), training=True)))
    twice = keras.Model(x, [whole, layers.Dense(2, posterior=inside)(ops.concatenate([x, x], axis=0))])
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
