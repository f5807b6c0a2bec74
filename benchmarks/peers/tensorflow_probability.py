"""TensorFlow Probability under legacy Keras, through `fit`; prediction calls the compiled model once a draw."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from shapes import NUM_DATA, Lstm, Mlp, Shape, Transformer, targets

from peers import NoSuchLayer

PACKAGES = ("tensorflow-probability", "tf_keras", "tensorflow")
VECTORISED = False

tf.config.threading.set_intra_op_parallelism_threads(2)
tf.config.threading.set_inter_op_parallelism_threads(2)


def _dense(units: int, activation=None):
    def kl(q, p, _):
        return tfp.distributions.kl_divergence(q, p) / NUM_DATA

    bias = {
        "bias_posterior_fn": tfp.layers.default_mean_field_normal_fn(),
        "bias_prior_fn": tfp.layers.default_multivariate_normal_fn,
        "bias_divergence_fn": kl,
    }
    return tfp.layers.DenseReparameterization(units, activation, kernel_divergence_fn=kl, **bias)


def _build(shape: Shape):
    tf_keras.utils.set_random_seed(0)
    match shape:
        case Mlp():
            hidden = [_dense(n, "relu") for n in shape.widths[1:-1]]
            return tf_keras.Sequential([tf_keras.Input((shape.widths[0],)), *hidden, _dense(shape.outputs)])
        case Transformer():
            ids = tf_keras.Input((shape.length,), dtype="int32")
            x = tf_keras.layers.Embedding(shape.vocabulary, shape.width)(ids)
            mask = tf_keras.layers.Lambda(lambda ids: tf.where(ids == 0, -1e9, 0.0)[:, None, None, :])(ids)
            for _ in range(shape.blocks):
                x = _block(shape, x, mask)
            return tf_keras.Model(ids, _dense(shape.outputs)(x[:, 0]))
        case Lstm():
            raise NoSuchLayer("LSTM")
    raise NoSuchLayer(type(shape).__name__)


def _block(shape: Transformer, x, mask):
    n = tf_keras.layers.LayerNormalization(epsilon=1e-5)(x)
    size = shape.width // shape.heads
    split = tf_keras.layers.Reshape((shape.length, shape.heads, size))
    q, k, v = (split(_dense(shape.width)(n)) for _ in range(3))

    def attend(qkvm):
        q, k, v, mask = qkvm
        weights = tf.nn.softmax(tf.einsum("bqhd,bkhd->bhqk", q, k) / size**0.5 + mask)
        return tf.einsum("bhqk,bkhd->bqhd", weights, v)

    attended = tf_keras.layers.Lambda(attend)([q, k, v, mask])
    x = x + _dense(shape.width)(tf_keras.layers.Reshape((shape.length, shape.width))(attended))
    n = tf_keras.layers.LayerNormalization(epsilon=1e-5)(x)
    return x + _dense(shape.width)(_dense(shape.feed_forward, "relu")(n))


def train(shape, variant):
    model = _build(shape)
    classes = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = tf_keras.losses.MeanSquaredError() if shape.outputs == 1 else classes
    model.compile(tf_keras.optimizers.Adam(), loss, jit_compile=variant == "xla")
    examples = shape.batch * shape.steps
    x, y = shape.inputs(examples), targets(shape, examples)

    def epoch() -> int:
        model.fit(x, y, batch_size=shape.batch, epochs=1, verbose=0)
        return shape.steps

    return epoch


def predict(shape, variant):
    model = _build(shape)
    forward = tf.function(lambda x: model(x, training=False), jit_compile=variant == "xla")

    def mean(x: np.ndarray, draws: int, batch: int) -> np.ndarray:
        parts = [tf.constant(x[i : i + batch]) for i in range(0, len(x), batch)]
        return np.concatenate([_average([forward(part) for _ in range(draws)], shape) for part in parts])

    return mean


def _average(outputs, shape: Shape) -> np.ndarray:
    stacked = tf.stack(outputs)
    return tf.reduce_mean(stacked if shape.outputs == 1 else tf.nn.softmax(stacked), axis=0).numpy()
