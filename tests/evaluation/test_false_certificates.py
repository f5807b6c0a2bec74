"""Labels are coin tosses, so no classifier errs on less than half of new examples: what certifies less is refused.

Where neither model nor data can show the mistake, the result states what it took on the caller's word.
"""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST, set_factor

import singularbayes as sb
from singularbayes import Centred, FullRank, Normal, certify, layers
from singularbayes.evaluation.certificate_conditions import own_code
from singularbayes.evaluation.certificate_data import _check_disjoint
from singularbayes.training import count_repeats, hash_examples, seen_among

pytestmark = pytest.mark.on_torch
RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 120)).astype("float32")
Y = RNG.integers(0, 2, 100)
OTHERS = RNG.normal(size=(100, 120)).astype("float32")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# More inputs than examples: these weights have learned every coin toss by heart.
LEARNED = np.linalg.lstsq(X, 2.0 * np.eye(2)[Y] - 1, rcond=None)[0]
GENERATOR = keras.random.SeedGenerator(0)


@keras.saving.register_keras_serializable("test")
def _learned(shape, dtype=None):
    return ops.cast(LEARNED, dtype)


def _network(*before, head=None, **posterior):
    posterior = FullRank(prior=Centred(Normal(0.1)), **posterior)
    model = keras.Sequential(
        [keras.Input((120,)), *before, head or layers.Dense(2, use_bias=False, posterior=posterior)]
    )
    model.compile("sgd", LOSS)
    return model


def _memorised(**posterior):
    model = _network(**posterior)
    set_factor(_factor(model), LEARNED, 1e-3)
    return model


def _factor(model):
    (factor,) = model.layers[-1].posterior.factors
    return factor


def _refused(model, words, x=X, y=Y, **options):
    with pytest.raises(ValueError, match=words):
        certify(model, x, y, draws=20, **options)


def _assumes(model, words, x=X, y=Y, **options):
    assert words in repr(certify(model, x, y, draws=20, **options))


@TORCH_FIRST
def test_without_tricks_learning_by_heart_certifies_nothing():
    assert certify(_memorised(), X, Y, draws=20).value > 0.5


# -- noise of other layers --------------------------------------------------------------------------------------------


