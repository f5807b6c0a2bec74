"""The sampler: draws side by side are those one after another, in every graph, and memory is bounded."""

import functools
import os
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
from keras import ops
from keras.src.backend import get_keras_mask
from networks import NETWORKS
from posterior_table import JAX_FIRST, stir

import singularbayes as sb
from singularbayes import Deterministic, FullRank, LowRank, layers
from singularbayes.models.programs import no_gradient, program_of, variable_values
from singularbayes.posteriors import draw_keys, draw_sources, find_sources, noise
from singularbayes.prediction import sampler
from singularbayes.prediction.sampler import outputs_under, sizes

pytestmark = pytest.mark.backend
RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(7, 4)).astype("float32")
IDS = np.where(np.arange(6) < np.array([6, 3, 1, 5, 2, 6, 4])[:, None], RNG.integers(1, 11, (7, 6)), 0).astype("int32")
IMAGES = NETWORKS["cnn"][1]
Dense = keras.layers.Dense
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="programs are compiled by XLA on JAX alone")


class Masked(keras.layers.Layer):
    """Reads the mask that is attached to its input: no argument of the graph hands it over."""

    def call(self, x):
        return x * ops.cast(get_keras_mask(x), x.dtype)[..., None] if get_keras_mask(x) is not None else x

    def compute_mask(self, inputs, previous_mask):
        return previous_mask


class Unbatched(keras.layers.Layer):
    """Looks at a number of its inputs, which operations on several draws at once do not have."""

    def call(self, x):
        return x * 2.0 if keras.backend.backend() == "torch" and float(x[0, 0]) ** 2 >= 0 else x + 1.0


def _bayes(units=3, activation=None):
    return layers.Dense(units, activation, posterior=LowRank.paper(2, eta=0.5))


def _sequential():
    body = [Dense(8, "relu"), keras.layers.Dropout(0.5), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((4,)), *body, _bayes(5, "tanh"), Dense(3)])


def _shared():
    """One plain layer before and after the first random one, and one random layer used twice."""
    x = keras.Input((4,))
    plain, random = Dense(4, "tanh"), _bayes(4)
    return keras.Model(x, Dense(2)(random(plain(random(plain(x))))))


def _several():
    """Two inputs, of which one meets a random layer late; a plain output beside a random one; an operation."""
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    body = Dense(4)(right)
    joined = ops.concatenate([_bayes(5, "relu")(left), body * 2.0], axis=-1)
    return keras.Model({"left": left, "right": right}, {"a": Dense(3)(joined), "b": Dense(2)(body)})


def _nested():
    """The first random layer is inside a nested Sequential model, in a nested functional one."""
    inner = keras.Sequential([keras.Input((4,)), Dense(6, "relu"), _bayes(5), Dense(4)])
    x, y = keras.Input((4,)), keras.Input((4,))
    middle = keras.Model([x, y], keras.layers.Add()([inner(x), Dense(4, "tanh")(y)]))
    z = keras.Input((4,))
    return keras.Model(z, Dense(2)(middle([Dense(4)(z), z])))


def _masked():
    """A mask made before the first random layer is used after it, inside and after a nested model."""
    ids = keras.Input((6,), dtype="int32")
    embedded = keras.layers.Embedding(11, 4, mask_zero=True)(ids)
    recurrent = layers.LSTM(4, return_sequences=True, posterior=LowRank.paper(2))
    inner = keras.Sequential([keras.Input((6, 4)), Dense(4, "tanh"), recurrent])
    inner.supports_masking = True
    x = keras.layers.GlobalAveragePooling1D()(inner(keras.layers.LSTM(4, return_sequences=True)(embedded)))
    return keras.Model(ids, [Dense(2)(x), Masked()(_bayes(2)(embedded))])


def _fixed_layers():
    body = [layers.Dense(6, "relu", posterior=Deterministic()), keras.layers.Reshape((2, 3))]
    return keras.Sequential([keras.Input((4,)), *body, keras.layers.Flatten(), _bayes()])


def _unbatched():
    return keras.Sequential([keras.Input((4,)), _bayes(), Unbatched()])


def _convolutions():
    """Convolutions of ours and of Keras behind a random one."""
    plain = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.DepthwiseConv2D(2, padding="same")]
    back = layers.Conv2DTranspose(2, 2, strides=2, posterior=LowRank(1))
    first = layers.Conv2D(4, 3, padding="same", posterior=LowRank(2))
    return keras.Sequential([keras.Input((8, 8, 1)), first, *plain, back, keras.layers.GlobalAveragePooling2D()])


