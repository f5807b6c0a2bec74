"""Every test starts from the same seed; fixtures give a test every posterior."""

import gc
import json
import os
import re
import time
from pathlib import Path

# On JAX a program is compiled once, for all files, workers and runs, then read from a file: set before JAX is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # programs that nobody reads need no line numbers

import hypothesis
import keras
import pytest
from posterior_table import POSTERIORS, RANDOM, one_row_each, stirred

# The same examples in every run, so that a failure can be repeated.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")


def pytest_sessionstart(session):
    """Forgets programs that are older than a month."""
    for program in Path(os.environ["JAX_COMPILATION_CACHE_DIR"]).glob("*-cache"):
        if program.stat().st_mtime < time.time() - 30 * 24 * 3600:
            program.unlink(missing_ok=True)


def pytest_ignore_collect(collection_path, config):
    """With `-m backend`, files without such a test are not imported."""
    expression = config.option.markexpr
    if expression.split(" and ")[-1] != "backend" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    if expression == "backend" and keras.backend.backend() == "tensorflow":
        marked = "mark.backend" in text and not re.search(r"^pytestmark = .*TORCH_FIRST", text, re.MULTILINE)
    else:
        marked = any(mark in text for mark in ("mark.backend", "TORCH_FIRST", "ON_TORCH", "on_torch"))
    return None if marked else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Exhaustive tests run only where -m names them: make test-all.

    They are, but on torch, what is marked `on_torch` and not `backend`, and all but the first row of a test marked
    `rows_on_torch`; on TensorFlow of every test but those marked `all_rows`.
    """
    backend = keras.backend.backend()
    on_torch = backend == "torch"
    for item in items:
        if item.get_closest_marker("on_torch") and not item.get_closest_marker("backend"):
            item.add_marker("backend" if on_torch else "exhaustive")
    if not on_torch:
        started = set()
        for item in items:
            marks = {mark.name for mark in item.iter_markers()}
            first = "rows_on_torch" in marks or (backend == "tensorflow" and "all_rows" not in marks)
            if first and "backend" in marks and "exhaustive" not in marks:
                test = item.path, item.cls, item.originalname
                if test in started:
                    item.add_marker(pytest.mark.exhaustive)
                started.add(test)
    if "exhaustive" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


def pytest_collection_finish():
    gc.set_threshold(10_000, 20, 20)


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def left_behind():
    """Imported modules and programs of earlier files stay alive: the garbage collector need not walk them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(20250)


@pytest.fixture(params=one_row_each(POSTERIORS))
def posterior(request):
    """Every posterior, built for a 5 × 4 weight, with means and scales that differ in every entry."""
    return stirred(POSTERIORS[request.param]())


@pytest.fixture(params=one_row_each(RANDOM))
def random_posterior(request):
    """Every posterior that has noise, built as `posterior`."""
    return stirred(RANDOM[request.param]())


@pytest.fixture(scope="session")
def vectors():
    """The paper's numbers: name → formula, inputs, expected."""
    return json.loads((Path(__file__).parent / "tests" / "vectors.json").read_text())
