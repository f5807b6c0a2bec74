"""Layers with weights and statistics for every component."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import layers
from singularbayes.posteriors import in_blocks, scope

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch, TORCH_FIRST]

K, BATCH = 2, 8
X = np.random.default_rng(0).normal(1.0, 2.0, size=(BATCH, 3)).astype("float32")


def _numpy(x):
    return ops.convert_to_numpy(x)


def _made(layer):
    made = layers.PerComponent(layer, K)
    made.build((None, 3))
    rng = np.random.default_rng(1)
    for weight in made.weights:
        weight.assign(rng.uniform(0.5, 2.0, weight.shape))
    return made


def _pass(layer, x):
    """Returns the outputs of a training pass, (components, examples, …), and the values of the weights after it."""
    with keras.StatelessScope() as passed, in_blocks(K):
        outputs = _numpy(layer(ops.tile(x, (K, 1)), training=True))
        after = [None if v is None else _numpy(v) for v in map(passed.get_current_value, layer.weights)]
    return outputs.reshape(K, len(x), -1), after


@pytest.mark.parametrize("kind", ["BatchNormalization", "LayerNormalization", "Dense"])
def test_every_component_is_a_layer_of_its_own_on_its_examples(kind):
    make = {"Dense": lambda: keras.layers.Dense(4)}.get(kind, getattr(keras.layers, kind))
    layer = _made(make())
    outputs, after = _pass(layer, X)
    for k in range(K):
        alone = make()
        alone.build((None, 3))
        alone.set_weights([_numpy(w)[k] for w in layer.weights])
        np.testing.assert_allclose(outputs[k], _numpy(alone(X, training=True)), rtol=1e-4, atol=1e-5)
        for own, new in zip(alone.weights, after, strict=True):
            assert (new is not None) == ("moving" in own.name)
            if new is not None:  # statistics of this component's examples alone
                np.testing.assert_allclose(new[k], _numpy(own), rtol=1e-4, atol=1e-5)
        with scope.fix_draws({id(layer): layer.draw_number(None, k + K)}):
            found = _numpy(layer(ops.convert_to_tensor(X)))
        plain = layer.take_components(k)
        assert type(plain) is type(alone)
        np.testing.assert_allclose(found, _numpy(plain(X)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(_numpy(layer(X[:1])), _numpy(layer.take_components(0)(X[:1])), rtol=1e-4, atol=1e-5)


def test_a_frozen_normalisation_uses_its_statistics_in_training():
    layer = _made(keras.layers.BatchNormalization())
    layer.trainable = False
    frozen, changed = _pass(layer, X)
    assert all(value is None for value in changed)
    for k in range(K):
        np.testing.assert_allclose(frozen[k], _numpy(layer.take_components(k)(X)), 1e-4)


def test_a_model_with_batch_normalisation_trains_where_it_is_per_component(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.PerComponent(keras.layers.BatchNormalization(), K),
            layers.Dense(1, posterior=sb.Mixture(sb.LowRank(1), K)),
        ]
    )
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], batch_size=4, verbose=0, callbacks=[sb.KLSchedule(BATCH, beta=1.0)])
    moving = _numpy(next(w for w in model.layers[0].weights if w.name == "moving_mean"))
    assert (moving != 0).all()
    np.testing.assert_allclose(moving[0], moving[1])  # both have seen all examples
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    ours, theirs = (sb.predict(m, X, draws=4, likelihood="gaussian").mean for m in (model, again))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_is_no_layer_is_refused():
    with pytest.raises(ValueError, match="PerComponent needs a Keras layer"):
        layers.PerComponent("batch_normalization", 2)
    with pytest.raises(ValueError, match="components"):
        layers.PerComponent(keras.layers.LayerNormalization(), 0)
