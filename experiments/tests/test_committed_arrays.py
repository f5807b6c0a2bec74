"""Arrays in docs/results are those of the runs beside them: scores made of them are the scores of the records."""

from pathlib import Path

import numpy as np
import pytest
from singularbayes_experiments.records import record

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
ARRAYS = sorted(RESULTS.glob("*.npz"))


@pytest.fixture(scope="module")
def by_name():
    files = [path for path in RESULTS.glob("*.jsonl") if not path.stem.endswith("_trials")]
    return {one.name: one for path in files for one in record.read(path, arrays=False)}


@pytest.mark.parametrize("path", ARRAYS, ids=lambda path: path.stem)
def test_arrays_give_the_scores_of_their_record(path, by_name):
    made = by_name[path.stem]
    record.read_arrays(made, RESULTS)
    arrays = {name: value.astype("float64") for name, value in made.arrays.items()}
    if "test_labels" in arrays:
        p = arrays["test_mean"][np.arange(len(arrays["test_mean"])), made.arrays["test_labels"]]
        found = {"nll": -np.log(p).mean(), "accuracy": np.mean(arrays["test_mean"].argmax(1) == arrays["test_labels"])}
    elif "test_targets" in arrays:
        found = {"mae": np.abs(arrays["test_mean"] - arrays["test_targets"]).mean()}
    else:
        found = {"rmse_near": np.sqrt(np.mean((arrays["mean_near"] - arrays["y_near"]) ** 2))}
    for name, value in found.items():
        assert made.metrics[name] == pytest.approx(value, rel=1e-5)
