"""A `.keras` file is the whole model: the same predictions here and on every other backend, and training resumes."""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest
from keras import ops
from keras.src.saving.serialization_lib import ObjectSharingScope  # what reading a file enters
from posterior_table import as_program, stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, Normal, RankOne, layers, posteriors

pytestmark = pytest.mark.backend
X = np.random.default_rng(2).normal(size=(8, 5)).astype("float32")
Y = np.random.default_rng(3).normal(size=(8, 1)).astype("float32")
IDS = (np.abs(X[:, :3]) * 2).astype("int32") % 5
NEXT = {"jax": "tensorflow", "tensorflow": "torch", "torch": "jax"}  # each writes for one and reads from one


def _means(model, x):
    return ops.convert_to_numpy(as_program(lambda x: model(x))(x))


def _network():
    x = keras.Input((5,))
    hidden = layers.Dense(4, "tanh", posterior=LowRank(2, rho_lr=3.0), bias_posterior=FullRank(prior="normal"))(x)
    hidden = keras.Sequential([keras.Input((4,)), layers.Dense(4, posterior=RankOne())])(hidden)
    return keras.Model(x, layers.Dense(1, posterior=FullRank(family="laplace", prior=Normal(2.0)))(hidden))


def test_a_trained_model_predicts_the_same_and_trains_on_as_if_it_had_not_been_saved(tmp_path):
    model = _network()
    model.compile(keras.optimizers.Adam(0.01), sb.Gaussian(0.5), jit_compile=keras.backend.backend() == "jax")
    schedule = sb.KLSchedule(num_data=8, beta=0.5)
    model.fit(X, Y, verbose=0, callbacks=[schedule])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    ours, theirs = (sb.predict(m, X, draws=5, seed=1, keep_draws=True) for m in (model, again))
    np.testing.assert_allclose(theirs.draws, ours.draws, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(theirs.variance("total"), ours.variance("total"), rtol=1e-4, atol=1e-6)
    # The file also holds the weight of the KL and the optimizer's state; Keras does not save states of noise.
    for ours, theirs in zip(model.non_trainable_variables, again.non_trainable_variables, strict=True):
        theirs.assign(ops.convert_to_numpy(ours).copy())  # on JAX a variable would share its buffer
    for m in (model, again):
        sb.set_kl(m, num_data=8, beta=0.5)
        m.train_on_batch(X, Y)
    for ours, theirs in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_loaded_model_states_the_kl_weight_of_its_file_and_trains_with_it(tmp_path):
    model = _network()
    model.compile(keras.optimizers.SGD(0.0), sb.Gaussian(0.5), jit_compile=keras.backend.backend() == "jax")
    model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(num_data=8, beta=0.5)])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    with pytest.warns(
        UserWarning, match=r"resumes with the KL weight 0\.0625 that the file of .* holds\. Pass .*KLSched"
    ):
        again.fit(X, Y, 8, 2, 0)
    again(X, training=True)
    added = sum(float(ops.convert_to_numpy(loss)) for loss in again.losses)
    assert added == pytest.approx(0.0625 * sb.kl(model, "exact"), rel=0.2)  # some of it is sampled
    assert again.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(num_data=8, beta=1.0)]).history["kl_weight"] == [0.125]
    with pytest.raises(ValueError, match="KL weight is not set"):  # it is no longer that of the file
        again.fit(X, Y, verbose=0)


def test_posteriors_made_while_a_file_is_read_are_not_taken_for_each_other():
    # Keras then knows objects by their address, and the temporary posterior of a recipe leaves its own to the next.
    with ObjectSharingScope():
        recipes = [posteriors.recipe(LowRank(2), FullRank(prior=Normal())) for _ in range(20)]
        made = [posteriors.get_posterior(recipe[key]) for recipe in recipes for key in ("posterior", "bias_posterior")]
    assert [type(posterior) for posterior in made] == 20 * [LowRank, FullRank]
    assert len({id(posterior) for posterior in made}) == 40


def test_a_kl_weight_of_0_is_0_after_loading_too(tmp_path):
    model = _network()
    model.compile("sgd", "mse", jit_compile=False)
    sb.set_kl(model, num_data=8, beta=0.0)
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    assert [posterior.kl_weight_now for posterior in sb.find_posteriors(again)] == [0.0] * 4
    assert np.isfinite(again.train_on_batch(X, Y))


