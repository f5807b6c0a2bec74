"""Every test starts from the same seed; fixtures give a test every posterior."""

import gc
import json
from pathlib import Path

import hypothesis
import keras
import pytest
from table import POSTERIORS, RANDOM, stirred

# The same examples in every run, so that a failure can be repeated.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")


def pytest_collection_modifyitems(config, items):
    """Exhaustive tests run only where -m names them: make test-all."""
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


@pytest.fixture(params=POSTERIORS)
def posterior(request):
    """Every posterior, built for a 5 × 4 weight, with means and scales that differ in every entry."""
    return stirred(POSTERIORS[request.param]())


@pytest.fixture(params=RANDOM)
def random_posterior(request):
    """Every posterior that has noise, built as `posterior`."""
    return stirred(RANDOM[request.param]())


@pytest.fixture(scope="session")
def vectors():
    """The paper's numbers: name → formula, inputs, expected."""
    return json.loads((Path(__file__).parent / "tests" / "vectors.json").read_text())


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """For files that train the same networks many times: on JAX programs are compiled once, then read from files."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = [getattr(jax.config, name) for name in names]
    for name, value in zip(names, (str(tmp_path_factory.mktemp("compiled")), 0.0), strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in zip(names, before, strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()
