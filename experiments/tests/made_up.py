"""Records with numbers made up, so that pages and commands are tested without training."""

import numpy as np
from singularbayes_experiments.methods import class_scores
from singularbayes_experiments.problems import toy
from singularbayes_experiments.records.record import Record, departures, plain

from singularbayes import ClassPredictive

RATIOS = {"low_rank": 1.8, "full_rank": 0.7}
PARAMETERS = {"low_rank": 7202, "full_rank": 20802, "deterministic": 10401}


def toy_record(method="low_rank", ratio=None, seed=0, settings=toy.ToySettings(), parameters=None):
    ratio = RATIOS[method] if ratio is None else ratio
    metrics = {"rmse_near": 0.07, "coverage_near": 0.8, "iqr_inside": 0.04, "iqr_outside": 0.04 * ratio}
    x = np.linspace(-0.5, 1.5, 41)
    band = np.stack([x - 0.1, x + 0.1])
    arrays = {"x": x[8:23], "y": x[8:23], "grid": x, "mean": x, "epistemic": band, "total": 1.1 * band}
    count = PARAMETERS[method] if parameters is None else parameters
    metrics["iqr_ratio"] = ratio
    preset = "paper" if settings == toy.ToySettings() else "quick"
    options = {"paper": departures(settings), "arrays": arrays, "preset": preset}
    return Record("toy", method, seed, plain(settings), metrics, count, 3.0, **options)


def all_records():
    return [toy_record(method) for method in RATIOS] + [image_record(method, experiment="cnn") for method in PARAMETERS]


SETTINGS = {
    "units": [1200, 1200],
    "ranks": [25, 25, 10],
    "beta": 1.0,
    "epochs": 50,
    "learning_rate": 0.001,
    "cosine": False,
}
OOD = {"mnist": ("fashion_mnist", "notmnist"), "fashion_mnist": ("mnist", "notmnist"), "cnn": ("mnist", "notmnist")}


def image_record(method="low_rank", seed=0, preset="paper", experiment="mnist", changes=None, **metrics):
    """A record of a classifier of images: 60 test images and 40 of each foreign set, of which most are found."""
    rng = np.random.default_rng([seed, len(method)])
    ood, settings = OOD[experiment], SETTINGS | (changes or {})
    found = {"accuracy": 0.97 + 0.001 * seed, "nll": 0.09 + 0.01 * seed, "brier": 0.04, "ece": 0.01}
    found |= {f"ece_{scheme}_{bins}": 0.01 for scheme in ("equal_mass", "equal_width") for bins in (10, 15, 20, 30)}
    found |= {"recalibrated_temperature": 1.2, "recalibrated_nll": 0.08, "recalibrated_ece": 0.008}
    found |= {f"{name}/auroc_ood_entropy": 0.9 + 0.001 * len(method) for name in ood} | {"aupr_err_entropy": 0.4}
    arrays = _predictions(rng, "test", 60, 6.0) | {"test_labels": np.arange(60, dtype="uint8") % 10}
    for name in ood:
        arrays |= _predictions(rng, name, 40, 2.0)
    if method != "swag":
        arrays |= {f"singular_values/{name}/kernel": np.exp(-0.3 * np.arange(30.0)) for name in ("hidden_1", "logits")}
    if method == "deterministic":
        arrays = {name: array for name, array in arrays.items() if not name.endswith("_mi")}
    else:
        found |= {f"{name}/auroc_ood_mi": 0.95 for name in ood} | {"mean_mi": 0.05}
    paper = {name: SETTINGS[name] for name in SETTINGS if settings[name] != SETTINGS[name]}
    options = {"paper": paper, "preset": preset, "arrays": arrays, "peak_memory": 10**9}
    return Record(experiment, method, seed, settings, found | metrics, 245_810, 100.0, **options)


def _predictions(rng, name, number, confidence):
    logits = rng.normal(size=(number, 10))
    logits[np.arange(number), np.arange(number) % 10] += confidence
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    entropy = -(p * np.log(p)).sum(axis=1)
    return {f"{name}_mean": p.astype("float32"), f"{name}_entropy": entropy, f"{name}_mi": 0.4 * entropy}


class Answers:
    """Answers a problem with made-up probabilities of its own for every set, without a network, and keeps them."""

    def __init__(self, classes):
        self.classes, self.given = classes, {}

    def __call__(self, sets):
        rng = np.random.default_rng(0)
        for i, (name, x) in enumerate(sets.items()):
            draws = rng.dirichlet(np.full(self.classes, 0.3 + 0.2 * i), (4, len(x)))
            self.given[name] = ClassPredictive.of_draws(draws)
        return dict(self.given)


def scored_by_hand(given, y_test, y_validation, ood):
    """The scores of made-up answers: test and foreign sets by name, and a temperature that saw validation alone."""
    test, held = given["test"], given["validation"]
    scores = class_scores.of_test(test, y_test, ood)
    scores |= class_scores.recalibrated(test, y_test, held, y_validation)
    return scores | {f"validation_{name}": value for name, value in class_scores.quality(held, y_validation).items()}
