"""What cannot be converted is named, with what to do about it."""

import keras
import numpy as np
import pytest
from convertible import RNG, Backbone, Subclassed, assert_close, not_on_jax
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import FullRank, find_posteriors

pytestmark = [pytest.mark.backend, TORCH_FIRST]
L = keras.layers


class _Custom(L.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 3))

    def call(self, x):
        return ops.matmul(x, self.w)


class _Squared(L.Dense):
    def call(self, inputs):
        return super().call(inputs) ** 2


@not_on_jax
@pytest.mark.parametrize(
    ("make", "where"),
    [
        (
            lambda: L.DepthwiseConv2D(3, name="odd"),
            r"DepthwiseConv2D 'odd' \(no Bayesian counterpart\)",
        ),
        (lambda: L.ConvLSTM1D(2, 3, name="odd"), "ConvLSTM1D 'odd'"),
        (lambda: _Custom(name="odd"), "_Custom 'odd'"),
        (lambda: _Squared(3, name="odd"), "_Squared 'odd'"),
        (lambda: L.SpectralNormalization(L.Dense(3), name="odd"), "SpectralNormalization 'odd'"),
    ],
)
def test_what_has_no_counterpart_is_an_error_or_kept(make, where):
    x = RNG.normal(size=(2, 6, 6, 3)).astype("float32")
    model = keras.Sequential([keras.Input((6, 6, 3)), make(), L.Flatten(), L.Dense(2)])
    with pytest.raises(ValueError, match=rf'have a Bayesian counterpart; got .*{where}.*unsupported="keep"'):
        sb.bayesianize(model, 1)
    assert [row.path for row in sb.plan(model, 1).unsupported] and "odd" in str(sb.plan(model, 1))
    bayes = sb.bayesianize(model, FullRank(), unsupported="keep", init="svd")
    assert_close(bayes(x), model(x))
    assert len(find_posteriors(sb.bayesianize(model, 1, rules={"*odd": None}))) == 1


def test_an_unbuilt_model_is_an_error_with_how_to_build():
    with pytest.raises(ValueError, match=r"Conversion needs a Keras model; got 3"):
        sb.bayesianize(3, 2)
    for model in (keras.Sequential([L.Dense(3)]), Subclassed()):
        with pytest.raises(ValueError, match=r"needs a built model; got .*model\(x\[:1\]\)"):
            sb.bayesianize(model, 2)
        with pytest.raises(ValueError, match=r"collapse needs a built Keras model"):
            sb.collapse(model)


class _Closed(keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.inner = layer

    def call(self, x):
        return self.inner(x)

    def get_config(self):
        raise NotImplementedError("no config")


def test_a_model_without_a_config_is_an_error_with_what_to_write():
    model = _Closed(L.Dense(3))
    model(np.ones((1, 2), "float32"))
    with pytest.raises(ValueError, match=r"built from its config; got _Closed .*get_config\(\).*reports: no config"):
        sb.bayesianize(model, 1)


def test_layers_added_after_the_constructor_are_an_error():
    model = Backbone()
    model.extra = L.Dense(2)
    model.extra.build((None, 3))
    with pytest.raises(ValueError, match=r"needs a model that its config describes; got Backbone"):
        sb.bayesianize(model, 1)


class _Spare(L.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.used, self.unused = L.Dense(4), L.Dense(4, name="unused")

    def build(self, shape):
        self.used.build(shape)

    def call(self, x):
        return self.used(x)


def test_a_layer_that_no_call_reached_is_named():
    with pytest.raises(ValueError, match=r"Dense 'block/unused' \(it was never built"):
        sb.bayesianize(keras.Sequential([keras.Input((4,)), _Spare(name="block")]), 1)


def test_weights_that_are_no_numbers_are_named():
    model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="broken")])
    model.layers[0].kernel.assign(np.full((6, 4), np.nan))
    for convert in (sb.plan, sb.bayesianize):
        with pytest.raises(ValueError, match=r"NaN or infinity in .*broken/kernel"):
            convert(model, 2, init="svd")
