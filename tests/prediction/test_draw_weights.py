"""Outside training a forward pass uses E[W]; inside `draw_weights` it draws, whatever was compiled before."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import stirred_layer

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
X = np.random.default_rng(2).normal(size=(6, 5)).astype("float32")
Y = np.zeros((6, 1))


def _numpy(x):
    return ops.convert_to_numpy(x)


def _differs(model):
    return np.abs(model.predict(X, verbose=0) - model.predict(X, verbose=0)).max() > 1e-4


@pytest.fixture
def model():
    dense = layers.Dense(3, "tanh", posterior=LowRank.paper(2), bias_posterior=FullRank())
    inner = keras.Sequential([keras.Input((5,)), dense])
    x = keras.Input((5,))
    return stirred_layer(keras.Model(x, layers.Dense(1, posterior=LowRank.paper(1))(inner(x))), X)


def test_a_pass_is_the_one_of_the_mean_matrices_and_draws_inside_the_block_alone(model):
    inner, outer = model.layers[1].layers[0], model.layers[2]
    w, b, v = (_numpy(q.mean().dense()) for q in (inner.posterior, inner.bias_posterior, outer.posterior))
    mean = np.tanh(X @ w + b) @ v + _numpy(outer.bias)
    np.testing.assert_allclose(_numpy(model(X)), mean, rtol=1e-5, atol=1e-6)
    with sb.draw_weights(model) as same:
        assert same is model
        with sb.draw_weights(inner):  # and what is around it still draws
            first, hidden = _numpy(model(X)), np.ones((2, 3), "float32")
            assert not np.allclose(_numpy(outer(hidden)), _numpy(outer(hidden)))
        second = _numpy(model(X))
        assert not np.allclose(first, second) and not np.allclose(second, mean)
    np.testing.assert_allclose(_numpy(model(X)), mean, rtol=1e-5, atol=1e-6)
    with sb.draw_weights(outer):
        np.testing.assert_array_equal(_numpy(model.layers[1](X)), _numpy(model.layers[1](X)))
        assert not np.allclose(_numpy(model(X)), _numpy(model(X)))
    sb.set_kl(model, num_data=6, beta=0.0)
    assert not np.allclose(_numpy(model(X, training=True)), mean)


def test_an_error_inside_restores_the_mean(model):
    with pytest.raises(RuntimeError, match="inside"), sb.draw_weights(model):
        raise RuntimeError("inside")
    np.testing.assert_array_equal(_numpy(model(X)), _numpy(model(X)))


def test_keras_predict_and_evaluate_use_the_mean_whatever_the_batch(model):
    model.compile(loss="mse")
    sb.set_kl(model, num_data=6, beta=0.0)
    mean = _numpy(model(X))
    for size in (6, 4):
        np.testing.assert_allclose(model.predict(X, size, verbose=0), mean, rtol=1e-5, atol=1e-6)
    loss = model.evaluate(X, Y, verbose=0)
    assert loss == pytest.approx(float((mean**2).mean()), rel=1e-5)
    with sb.draw_weights(model):
        assert _differs(model)
        assert model.evaluate(X, Y, verbose=0) != model.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(model.predict(X, verbose=0), mean, rtol=1e-5, atol=1e-6)
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(loss, rel=1e-6)


def test_other_models_keep_their_means(model):
    other = stirred_layer(keras.Sequential([keras.Input((5,)), layers.Dense(1, posterior=LowRank.paper(1))]), X)
    with sb.draw_weights(model):
        np.testing.assert_array_equal(_numpy(other(X)), _numpy(other(X)))


class Doubled(keras.Model):
    """A model that Keras does not know the layers' graph of."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return 2.0 * self.inner(x)


def _sharing(dense):
    return keras.Sequential([keras.Input((5,)), dense, keras.layers.Dense(2)])


@pytest.mark.parametrize("make", [_sharing, Doubled], ids=["sequential", "subclass"])
def test_a_model_that_shares_a_layer_and_was_compiled_before_draws_too(make):
    dense = layers.Dense(3, posterior=LowRank.paper(2))
    model, other = stirred_layer(keras.Sequential([keras.Input((5,)), dense]), X), make(dense)
    assert not _differs(other) and not _differs(model)
    for part in (model, other, dense):
        with sb.draw_weights(part):
            assert _differs(other) and _differs(model)
        assert not _differs(other) and not _differs(model)


