"""A forecaster, a Transformer and a convolutional net: fitted on the ELBO, and asked draw by draw."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import ON_TORCH, as_program, stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, Normal, layers
from singularbayes.posteriors import draw_keys, draw_sources, noise, scope
from singularbayes.prediction import sampler

pytestmark = pytest.mark.backend
RNG = np.random.default_rng(6)
P = {"posterior": LowRank(2, prior=Normal(0.5)), "bias_posterior": FullRank(prior=Normal(0.5))}
HEAD = {"posterior": LowRank(1, prior=Normal(0.5))}
IDS = RNG.integers(1, 7, (8, 5)).astype("int32")
IDS[:4, 3:] = 0


def _forecaster():
    """Stacked recurrent layers, one of them in both directions, after a layer at every step."""
    return keras.Sequential(
        [
            keras.Input((5, 3)),
            keras.layers.TimeDistributed(layers.Dense(3, "tanh", **P)),
            keras.layers.Bidirectional(layers.LSTM(2, return_sequences=True, **P)),
            layers.LSTM(3, **P),
            layers.Dense(1, **HEAD),
        ]
    )


def _transformer():
    """Tokens of any length, 0 is padding; the table is also the way back."""
    ids = keras.Input((None,), dtype="int32")
    table = layers.ReversibleEmbedding(7, 4, mask_zero=True, posterior=P["posterior"])
    x = layers.TransformerEncoder(6, 2, per_head=True, dropout=0.1, **P)(table(ids))
    return keras.Model(ids, table(keras.layers.GlobalAveragePooling1D()(x), reverse=True))


def _convolutional():
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", **P),
            layers.Conv2D(4, 2, groups=2, **P),
            keras.layers.Flatten(),
            layers.Dense(1, **HEAD),
        ]
    )


NETWORKS = {
    "forecaster": (_forecaster, RNG.normal(size=(8, 5, 3)).astype("float32"), 1),
    "transformer": (_transformer, IDS, 7),
    "convolutional": (_convolutional, RNG.normal(size=(8, 6, 6, 2)).astype("float32"), 1),
}


# Convolutions are trained and drawn one layer at a time in test_keras_battery.py and test_predict.py; there and in
# test_sampler.py JAX and TensorFlow draw coherently and without padding.
_MARKS = {"forecaster": ON_TORCH, "transformer": (), "convolutional": pytest.mark.exhaustive}
PARAMS = [pytest.param(name, marks=_MARKS[name]) for name in NETWORKS]


@pytest.fixture(scope="module", params=PARAMS)
def network(request):
    """A stirred model, its inputs and its targets."""
    keras.utils.set_random_seed(3)
    make, x, outputs = NETWORKS[request.param]
    return stir(make()), x, RNG.normal(size=(8, outputs)).astype("float32")


def _draws(model, x, **arguments):
    return sb.predict(model, x, 4, seed=5, likelihood="gaussian", keep_draws=True, **arguments).draws


def _fixed(model, s, x):
    """Returns what a plain pass says with the weights of draw s of `_draws` fixed."""
    posteriors = sb.find_posteriors(model)
    draw = draw_sources(posteriors, noise.as_keys(draw_keys(5, s + 1)[s]))
    with scope.fix_draws({id(p): arrays for p, arrays in zip(posteriors, draw, strict=True)}):
        return ops.convert_to_numpy(as_program(lambda x: model(x))(x))


@ON_TORCH
def test_a_draw_is_one_function_however_the_data_and_the_draws_are_cut(network, monkeypatch):
    model, x, _ = network
    whole = _draws(model, x)
    for s in (0, 3):
        np.testing.assert_allclose(whole[s], _fixed(model, s, x).reshape(whole[s].shape), rtol=1e-4, atol=1e-5)
    assert min(np.abs(whole[s] - whole[t]).max() for s in range(4) for t in range(s)) > 1e-3
    monkeypatch.setattr(sampler, "sizes", lambda *_: (4, 2, 4))
    np.testing.assert_allclose(_draws(model, x), whole, rtol=1e-4, atol=1e-5)


@ON_TORCH
def test_padding_changes_no_draw():
    model = stir(_transformer())
    np.testing.assert_allclose(_draws(model, IDS[:4, :3]), _draws(model, IDS[:4]), rtol=1e-4, atol=1e-5)


def test_fit_minimises_nll_plus_weighted_kl_and_reaches_every_weight(network):
    model, x, y = network
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=keras.backend.backend() == "jax")
    schedule = sb.KLSchedule(num_data=8, beta=0.5, warmup=2)
    # Standing still, what is logged can be checked exactly: the KL is counted once whatever length or direction.
    history = model.fit(x, y, 4, 3, 0, callbacks=[schedule], validation_data=(x, y)).history
    np.testing.assert_allclose(history["kl"], sb.kl(model, "exact"), rtol=1e-5)
    np.testing.assert_allclose(history["kl_weight"], [0, 0.25 / 8, 0.5 / 8], rtol=1e-6)
    added = np.multiply(history["kl_weight"], history["kl"])
    np.testing.assert_allclose(history["loss"], history["nll"] + added, rtol=1e-5)
    np.testing.assert_allclose(history["val_loss"], history["val_nll"], rtol=1e-5)
    # Without a KL only the likelihood moves weights, and it moves the means and the scales of all of them.
    before = model.get_weights()
    model.optimizer.learning_rate = 1e-2
    model.fit(x, y, 4, 1, 0, callbacks=[sb.KLSchedule(num_data=8, beta=0.0)])
    moved = {v.path: np.abs(ours - v.numpy()) for ours, v in zip(before, model.weights, strict=True) if v.trainable}
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            if "/key/" in factor.values.path and "bias" in factor.values.path:
                continue  # the softmax over keys does not see a bias that all of them share
            assert np.all(moved[factor.values.path].reshape(2, -1).max(axis=-1) > 0), factor.values.path
