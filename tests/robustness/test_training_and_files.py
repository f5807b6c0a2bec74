"""Callbacks × optimizers × precision, losses × heads, files and threads: right numbers, or a clear error."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import keras
import numpy as np
import pytest
from posterior_table import JAX_FIRST, TORCH_FIRST
from robustness_cases import DRAWS, RNG, X, Y, is_clear
from scipy import special

import singularbayes as sb
from singularbayes import LowRank, layers

pytestmark = pytest.mark.on_torch

WEIGHTS = RNG.random(24)


# -- training --------------------------------------------------------------------------------------------------------

CALLBACKS = {
    "none": lambda folder: [],
    "early stopping": lambda folder: [keras.callbacks.EarlyStopping("val_nll", mode="min", patience=1)],
    "early stopping of the library": lambda folder: [sb.EarlyStopping(patience=1)],
    "checkpoint": lambda folder: [keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True)],
    "plateau": lambda folder: [keras.callbacks.ReduceLROnPlateau("val_nll", mode="min", patience=0)],
    "terminate": lambda folder: [keras.callbacks.TerminateOnNaN()],
    "backup": lambda folder: [keras.callbacks.BackupAndRestore(folder / "backup")],
}
OPTIMIZERS = (
    "sgd",
    "rmsprop",
    "adamw",
    "lion",
    "nadam",
    "adagrad",
    "adamax",
    "clipped",
    "averaged",
    "schedule",
)


def _optimizer(name):
    made = {
        "clipped": lambda: keras.optimizers.Adam(clipnorm=1.0),
        "averaged": lambda: keras.optimizers.Adam(use_ema=True, ema_overwrite_frequency=1),
        "schedule": lambda: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, 10)),
    }
    return made[name]() if name in made else keras.optimizers.get(name)


def _fit(folder, optimizer="adam", callbacks="none", dtype=None, **options):
    """Returns a model and its history after two epochs of one step each, and its KL before."""
    keras.utils.set_random_seed(3)
    head = layers.Dense(3, posterior=LowRank(2), dtype=dtype)
    model = keras.Sequential([keras.Input((4,)), head])
    model.compile(_optimizer(optimizer), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [np.array(keras.ops.convert_to_numpy(w)) for w in model.trainable_weights]
    start = sb.kl(model, "exact")
    history = model.fit(
        X,
        Y,
        epochs=2,
        batch_size=24,
        verbose=0,
        validation_data=(X, Y),
        callbacks=[sb.KLSchedule(24), *CALLBACKS[callbacks](folder)],
        **options,
    )
    after = [keras.ops.convert_to_numpy(w) for w in model.trainable_weights]
    stands = [optimizer == "adam" and w.dtype.name == "bfloat16" for w in before]  # β₂ = 1 there, which is a warning
    for new, old, still in zip(after, before, stands, strict=True):
        assert np.isfinite(new.astype("float32")).all() and (new == old).all() == still
    return model, history, start


def _assert_trained_by_the_elbo(model, history, start):
    logged = history.history
    assert {"loss", "nll", "kl", "kl_weight", "val_nll"} <= logged.keys() and np.isfinite(logged["loss"]).all()
    # The one step of an epoch is taken at the KL that the epoch before ended with.
    added = np.array(logged["loss"]) - np.array(logged["nll"])
    np.testing.assert_allclose(24 / 0.03 * added, [start, logged["kl"][0]], rtol=0.1)
    np.testing.assert_allclose(logged["kl_weight"], 0.03 / 24, rtol=1e-6)
    p = sb.predict(model, X, DRAWS)
    np.testing.assert_allclose(p.mean.sum(axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize("callbacks", CALLBACKS)
def test_callbacks_work(tmp_path, callbacks):
    _assert_trained_by_the_elbo(*_fit(tmp_path, callbacks=callbacks))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_work(tmp_path, optimizer):
    _assert_trained_by_the_elbo(*_fit(tmp_path, optimizer))


@JAX_FIRST
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_precisions_work(tmp_path, optimizer, dtype):
    stands = (optimizer, dtype) == ("adam", "bfloat16")
    with pytest.warns(UserWarning, match="does not move weights of type bfloat16") if stands else nullcontext():
        model, history, _ = _fit(tmp_path, optimizer, dtype=dtype)
    assert np.isfinite(history.history["loss"]).all()
    exact, *_ = _fit(tmp_path, optimizer)
    exact.set_weights([np.asarray(w, "float32") for w in model.get_weights()])
    found, expected = (sb.predict(each, X, DRAWS, keep_draws=True).draws for each in (model, exact))
    np.testing.assert_allclose(found, expected, atol=0.05 if dtype != "float32" else 1e-5)


# -- losses × heads --------------------------------------------------------------------------------------------------

LOSSES = {
    "mse": "mse",
    "mae": "mae",
    "gaussian": sb.Gaussian(0.5),
    "mean and scale": sb.MeanScale(),
    "binary": "binary_crossentropy",
    "binary logits": keras.losses.BinaryCrossentropy(from_logits=True),
    "classes": "sparse_categorical_crossentropy",
    "class logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "one-hot": "categorical_crossentropy",
    "one-hot logits": keras.losses.CategoricalCrossentropy(from_logits=True),
}
HEADS = {"1": (1, None), "1 sigmoid": (1, "sigmoid"), "2": (2, None), "3": (3, None), "3 softmax": (3, "softmax")}


@pytest.fixture(scope="session")
def heads():
    """One network per head, compiled again for every loss: its programs stay."""
    return {
        name: keras.Sequential([keras.Input((4,)), keras.layers.Dense(units, activation)])
        for name, (units, activation) in HEADS.items()
    }


def _expected(loss, head, outputs):
    """Returns the mean that is right; None where the pair makes no sense."""
    units, activation = HEADS[head]
    if loss in ("mse", "mae", "gaussian"):
        return outputs[:, 0] if units == 1 else outputs
    if loss == "mean and scale":
        return outputs[:, 0] if head == "2" else None
    if loss.startswith("binary") and units > 1:
        # Every output is a label of its own.
        right = {"binary": None, "binary logits": special.expit(outputs) if activation is None else None}[loss]
        return right
    if loss.startswith("binary"):
        if (activation is None) == (loss == "binary"):
            return None
        one = outputs if activation else special.expit(outputs)
        return np.concatenate([1 - one, one], axis=-1)
    if units == 1 or (activation is None) == (not loss.endswith("logits")):
        return None
    return outputs if activation else special.softmax(outputs, axis=-1)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_and_heads(heads, loss, head):
    model = heads[head]
    model.compile("sgd", LOSSES[loss])
    expected = _expected(loss, head, keras.ops.convert_to_numpy(model(X)).astype("float64"))
    if expected is not None:
        found = sb.predict(model, X).mean
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        return
    with pytest.raises(ValueError) as raised:
        pytest.fail(f"wrong silently: {sb.predict(model, X).mean[:2]}")
    assert is_clear(raised.value) or "declared" in str(raised.value), raised.value


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_of_batches_count_as_those_of_arrays(classifier):
    batches = ((X[i : i + 5], Y[i : i + 5], WEIGHTS[i : i + 5]) for i in range(0, 24, 5))
    streamed = sb.evaluate(classifier, batches, draws=DRAWS).metrics
    given = sb.evaluate(classifier, (X, Y, WEIGHTS), draws=DRAWS).metrics
    unweighted = sb.evaluate(classifier, (X, Y), draws=DRAWS).metrics
    assert streamed == pytest.approx(given, rel=1e-6, nan_ok=True)
    assert abs(given["nll"] - unweighted["nll"]) > 1e-3
    p = sb.predict(classifier, X, DRAWS).mean
    assert given["nll"] == pytest.approx(np.average(-np.log(p[np.arange(24), Y]), weights=WEIGHTS), rel=1e-6)


# -- files -----------------------------------------------------------------------------------------------------------


def _saved(model, folder):
    model.save(folder / "model.keras")
    return sb.load(folder / "model.keras")


def _reweighted(model, folder):
    model.save_weights(folder / "m.weights.h5")
    other = keras.models.clone_model(model)
    other.load_weights(folder / "m.weights.h5")
    other.compile("sgd", model.loss)
    return other


COPIES = {
    "file": _saved,
    "weights": _reweighted,
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("task", ["classifier", "regressor"])
def test_copies_predict_the_same(request, tmp_path, task, kind):
    model = request.getfixturevalue(task)
    found, expected = (sb.predict(each, X, DRAWS).mean for each in (COPIES[kind](model, tmp_path), model))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# -- threads ---------------------------------------------------------------------------------------------------------


@TORCH_FIRST
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("task", ["classifier", "regressor"])
def test_threads_get_the_numbers_of_one_thread(request, task, threads):
    model = request.getfixturevalue(task)

    def mean(seed):  # with numbers of draws that need programs of their own
        return sb.predict(model, X, DRAWS + seed % 2, seed).mean

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(mean, range(6)))
    alone = list(map(mean, range(6)))
    for ours, theirs in zip(found, alone, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
