"""Models of every kind that a user may come with, for tests of conversion; and how their answers are compared."""

import keras
import numpy as np
import pytest
from keras import ops

from singularbayes import find_posteriors

L = keras.layers
RNG = np.random.default_rng(5)
BACKEND = keras.backend.backend()
# Surgery is the same on every backend, and JAX compiles each operation of a new shape.
not_on_jax = pytest.mark.skipif(BACKEND == "jax", reason="compiling takes long; torch and TensorFlow run it")


def array(tensor):
    return ops.convert_to_numpy(tensor)


def numpy(values):
    return [ops.convert_to_numpy(ops.cast(v, "float32")) for v in keras.tree.flatten(values)]


def assert_close(a, b, atol=2e-5):
    for x, y in zip(numpy(a), numpy(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=atol)


def stirred(model, seed=0):
    """Returns the model with weights that differ in every entry, all positive where a variance is."""
    rng = np.random.default_rng(seed)
    model.set_weights([(w + rng.uniform(0.05, 0.3, w.shape)).astype(w.dtype) for w in model.get_weights()])
    return model


def ranks(model):
    """Returns the ranks of a model's posteriors, sorted; 0 for those without."""
    return sorted(getattr(posterior, "rank", 0) for posterior in find_posteriors(model))


@keras.saving.register_keras_serializable("tests")
class Block(L.Layer):
    """A layer that makes its own layers: by attribute, in a list, a dictionary and a tuple; one of them twice."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.first = L.Dense(width, "tanh")
        self.stack = [L.Dense(width), L.LayerNormalization()]
        self.named = {"gate": L.Dense(width, "sigmoid"), "again": self.first}
        self.pair = (L.Dense(width), L.Dropout(0.1))

    def build(self, shape):
        self.late = L.Dense(self.width, name="late")
        wide = (*shape[:-1], self.width)
        for layer in (self.first, self.named["gate"]):
            layer.build(shape)
        for layer in (*self.stack, self.pair[0], self.late):
            layer.build(wide)

    def call(self, x):
        h = self.named["gate"](x) * self.named["again"](x) + self.first(x)
        for layer in self.stack:
            h = layer(h)
        return self.late(self.pair[1](self.pair[0](h)))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """A model with a `call` of its own, a nested Sequential, and a method that a conversion must not lose."""

    def __init__(self, width=4, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.net = keras.Sequential([L.Dense(width, "relu"), Block(width)])
        self.head = L.Dense(2)

    def call(self, x, training=None):
        return self.head(self.net(x, training=training), training=training)

    def twice(self):
        return 2 * self.width

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable("tests")
class Backbone(keras.Model):
    """A functional model behind a constructor of its own, as KerasHub's are; it also names its layers."""

    def __init__(self, width=4, **kwargs):
        embedding = L.ReversibleEmbedding(11, width, name="embedding")
        blocks = [Block(width, name=f"block_{i}") for i in range(1 if BACKEND == "jax" else 2)]
        ids = keras.Input((5,), dtype="int32", name="ids")
        x = embedding(ids)
        for block in blocks:
            x = block(x)
        super().__init__(ids, embedding(x, reverse=True), **kwargs)
        self.embedding, self.blocks, self.width = embedding, blocks, width

    def get_config(self):
        return {"name": self.name, "trainable": self.trainable, "width": self.width}


def sequential():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            L.Conv2D(5, 3, activation="relu"),
            L.BatchNormalization(),
            L.MaxPooling2D(),
            L.Flatten(),
            L.Dense(4),
        ]
    )


def functional():
    """Two inputs, two outputs, a shared layer and a nested model."""
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    shared = L.Dense(6, "tanh", name="shared")
    nested = keras.Sequential([keras.Input((6,)), L.Dense(3, name="inner"), L.ReLU()], name="nested")
    h = L.Concatenate()([nested(shared(a)), nested(shared(shared(b)))])
    return keras.Model([a, b], [L.Dense(2, name="y")(h), h])


def sequences():
    ids = keras.Input((5,), dtype="int32")
    x = L.Embedding(9, 4, mask_zero=True)(ids)
    x = L.TimeDistributed(L.Dense(4))(x)
    x = x + L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    x = L.Bidirectional(L.LSTM(3, return_sequences=True))(x)
    x = L.Conv1D(4, 2, padding="same")(x)
    x = L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="e")(x)
    return keras.Model(ids, L.GRU(3)(L.Reshape((5, 6))(x)))


def subclassed():
    model = Subclassed()
    model(np.ones((2, 3), "float32"))
    return model


class Unregistered(keras.Model):
    """A user's model that Keras cannot find by name."""

    def __init__(self, scale=2.0, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.dense = 2.0, L.Dense(4)

    def call(self, x):
        return self.dense(x) * self.scale


IDS = RNG.integers(0, 9, (3, 5)).astype("int32")
IDS[1, 3:] = 0
MODELS = {
    "sequential": (sequential, RNG.normal(size=(2, 8, 8, 3)).astype("float32"), 2),
    "functional": (functional, [RNG.normal(size=(4, 6)).astype("float32") for _ in "ab"], 3),
    "sequences": (sequences, IDS, 14),
    "subclassed": (subclassed, RNG.normal(size=(4, 3)).astype("float32"), 7),
    "backbone": (Backbone, IDS, 6 if BACKEND == "jax" else 11),
}
CASES = ["backbone"] if BACKEND == "jax" else [*MODELS]


def case(name):
    """Returns a stirred model, a batch for it, and the number of matrices in it."""
    make, x, matrices = MODELS[name]
    return stirred(make()), x, matrices
