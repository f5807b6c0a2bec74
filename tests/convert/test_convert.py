"""Any Keras model becomes Bayesian: the same function at its mean, its own buffers, and everything else as it was."""

import keras
import numpy as np
import pytest
from convertible import (
    CASES,
    RNG,
    Block,
    array,
    assert_close,
    case,
    not_on_jax,
    numpy,
    sequential,
    stirred,
)
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import Adapter, FullRank, LowRank, find_posteriors

pytestmark = pytest.mark.backend
L = keras.layers


@pytest.mark.parametrize("name", CASES)
def test_at_full_rank_from_svd_the_mean_predicts_what_the_model_did(name):
    model, x, matrices = case(name)
    truth = numpy(model(x))
    before = model.get_weights()
    bayes = sb.bayesianize(model, LowRank(10**6))
    assert type(bayes).__name__ == type(model).__name__ and isinstance(bayes, type(model))
    assert len(find_posteriors(bayes)) == matrices
    assert_close(bayes(x), truth)
    assert_close(model(x), truth, atol=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    with sb.draw_weights(bayes):
        first, second = numpy(bayes(x)), numpy(bayes(x))
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_files_keep_the_conversion(name, tmp_path):
    model, x, _ = case(name)
    bayes = sb.bayesianize(model, FullRank(), init="svd")
    truth = numpy(bayes(x))
    bayes.save(tmp_path / "bayes.keras")
    loaded = keras.saving.load_model(tmp_path / "bayes.keras")
    assert isinstance(loaded, type(model))
    assert_close(loaded(x), truth, atol=1e-6)
    assert len(find_posteriors(loaded)) == len(find_posteriors(bayes))
    bayes.save_weights(tmp_path / "bayes.weights.h5")
    again = sb.bayesianize(stirred(model, 1), FullRank())
    again.load_weights(tmp_path / "bayes.weights.h5")
    assert_close(again(x), truth, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
@TORCH_FIRST
def test_round_trip_gives_the_plain_model_back(name):
    model, x, _ = case(name)
    truth = numpy(model(x))
    plain = sb.collapse(sb.bayesianize(model, FullRank(), init="svd"))
    assert type(plain) is type(model)
    assert not find_posteriors(plain)
    assert_close(plain(x), truth)
    for old, new in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", CASES)
@TORCH_FIRST
def test_a_step_of_training_moves_the_copy_and_not_the_model(name):
    model, x, _ = case(name)
    before = model.get_weights()
    bayes = sb.bayesianize(model, LowRank(1), init="svd")
    sb.set_kl(bayes, num_data=100, beta=1.0)
    # One step: TensorFlow would take longer to make a graph of it, and Keras's battery has one of every layer.
    bayes.compile("adam", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
    start = bayes.get_weights()
    bayes.train_on_batch(x, keras.tree.map_structure(np.zeros_like, keras.tree.map_structure(array, model(x))))
    assert any((a != b).any() for a, b in zip(start, bayes.get_weights(), strict=True))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    model(x)  # its buffers were not given away


@pytest.mark.parametrize("name", CASES)
@TORCH_FIRST
def test_an_adapter_leaves_the_mean_prediction_as_it_was(name):
    model, x, _ = case(name)
    truth = numpy(model(x))
    assert_close(sb.bayesianize(model, Adapter(2))(x), truth)


def test_tied_embeddings_are_one_posterior_with_one_draw():
    ids = keras.Input((1,), dtype="int32")
    table = L.ReversibleEmbedding(4, 3)
    vectors = table(ids)
    model = keras.Model(ids, [vectors, table(vectors, reverse=True)])
    bayes = sb.bayesianize(model, FullRank(eta=1.0))
    assert len(find_posteriors(bayes)) == 1
    vectors, scores = numpy(bayes(np.arange(4)[:, None]))
    # The scores of a draw are the products of its own vectors.
    np.testing.assert_allclose(scores[:, 0], vectors[:, 0] @ vectors[:, 0].T, rtol=1e-4, atol=1e-5)


@not_on_jax
@TORCH_FIRST
def test_names_flags_policies_and_regularizers_survive():
    model = keras.Sequential(
        [
            keras.Input((6,)),
            L.Dense(5, name="first", bias_regularizer="l2", activity_regularizer="l1", kernel_regularizer="l2"),
            L.BatchNormalization(name="norm"),
            Block(4, name="block"),
            L.Dense(3, name="last", dtype="mixed_bfloat16"),
        ],
        name="whole",
    )
    model.layers[0].trainable = False
    model.layers[1].trainable = False
    model.get_layer("block").late.trainable = False
    model.get_layer("block").stack[1].trainable = False  # which no config says
    bayes = sb.bayesianize(model, 2)
    assert bayes.name == "whole"
    assert [layer.name for layer in bayes.layers] == [layer.name for layer in model.layers]
    assert [layer.trainable for layer in bayes.layers] == [False, False, True, True]
    assert not bayes.get_layer("block").late.trainable and not bayes.get_layer("block").stack[1].trainable
    assert bayes.get_layer("last").dtype_policy.name == "mixed_bfloat16"
    first = bayes.get_layer("first")
    assert first.bias_regularizer.l2 == first.activity_regularizer.l1 == np.float32(0.01)
    assert "kernel_regularizer dropped: the prior takes its place" in str(sb.plan(model, 2))
    plain = sb.collapse(bayes, merge=True)
    assert [layer.name for layer in plain.layers] == [layer.name for layer in model.layers]
    assert not plain.get_layer("block").late.trainable


@not_on_jax
def test_per_head_and_bias_posteriors():
    x = keras.Input((5, 4))
    model = stirred(keras.Model(x, L.MultiHeadAttention(2, 3)(x, x)))
    batch = RNG.normal(size=(2, 5, 4)).astype("float32")
    bayes = sb.bayesianize(model, FullRank(), init="svd", per_head=True, bias_posterior=FullRank())
    assert len(find_posteriors(bayes)) == 2 * (3 * 2 + 1)
    assert_close(bayes(batch), model(batch))


@not_on_jax
def test_a_compiled_model_is_compiled_again():
    model = sequential()
    model.compile(keras.optimizers.Adam(0.03), "mse")
    bayes = sb.bayesianize(model, 2)
    assert bayes.compiled and float(array(bayes.optimizer.learning_rate)) == np.float32(0.03)
    assert bayes.optimizer is not model.optimizer
    model.compile("adam", lambda y, p: ops.mean((y - p) ** 2))
    with pytest.warns(UserWarning, match="is not compiled: its loss or metrics cannot be read back"):
        assert not sb.bayesianize(model, 2).compiled


class OwnStep(keras.Model):
    """A user's model with a training step and a metric of its own."""

    def __init__(self, width=4, **kwargs):
        super().__init__(**kwargs)
        self.width, self.hidden, self.head = width, L.Dense(width, "relu"), L.Dense(1)
        self.seen = keras.metrics.Sum(name="seen")

    def call(self, x, training=None):
        return self.head(self.hidden(x, training=training), training=training)

    def train_step(self, *arguments):
        return super().train_step(*arguments)

    def get_config(self):
        return {**super().get_config(), "width": self.width}


class OwnCompile(OwnStep):
    def compile(self, optimizer, loss, temperature=1.0):
        super().compile(optimizer, loss)
        self.temperature = temperature


@pytest.mark.parametrize("kind", [OwnStep, OwnCompile])
def test_a_compiled_model_of_a_users_class_converts_trains_and_collapses(kind):
    model, x = kind(), RNG.normal(size=(8, 3)).astype("float32")
    model.compile("sgd", "mse")
    model.fit(x, x[:, :1], verbose=0)
    model.stop_training = True  # as a callback leaves it
    if kind is OwnStep:
        bayes = sb.bayesianize(model, 1, init="svd")
        assert bayes.compiled
    else:
        with pytest.warns(UserWarning, match=r"not compiled: .* or OwnCompile has a compile\(\) of its own"):
            bayes = sb.bayesianize(model, 1, init="svd")
        bayes.compile("sgd", "mse", 2.0)
    bayes.fit(x, x[:, :1], verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    if kind is OwnStep:
        plain = sb.collapse(bayes)
    else:
        with pytest.warns(UserWarning, match=r"not compiled: .* or OwnCompile has a compile\(\) of its own"):
            plain = sb.collapse(bayes)
    assert type(plain) is kind and plain.compiled == (kind is OwnStep)
    assert_close(plain(x), bayes(x))


@not_on_jax
@TORCH_FIRST
def test_functions_of_the_user_are_taken_along():
    scale = 3.0

    def tripled(x):
        return scale * x

    model = keras.Sequential([keras.Input((4,)), L.Lambda(lambda x: scale * ops.tanh(x)), L.Dense(4, tripled)])
    model.add(L.Activation(tripled))
    x = RNG.normal(size=(2, 4)).astype("float32")
    assert_close(sb.bayesianize(model, FullRank(), init="svd")(x), model(x))
    assert tripled.__name__ == "tripled" and model.layers[0].function.__name__ == "<lambda>"
