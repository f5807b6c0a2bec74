"""The activation that a model ends in has to agree with its loss: logits have none, probabilities have one."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST, jax_first

import singularbayes as sb
from singularbayes import LowRank, layers
from singularbayes.likelihoods import require_activations

pytestmark = pytest.mark.on_torch
X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
BINARY, SPARSE = keras.losses.BinaryCrossentropy, keras.losses.SparseCategoricalCrossentropy


def _dense(units, activation=None):
    return layers.Dense(units, activation, posterior=LowRank(1))


def _sequential(*last):
    return keras.Sequential([keras.Input((3,)), *last], name="net")


def _functional(last):
    x = keras.Input((3,))
    return keras.Model(x, last(x), name="net")


def _fit(model):
    return model.fit(X, np.zeros(12), epochs=1, verbose=0, callbacks=[sb.KLSchedule(12, beta=1.0)])


ACTIVATED = {
    "sigmoid": lambda: _sequential(_dense(1, "sigmoid")),
    "a plain layer": lambda: _sequential(_dense(2), keras.layers.Dense(1, "sigmoid")),
    "an activation layer": lambda: _sequential(_dense(1), keras.layers.Activation("sigmoid")),
    "reshaped": lambda: _sequential(_dense(1, "sigmoid"), keras.layers.Reshape((1,)), keras.layers.Dropout(0.1)),
    "nested": lambda: _functional(_sequential(_dense(1, "sigmoid"))),
    "softmax": lambda: _sequential(_dense(3, "softmax")),
    "a softmax layer": lambda: _sequential(_dense(3), keras.layers.Softmax()),
}


@pytest.mark.parametrize("name", jax_first(ACTIVATED, list(ACTIVATED)[:2]))
@TORCH_FIRST
def test_a_loss_of_logits_behind_an_activation_is_refused_before_training_and_in_predict(name):
    model = ACTIVATED[name]()
    model.compile("sgd", SPARSE(from_logits=True) if "softmax" in name else BINARY(from_logits=True))
    before = model.get_weights()
    for use in (_fit, lambda model: sb.predict(model, X, draws=2)):
        with pytest.raises(ValueError, match=r"'net' are declared to be logits .*went through a (sigmoid|softmax)"):
            use(model)
    for ours, theirs in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="declared to be logits"):
        sb.predict(model, X, draws=2, likelihood="categorical_logits" if "softmax" in name else "bernoulli_logits")


@pytest.mark.parametrize(("units", "loss"), [(1, "binary_crossentropy"), (1, BINARY()), (3, SPARSE())])
@JAX_FIRST
def test_a_loss_of_probabilities_behind_no_activation_is_refused_before_training_and_in_predict(units, loss):
    model = _sequential(_dense(units))
    model.compile("sgd", loss)
    message = r"loss of 'net' needs probabilities, but its last layer has no .*Crossentropy\(from_logits=True\)"
    for use in (_fit, lambda model: sb.predict(model, X, draws=2)):
        with pytest.raises(ValueError, match=message):
            use(model)
    with pytest.raises(ValueError, match=message):
        sb.fit_many(lambda: _compiled_again(units, loss), X, np.zeros(12, int), [0], 1)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        ("categorical_crossentropy", "CategoricalCrossentropy"),
        (keras.losses.CategoricalCrossentropy(), "CategoricalCrossentropy"),
        (keras.losses.sparse_categorical_crossentropy, "SparseCategoricalCrossentropy"),
        (sb.BoundedCrossentropy(from_logits=False), "BoundedCrossentropy"),
    ],
)
@JAX_FIRST
def test_the_loss_to_compile_with_is_the_compiled_one_from_logits(loss, name):
    model = _sequential(_dense(3))
    model.compile("sgd", loss)
    with pytest.raises(ValueError, match=rf"Compile with {name}\(from_logits=True\), or"):
        require_activations(model)


def _compiled_again(units, loss):
    model = _sequential(keras.layers.Dense(units))
    model.compile("sgd", loss)
    return model


def test_activations_that_agree_with_their_loss_are_taken():
    for last, loss in [
        (_dense(1, "sigmoid"), "binary_crossentropy"),
        (_dense(1), BINARY(from_logits=True)),
        (_dense(3, "softmax"), SPARSE()),
        (_dense(3), SPARSE(from_logits=True)),
        (_dense(3), "mse"),
        (keras.layers.Lambda(lambda x: ops.softmax(x)), SPARSE()),
    ]:
        model = _sequential(last)
        model.compile("sgd", loss)
        require_activations(model)


@pytest.mark.parametrize(
    "activation",
    [
        None,
        *("tanh", "softplus", "relu", "relu6", "gelu", "log_softmax", "softsign", "log_sigmoid"),
        keras.layers.LeakyReLU(),
    ],
)
@JAX_FIRST
def test_any_activation_that_makes_no_probabilities_is_taken_with_logits(activation):
    model = _sequential(keras.layers.Dense(7, activation))
    for loss in (BINARY(from_logits=True), SPARSE(from_logits=True), "mse"):
        model.compile("sgd", loss)
        require_activations(model)


def _each(last):
    """A model that applies `last` to every position of a head of logits."""
    x = keras.Input((4, 3))
    return keras.Model(x, keras.layers.TimeDistributed(last)(_dense(2)(x)), name="net")


@pytest.mark.parametrize(
    "last",
    [
        lambda: keras.layers.Activation("linear"),
        lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]),
        lambda: keras.layers.Dense(2),
    ],
)
@JAX_FIRST
def test_a_wrapper_over_positions_is_looked_through(last):
    model = _each(last())
    model.compile("sgd", SPARSE(from_logits=True))
    require_activations(model)
    model.compile("sgd", SPARSE())
    with pytest.raises(ValueError, match="needs probabilities"):
        require_activations(model)


def test_the_loss_of_each_of_several_outputs_is_compared_with_its_own_head():
    x = keras.Input((3,))
    model = keras.Model(x, {"a": _dense(1)(x), "b": _dense(1, "sigmoid")(x)}, name="net")
    model.compile("sgd", {"a": "mse", "b": BINARY(from_logits=True)})
    with pytest.raises(ValueError, match="declared to be logits"):
        model.fit(X, {"a": X[:, :1], "b": np.zeros(12)}, verbose=0, callbacks=[sb.KLSchedule(12, beta=1.0)])


class _Bare(keras.Model):
    """A subclass, whose graph of layers nobody sees."""

    def __init__(self):
        super().__init__(name="net")
        self.head = _dense(2)

    def call(self, x, training=None):
        return self.head(x, training=training)


def test_where_the_layers_do_not_show_it_nan_names_logits_as_a_cause():
    model = _Bare()
    model.compile("sgd", SPARSE(), jit_compile=False)
    model(X)
    with pytest.warns(UserWarning, match=r"NaN or infinite in epoch 0 .*If the outputs are logits, compile with"):
        model.fit(X * np.nan, np.zeros(12), verbose=0, callbacks=[sb.KLSchedule(12, beta=1.0)])
    with pytest.raises(ValueError, match=r"got NaN from the model .*If the outputs are logits, compile with"):
        sb.predict(model, X, draws=2)
