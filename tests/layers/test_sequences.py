"""A sequence is read by one draw: not one a step, and the KL is not counted by steps or calls."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import stir

from singularbayes import FullRank, LowRank, draw_weights, find_posteriors, kl, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
RNG = np.random.default_rng(5)
P = {"posterior": LowRank(2, prior="normal", kl_weight=0.5), "bias_posterior": FullRank(prior="normal", kl_weight=0.5)}

# Each maps (batch, time, 4) to (batch, time, features).
SEQUENCE_LAYERS = {
    "lstm": lambda: layers.LSTM(3, return_sequences=True, **P),
    "gru": lambda: layers.GRU(3, return_sequences=True, **P),
    "bidirectional": lambda: keras.layers.Bidirectional(layers.LSTM(3, return_sequences=True, **P)),
    "conv1d": lambda: layers.Conv1D(3, 2, padding="causal", **P),
    "einsum_dense": lambda: layers.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d", **P),
    "transformer": lambda: layers.TransformerEncoder(6, 2, **P),
    "time_distributed": lambda: keras.layers.TimeDistributed(layers.Dense(3, **P)),
    "dense": lambda: layers.Dense(3, **P),
}


def _numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["einsum_dense", "time_distributed", "dense"])
def test_every_step_of_every_example_meets_the_same_weights(name, training):
    layer = stir(_built(SEQUENCE_LAYERS[name]()))
    step = RNG.normal(size=(1, 1, 4)).astype("float32")
    outputs = _numpy(layer(np.tile(step, (2, 5, 1)), training=training))
    np.testing.assert_allclose(outputs, np.broadcast_to(outputs[:1, :1], outputs.shape), rtol=1e-5, atol=1e-6)


def _built(layer, length=5):
    layer(np.ones((2, length, 4), "float32"))
    return layer


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("unroll", [False, True], ids=["loop", "unrolled"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_redraws_nothing_inside_the_loop(kind, unroll, training):
    # Two halves of a sequence, read one after the other with the state carried over in the same pass, are the whole
    # sequence only if every step has the same weights. A draw a step would differ.
    class Halves(keras.Model):
        def __init__(self):
            super().__init__()
            self.rnn = getattr(layers, kind)(3, return_sequences=True, return_state=True, unroll=unroll, **P)

        def call(self, x):
            whole, *_ = self.rnn(x)
            first, *states = self.rnn(x[:, :3])
            second, *_ = self.rnn(x[:, 3:], initial_state=states)
            return whole, ops.concatenate([first, second], axis=1)

    model = Halves()
    x = RNG.normal(size=(2, 7, 4)).astype("float32")
    model(x)
    stir(model)
    whole, halves = model(x, training=training)
    np.testing.assert_allclose(_numpy(whole), _numpy(halves), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_perturbed_step_changes_nothing_before_it(kind):
    # With fresh weights at a step, or weights that depend on the inputs, the outputs before it would differ.
    class Both(keras.Model):
        def __init__(self):
            super().__init__()
            self.rnn = getattr(layers, kind)(3, return_sequences=True, **P)

        def call(self, x):
            late = ops.concatenate([x[:, :4], 2.0 * x[:, 4:]], axis=1)
            return self.rnn(x), self.rnn(late)

    model = Both()
    x = RNG.normal(size=(2, 6, 4)).astype("float32")
    model(x)
    stir(model)
    plain, late = (_numpy(y) for y in model(x))
    np.testing.assert_array_equal(plain[:, :4], late[:, :4])
    assert np.abs(plain[:, 4:] - late[:, 4:]).max() > 1e-3


@pytest.mark.parametrize("name", SEQUENCE_LAYERS)
def test_the_kl_knows_neither_length_nor_batch_nor_calls(name):
    layer = stir(_built(SEQUENCE_LAYERS[name]()))
    expected = 0.5 * float(_numpy(kl(layer)))
    for shape in [(2, 5, 4), (3, 50, 4)]:
        layer(np.ones(shape, "float32"), training=True)
        assert float(_numpy(sum(layer.losses))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", SEQUENCE_LAYERS)
def test_a_shared_layer_is_counted_once_and_draws_once(name):
    layer = SEQUENCE_LAYERS[name]()
    x = keras.Input((5, 4))
    model = keras.Model(x, [layer(x), layer(x)])
    stir(model)
    model(np.ones((2, 5, 4), "float32"), training=True)
    assert float(_numpy(sum(model.losses))) == pytest.approx(0.5 * float(_numpy(kl(model))), rel=1e-5)
    with draw_weights(model):
        first, second = (_numpy(y) for y in model(np.ones((2, 5, 4), "float32")))
        again, _ = (_numpy(y) for y in model(np.ones((2, 5, 4), "float32")))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - again).max() > 1e-4


def test_stacked_recurrent_layers_draw_independent_weights():
    model = keras.Sequential([keras.Input((5, 4)), *(layers.LSTM(4, return_sequences=True, **P) for _ in range(2))])
    starts = [_numpy(p.factors[0].loc) for p in find_posteriors(model) if p.name == "recurrent_posterior"]
    assert len(starts) == 2 and np.abs(starts[0] - starts[1]).max() > 1e-3
    states = [_numpy(p.seed_generator.state) for p in find_posteriors(model)]
    assert len({tuple(state) for state in states}) == len(states) == 6


def test_the_forget_gate_starts_open():
    for bias_posterior in (None, FullRank()):
        layer = _built(layers.LSTM(3, posterior=LowRank(2), bias_posterior=bias_posterior))
        bias = _numpy(layer.bias) if bias_posterior is None else _numpy(layer.bias_posterior.mean().dense())[0]
        np.testing.assert_allclose(bias, np.repeat([0, 1, 0, 0], 3), atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_a_tied_table_is_one_draw_in_both_directions(training):
    class Table(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = layers.ReversibleEmbedding(5, 4, posterior=P["posterior"])

        def call(self, ids):
            return self.table(ids), self.table(ops.eye(4), reverse=True)

    model = Table()
    ids = np.arange(5)
    model(ids)
    stir(model)
    rows, transposed = (_numpy(y) for y in model(ids, training=training))
    np.testing.assert_allclose(rows, transposed.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [layers.LSTM, layers.GRU])
def test_both_kernels_keep_their_own_initializer_and_posterior_also_in_the_config(kind):
    own = {
        "kernel_initializer": keras.initializers.Constant(0.7),
        "recurrent_initializer": keras.initializers.Constant(0.3),
    }
    layer = kind(3, posterior=FullRank(), recurrent_posterior=LowRank(1), **own)
    again = kind.from_config(layer.get_config())
    again.build((None, 5, 4))
    for posterior, value in ((again.posterior, 0.7), (again.recurrent_posterior, 0.3)):
        np.testing.assert_allclose(_numpy(posterior.mean().dense()), value, rtol=1e-5)
    assert again.posterior.fixed_rank is None and again.recurrent_posterior.fixed_rank == 1
