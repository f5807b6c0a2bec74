"""The wheel of the library has the library and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The files in the wheel, built by the tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_has_every_file_of_the_library(names):
    folder = ROOT / "src" / "singularbayes"
    expected = {f"singularbayes/{path.relative_to(folder)}" for path in folder.rglob("*.py")}
    assert expected <= set(names)


def test_the_wheel_has_no_experiment_and_no_record(names):
    assert {name.split("/")[0].split("-")[0] for name in names} == {"singularbayes"}
    assert not [name for name in names if "experiment" in name or name.endswith((".jsonl", ".npz"))]