class _Noise(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator(0)

    def call(self, inputs):
        return inputs + 3.0 * keras.random.normal(ops.shape(inputs), seed=self.generator)


class _RareNoise(_Noise):
    """Noise for the last example alone."""

    def call(self, inputs):
        return ops.where(inputs[:, :1] == OTHERS[-1, 0], super().call(inputs), inputs)


class _UntrackedNoise(keras.layers.Layer):
    def call(self, inputs):
        return inputs + keras.random.normal(ops.shape(inputs), seed=GENERATOR)


class _NumpyNoise(keras.layers.Layer):
    def call(self, inputs):
        return inputs + ops.convert_to_tensor(RNG.normal(size=inputs.shape[1:]), "float32")


@pytest.mark.parametrize("noise", [_Noise, _UntrackedNoise, _NumpyNoise])
def test_noise_of_another_layer_is_refused(noise):
    _refused(_network(noise()), "two passes with the same draw.*random noise of its own")


def test_noise_for_a_single_example_of_many_is_refused():
    model = _network(_RareNoise())
    x = np.concatenate([RNG.normal(size=(399, 120)), OTHERS[-1:]]).astype("float32")
    _refused(model, "two passes with the same draw", x, np.arange(400) % 2)


def test_a_layer_without_noise_at_inference_is_not_and_its_seed_stays():
    model = _network(keras.layers.Dropout(0.5))
    (state,) = model.layers[0].variables
    before = np.array(ops.convert_to_numpy(state))
    assert certify(model, X, Y, draws=20).is_certificate
    np.testing.assert_array_equal(ops.convert_to_numpy(state), before)


# -- what the prior was learned on ------------------------------------------------------------------------------------


def test_files_of_weights_keep_what_the_prior_was_learned_on(tmp_path):
    model = _memorised()
    sb.centre_prior(model, learned_on=X)
    model.save_weights(tmp_path / "all.weights.h5")
    model.save(tmp_path / "model.keras")
    fresh = _network()
    fresh.load_weights(tmp_path / "all.weights.h5")
    copied = _network()
    copied.set_weights(model.get_weights())
    for again in (fresh, copied, sb.load(tmp_path / "model.keras")):
        _refused(again, "the prior was learned on these examples: 100 of 100")
        assert certify(again, OTHERS, Y, draws=20).is_certificate


@TORCH_FIRST
def test_centres_that_were_moved_by_hand_are_refused():
    model = _memorised()
    weights = {weight.path: value for weight, value in zip(model.weights, model.get_weights(), strict=True)}
    centres = _factor(model).reference.path
    weights[centres] = np.stack([LEARNED, np.ones_like(LEARNED)])
    model.set_weights(list(weights.values()))
    _refused(model, "neither learn_prior nor centre_prior set the centres and widths .*prior_data=")
    _refused(model, "the prior was learned on these examples", prior_data=X)
    _assumes(model, "the prior learned on prior_data, and on no other examples", prior_data=OTHERS)
    assert not certify(model, X, Y, draws=20, allow_seen=True).is_certificate


def test_prior_data_adds_to_what_the_prior_remembers():
    model = _memorised()
    sb.centre_prior(model, learned_on=X)
    _refused(model, "the prior was learned on these examples", prior_data=OTHERS)


def test_prior_data_is_compared_in_full():
    many = np.random.default_rng(1).normal(size=(5000, 120)).astype("float32")
    many[4321] = X[7]
    _refused(_network(), "1 of 5,000 that it knows are here", prior_data=many)


def test_inputs_by_name_and_in_a_list_are_the_same_examples():
    one, two = keras.Input((60,), name="b"), keras.Input((60,), name="a")
    posterior = FullRank(prior=Centred(Normal(0.1)))
    outputs = layers.Dense(2, use_bias=False, posterior=posterior)(keras.layers.Concatenate()([one, two]))
    model = keras.Model([one, two], outputs)
    model.compile("adam", LOSS)
    sb.centre_prior(model, learned_on={"a": X[:, 60:], "b": X[:, :60]})
    _refused(model, "the prior was learned on these examples: 100 of 100", [X[:, :60], X[:, 60:]])


def test_a_prior_that_was_centred_carries_the_callers_word():
    """It was fitted to X, and the caller named others: nothing in the model can tell."""
    model = _memorised()
    sb.centre_prior(model, learned_on=OTHERS)
    _assumes(model, "the prior learned on the examples that centre_prior was given (learned_on), and on no others")


@pytest.mark.parametrize("role", ["initializer", "rho_initializer", "function"])
def test_a_prior_around_given_arrays_carries_the_assumption_also_in_files(role, tmp_path):
    array = keras.initializers.Constant(LEARNED.astype("float32"))
    start = {"initializer": _learned} if role == "function" else {role: array}
    words = "the arrays or the code that initialise the prior's centres chosen without these examples"
    model = _network(**start)
    _assumes(model, words)
    model.save_weights(tmp_path / "all.weights.h5")
    fresh = _network()
    assert words not in repr(certify(fresh, X, Y, draws=20))
    fresh.load_weights(tmp_path / "all.weights.h5")
    _assumes(fresh, words)


def test_a_memory_in_code_is_an_assumption():
    class Memory(keras.layers.Layer):
        def call(self, inputs):
            return inputs

    def by_heart(x):
        return x

    head = layers.Dense(2, by_heart, use_bias=False, posterior=FullRank(prior=Centred()))
    shown = repr(certify(_network(Memory(), keras.layers.Lambda(lambda x: x), head=head), X, Y, draws=20))
    assert "no memory of these examples in the code of <lambda>, Memory, by_heart" in shown
    assert "in the code of" not in repr(certify(_network(keras.layers.Activation("relu")), X, Y, draws=20))


class _Squash:
    def __call__(self, x):
        return x

    def method(self, x):
        return x


def _claims_keras(x):
    return x


_claims_keras.__module__ = "keras.src.activations.activations"
_claims_keras.__name__ = _claims_keras.__qualname__ = "relu"


class _ClaimsKeras(keras.layers.Layer):
    pass


_ClaimsKeras.__module__ = "keras.layers"


@pytest.mark.parametrize(
    "layer, name",
    [
        (lambda: keras.layers.Activation(_Squash()), "_Squash"),
        (lambda: keras.layers.Activation(_Squash().method), "method"),
        (lambda: keras.layers.Activation(partial(partial(_learned_code), 0)), "_learned_code"),
        (lambda: keras.layers.Activation(_claims_keras), "relu"),
        (lambda: keras.layers.Activation(keras.layers.Rescaling(2.0).call), "call"),
        (lambda: _patched(keras.layers.Activation("relu")), "<lambda>"),
        (_ClaimsKeras, "_ClaimsKeras"),
    ],
)
def test_code_that_is_no_plain_function_is_an_assumption(layer, name):
    assert own_code(_network(layer())) == (f"no memory of these examples in the code of {name}",)


def _learned_code(number, x):
    return x + number


def _patched(layer):
    layer.call = lambda x: x
    return layer


def test_a_compiled_function_is_an_assumption():
    jax = pytest.importorskip("jax")
    (words,) = own_code(_network(keras.layers.Activation(jax.jit(_Squash().method))))
    assert "in the code of method" in words


def _between(function):
    """Returns a functional model with operations between its input and its layer."""
    inputs = keras.Input((120,))
    start = keras.initializers.RandomNormal(stddev=1e-3)
    posterior = FullRank(prior=Centred(Normal(0.01)), initializer=start, eta=10.0)  # at the prior: no KL
    outputs = layers.Dense(2, use_bias=False, posterior=posterior)(inputs)
    model = keras.Model(inputs, function(inputs, outputs))
    model.compile("sgd", LOSS)
    return model


def _look_up(inputs, outputs):
    """Adds the labels of the examples that the inputs equal."""
    distance = ops.sum(ops.square(ops.expand_dims(inputs, 1) - X[None]), axis=-1)
    return ops.matmul(ops.exp(-1e4 * distance), 100.0 * np.eye(2, dtype="float32")[Y]) + outputs


def test_a_memory_in_constants_between_layers_is_an_assumption():
    bound = certify(_between(_look_up), X, Y, draws=200)
    assert bound.value < 0.4  # and half is the truth
    assert "the constants in the graph of" in repr(bound) and "chosen without these examples: in matmul" in repr(bound)
    nested = keras.Sequential([keras.Input((120,)), _between(_look_up)])
    assert "in matmul" in str(own_code(nested))


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x, y: y + keras.Variable(np.ones(2, "float32")), "constants"),
        (lambda x, y: keras.layers.Add()([y, ops.ones((1, 2))]), "constants"),
        (lambda x, y: ops.vectorized_map(lambda row: row, y), "code of <lambda>"),
    ],
)
def test_what_stands_between_layers_is_an_assumption(function, words):
    assert words in str(own_code(_between(function)))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.Rescaling(1 / X.std(0), -X.mean(0)),
        lambda: keras.layers.Rescaling([0.5] * 120),
        lambda: keras.layers.Normalization(mean=X.mean(0), variance=X.var(0)),
        lambda: keras.layers.Activation(partial(ops.add, X[0])),
    ],
)
def test_arrays_in_layers_are_an_assumption(layer):
    assert "the constants in the graph" in str(own_code(_network(layer())))