def test_it_holds_in_a_callback_of_the_loop_that_is_under_way(model):
    seen, draws = [], []

    class Draws(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            with sb.draw_weights(model):
                seen.append(_numpy(model(X)))
            draws.append(sb.predict(model, X, 5, likelihood="gaussian").std)

    outputs = model.predict(X, 2, verbose=0, callbacks=[Draws()])
    np.testing.assert_allclose(outputs, _numpy(model(X)), rtol=1e-5, atol=1e-6)
    assert len(seen) == 3 and not np.allclose(seen[0], seen[1])
    np.testing.assert_allclose(draws, [sb.predict(model, X, 5, likelihood="gaussian").std] * 3, rtol=1e-5)


def test_predict_in_a_callback_of_training_batches_is_that_of_the_weights_of_the_moment(model):
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=keras.backend.backend() == "jax")
    found = []

    def predict(batch, logs):
        mean = sb.predict(model, X, 5).mean  # first: on JAX it gives the variables their values back
        found.append((model.get_weights(), mean))

    callbacks = [sb.KLSchedule(beta=1.0), keras.callbacks.LambdaCallback(on_train_batch_end=predict)]
    model.fit(X, Y, 3, 1, 0, callbacks=callbacks)
    assert len(found) == 2 and not np.allclose(found[0][1], found[1][1])
    for weights, mean in found:
        model.set_weights(weights)
        np.testing.assert_allclose(sb.predict(model, X, 5).mean, mean, rtol=1e-4, atol=1e-6)


def test_a_fixed_draw_is_that_of_predict_also_in_a_callback_of_training(model):
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=keras.backend.backend() == "jax")
    found = []

    def compare(batch, logs):
        with sb.fixed_draw(model, 3, seed=1):
            fixed = _numpy(model(X))
        found.append((fixed, sb.predict(model, X, 4, seed=1, keep_draws=True).draws[3]))

    callbacks = [sb.KLSchedule(beta=1.0), keras.callbacks.LambdaCallback(on_train_batch_end=compare)]
    model.fit(X, Y, 3, 1, 0, callbacks=callbacks)
    assert len(found) == 2 and not np.allclose(found[0][0], found[1][0])
    for fixed, drawn in found:
        np.testing.assert_allclose(fixed[:, 0], drawn, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("together", [1, None], ids=["keras", "program"])
def test_validation_data_are_scored_with_draws_and_evaluate_with_the_mean(together):
    def build():
        model = keras.Sequential([keras.Input((5,)), layers.Dense(1, posterior=FullRank(eta=1.0))])
        model.compile(keras.optimizers.SGD(0.0), "mse")
        return model

    options = {"callbacks": lambda: [sb.KLSchedule(6, beta=1.0)], "validation_data": (X, Y), "together": together}
    (run,) = sb.fit_many(build, X, Y, [0], 3, **options)
    at_mean = float((_numpy(run.model(X)) ** 2).mean())
    assert len({*run.history["val_nll"], at_mean}) == 4
    assert run.model.evaluate(X, Y, verbose=0) == pytest.approx(at_mean, rel=1e-5)


class Block(keras.layers.Layer):
    """A user's layer that neither takes nor passes `training`."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


class Around(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.block = Block(inner)

    def call(self, x, training=None):
        return self.block(x, training=training)


class Untold(Around):
    def call(self, x, training=None):
        return self.block(x)


USERS = {
    "block in a sequential": lambda inner: keras.Sequential([keras.Input((5,)), keras.Sequential([Block(inner)])]),
    "block in a subclass": Around,
    "block in a subclass that does not pass it": Untold,
    "model in a sequential": lambda inner: keras.Sequential([keras.Input((5,)), Doubled(inner)]),
    "subclass": Doubled,
}


@pytest.mark.parametrize("kind", USERS)
@pytest.mark.filterwarnings("ignore:The model does not have any trainable")
def test_classes_of_users_draw_in_training_exactly_where_dropout_of_keras_drops(kind):
    def losses(inner, callbacks):
        model = USERS[kind](inner)
        model(X)
        model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=keras.backend.backend() == "jax")
        return model.fit(X, np.zeros((6, 5)), epochs=3, verbose=0, callbacks=callbacks).history["loss"]

    dense = layers.Dense(5, posterior=FullRank(eta=1.0))
    if len(set(losses(keras.layers.Dropout(0.5), []))) > 1:
        assert len(set(losses(dense, [sb.KLSchedule(6, beta=0.0)]))) == 3
    else:
        with pytest.raises(ValueError, match="Keras's own Dropout would do nothing here either"):
            losses(dense, [sb.KLSchedule(6, beta=0.0)])


class Forgetful(keras.Model):
    """A model whose `call` does not pass `training` on: Keras then trains it as if it predicted."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1, posterior=LowRank.paper(1))

    def call(self, x):
        return self.dense(x)


def test_fit_refuses_to_train_the_mean():
    model = Forgetful()
    model(X)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"needs draws of its posteriors.*def call\(self, x, training=None\)"):
        model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(6, beta=1.0)])
    assert np.isfinite(_numpy(model(X))).all()  # its weights are still there
