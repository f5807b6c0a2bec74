"""What leaves the package keeps its predictions: exported files are run by other programs and agree with `predict`."""

import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from networks import NETWORKS, ROWS, expected_outputs
from posterior_table import ON_TORCH

import singularbayes as sb

# Exporters warn of their own future, and of what tracing may miss.
pytestmark = [pytest.mark.backend, pytest.mark.filterwarnings("ignore")]
BACKEND = keras.backend.backend()
# Exporting all weights of two transformers takes a quarter of a minute; collapsed, it is one.
SMALL_NETWORKS = ["mlp", "cnn", "lstm", pytest.param("transformer", marks=pytest.mark.exhaustive)]
NEEDED = {"tensorflow": "tf2onnx", "torch": "onnxscript", "jax": "jax2onnx"}


needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in (NEEDED[BACKEND], "onnxruntime")),
    reason=f"ONNX files of {BACKEND} need {NEEDED[BACKEND]} and onnxruntime",
)


def _onnx(model, x, path):
    """Returns the outputs of the model's ONNX file for x, run by onnxruntime."""
    import onnxruntime

    normalised = any(isinstance(layer, keras.layers.LayerNormalization) for layer in model._flatten_layers())
    if BACKEND == "torch" and normalised:
        # Keras cannot export LayerNormalization from torch with a batch of any size.
        fixed = {"input_signature": [keras.InputSpec(shape=x.shape, dtype=str(x.dtype), name="x")]}
    else:
        fixed = {}
    model.export(path, format="onnx", verbose=False, **fixed)
    session = onnxruntime.InferenceSession(path)
    (argument,) = session.get_inputs()
    named = getattr(model, "output", None)  # a Sequential without an Input has none
    if isinstance(named, dict):
        assert [output.name for output in session.get_outputs()] == sorted(named)
    return session.run(None, {argument.name: x})


@needs_onnx
@pytest.mark.parametrize("name", SMALL_NETWORKS)
def test_frozen_draws_answer_as_predict_does_in_onnxruntime(name, tmp_path):
    if (BACKEND, name) == ("jax", "cnn"):
        pytest.skip("jax2onnx writes a MaxPool that onnxruntime cannot run")
    make, x = NETWORKS[name]
    model = make()
    frozen = sb.freeze_draws(model, 2, seed=1, likelihood="categorical_logits")
    found = _onnx(frozen, x, str(tmp_path / "frozen.onnx"))
    _assert_same(found, sb.predict(model, x, draws=2, seed=1, likelihood="categorical_logits"))


def _assert_same(found, p):
    """Outputs of an ONNX file are in the alphabetical order of their names."""
    expected = dict(sorted(expected_outputs(p).items()))
    for (name, values), array in zip(expected.items(), found, strict=True):
        np.testing.assert_allclose(array, values, rtol=1e-4, atol=5e-6, err_msg=name)


@needs_onnx
@pytest.mark.parametrize("kind", ["regression", "mixture"])
def test_regressions_and_mixtures_answer_as_predict_does_in_onnxruntime(kind, tmp_path):
    posterior = sb.Mixture(sb.FullRank(eta=0.5), components=2) if kind == "mixture" else sb.LowRank(1, eta=0.5)
    head = sb.layers.Dense(1 if kind == "regression" else 3, posterior=posterior)
    model = keras.Sequential([keras.Input((4,), name="rows"), keras.layers.Dense(5, "tanh"), head])
    crossentropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", sb.Gaussian(0.3) if kind == "regression" else crossentropy)
    found = _onnx(sb.freeze_draws(model, 4, seed=1), ROWS, str(tmp_path / "model.onnx"))
    _assert_same(found, sb.predict(model, ROWS, draws=4, seed=1))