@pytest.mark.parametrize(
    "before",
    [
        lambda: [keras.layers.Rescaling(1 / 255), keras.layers.Activation("gelu"), keras.layers.ReLU()],
        lambda: [
            keras.layers.Activation(ops.tanh),
            keras.layers.Activation(partial(keras.activations.relu, threshold=1)),
        ],
        lambda: [
            keras.layers.Dropout(0.1),
            keras.layers.Dense(4, kernel_initializer="he_normal", kernel_regularizer="l2"),
        ],
        lambda: [keras.layers.BatchNormalization(), keras.layers.LayerNormalization()],
        lambda: [keras.layers.Reshape((120, 1)), keras.layers.Conv1D(2, 3), keras.layers.Flatten()],
        lambda: [
            keras.layers.Reshape((120, 1)),
            layers.Conv1D(2, 3, posterior=sb.LowRank.paper(1)),
            keras.layers.LSTM(3),
        ],
        lambda: [
            keras.layers.Reshape((12, 10)),
            keras.layers.Bidirectional(keras.layers.GRU(3, return_sequences=True)),
            layers.LSTM(3, posterior=sb.LowRank.paper(1)),
            keras.layers.GaussianNoise(0.1),
        ],
    ],
)
def test_layers_of_keras_need_no_assumption(before):
    assert own_code(_network(*before())) == ()