GRAPHS = {
    **NETWORKS,
    "sequential": (_sequential, ROWS),
    "shared layers": (_shared, ROWS),
    "several inputs and outputs": (_several, {"left": ROWS, "right": -ROWS}),
    "nested": (_nested, ROWS),
    "masks": (_masked, IDS),
    "deterministic posteriors": (_fixed_layers, ROWS),
    "unbatched": (_unbatched, ROWS),
    "convolutions": (_convolutions, IMAGES),
}


def outputs_of_draw(model, key, x):
    """Returns the outputs, flattened, of one draw for all of `x`, operation by operation."""
    sources = find_sources(model)
    with no_gradient():
        return outputs_under(model, sources, draw_sources(sources, key), x)


@pytest.mark.all_rows
@pytest.mark.parametrize("name", GRAPHS)
def test_draws_side_by_side_are_those_one_after_another(name, monkeypatch):
    make, x = GRAPHS[name]
    model = stir(make())
    expected = [outputs_of_draw(model, key, x) for key in noise.as_keys(draw_keys(0, 6))]
    positions = range(len(expected[0]))
    for groups in ((3, 3, 7), (6, 2, 4)):  # two chunks side by side; three groups of a chunk, for two batches
        monkeypatch.setattr(sampler, "sizes", lambda *_: groups)  # noqa: B023
        for i in positions:
            output = i if len(positions) > 1 else None
            found = sb.predict(model, x, 6, likelihood="gaussian", keep_draws=True, output=output).draws
            draws = np.stack([ops.convert_to_numpy(draw[i]) for draw in expected]).reshape(found.shape)
            np.testing.assert_allclose(found, draws, rtol=1e-4, atol=1e-5)
            assert name == "several inputs and outputs" or np.abs(found[0] - found[1]).max() > 1e-3


@on_jax
def test_a_body_of_plain_layers_is_computed_once_for_all_draws():
    body = [Dense(200, "tanh"), Dense(200, "tanh")]
    model = keras.Sequential([keras.Input((200,)), *body, layers.Dense(2, posterior=LowRank(1))])
    x = np.ones((256, 200), "float32")
    flops = []
    for draws in (1, 20):
        chunk, group, batch = sizes(model, x, draws, 256)
        assert (chunk, group, batch) == (draws, draws, 256)
        weights = sampler._draw_weights(model, draw_keys(0, draws)[None])
        run = program_of(model, sampler._run_draws).lower(variable_values(model), weights, x)
        flops.append(run.compile().cost_analysis()["flops"])
    assert flops[1] < 1.3 * flops[0]


@JAX_FIRST
@pytest.mark.parametrize("recurrent", [False, True])
def test_the_budget_bounds_weights_outputs_and_what_runs_side_by_side(recurrent, monkeypatch):
    if recurrent:
        model, x = layers.LSTM(50, posterior=LowRank.paper(1)), np.ones((40, 1000, 2), "float32")
        model, widest = keras.Sequential([keras.Input((1000, 2)), model]), 1000 * 4 * 50  # projections of all steps
    else:
        wide = layers.Dense(10_000, posterior=FullRank())
        model = keras.Sequential([keras.Input((4,)), wide, layers.Dense(2, posterior=LowRank.paper(1))])
        x, widest = np.ones((10_000, 4), "float32"), 10_000
    drawn = sum(source.draw_size for source in sb.find_posteriors(model))
    for limit in (64 << 20, 8 << 20, 0):
        monkeypatch.setattr(sampler, "BUDGET", limit)
        chunk, group, batch = sizes(model, x, 640, 256)
        assert chunk % group == 0 and (chunk == 1 or 4 * drawn * chunk <= 1.1 * limit)
        assert group * batch == 1 or 4 * group * batch * widest <= limit // 32


def test_requests_of_all_sizes_use_few_batches_and_have_the_same_predictions():
    model = stir(keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(1))]))
    x = RNG.normal(size=(256, 4)).astype("float32")
    batches = {sizes(model, x[:size], 10, 256)[2] for size in range(1, 257)}
    assert len(batches) == (256 if keras.backend.backend() == "torch" else 9)
    assert all(sizes(model, x[:size], 10, 100)[2] <= 100 for size in (99, 100, 101, 256))
    five, six = (sb.predict(model, x[:size], 4, likelihood="gaussian", keep_draws=True).draws for size in (5, 6))
    assert five.shape == (4, 5, 3)
    np.testing.assert_allclose(five, six[:, :5], rtol=1e-6, atol=1e-7)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch compiles nothing")
