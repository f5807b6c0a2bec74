"""Records with numbers made up, so that pages and commands are tested without training."""

import numpy as np

from singularbayes.experiments import Record, digits, toy
from singularbayes.experiments.record import departures, plain

RATIOS = {"low_rank": 1.8, "full_rank": 0.7}
AUROCS = {"low_rank": 0.93, "full_rank": 0.95, "deterministic": 0.91}
PARAMETERS = {"low_rank": 7202, "full_rank": 20802, "deterministic": 10401}


def toy_record(method="low_rank", ratio=None, seed=0, settings=toy.Settings(), parameters=None):
    ratio = RATIOS[method] if ratio is None else ratio
    metrics = {"rmse_near": 0.07, "coverage_near": 0.8, "iqr_inside": 0.04, "iqr_outside": 0.04 * ratio}
    x = np.linspace(-0.5, 1.5, 41)
    band = np.stack([x - 0.1, x + 0.1])
    arrays = {"x": x[8:23], "y": x[8:23], "grid": x, "mean": x, "epistemic": band, "total": 1.1 * band}
    count = PARAMETERS[method] if parameters is None else parameters
    metrics["iqr_ratio"] = ratio
    return Record("toy", method, seed, plain(settings), metrics, count, 3.0, paper=departures(settings), arrays=arrays)


def digits_record(method="low_rank", auroc=None, seed=0, settings=digits.Settings()):
    auroc = AUROCS[method] if auroc is None else auroc
    metrics = {"accuracy": 0.98, "nll": 0.05, "ece": 0.01, "auroc_entropy": auroc}
    if method != "deterministic":
        metrics["auroc_mi"] = auroc
    rng = np.random.default_rng(0)
    arrays = {
        **{f"{kind}_test": rng.uniform(0, 0.3, 20) for kind in ("mi", "entropy")},
        **{f"{kind}_foreign": rng.uniform(0, 0.9, 30) for kind in ("mi", "entropy")},
        "images_foreign": rng.uniform(0, 1, (30, 8, 8)),
        "digits_foreign": rng.choice([8, 9], 30),
        "guesses_foreign": rng.integers(0, 8, 30),
    }
    return Record("digits", method, seed, plain(settings), metrics, PARAMETERS[method], 5.0, arrays=arrays)


def all_records():
    return [toy_record(method) for method in RATIOS] + [digits_record(method) for method in digits.METHODS]
