"""A file of adapters and the base give the model back; another base, rank or file is refused and changes nothing."""

import json

import keras
import numpy as np
import pytest
from convertible import CASES, assert_close, case, numpy
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import Adapter, LowRank, Mixture

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]
L = keras.layers
X = np.random.default_rng(2).normal(size=(5, 6)).astype("float32")


def _base(seed=0, classes=3, frozen_norm=True):
    """Returns an encoder with a frozen normalisation and a new head."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [keras.Input((6,)), L.Dense(6, "tanh", name="inner"), L.LayerNormalization(), L.Dense(classes, name="head")]
    )
    model.layers[1].trainable = not frozen_norm
    return model


def _trained(base, seed, posterior=None, **kwargs):
    """Returns a converted base whose trainable weights have moved."""
    model = sb.bayesianize(base, posterior or Adapter(2), rules={"head": None}, **kwargs)
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(ops.convert_to_numpy(weight) + rng.normal(0, 0.3, weight.shape))
    return model


def _draws(model):
    return sb.predict(model, X, draws=3, seed=1, keep_draws=True, likelihood="categorical_logits").draws


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Returns a base, two models trained on it, and the files of their adapters."""
    folder, base = tmp_path_factory.mktemp("adapters"), _base()
    models = [_trained(base, seed) for seed in (1, 2)]
    paths = [folder / f"{number}.npz" for number in (1, 2)]
    for model, path in zip(models, paths, strict=True):
        sb.save_adapters(model, path)
    return base, models, paths


def test_a_file_gives_the_model_back_on_its_base_and_adapters_are_swapped(files):
    base, models, paths = files
    before = [np.array(w) for w in base.get_weights()]
    one = sb.load_adapters(base, paths[0])
    assert_close(one(X), models[0](X), atol=1e-7)
    np.testing.assert_array_equal(_draws(one), _draws(models[0]))
    for mine, its in zip(one.weights, models[0].weights, strict=True):  # the prior of the file too
        np.testing.assert_array_equal(numpy(mine), numpy(its))
    assert len(one.trainable_weights) == len(models[0].trainable_weights)
    swapped = sb.load_adapters(one, paths[1])
    assert swapped is one
    np.testing.assert_array_equal(_draws(one), _draws(models[1]))
    for old, new in zip(before, base.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    # W₀ (6 × 6) and the normalisation (2 × 6) are no part of the file.
    with np.load(paths[0]) as archive:
        shapes = [archive[name].shape for name in archive.files if name != "about"]
    assert (6, 6) not in shapes and shapes.count((6,)) == 1


@pytest.mark.parametrize("name", CASES)
@TORCH_FIRST
def test_every_kind_of_model_and_layer(name, tmp_path):
    base, x, _ = case(name)
    posterior = Mixture(Adapter(2), 2) if name == "sequential" else Adapter(2)
    model = sb.bayesianize(base, posterior, unsupported="keep")
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(ops.convert_to_numpy(weight) + rng.normal(0, 0.1, weight.shape))
    sb.save_adapters(model, tmp_path / "a.npz")
    assert_close(sb.load_adapters(base, tmp_path / "a.npz")(x), numpy(model(x)), atol=1e-6)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (lambda: _base(seed=1), "frozen weights of 'inner' differ"),
        (lambda: _base(classes=4), r"'head' has trained weights of shapes \[\(6, 4\), \(4,\)\]"),
        (lambda: keras.Sequential(_base().layers[:2]), r"no layer is 'head' \(Dense in the file\)"),
        (lambda: keras.Sequential([*_base().layers, L.Dense(2)]), "is not in the file"),
        (
            lambda: _trained(_base(), 0, Adapter(3)),
            r"'inner' has \[Adapter\(3\)\], and \[Adapter\(2\)\].*before",
        ),
        (lambda: _trained(_base(), 0, LowRank(2)), r"'inner' has \[LowRank\(2\)\], and \[Adapter\(2\)\]"),
        (lambda: sb.bayesianize(_base(), Adapter(2)), r"'head' has \[Adapter\(2\)\], and None in the file"),
        (lambda: "base.keras", "needs a Keras model"),
    ],
)
def test_another_base_or_rank_is_refused_and_stays_as_it_is(files, base, message):
    made = base()
    if isinstance(made, keras.Model) and not made.built:
        made.build((None, 6))
    before = [np.array(w) for w in made.get_weights()] if isinstance(made, keras.Model) else []
    with pytest.raises((ValueError, TypeError), match=message):
        sb.load_adapters(made, files[2][0])
    for old, new in zip(before, made.get_weights() if before else [], strict=True):
        np.testing.assert_array_equal(old, new)


