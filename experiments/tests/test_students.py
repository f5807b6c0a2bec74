"""Students of the experiments: inputs perturbed as written down, scores of both, and nothing done twice."""

from pathlib import Path

import made_up_images
import numpy as np
import pytest
from singularbayes_experiments.problems import students
from singularbayes_experiments.problems.students import CASES, KINDS, StudentSettings
from singularbayes_experiments.records import record
from test_images import TINY

from singularbayes import metrics

pytestmark = pytest.mark.on_torch

SETTINGS = StudentSettings({}, epochs=1, batch_size=64, draws=4)


def test_perturbed_images_are_mixes_moved_blocks_and_noise_within_the_range_of_pixels():
    x = np.random.default_rng(0).uniform(0, 2, (6, 784)).astype("float32")
    found = students.perturbed_images(x, np.random.default_rng(1))
    assert found.shape == x.shape and found.dtype == x.dtype and found.max() <= x.max()
    np.testing.assert_allclose(np.sort(found[1]), np.sort(x[1]))
    assert (found[1] != x[1]).mean() > 0.5
    first = found[1].reshape(28, 28)[:7, :7]
    blocks = x[1].reshape(4, 7, 4, 7).swapaxes(1, 2).reshape(16, 7, 7)
    assert [np.array_equal(first, block) for block in blocks].count(True) == 1
    assert (found[2] >= x[2]).all() and (found[2] > x[2]).mean() > 0.5
    # A mix lies between an image and another of them, entry by entry.
    between = [((found[0] - x[0]) * (found[0] - other) <= 1e-6).all() for other in x]
    assert any(between)


def test_perturbed_texts_keep_their_marks_and_padding():
    x = np.array([[101, 3000, 3001, 3002, 102, 0, 0], [101, 102, 0, 0, 0, 0, 0]] * 50, "int32")
    found = students.perturbed_texts(x, np.random.default_rng(0), vocabulary=5000)
    kept = [0, 4, 5, 6]
    np.testing.assert_array_equal(found[::2][:, kept], x[::2][:, kept])
    np.testing.assert_array_equal(found[1::2], x[1::2])
    assert 0.3 < (found[::2, 1:4] != x[::2, 1:4]).mean() < 0.7 and found.max() < 5000 and found.dtype == x.dtype


def test_perturbed_windows_change_a_feature_by_one_line_for_all_hours():
    x = np.random.default_rng(0).normal(size=(5, 4, 3)).astype("float32")
    found = students.perturbed_windows(x, np.random.default_rng(1))
    slopes = np.diff(found, axis=1) / np.diff(x, axis=1)
    np.testing.assert_allclose(slopes, np.broadcast_to(slopes[:, :1], slopes.shape), rtol=1e-3)
    assert slopes.min() >= 0.49 and slopes.max() <= 2.01 and found.dtype == x.dtype


@pytest.fixture
def quick(monkeypatch):
    """A teacher of moments on made-up images."""
    made_up_images.install(monkeypatch)
    run = students.run
    monkeypatch.setattr(students, "run", lambda name, seed: run(name, seed, SETTINGS, TINY))


def test_records_hold_the_scores_of_teacher_and_student_and_are_not_made_twice(quick, tmp_path):
    lines = list(students.run_students(["mnist"], [3], tmp_path))
    found = {one.method: one for one in record.read(tmp_path)}
    assert list(found) == [f"mnist, {kind}" for kind in KINDS] and len(lines) == len(KINDS)
    means, data, perturbed = found.values()
    assert means.metrics["teacher nll"] == data.metrics["teacher nll"] == perturbed.metrics["teacher nll"]
    assert data.metrics["student nll"] != perturbed.metrics["student nll"]
    assert "student fashion_mnist/auroc_ood_mi" not in means.metrics
    for one in (data, perturbed):
        assert 0 <= one.metrics[f"student {CASES['mnist'].detection}"] <= 1
        probabilities, labels = one.arrays["test_mean"], one.arrays["test_labels"]
        again = metrics.negative_log_likelihood(probabilities.astype("float64"), labels)
        assert again == pytest.approx(one.metrics["student nll"], rel=1e-4)
    assert list(students.run_students(["mnist"], [3], tmp_path)) == []


@pytest.mark.parametrize("name", CASES)
def test_every_case_compares_scores_that_records_of_its_experiment_have(name):
    results = Path(__file__).parents[1] / "results"
    runs = [one for one in record.read(results / f"{name}.jsonl", arrays=False) if one.method == "low_rank"]
    assert runs and all({CASES[name].nll, CASES[name].detection} <= set(one.metrics) for one in runs)
