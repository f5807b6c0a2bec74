"""Ways to train a mixture: many seeds at once, class weights, and every kind of posterior inside."""

import io
import zipfile

import h5py
import keras
import numpy as np
import pytest
from keras import ops

import singularbayes as sb
from singularbayes import layers

K = 2
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(16, 4)).astype("float32"), RNG.integers(0, 2, 16)


def _model(inside, **arguments):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=sb.Mixture(inside, K))])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, **arguments)
    return model


def test_many_seeds_train_as_each_alone():
    def fitted(together):
        return sb.fit_many(
            lambda: _model(sb.LowRank.paper(2, prior="normal")),
            X,
            Y,
            seeds=[3, 4],
            epochs=2,
            batch_size=6,
            callbacks=lambda: [sb.KLSchedule(len(X), beta=1.0)],
            validation_data=(X, Y),
            together=together,
        )

    for ours, alone in zip(fitted(2), fitted(1), strict=True):
        for name in ("nll", "val_nll"):
            np.testing.assert_allclose(ours.history[name], alone.history[name], rtol=1e-4)
        for a, b in zip(ours.model.trainable_weights, alone.model.trainable_weights, strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(a), ops.convert_to_numpy(b), rtol=1e-3, atol=1e-5)


@pytest.mark.backend
def test_class_weights_are_sample_weights_of_every_component():
    found = []
    for weights in ({"class_weight": {0: 1.0, 1: 3.0}}, {"sample_weight": np.where(Y == 1, 3.0, 1.0)}):
        keras.utils.set_random_seed(1)
        model = _model(sb.FullRank(prior="normal"))
        model.fit(X, Y, batch_size=16, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)], **weights)
        found.append([ops.convert_to_numpy(w) for w in model.trainable_weights])
    for by_class, by_sample in zip(*found, strict=True):
        np.testing.assert_allclose(by_class, by_sample, rtol=1e-5, atol=1e-6)


@pytest.mark.backend
@pytest.mark.parametrize(
    "inside",
    [
        sb.AdaptiveLowRank(2, tolerance=0.999),
        sb.Adapter(2),
        sb.RankOne(),
    ],
    ids=repr,
)
@pytest.mark.rows_on_torch
def test_every_kind_of_posterior_trains_inside(inside, tmp_path):
    model = _model(inside)
    (posterior,) = sb.find_posteriors(model)
    frozen = [ops.convert_to_numpy(w) for w in posterior.non_trainable_weights if w.name == "w0"]
    before = ops.convert_to_numpy(posterior.random_weights[0])
    model.fit(X, Y, batch_size=8, epochs=2, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    changed = np.abs(ops.convert_to_numpy(posterior.random_weights[0]) - before)
    assert (changed.reshape(K, -1).max(axis=1) > 0).all()
    for old, w in zip(frozen, [w for w in posterior.non_trainable_weights if w.name == "w0"], strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(w), old)  # one for all components
    if posterior.learned_rank is not None:
        live = [int(posterior.component(k).live_columns().sum()) for k in range(K)]
        assert posterior.learned_rank == max(live) == 1  # a tolerance of 0.999 leaves the strongest column
        assert posterior.num_switched_off() == K * 2 * (4 + 2)
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        stored = h5py.File(io.BytesIO(file.read("model.weights.h5")))["layers/dense/posterior"]
    assert list(stored) == ["vars"]  # and not those of one component, which the components stand for
    p, again = (sb.predict(m, X, draws=3, keep_draws=True) for m in (model, sb.load(tmp_path / "model.keras")))
    np.testing.assert_allclose(p.draws, again.draws, rtol=1e-4, atol=1e-6)
    assert len(p.draws) == 4 and np.abs(p.draws[0] - p.draws[2]).max() > 0
    frozen_draws = sb.freeze_draws(model, 4)
    np.testing.assert_allclose(frozen_draws.predict(X, verbose=0)["mean"], p.mean, rtol=1e-4, atol=1e-5)


def test_a_trained_batch_normalisation_is_refused_beside_a_frozen_one_of_the_same_name():
    parts = [keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(name="norm")]) for _ in range(2)]
    parts[0].trainable = False
    head = layers.Dense(2, posterior=sb.Mixture(sb.LowRank(2), K))
    model = keras.Sequential([keras.Input((4,)), *parts, head])
    with pytest.raises(ValueError, match=r"got BatchNormalization \['norm'\]"):
        sb.set_kl(model, num_data=16)
    parts[1].trainable = False
    sb.set_kl(model, num_data=16)


@pytest.mark.backend
@pytest.mark.parametrize("together", [1, None], ids=["keras", "program"])
def test_validation_draws_every_component_for_every_example(together):
    """Components of next to no noise: the loss of validation is the mean of theirs, whatever the batches."""

    def build():
        model = _model(sb.FullRank(prior="normal", rho_initializer=keras.initializers.Constant(-30.0)))
        model.optimizer.learning_rate = 0.0
        return model

    options = {"callbacks": lambda: [sb.KLSchedule(len(X))], "validation_data": (X[:13], Y[:13]), "together": together}
    (run,) = sb.fit_many(build, X, Y, [3], 2, 5, **options)
    posterior, bias = sb.find_posteriors(run.model)[0], ops.convert_to_numpy(run.model.layers[0].bias)
    losses = []
    for k in range(K):
        logits = X[:13] @ ops.convert_to_numpy(posterior.component(k).mean().dense()) + bias[k]
        losses.append(np.mean(np.logaddexp(*logits.T) - logits[np.arange(13), Y[:13]]))
    assert abs(losses[0] - losses[1]) > 0.01
    assert run.history["val_loss"] == pytest.approx([np.mean(losses)] * 2, rel=1e-5)
    assert run.model.evaluate(X[:13], Y[:13], verbose=0) == pytest.approx(losses[0], rel=1e-5)