_ON_JAX = """
import keras, numpy as np, singularbayes as sb
keras.utils.set_random_seed(3)
hidden = sb.layers.Dense(5, "tanh", posterior=sb.LowRank(2, eta=0.5))
model = keras.Sequential([keras.Input((4,), name="rows"), hidden, sb.layers.Dense(3, posterior=sb.FullRank(eta=0.5))])
model.compile(keras.optimizers.Adam(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = np.load("x.npy")
model.fit(x, np.arange(len(x)) % 3, epochs=3, verbose=0, callbacks=[sb.KLSchedule()])
model.save("trained.keras")
sb.freeze_draws(model, 2, seed=1).save("draws.keras")
p = sb.predict(model, x, 2, seed=1)
np.savez("draws.npz", entropy=p.entropy, mean=p.mean, mutual_information=p.mutual_information)
"""
_ON_TORCH = """
import numpy as np, singularbayes as sb
sb.load("draws.keras").export("draws.onnx", format="onnx", verbose=False)
model = sb.load("trained.keras")
sb.freeze_draws(model, 2, seed=2).export("trained.onnx", format="onnx", verbose=False)
p = sb.predict(model, np.load("x.npy"), 2, seed=2)
np.savez("trained.npz", entropy=p.entropy, mean=p.mean, mutual_information=p.mutual_information)
"""


@needs_onnx
@ON_TORCH
def test_what_was_trained_on_jax_is_an_onnx_file_by_way_of_torch(tmp_path):
    """The draws may be frozen on either backend; each runs in a process of its own, which imports the package alone."""
    import onnxruntime

    np.save(tmp_path / "x.npy", ROWS)
    for backend, code in (("jax", _ON_JAX), ("torch", _ON_TORCH)):
        environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    for frozen in ("draws", "trained"):
        session = onnxruntime.InferenceSession(tmp_path / f"{frozen}.onnx")
        names = [output.name for output in session.get_outputs()]
        expected = np.load(tmp_path / f"{frozen}.npz")
        assert names == sorted(expected)
        assert expected["mutual_information"].mean() > 0.01
        for name, found in zip(names, session.run(None, {"rows": ROWS}), strict=True):
            np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=5e-6, err_msg=f"{frozen} {name}")


@pytest.mark.parametrize("name", NETWORKS if BACKEND != "jax" else ["mlp"])
def test_frozen_draws_answer_as_predict_does_from_a_saved_model(name, tmp_path):
    if BACKEND == "torch":
        pytest.skip("Keras writes no SavedModel from torch")
    tensorflow = pytest.importorskip("tensorflow", reason="a SavedModel needs TensorFlow")
    make, x = NETWORKS[name]
    model = make()
    sb.freeze_draws(model, 2, seed=1, likelihood="categorical_logits").export(tmp_path / "frozen", verbose=False)
    loaded = tensorflow.saved_model.load(str(tmp_path / "frozen"))
    p = sb.predict(model, x, draws=2, seed=1, likelihood="categorical_logits")
    for name, value in loaded.serve(x).items():
        np.testing.assert_allclose(value.numpy(), getattr(p, name), rtol=1e-4, atol=2e-6)


@needs_onnx
@pytest.mark.parametrize("merge", [False, True], ids=["factors", "merged"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_collapsed_model_answers_as_itself_and_as_the_means_in_onnxruntime(name, merge, tmp_path):
    if (BACKEND, name) == ("jax", "cnn"):
        pytest.skip("jax2onnx writes a MaxPool that onnxruntime cannot run")
    if merge and name in ("lstm", "transformer"):
        pytest.skip("they are merged anyway")
    make, x = NETWORKS[name]
    model = make()
    collapsed = sb.collapse(model, merge=merge)
    expected = keras.ops.convert_to_numpy(collapsed(x))
    np.testing.assert_allclose(expected, keras.ops.convert_to_numpy(model(x)), rtol=1e-4, atol=1e-5)
    (found,) = _onnx(collapsed, x, str(tmp_path / "collapsed.onnx"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