def test_a_later_request_compiles_nothing_whatever_its_data_draws_and_weights(monkeypatch):
    """A layer is called under way to a program only: its calls count the compilations."""
    calls, call = [], layers.Conv2D.call

    @functools.wraps(call)
    def counted(self, *arguments, **options):
        calls.append(self.name)
        return call(self, *arguments, **options)

    monkeypatch.setattr(layers.Conv2D, "call", counted)
    stack = [layers.Conv2D(3, 3, posterior=LowRank(2)), keras.layers.Flatten(), layers.Dense(3, posterior=LowRank(2))]
    model = stir(keras.Sequential([keras.Input((6, 6, 1)), *stack]))
    x = RNG.normal(size=(40, 6, 6, 1)).astype("float32")
    first = sb.predict(model, x, 4, likelihood="categorical_logits")
    assert calls
    calls.clear()
    again = sb.predict(model, x, 4, likelihood="categorical_logits")
    np.testing.assert_array_equal(first.mean, again.mean)
    sb.predict(model, 2 * x[:39], 4, seed=1, likelihood="categorical_logits")
    model.set_weights([1.5 * weight for weight in model.get_weights()])
    moved = sb.predict(model, x, 4, likelihood="categorical_logits")
    assert calls == [] and np.abs(moved.mean - first.mean).max() > 1e-3


@pytest.mark.parametrize("nested", [False, True])
def test_a_model_changed_without_new_variables_predicts_as_it_is_now(nested):
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, "tanh"), layers.Dense(3, "relu", posterior=2)])
    model = keras.Sequential([keras.Input((4,)), inner]) if nested else inner
    options = {"draws": 3, "likelihood": "gaussian", "keep_draws": True}
    before = sb.predict(model, ROWS, **options).draws
    inner.add(keras.layers.Softmax())
    grown = sb.predict(model, ROWS, **options).draws
    np.testing.assert_allclose(grown, np.exp(before) / np.exp(before).sum(-1, keepdims=True), rtol=1e-5)
    inner.pop()
    inner.layers[-1].activation = keras.activations.linear
    model.compile("sgd", "mse")
    linear = sb.predict(model, ROWS, **options).draws
    assert linear.min() < 0
    np.testing.assert_allclose(np.maximum(linear, 0), before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("random", [False, True], ids=["a plain layer before the head", "a random layer"])
def test_every_draw_starts_from_the_states_of_a_stateful_layer_and_leaves_them(random):
    kind = functools.partial(layers.LSTM, posterior=LowRank.paper(2)) if random else keras.layers.LSTM
    memory = kind(3, stateful=True)
    model = stir(keras.Sequential([keras.Input(batch_shape=(7, 2, 2)), memory, _bayes()]))
    x = ROWS.reshape(7, 2, 2)
    assert sizes(model, x, 3, 256)[2] == 7  # the size that the states have
    model(x)
    states = [ops.convert_to_numpy(state) for state in memory.states]
    assert all(state.any() for state in states)
    found = sb.predict(model, x, 3, likelihood="gaussian", keep_draws=True).draws
    for draw, key in zip(found, noise.as_keys(draw_keys(0, 3)), strict=True):
        np.testing.assert_allclose(draw, ops.convert_to_numpy(outputs_of_draw(model, key, x)[0]), rtol=1e-5, atol=1e-6)
    for state, before in zip(memory.states, states, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(state), before)


SPREAD = """
    import jax, keras, numpy as np, singularbayes as sb
    from singularbayes.prediction import sampler
    assert len(jax.devices()) == {devices}
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(6, "relu", posterior=sb.LowRank(2))])
    model.add(sb.layers.Dense(3, posterior=sb.LowRank(2)))
    x = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
    assert len(sampler._placed(x[:8]).devices()) == {devices} if {devices} > 1 else True
    answers = [sb.predict(model, part, 7, likelihood="categorical_logits").mean for part in (x, x[:1])]
    np.save("{path}", np.concatenate(answers))
"""


@on_jax
@pytest.mark.exhaustive  # test_layout.py compares the devices of one process too
def test_devices_share_the_work_and_give_the_answer_of_one(tmp_path):
    one, four = tmp_path / "one.npy", tmp_path / "four.npy"
    exec(textwrap.dedent(SPREAD.format(devices=1, path=one)), {})
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    code = textwrap.dedent(SPREAD.format(devices=4, path=four))
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "XLA_FLAGS": flags})
    np.testing.assert_allclose(np.load(four), np.load(one), rtol=1e-5, atol=1e-6)
