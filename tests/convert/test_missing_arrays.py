"""Code that reads from a layer the array that Keras's layer has gets an error with what became of it."""

import keras
import numpy as np
import pytest
from convertible import not_on_jax
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import LowRank, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch, TORCH_FIRST]
L = keras.layers
ONE = {"posterior": LowRank(1), "name": "inner"}
MADE = {  # layer, an input shape, and for each array that Keras's layer has, the posterior in its place
    "dense": (lambda: layers.Dense(3, **ONE), (None, 4), {"kernel": "posterior"}),
    "two tables": (
        lambda: layers.ReversibleEmbedding(5, 4, tie_weights=False, **ONE),
        (None, 3),
        {"embeddings": "posterior", "reverse_embeddings": "reverse_posterior"},
    ),
    "lstm": (
        lambda: layers.LSTM(3, **ONE),
        (None, 5, 4),
        {"kernel": "posterior", "recurrent_kernel": "recurrent_posterior"},
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_an_array_that_became_random_is_named_with_its_posterior(kind):
    make, shape, arrays = MADE[kind]
    layer = make()
    layer.build(shape)
    for array, posterior in arrays.items():
        assert not hasattr(layer, array) and getattr(layer, array, "none") == "none"
        message = rf"'inner' has no array '{array}'.*layer\.{posterior}\.mean\(\)\.dense\(\)\. .* a rule with None"
        with pytest.raises(AttributeError, match=message):
            getattr(layer, array)
        assert len(getattr(layer, posterior).mean().dense().shape) == 2


def test_anything_else_that_is_missing_is_the_usual_error():
    layer = layers.Dense(3, posterior=LowRank(1))
    with pytest.raises(AttributeError, match=r"'Dense' object has no attribute 'kernal'"):
        _ = layer.kernal
    assert not hasattr(layers.Embedding(5, 4, posterior=LowRank(1)), "reverse_embeddings")


@keras.saving.register_keras_serializable("tests")
class Tied(L.Layer):
    """A user's layer that reads the kernel of the layer it holds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = L.Dense(4, name="inner")

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x):
        return ops.matmul(self.inner(x), ops.transpose(self.inner.kernel))


@not_on_jax
def test_a_converted_layer_tells_the_user_code_that_reads_its_kernel():
    model = keras.Sequential([keras.Input((4,)), Tied(name="tied"), L.Dense(2, name="head")])
    bayes = sb.bayesianize(model, 2)
    with pytest.raises(AttributeError, match=r"'inner' has no array 'kernel': it is random here"):
        bayes(np.ones((1, 4), "float32"))
    kept = sb.bayesianize(model, 2, rules={"tied": None})
    assert kept(np.ones((1, 4), "float32")).shape == (1, 2)