def test_a_clone_has_its_own_weights():
    model = _network()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(_means(clone, X), _means(model, X), rtol=1e-6)
    assert not {id(v) for v in clone.variables} & {id(v) for v in model.variables}


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "scaled"])
def test_a_file_that_was_compiled_on_torch_trains_on_here(optimizer, tmp_path):
    model = _network()
    kind = keras.optimizers.Adam if optimizer == "scaled" else getattr(keras.optimizers, optimizer)
    inner = kind(0.25)
    scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=4.0)
    model.compile(scaled if optimizer == "scaled" else inner, "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(7)
    sb.set_kl(model, num_data=8, beta=1.0)
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    saved = config["compile_config"]["optimizer"]
    saved = saved["config"]["inner_optimizer"] if optimizer == "scaled" else saved
    # As Keras writes it on torch.
    name = kind.__name__
    saved.update(module=f"keras.src.backend.torch.optimizers.torch_{name.lower()}", registered_name=name)
    with zipfile.ZipFile(tmp_path / "torch.keras", "w") as archive:
        for part, content in {**parts, "config.json": json.dumps(config)}.items():
            archive.writestr(part, content)
    again = sb.load(tmp_path / "torch.keras")
    inner = again.optimizer.inner_optimizer if optimizer == "scaled" else again.optimizer
    assert isinstance(inner, kind) and again.jit_compile == (keras.backend.backend() == "jax")
    assert float(ops.convert_to_numpy(inner.learning_rate)) == 0.25
    assert np.isfinite(again.train_on_batch(X, Y)) and int(ops.convert_to_numpy(again.optimizer.iterations)) == 8


# Reads a model, without TensorFlow unless it is the reader, and says what its means predict and what its KL is.
_READ = """
import json, os, sys
if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None
import numpy as np
import singularbayes as sb
import keras
path, inputs = sys.argv[1:]
model = sb.load(path)
out = model.predict(np.load(inputs), verbose=0)
step = int(keras.ops.convert_to_numpy(model.optimizer.iterations))
compiled = [type(model.optimizer).__module__, model.jit_compile, step]
found = {"compiled": compiled, "backend": keras.backend.backend(), "out": out.tolist(), "kl": sb.kl(model, "exact")}
print(json.dumps(found))
"""


def _every_layer():
    p = {"posterior": LowRank(2, prior=Normal()), "bias_posterior": FullRank(prior=Normal())}
    ids = keras.Input((3,), dtype="int32")
    table = layers.ReversibleEmbedding(5, 4, posterior=LowRank(2, prior=Normal()))
    x = keras.layers.Add()([table(ids), layers.Embedding(5, 4, posterior=RankOne(prior=Normal()))(ids)])
    x = layers.TransformerEncoder(6, 2, per_head=True, **p)(x)
    x = layers.MultiHeadAttention(2, 2, **p)(x, x, use_causal_mask=True)
    x = layers.GRU(4, return_sequences=True, **p)(x)
    x = layers.LSTM(4, return_sequences=True, **p)(x)
    x = layers.Conv1D(4, 2, padding="causal", **p)(x)
    x = layers.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d", **p)(x)
    x = keras.layers.Reshape((3, 5, 1))(table(x, reverse=True))
    x = keras.layers.Flatten()(layers.Conv2D(2, 2, **p)(x))
    x = layers.Dense(4, "tanh", posterior=RankOne(prior=Normal()))(x)
    return keras.Model(ids, layers.Dense(1, posterior=FullRank(family="laplace"))(x))


@pytest.mark.parametrize(
    "reader",
    [
        name if name == NEXT[keras.backend.backend()] else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in NEXT
        if name != keras.backend.backend()
    ],
)
def test_a_file_of_this_backend_predicts_the_same_on_another(reader, tmp_path):
    if importlib.util.find_spec(reader) is None:
        pytest.skip(f"{reader} is not installed")
    model = stir(_every_layer())
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)  # the file also holds its state
    model.optimizer.iterations.assign(7)
    sb.set_kl(model, num_data=8, beta=1.0)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "ids.npy", IDS)
    environment = {**os.environ, "KERAS_BACKEND": reader}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-W", "ignore", "-c", _READ, tmp_path / "model.keras", tmp_path / "ids.npy"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])
    assert read["backend"] == reader
    module, jit_compile, step = read["compiled"]
    assert ("torch" in module) == (reader == "torch") and jit_compile == (reader == "jax") and step == 7
    np.testing.assert_allclose(read["out"], _means(model, IDS), rtol=1e-4, atol=1e-5)
    assert read["kl"] == pytest.approx(sb.kl(model, "exact"), rel=1e-6)
