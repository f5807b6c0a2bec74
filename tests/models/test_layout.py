"""One model over several devices and processes gives the results of one device; its arrays lie as described."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from posterior_table import POSTERIORS

import singularbayes as sb

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


@pytest.mark.parametrize("network", ["shared", "mixed", "mixture", "repeated"])
@pytest.mark.parametrize("name", ["data", "model", "both"])
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
    for network in ("", "repeated/" if name == "data" else "mixture/"):
        assert_close(found[f"{name}/{network}predicted"], found[f"one/{network}predicted"])


def test_members_trained_under_a_distribution_are_those_of_one_device(found):
    np.testing.assert_allclose(found["data/many"], found["one/many"], rtol=1e-4, atol=1e-5)


def test_plain_fit_says_what_to_pass_where_devices_do_not_divide_the_last_batch(found):
    training, validation = found["data/refused"]
    assert "Training data under a DataParallel over 4 devices" in training and "got 14 examples" in training
    assert "Pass batch_size=8 and 12 examples (x[:12]), or train by fit_many" in training
    assert "Validation data" in validation and "Pass batch_size=8 and 8 examples" in validation


@pytest.mark.parametrize(("sizes", "whole"), [((8, 0), False), ((8, 5), True), ((3,), True)])
def test_batches_that_devices_do_not_divide_lie_whole_on_each(monkeypatch, sizes, whole):
    from singularbayes.models import distribution

    monkeypatch.setattr(distribution, "device_count", lambda: 4)
    layout = keras.distribution.DataParallel(mesh("batch"))
    with layout.scope():
        with distribution.batches_of(*sizes):
            assert layout.get_data_layout((8, 2)).axes == ((None, None) if whole else ("batch", None))
        assert layout.get_data_layout((8, 2)).axes == ("batch", None)


def test_factors_are_split_by_rows_and_the_table_says_so(found):
    factors = [spec for spec in found["specs"] if "/ab " in spec]
    assert len(factors) == 8 and all(spec.endswith("P(None, 'model', None)") for spec in factors)
    *rows, total = str(found["table"]).splitlines()
    assert rows[0].split()[1:] == ["(2,", "18·,", "2)", "36", "on", "a", "device"]
    assert total == "491 of 982 entries on a device: 2 parts over 'model'; · marks the axis that is split"


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


def mesh(*names):
    return keras.distribution.DeviceMesh((1,) * len(names), names, keras.distribution.list_devices()[:1])


@pytest.mark.parametrize(
    ("shape", "parts", "split"),
    [
        ((2, 172, 15), 4, 1),
        ((2, 51025, 16), 4, 2),  # rows that do not divide: by rank
        ((2, 7, 3), 4, None),
        ((2, 768, 768), 2, 1),  # of equal ones the first
        ((50257, 768), 8, 1),
        ((64,), 4, 0),
        ((), 4, None),
        ((2, 4, 2), 4, None),  # smaller than the smallest
    ],
)
def test_the_longest_axis_that_devices_divide_is_split(shape, parts, split):
    layout = sb.ModelParallel(mesh("batch", "model"), smallest=17)
    layout.parts = parts
    assert layout.split(shape) == split


def test_a_layout_map_decides_where_it_names_a_variable():
    here = mesh("batch", "model")
    layout_map = keras.distribution.LayoutMap(here)
    layout_map[".*dense.*/ab"] = (None, None, "model")
    with sb.ModelParallel(here, smallest=1, layout_map=layout_map).scope():
        dense = sb.layers.Dense(4, posterior=sb.LowRank(2), name="dense")
        dense.build((None, 4))
    assert dense.posterior.ab.values._layout.axes == (None, None, "model")
    assert dense.bias._layout.axes == ("model",)


@pytest.mark.parametrize("posterior", ["low_rank", "full_rank", "rank_one", "adapter"])
@pytest.mark.parametrize("start", [None, "orthogonal"])
def test_a_large_variable_is_made_in_parts_and_starts_the_same(monkeypatch, posterior, start):
    """Keras compiles the initializer of a large variable, with the layout of its output; that takes an object."""
    from keras.src.backend.jax import core

    def weights():
        keras.utils.set_random_seed(0)
        layer = sb.layers.EinsumDense(
            "ab,bcd->acd", (3, 2), posterior=POSTERIORS[posterior](), kernel_initializer=start
        )
        layer.build((None, 4))
        return layer.get_weights()

    expected = weights()
    monkeypatch.setattr(core, "should_shard_at_init", lambda layout, shape: len(shape) > 1)
    with sb.ModelParallel(mesh("batch", "model"), smallest=1).scope():
        made = weights()
    for one, other in zip(made, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mesh": "cpu"}, "needs mesh to be a keras.distribution.DeviceMesh; got 'cpu'"),
        ({"axis": "rows"}, r"needs axis to be an axis of the mesh, one of \['batch', 'model'\]; got 'rows'"),
        ({"axis": None}, "needs axis to be an axis of the mesh"),
        ({"batch": "examples"}, "needs batch to be an axis of the mesh"),
        ({"smallest": 0}, "needs smallest to be an integer >= 1; got smallest=0"),
        ({"smallest": True}, "needs smallest to be an integer"),
        ({"layout_map": "none"}, "needs a layout_map of the same mesh"),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    if arguments.get("layout_map"):
        arguments = {"layout_map": keras.distribution.LayoutMap(mesh("batch", "model"))}
    with pytest.raises(ValueError, match=message):
        sb.ModelParallel(**{"mesh": mesh("batch", "model"), **arguments})


def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(ValueError, match="needs Keras on JAX; got the backend 'torch'"):
        sb.ModelParallel(mesh("batch", "model"))
