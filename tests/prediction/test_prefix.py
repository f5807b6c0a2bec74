"""The layers before the first random ones run once for a batch: predictions stay the same, bit by bit where eager."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.src.backend import get_keras_mask
from table import stir

import singularbayes as sb
from singularbayes import Deterministic, LowRank, layers
from singularbayes.models import no_gradient
from singularbayes.posteriors import draw_keys, draw_sources, find_sources, noise, scope
from singularbayes.prediction import memory, sampler
from singularbayes.prediction.prefix import split_of
from singularbayes.prediction.sampler import outputs_of_draw

pytestmark = [pytest.mark.backend, pytest.mark.all_rows]
RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=(7, 4)).astype("float32")
IDS = np.where(np.arange(6) < np.array([6, 3, 1, 5, 2, 6, 4])[:, None], RNG.integers(1, 11, (7, 6)), 0).astype("int32")
Dense = keras.layers.Dense


@keras.saving.register_keras_serializable("tests")
class Counted(keras.layers.Layer):
    """Counts its calls, of programs under way those that trace them."""

    calls = 0

    def call(self, x):
        Counted.calls += 1
        return x + 1.0

    def compute_mask(self, inputs, previous_mask):
        return previous_mask


class Masked(keras.layers.Layer):
    """Reads the mask that is attached to its input: no argument of the graph hands it over."""

    def call(self, x):
        return x * ops.cast(get_keras_mask(x), x.dtype)[..., None] if get_keras_mask(x) is not None else x

    def compute_mask(self, inputs, previous_mask):
        return previous_mask


class AlwaysDropping(keras.layers.Dropout):
    """Dropout that stays on outside training."""

    def call(self, inputs, training=None):
        return super().call(inputs, training=True)


class Block(keras.layers.Layer):
    """Has no argument `training`, and a layer in it that drops unless the call around says otherwise."""

    def __init__(self):
        super().__init__()
        self.inner = Dense(4)
        self.normalised = keras.layers.BatchNormalization()

    def call(self, x):
        return self.normalised(self.inner(x))


def _bayes(units=3, activation=None):
    return layers.Dense(units, activation, posterior=LowRank.paper(2, eta=0.5))


def _sequential():
    body = [Dense(8, "relu"), keras.layers.Dropout(0.5), keras.layers.BatchNormalization(), Counted()]
    return keras.Sequential([keras.Input((4,)), *body, _bayes(5, "tanh"), Dense(3)])


def _shared():
    """One plain layer before and after the first random one, and one random layer used twice."""
    x = keras.Input((4,))
    plain, random = Dense(4, "tanh"), _bayes(4)
    return keras.Model(x, Dense(2)(random(plain(random(plain(Counted()(x)))))))


def _several():
    """Two inputs, of which one meets a random layer late; a plain output beside a random one; an operation."""
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    body = Block()(Counted()(right))
    joined = ops.concatenate([_bayes(5, "relu")(left), body * 2.0], axis=-1)
    return keras.Model({"left": left, "right": right}, {"a": Dense(3)(joined), "b": Dense(2)(body)})


def _nested():
    """The first random layer is inside a nested Sequential model, in a nested functional one."""
    inner = keras.Sequential([keras.Input((4,)), Dense(6, "relu"), Counted(), _bayes(5), Dense(4)])
    x, y = keras.Input((4,)), keras.Input((4,))
    middle = keras.Model([x, y], keras.layers.Add()([inner(x), Dense(4, "tanh")(y)]))
    z = keras.Input((4,))
    return keras.Model(z, Dense(2)(middle([Dense(4)(z), z])))


def _masked():
    """A mask made in the prefix is used after it, inside and after a nested model."""
    ids = keras.Input((6,), dtype="int32")
    embedded = keras.layers.Embedding(11, 4, mask_zero=True)(ids)
    recurrent = layers.LSTM(4, return_sequences=True, posterior=LowRank.paper(2))
    inner = keras.Sequential([keras.Input((6, 4)), Counted(), Dense(4, "tanh"), recurrent])
    inner.supports_masking = True
    x = keras.layers.GlobalAveragePooling1D()(inner(keras.layers.LSTM(4, return_sequences=True)(embedded)))
    return keras.Model(ids, [Dense(2)(x), Masked()(_bayes(2)(embedded))])


def _kept_layers():
    body = [layers.Dense(6, "relu", posterior=Deterministic()), Counted(), keras.layers.Reshape((2, 3))]
    return keras.Sequential([keras.Input((4,)), *body, keras.layers.Flatten(), _bayes()])


MODELS = {
    "sequential": (_sequential, ROWS, 1),
    "shared layers": (_shared, ROWS, 1),
    "several inputs and outputs": (_several, {"left": ROWS, "right": -ROWS}, 1),
    "nested": (_nested, ROWS, 1),
    "masks": (_masked, IDS, 1),
    "deterministic posteriors": (_kept_layers, ROWS, 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_two_parts_are_the_model_bit_by_bit(name):
    make, x, counted = MODELS[name]
    model = stir(make())
    split = split_of(model)
    x = keras.tree.map_structure(ops.convert_to_tensor, x)
    sources, Counted.calls = find_sources(model), 0
    with no_gradient():
        frontier = split.prefix(x)
        assert Counted.calls == counted
        # New tensors, as after a compiled program: masks are in the frontier, not attached to its tensors.
        frontier = keras.tree.map_structure(lambda t: ops.convert_to_tensor(ops.convert_to_numpy(t)), frontier)
        for key in noise.as_keys(draw_keys(1, 2)):
            with scope.fix_draws(dict(zip(map(id, sources), draw_sources(sources, key), strict=True))):
                Counted.calls, found = 0, split.rest(frontier)
            assert Counted.calls == 0
            expected = outputs_of_draw(model, key, x)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(*map(ops.convert_to_numpy, (one, other)))


def test_predictions_are_those_of_whole_passes_however_draws_are_grouped(monkeypatch):
    make, x, _ = MODELS["several inputs and outputs"]
    model = stir(make())
    draws = [outputs_of_draw(model, key, x)[0] for key in noise.as_keys(draw_keys(0, 6))]
    expected = np.stack([ops.convert_to_numpy(draw) for draw in draws])
    options = {"likelihood": "gaussian", "keep_draws": True, "output": "a"}
    exact = {"rtol": 1e-6, "atol": 1e-6 * np.abs(expected).max()}
    np.testing.assert_allclose(sb.predict(model, x, 6, **options).draws, expected, **exact)
    prefix = type(sampler.sampler_of(model)).prefix
    seen = []

    def counting(self, x):
        seen.append(len(x["left"]))
        return prefix(self, x)

    monkeypatch.setattr(type(sampler.sampler_of(model)), "prefix", counting)
    # Room for one draw at a time, and for the frontier of two of the four batches: no batch has its prefix run again.
    monkeypatch.setattr(memory, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(sampler, "program_limit", lambda: 1 << 30)
    monkeypatch.setattr(sampler, "kept_limit", lambda: 2 * 4 * 2 * (4 + 4 + 2))  # two of: 2 × left, body, and output b
    found = sb.predict(model, x, 6, batch_size=2, **options).draws
    assert seen == [2] * 4
    np.testing.assert_allclose(found, expected, **exact)


def test_every_draw_starts_from_the_states_of_a_plain_layer_before_the_head_and_leaves_them():
    memory_layer = keras.layers.LSTM(3, stateful=True)
    model = stir(keras.Sequential([keras.Input(batch_shape=(7, 2, 2)), memory_layer, _bayes()]))
    x = ROWS.reshape(7, 2, 2)
    model(x)
    states = [ops.convert_to_numpy(state) for state in memory_layer.states]
    assert all(state.any() for state in states)
    found = sb.predict(model, x, 3, likelihood="gaussian", keep_draws=True).draws
    for state, before in zip(memory_layer.states, states, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(state), before)
    for draw, key in zip(found, noise.as_keys(draw_keys(0, 3)), strict=True):
        [expected] = outputs_of_draw(model, key, x)  # a plain pass, which changes the states
        np.testing.assert_allclose(draw, ops.convert_to_numpy(expected), rtol=1e-5, atol=1e-6)
        for state, before in zip(memory_layer.states, states, strict=True):
            state.assign(before)


def test_noise_of_other_layers_and_what_is_no_graph_are_left_as_they_are():
    first = keras.Sequential([keras.Input((4,)), AlwaysDropping(0.5), Counted(), _bayes()])
    anything = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x, output_shape=(4,)), _bayes()])
    random = keras.Sequential([keras.Input((4,)), _bayes()])
    plain = keras.Sequential([keras.Input((4,)), Dense(3)])

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.body, self.head = Dense(4), _bayes()

        def call(self, x):
            return self.head(self.body(x))

    own = Subclassed()
    own(ROWS)
    assert [split_of(model) for model in (first, anything, random, plain, own)] == [None] * 5
    assert split_of(keras.Sequential([keras.Input((4,)), Dense(3), AlwaysDropping(0.5), _bayes()])) is not None


def test_a_model_that_grows_is_split_anew():
    model = keras.Sequential([keras.Input((4,)), Dense(3), _bayes()])
    before = split_of(model)
    assert split_of(model) is before
    model.add(Dense(2))
    assert split_of(model) is not before
    assert sb.predict(model, ROWS, 2, likelihood="gaussian").mean.shape == (7, 2)
