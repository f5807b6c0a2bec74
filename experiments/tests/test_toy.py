"""The toy regression: the paper's function and counts, the same seed the same record, and records that last."""

import dataclasses
import json

import numpy as np
import pytest
from made_up import all_records
from posterior_table import TORCH_FIRST
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import toy
from singularbayes_experiments.records import record

from singularbayes.models import count_trained

pytestmark = pytest.mark.on_torch

TINY_TOY = toy.ToySettings(num_train=64, num_test=256, units=8, rank=2, epochs=2, warmup=1, draws=40, iqr_draws=40)


def test_the_toy_function_is_the_papers(vectors):
    case = vectors["toy_regression_function"]
    y = toy.target(np.array(case["inputs"]["x"]), np.array(case["inputs"]["eps"]))
    np.testing.assert_allclose(y, case["expected"]["y"], rtol=1e-12)


@pytest.mark.parametrize(("method", "name"), [("full_rank", "toy_full"), ("low_rank", "toy_lowrank")])
def test_toy_networks_have_the_papers_parameter_counts(method, name, vectors):
    network = toy.network(Weights(method, toy.ToySettings()), toy.ToySettings())
    assert count_trained(network) == vectors["parameter_counts"]["expected"][name]


def test_the_band_is_compared_inside_and_outside_the_training_range():
    x = np.linspace(-0.5, 1.5, 401)
    width = np.where((x >= -0.1) & (x <= 0.6), 2.0, 5.0)
    assert toy.spread(x, width, toy.ToySettings()) == {"inside": 2.0, "outside": 5.0, "ratio": 2.5}


def test_the_default_toy_settings_are_the_papers_and_quick_ones_say_what_differs():
    assert record.departures(toy.ToySettings()) == {}
    assert record.departures(toy.QUICK) == {"epochs": 800, "warmup": 760, "learning_rate": 5e-4}


@TORCH_FIRST
def test_the_same_seed_gives_the_same_record():
    first, second = (toy.EXPERIMENT.problem.run("low_rank", 3, TINY_TOY) for _ in range(2))
    assert first == second
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)
    assert first.parameters == 2 * (2 * 8 + 2 * 2 * 8 + 8 + 8 + 1)
    assert first.settings["units"] == 8 and first.paper["units"] == 100
    assert first.metrics["iqr_ratio"] == pytest.approx(first.metrics["iqr_outside"] / first.metrics["iqr_inside"])


def test_singular_values_of_the_mean_weights_are_kept_and_end_at_the_rank():
    found = toy.EXPERIMENT.problem.run("low_rank", 3, TINY_TOY)
    values = {name: array for name, array in found.arrays.items() if name.startswith("singular_values/")}
    assert [name.split("/")[1] for name in values] == ["first", "hidden", "last"]
    hidden = values["singular_values/hidden/kernel"]
    assert len(hidden) == 8 and (hidden[:2] > 1e-3).all() and hidden[2:].max() < 1e-6 * hidden[0]
    trial = toy.EXPERIMENT.problem.run("low_rank", 3, TINY_TOY, preset="trial")
    assert not trial.arrays and trial.metrics["validation_nll"] == pytest.approx(found.metrics["validation_nll"])
    assert {name.split("_")[0] for name in trial.metrics} == {"validation", "posterior"}


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match=r"run needs method to be one of .*low_rank.*; got method='no_such'"):
        toy.EXPERIMENT.problem.run("no_such", 0)


def test_records_come_back_from_their_files_as_they_were(tmp_path):
    records = all_records()
    path = record.write(records, tmp_path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["method"] for line in lines] == [r.method for r in records]
    assert lines[0].keys() >= {
        "experiment",
        "seed",
        "settings",
        "metrics",
        "parameters",
        "versions",
        "machine",
        "seconds",
    }
    back = record.read(tmp_path)
    assert back == records and [r.seconds for r in back] == [r.seconds for r in records]
    for old, new in zip(records, back, strict=True):
        assert all(np.array_equal(old.arrays[name], new.arrays[name]) for name in old.arrays)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["records.jsonl", *(f"{r.name}.npz" for r in records)])


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = record.replace(tmp_path / "a.txt", b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(record.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        record.replace(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"needs a folder with records\.jsonl"):
        record.read(tmp_path)


def test_records_say_the_versions_and_the_machine_but_no_names():
    made = all_records()[0]
    assert {"singularbayes", "keras", "numpy", "python"} < made.versions.keys()
    assert made.machine.keys() == {"cpu", "cores", "system"}
    assert dataclasses.replace(made, seconds=99.0) == made
