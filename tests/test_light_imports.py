"""What needs no Keras does not load it, and saved models load whichever package is imported first."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from networks import ROWS

import singularbayes as sb
from singularbayes import LowRank, layers


def run(code: str, stream: str = "stdout") -> str:
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return getattr(done, stream).strip()


def test_what_needs_no_keras_does_not_load_it():
    light = [
        "import singularbayes",
        "import singularbayes.metrics, singularbayes.bounds, singularbayes.plots",
        "import singularbayes as sb; sb.metrics.accuracy, sb.bounds.pac_bayes, sb.plots.pareto",
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


def _classifier(posterior, optimizer="sgd"):
    head = layers.Dense(3, posterior=posterior)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), head])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_every_kind_of_file_loads_in_a_new_process_that_imported_singularbayes_alone(tmp_path):
    models = {
        "draws": sb.freeze_draws(_classifier(LowRank(2, eta=0.5)), 3, seed=4),
        "model": _classifier(LowRank(2)),
    }
    expected = {}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
        outputs = model.predict(ROWS, verbose=0)
        expected[name] = outputs if isinstance(outputs, dict) else {"": outputs}
    code = f"""
import json, numpy as np, singularbayes as sb
rows, found = np.array({ROWS.tolist()}, "float32"), {{}}
for name in {list(models)}:
    outputs = sb.load(f"{tmp_path}/{{name}}.keras").predict(rows, verbose=0)
    outputs = outputs if isinstance(outputs, dict) else {{"": outputs}}
    found[name] = {{key: value.tolist() for key, value in outputs.items()}}
print(json.dumps(found))
"""
    found = json.loads(run(code))
    assert {name: set(outputs) for name, outputs in found.items()} == {n: set(o) for n, o in expected.items()}
    for name, outputs in expected.items():
        for key, values in outputs.items():
            np.testing.assert_allclose(found[name][key], values, rtol=1e-5, atol=1e-6, err_msg=f"{name} {key}")
