"""The wheel of the library has the library and nothing else, and works beside the packages that it declares."""

import json
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built by the tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def names(wheel):
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_has_every_file_of_the_library(names):
    folder = ROOT / "src" / "singularbayes"
    expected = {f"singularbayes/{path.relative_to(folder)}" for path in folder.rglob("*.py")}
    assert expected <= set(names)


def test_the_wheel_has_no_experiment_and_no_record(names):
    assert {name.split("/")[0].split("-")[0] for name in names} == {"singularbayes"}
    assert not [name for name in names if "experiment" in name or name.endswith((".jsonl", ".npz"))]


def _add_required(distribution: metadata.Distribution, found: dict[str, metadata.Distribution]) -> None:
    """Adds all that a distribution requires without an extra, and what that requires in turn, by name."""
    for requirement in map(Requirement, distribution.requires or ()):
        extras = {"", *(requirement.extras if requirement.marker is None else ())}
        wanted = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        if wanted and requirement.name not in found:
            found[requirement.name] = metadata.distribution(requirement.name)
            _add_required(found[requirement.name], found)


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """A folder as site-packages are after `pip install` of the wheel: it, and links to what it declares."""
    folder = tmp_path_factory.mktemp("bare")
    zipfile.ZipFile(wheel).extractall(folder)
    (information,) = folder.glob("singularbayes-*.dist-info")
    found: dict[str, metadata.Distribution] = {}
    _add_required(metadata.PathDistribution(information), found)
    for distribution in found.values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
    return folder


def _run(bare, code: str, cwd: Path) -> str:
    """Returns the last line that a Python without site-packages but these prints."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(bare)}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


_IMPORT = """
import importlib, json, pkgutil, singularbayes
missing = {}
for module in pkgutil.iter_modules(singularbayes.__path__, "singularbayes."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        missing[module.name.partition(".")[2]] = str(error)
print(json.dumps([singularbayes.__file__, missing]))
"""


def test_a_bare_installation_imports_every_package_or_names_the_extra(bare, tmp_path):
    where, missing = json.loads(_run(bare, _IMPORT, tmp_path))
    assert Path(where).parent == bare / "singularbayes"
    extras = {"__main__": "cli", "cli": "cli", "plots": "plots"}
    assert set(missing) == {*extras}, missing
    for package, extra in extras.items():
        assert f"Type: pip install 'singularbayes[{extra}]'" in missing[package]


_TRAIN = """
import keras, numpy as np, singularbayes as sb
keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("int32")
model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2))])
model.compile(keras.optimizers.Adam(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=40, epochs=30, verbose=0, callbacks=[sb.KLSchedule()])
model.save("model.keras")
again = sb.predict(sb.load("model.keras"), x, 5, seed=1)
print((again.mean.argmax(axis=1) == y).mean(), np.abs(again.mean - sb.predict(model, x, 5, seed=1).mean).max())
"""


def test_a_bare_installation_trains_predicts_saves_and_loads(bare, tmp_path):
    accuracy, difference = map(float, _run(bare, _TRAIN, tmp_path).split())
    assert accuracy > 0.8 and difference < 1e-6
