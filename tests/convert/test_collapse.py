"""A collapsed model is plain Keras: it predicts what the means do, and loads where this package cannot be imported."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST, as_program, stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, RankOne, layers

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]
L = keras.layers
RNG = np.random.default_rng(7)
BACKEND = keras.backend.backend()
not_on_jax = pytest.mark.skipif(BACKEND == "jax", reason="compiling takes long; torch and TensorFlow run it")
IDS = RNG.integers(0, 50, (3, 6)).astype("int32")
IDS[1, 4:] = 0


def _close(a, b, atol=2e-5):
    np.testing.assert_allclose(ops.convert_to_numpy(a), ops.convert_to_numpy(b), rtol=1e-4, atol=atol)


def _mean(model, x):
    return as_program(lambda x: model(x))(x)


def _text(posterior):
    """Masks pass through every layer."""
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(50, 12, mask_zero=True, posterior=posterior, name="table"),
            layers.Dense(12, "tanh", posterior=posterior, bias_posterior=FullRank(), name="mix"),
            layers.TransformerEncoder(8, 2, posterior=posterior, name="block"),
            layers.LSTM(5, posterior=posterior, name="read"),
            layers.Dense(4, posterior=posterior, name="head"),
        ]
    )


def _image(posterior):
    return keras.Sequential(
        [
            keras.Input((9, 9, 3)),
            layers.Conv2D(12, 3, strides=2, padding="same", activation="relu", posterior=posterior, name="conv"),
            L.BatchNormalization(),
            layers.Conv2D(12, 3, groups=2, posterior=posterior, name="grouped"),
            L.Flatten(),
            layers.Dense(4, posterior=posterior, name="head"),
        ]
    )


CASES = {"text": (_text, IDS), "image": (_image, RNG.normal(size=(2, 9, 9, 3)).astype("float32"))}


@pytest.mark.parametrize("make", [lambda: LowRank(2), FullRank, RankOne], ids=["low_rank", "full_rank", "rank_one"])
@pytest.mark.parametrize("kind", ["text"] if BACKEND == "jax" else [*CASES])
@TORCH_FIRST
def test_it_predicts_what_the_means_do(kind, make):
    if BACKEND == "jax" and make is not FullRank:
        pytest.skip("compiling takes long; torch and TensorFlow run it")
    build, x = CASES[kind]
    model = build(make())
    truth = _mean(model, x)
    for merge in (False, True):
        plain = sb.collapse(model, merge=merge)
        _close(_mean(plain, x), truth)
        assert not [w for w in plain.weights if "posterior" in w.path]
    assert not plain.compiled


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("merge", [False, True], ids=["factors", "merged"])
def test_it_keeps_the_loss_by_which_its_outputs_are_understood(merge, components):
    posterior = sb.Mixture(LowRank(1), components=components) if components > 1 else LowRank(1)
    hidden = layers.Dense(5, "tanh", posterior=posterior)
    model = stir(keras.Sequential([keras.Input((6,)), hidden, layers.Dense(1, posterior=posterior)]))
    model.compile(keras.optimizers.Adam(0.02), sb.Gaussian(0.3), metrics=["mae"])
    x, y = RNG.normal(size=(7, 6)).astype("float32"), RNG.normal(size=7).astype("float32")
    plain = sb.collapse(model, merge, component=components - 1)
    p = sb.predict(plain, x)
    assert p.noise == pytest.approx(0.3)
    error = y - p.mean
    nll = np.mean(error**2) / (2 * 0.3**2) + np.log(0.3 * np.sqrt(2 * np.pi))
    assert plain.evaluate(x, y, verbose=0) == pytest.approx([nll, np.abs(error).mean()], rel=1e-4)
    before = plain.get_weights()
    plain.fit(x, y, verbose=0)  # with an optimizer of its own weights: Adam's first step is its rate
    moved = [np.abs(new - old).max() for new, old in zip(plain.get_weights(), before, strict=True)]
    assert moved == pytest.approx([0.02] * len(moved), rel=0.01)


@not_on_jax
def test_low_rank_layers_are_two_small_ones_where_that_is_smaller():
    names = [layer.name for layer in sb.collapse(_text(LowRank(2))).layers]
    assert names == ["table_a", "table", "mix_a", "mix", "block", "read", "head_a", "head"]
    names = [layer.name for layer in sb.collapse(_text(LowRank(4))).layers]
    assert names == ["table_a", "table", "mix_a", "mix", "block", "read", "head"]  # 4 · (5 + 4) > 5 · 4
    plain = sb.collapse(_image(LowRank(2)))
    kinds = [(layer.name, type(layer).__name__) for layer in plain.layers if layer.weights]
    assert kinds[:2] == [("conv_a", "Conv2D"), ("conv", "Conv2D")]
    assert [name for name, _ in kinds[3:]] == ["grouped", "head_a", "head"]
    assert plain.get_layer("conv").kernel_size == (1, 1) and plain.get_layer("conv_a").strides == (2, 2)


def test_a_shared_layer_is_split_once():
    x, y = keras.Input((8,)), keras.Input((8,))
    shared = layers.Dense(8, posterior=LowRank(1), name="shared")
    model = keras.Model([x, y], shared(shared(x)) + shared(y))
    plain = sb.collapse(model)
    assert sum(layer.name.startswith("shared") for layer in plain.layers) == 2
    batch = [RNG.normal(size=(3, 8)).astype("float32") for _ in range(2)]
    _close(plain(batch), _mean(model, batch))
    again = keras.Model.from_config(plain.get_config())
    again.set_weights(plain.get_weights())
    _close(again(batch), plain(batch), atol=1e-6)


_LOAD = """
import sys
sys.modules["singularbayes"] = None
import keras, numpy as np
model = keras.saving.load_model(sys.argv[1])
np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), verbose=0))
"""


@not_on_jax
def test_a_block_that_gives_the_first_positions_does_so_collapsed():
    block = layers.TransformerEncoder(8, 2, posterior=LowRank(2), positions=2)
    model = keras.Sequential([keras.Input((6, 12)), block])
    x = np.random.default_rng(0).normal(size=(3, 6, 12)).astype("float32")
    plain = sb.collapse(model)
    assert plain(x).shape == (3, 2, 12)
    _close(ops.convert_to_numpy(plain(x)), _mean(model, x))


def test_its_file_loads_where_this_package_cannot_be_imported(tmp_path):
    model = _text(LowRank(2))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    plain = sb.collapse(model)
    plain.save(tmp_path / "plain.keras")
    np.save(tmp_path / "x.npy", IDS)
    command = [sys.executable, "-c", _LOAD, *(str(tmp_path / name) for name in ("plain.keras", "x.npy", "y.npy"))]
    subprocess.run(command, check=True, env={**os.environ, "KERAS_BACKEND": BACKEND}, capture_output=True)
    _close(np.load(tmp_path / "y.npy"), _mean(model, IDS))


SPLIT = {
    "transpose": (lambda **p: layers.Conv2DTranspose(12, 3, strides=2, output_padding=1, **p), (5, 6, 8), 2),
    "dilated": (lambda **p: layers.Conv1D(12, 3, dilation_rate=2, **p), (9, 6), 2),
    "separable": (lambda **p: layers.SeparableConv2D(12, 2, depth_multiplier=2, **p), (5, 5, 6), 1),
}


@pytest.mark.parametrize("kind", SPLIT)
def test_other_convolutions_are_split_or_merged(kind):
    make, shape, number = SPLIT[kind]
    model = stir(keras.Sequential([keras.Input(shape), make(posterior=LowRank(2), name="conv")]))
    x = RNG.normal(size=(2, *shape)).astype("float32")
    plain, merged = sb.collapse(model), sb.collapse(model, merge=True)
    assert len(plain.layers) == number and len(merged.layers) == 1
    for one in (plain, merged):
        _close(_mean(one, x), _mean(model, x), atol=2e-4)


@TORCH_FIRST
def test_one_component_of_a_list_collapses_as_the_one_of_its_number():
    mixture = sb.Mixture(LowRank(2), components=3)
    block = layers.TransformerEncoder(8, 2, posterior=mixture, name="block")
    model = stir(keras.Sequential([keras.Input((5, 6)), block, layers.Dense(2, posterior=mixture)]))
    x = RNG.normal(size=(2, 5, 6)).astype("float32")
    expected = [ops.convert_to_numpy(sb.collapse(model, component=k)(x)) for k in range(3)]
    assert min(np.abs(expected[1] - expected[k]).max() for k in (0, 2)) > 0.01
    _close(sb.collapse(sb.take_components(model, [1]))(x), expected[1])
