"""One model over several devices and processes gives the results of one device; its arrays lie as described."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

PROGRAM = Path(__file__).parent / "sharded.py"
RATE = 1 / 16  # of the program
pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras distributes on JAX")


def start(devices, *arguments):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(*programs):
    for program in programs:
        shown, _ = program.communicate(timeout=1200)
        assert program.returncode == 0, shown


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("layout") / "four.npz"
    finish(start(4, path))
    return dict(np.load(path))


def assert_close(found, expected, rounding=0.0):
    """Equal to the accuracy of float32 sums: relative to the largest number, because small ones are differences."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max() + rounding)


def assert_trained_alike(found, expected):
    """Equal losses, gradients and weights; a gradient is a difference of weights, which are rounded, over the rate."""
    for name in ("before", "loss", "after"):
        assert_close(found[name], expected[name])
    ulp = np.spacing(np.abs(expected["before"]).max().astype("float32"))
    assert_close(found["gradient"], expected["gradient"], ulp / RATE)


@pytest.mark.parametrize("network", ["shared", "mixed", "mixture"])
@pytest.mark.parametrize("name", ["data", "model"])
def test_losses_gradients_and_weights_are_those_of_one_device(found, name, network):
    if f"{name}/{network}/loss" not in found:
        pytest.skip("one distribution is enough for this network")
    assert_trained_alike(part(found, f"{name}/{network}"), part(found, f"one/{network}"))


def part(found, prefix):
    return {name: found[f"{prefix}/{name}"] for name in ("before", "loss", "gradient", "after")}


@pytest.mark.parametrize("name", ["data", "model"])
def test_a_shared_draw_is_the_same_on_every_replica(found, name):
    outputs = found[f"{name}/shared/alike"]
    assert found[f"{name}/devices"] == 4
    assert_close(outputs, np.broadcast_to(outputs[0], outputs.shape))
    assert_close(outputs, found["one/shared/alike"])


def test_the_kl_is_counted_once(found):
    added, exact = found["model/kl_once"]
    assert added == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("name", ["data", "model"])
def test_predictions_are_those_of_one_device(found, name):
    for network in ("", "mixture/"):
        assert_close(found[f"{name}/{network}predicted"], found[f"one/{network}predicted"])


def test_members_trained_under_a_distribution_are_those_of_one_device(found):
    np.testing.assert_allclose(found["data/many"], found["one/many"], rtol=1e-4, atol=1e-5)


def test_a_layout_map_splits_the_factors(found):
    factors = [spec for spec in found["specs"] if "/ab " in spec]
    assert len(factors) > 5 and all(spec.endswith("P(None, None, 'model')") for spec in factors)


@pytest.mark.exhaustive  # two starts of Python; the four devices of one process run the same program
def test_two_processes_train_and_predict_as_one_device(found, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    paths = [tmp_path / f"{process}.npz" for process in range(2)]
    finish(*[start(2, path, port, process) for process, path in enumerate(paths)])
    for numbers in map(np.load, paths):
        assert_trained_alike(numbers, part(found, "one/shared"))
        assert_close(numbers["predicted"], found["one/predicted"][:16])
        assert numbers["devices"] == 4