def _rewritten(path, new, change):
    """Writes a file of adapters with something in it changed."""
    with np.load(path) as archive:
        parts = {name: archive[name] for name in archive.files}
    about = json.loads(bytes(parts["about"]))
    change(about, parts)
    parts["about"] = np.frombuffer(json.dumps(about).encode(), "uint8")
    np.savez(new, **parts)


def _nan(about, parts):
    parts["array_0"] = parts["array_0"] * np.nan


def _other_shape(about, parts):
    parts["array_0"] = np.zeros((7, 7))


def _code(about, parts):
    about["layers"]["0"]["posteriors"]["kernel"]["module"] = "os"
    about["layers"]["0"]["posteriors"]["kernel"]["class_name"] = "system"
    about["layers"]["0"]["posteriors"]["kernel"]["registered_name"] = "system"


def _objects(about, parts):
    parts["array_0"] = np.array([{}], dtype=object)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_nan, "NaN or infinity"),
        (_other_shape, "not those that it describes"),
        (_code, "system"),
        (_objects, "allow_pickle"),
        (lambda about, parts: about.update(format="2"), "its format is '2'"),
        (lambda about, parts: about.pop("layers"), "is damaged"),
    ],
)
def test_a_bad_file_is_refused(files, tmp_path, change, message):
    _rewritten(files[2][0], tmp_path / "bad.npz", change)
    with pytest.raises((ValueError, TypeError), match=message):
        sb.load_adapters(files[0], tmp_path / "bad.npz")


def test_what_is_no_file_or_has_no_adapters_is_refused_and_nothing_is_written(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="that save_adapters wrote"):
        sb.load_adapters(files[0], tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("not one")
    with pytest.raises(ValueError, match="needs a whole file"):
        sb.load_adapters(files[0], tmp_path / "text.npz")
    (tmp_path / "cut.npz").write_bytes(files[2][0].read_bytes()[:900])
    with pytest.raises(ValueError, match="needs a whole file"):
        sb.load_adapters(files[0], tmp_path / "cut.npz")
    with pytest.raises(ValueError, match="which has none"):
        sb.save_adapters(sb.bayesianize(_base(), LowRank(2)), tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError, match="existing folder"):
        sb.save_adapters(files[1][0], tmp_path / "missing" / "a.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.npz", "text.npz"]


@TORCH_FIRST
def test_the_kl_of_adapters_has_nothing_of_the_means_before_anything_was_learned():
    base = keras.Sequential([keras.Input((40,)), L.Dense(30, "relu"), L.Dense(4, kernel_initializer="orthogonal")])
    exact = np.log(3) + 1 / (2 * 9) - 1 / 2  # KL(N(μ, σ²) ‖ N(μ, 9 σ²)) = 0.654
    for posterior, limit in ((Adapter(2), 0.66), (Adapter(3, eta=0.5), 0.66), (Mixture(Adapter(2), 3), 0.71)):
        for found in sb.find_posteriors(sb.bayesianize(base, posterior)):
            rows, columns = found.shape
            each = found.kl_exact() / (found.fixed_rank * (rows + columns))
            assert each < limit
            if found.components == 1:
                np.testing.assert_allclose(each, exact, rtol=1e-4)
    (before, *_) = sb.find_posteriors(sb.bayesianize(base, Adapter(2, prior="scale_mixture")))
    assert before.kl_exact() / (2 * 70) > 1.5
    (small, *_) = sb.find_posteriors(sb.bayesianize(base, Adapter(2, prior=sb.Anchored(2.0, None, "random", True))))
    np.testing.assert_allclose(small.kl_exact() / (2 * 70), np.log(2) + 1 / 8 - 1 / 2, rtol=1e-4)


def test_a_relative_anchor_is_a_width_of_each_weight():
    posterior = LowRank(2, loc_lr=1.0, prior=sb.Anchored(1.5, relative=True, anchor="start"))
    posterior.build((4, 5))
    assert sb.Anchored.from_config(posterior.prior.get_config()) == posterior.prior != sb.Anchored(1.5, anchor="start")
    start = 18 * (np.log(1.5) + 1 / (2 * 1.5**2) - 0.5)
    np.testing.assert_allclose(posterior.kl_exact(), start, rtol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(posterior.kl()), start, rtol=1e-5)
    posterior.center(np.ones((4, 5)))  # the anchor moves with the means, and keeps its widths
    np.testing.assert_allclose(posterior.kl_exact(), start, rtol=1e-5)
    moved = ops.convert_to_numpy(posterior.ab.loc) + 3 * ops.convert_to_numpy(posterior.ab.scale)
    posterior.ab.set_loc(moved)
    np.testing.assert_allclose(posterior.kl_exact(), start + 18 * 9 / (2 * 1.5**2), rtol=1e-4)