def test_operations_of_keras_need_no_assumption():
    def function(x, y):
        steps = layers.MultiHeadAttention(2, 3, posterior=FullRank())(*[ops.reshape(x, (-1, 12, 10))] * 2)
        return y * 0.5 + ops.mean(ops.transpose(steps, (0, 2, 1)), axis=(1, 2), keepdims=False)[:, None] / 2.0

    assert own_code(_between(function)) == ()


# -- weights that training changed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer", [keras.optimizers.SGD, lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())]
)
def test_weights_that_were_trained_and_then_frozen_are_refused(optimizer):
    hidden = keras.layers.Dense(3, use_bias=False)
    model = _network(hidden)
    model.compile(optimizer(), LOSS)
    model.fit(X[:32], Y[:32], verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
    hidden.trainable = False
    _refused(model, "fixed before `fit`; got trainable=False for .*kernel, which the optimizer", frozen=True)
    model.compile("sgd", LOSS)  # nothing remembers now
    _assumes(model, "weights outside posteriors fixed without these examples (frozen=True)", frozen=True)


# -- examples ---------------------------------------------------------------------------------------------------------


def test_repeated_examples_are_counted_and_need_a_word():
    model = _network()
    x, y = np.tile(X[:20], (5, 1)), np.tile(Y[:20], 5)
    _refused(model, r"80 of these 100 examples equal to an earlier one.*duplicates='independent'", x, y)
    _assumes(model, "80 of these 100 examples equal to an earlier one", x, y, duplicates="independent")
    _refused(model, "duplicates='independent' or None; got duplicates='yes'", duplicates="yes")
    few = np.concatenate([X, X[:1]])
    _assumes(model, "1 of these 101 examples equal to an earlier one", few, np.append(Y, Y[0]))
    other_label = certify(model, few, np.append(Y, 1 - Y[0]), draws=20)
    assert not any("equal to an earlier" in assumed for assumed in other_label.assumptions)


def test_a_hash_knows_an_example_from_all_of_its_parts():
    assert seen_among(hash_examples([X, Y]), hash_examples([X, 1 - Y])).count == 0
    assert count_repeats(hash_examples(np.array([[0.0, 1.0], [-0.0, 1.0]]))) == 1


def test_integers_that_single_precision_cannot_tell_apart_are_different_examples():
    many = 2**26 + np.arange(400, dtype="int32")[:, None]
    assert count_repeats(hash_examples(many)) == 0
    assert seen_among(hash_examples(np.arange(9)[:, None]), hash_examples(np.arange(9.0)[:, None])).count == 9
    assert seen_among(hash_examples(many), hash_examples(many.astype("int64"))).count == 400


def test_halves_that_share_a_few_equal_examples_by_chance_are_believed_to_be_disjoint():
    """Of 5,000 kinds, which are equally likely: the rates of equals vary from half to half."""
    refused = 0
    for seed in range(200):
        kinds = np.random.default_rng(seed).integers(0, 5000, 240)[:, None].astype("float32")
        memory, hashes = np.unique(hash_examples(kinds[:120])), hash_examples(kinds[120:])
        refused += _check_disjoint(seen_among(memory, hashes), hashes)[0] is not None
    assert refused <= 1
    few = np.arange(120.0)[:, None]
    for shared, believed in ((5, True), (60, False)):
        seen = seen_among(hash_examples(few), hash_examples(few + 120 - shared))
        assert seen.count == shared
        assert (_check_disjoint(seen, hash_examples(few + 120 - shared))[0] is None) == believed


def test_prior_data_that_the_model_cannot_take_are_refused():
    _refused(_network(), "certify needs prior_data that the model can take.*120", prior_data=X[:, :60])


def test_a_model_that_was_compiled_without_an_optimizer_is_certified():
    model = _network()
    model.compile(optimizer=None, loss=LOSS)
    assert certify(model, X, Y, draws=20).is_certificate
