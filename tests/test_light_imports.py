"""What needs no Keras does not load it, and saved models load whichever package is imported first."""

import os
import subprocess
import sys

import keras
import pytest

from singularbayes import LowRank, layers


def run(code: str, stream: str = "stdout") -> str:
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return getattr(done, stream).strip()


def test_what_needs_no_keras_does_not_load_it():
    light = [
        "import singularbayes",
        "import singularbayes.metrics, singularbayes.bounds, singularbayes.plots",
        "import singularbayes as sb; sb.metrics.accuracy, sb.bounds.pac_bayes, sb.plots.radar",
        "from singularbayes.cli import main; main(['--help']); main(['rank', '--help'])",
    ]
    loaded = "print({'keras', 'jax', 'torch', 'tensorflow'} & set(sys.modules), file=sys.stderr)"
    shown = run("import sys\n" + "\n".join(f"{code}\n{loaded}" for code in light), stream="stderr")
    assert dict(zip(light, shown.splitlines(), strict=True)) == dict.fromkeys(light, "set()")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of a model with posteriors, and a sum of its weights."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank(2))])
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path, sum(float(abs(weight).sum()) for weight in model.get_weights())


@pytest.mark.parametrize(
    "load",
    [
        "import keras; import singularbayes as sb; model = sb.load(path)",
        "import singularbayes as sb; import keras; model = sb.load(path)",
        "import keras; import singularbayes.layers; model = keras.saving.load_model(path)",
    ],
)
def test_a_saved_model_loads_whichever_package_comes_first(saved, load):
    path, total = saved
    shown = "print(sum(float(abs(weight).sum()) for weight in model.get_weights()))"
    assert float(run(f"path = {str(path)!r}\n{load}\n{shown}")) == total
