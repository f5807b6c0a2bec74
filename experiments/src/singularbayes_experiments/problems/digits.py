"""Digits with two classes held out: does a network know that it has not seen these?

The 1,797 images of 8 × 8 pixels that ship inside scikit-learn. The held-out classes are never trained on; at the end
their uncertainty is compared with that of the test images. Not an experiment of the paper: the settings were chosen on
the validation images, β as the largest of 0.03, 0.1, 0.3 and 1 with which (seed 0) both Bayesian networks have there at
most the deterministic network's negative log-likelihood. In a first round of twelve trials the test and held-out scores
were on the screen too.
"""

import math
from dataclasses import dataclass, replace

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from singularbayes import layers
from singularbayes.metrics import (
    accuracy,
    aupr_ood,
    auroc_ood,
    brier,
    expected_calibration_error,
    negative_log_likelihood,
)
from singularbayes.models.parameters import count_stored, count_trained
from singularbayes.posteriors import Deterministic, FullRank, LowRank, ScaleMixture
from singularbayes.prediction import ClassPredictive, predict
from singularbayes_experiments.methods.training import Watch, fit, require_method
from singularbayes_experiments.records.checkpoints import Keep
from singularbayes_experiments.records.record import Record, departures, plain


@dataclass(frozen=True)
class Settings:
    """Chosen on the validation images, the same for all methods."""

    held_out: tuple[int, ...] = (8, 9)
    units: int = 128
    rank: int = 16
    sigma1: float = 1.0
    sigma2: float = math.exp(-6)
    learning_rate: float = 3e-3
    cosine: bool = True
    batch_size: int = 64
    epochs: int = 100
    beta: float = 0.1
    warmup: int = 20
    draws: int = 100


QUICK = Settings(epochs=30, warmup=5)
PRESETS = {"chosen": Settings(), "quick": QUICK}

METHODS = {
    "low_rank": lambda rank, **options: LowRank(rank, **options),
    "full_rank": lambda rank, **options: FullRank(**options),
    "deterministic": lambda rank, **options: Deterministic(),
}


@dataclass(frozen=True)
class Data:
    """Images (examples, 64) with pixels in [0, 1] and labels counted from 0: 60 % to train, 20 % and 20 %."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    foreign: tuple[np.ndarray, np.ndarray]  # labels are the digits themselves
    classes: tuple[int, ...]  # the digit that each label stands for


def load(held_out: tuple[int, ...], seed: int) -> Data:
    """Returns the split of a seed, stratified by class."""
    images, digits = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")
    foreign = np.isin(digits, held_out)
    classes = np.setdiff1d(digits, held_out)
    x, y = images[~foreign], np.searchsorted(classes, digits[~foreign])
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=seed, stratify=y)
    x, x_validation, y, y_validation = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return Data(
        (x, y),
        (x_validation, y_validation),
        (x_test, y_test),
        (images[foreign], digits[foreign]),
        tuple(int(c) for c in classes),
    )


def noisy(data: Data, std: float, seed: int) -> Data:
    """Returns the data with Gaussian noise on every pixel, so that there are mistakes to look at."""
    rng = np.random.default_rng(seed)

    def add(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return (part[0] + std * rng.normal(size=part[0].shape)).astype("float32"), part[1]

    train, validation, test, foreign = map(add, (data.train, data.validation, data.test, data.foreign))
    return replace(data, train=train, validation=validation, test=test, foreign=foreign)


def network(method: str, classes: int, settings: Settings) -> keras.Model:
    """Returns 64-units-units-classes with ReLU; the rank of the last weight is at most the number of classes."""
    prior = ScaleMixture(sigma1=settings.sigma1, sigma2=settings.sigma2)

    def posterior(columns: int):
        return METHODS[method](min(settings.rank, columns), prior=prior)

    return keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(settings.units, "relu", posterior=posterior(settings.units)),
            layers.Dense(settings.units, "relu", posterior=posterior(settings.units)),
            layers.Dense(classes, posterior=posterior(classes)),
        ]
    )


def scores(predictive: ClassPredictive, labels: np.ndarray) -> dict[str, float]:
    """Returns how good the predicted probabilities are."""
    return {
        "accuracy": accuracy(predictive.mean, labels),
        "nll": negative_log_likelihood(predictive.mean, labels),
        "brier": brier(predictive.mean, labels),
        "ece": expected_calibration_error(predictive.mean, labels),
    }


def detection(test: ClassPredictive, foreign: ClassPredictive) -> dict[str, float]:
    """Returns how well uncertainty tells the held-out digits apart; one function has no mutual information."""
    found = {
        "auroc_entropy": auroc_ood(test.entropy, foreign.entropy),
        "aupr_entropy": aupr_ood(test.entropy, foreign.entropy),
    }
    if test.num_draws > 1:
        found["auroc_mi"] = auroc_ood(test.mutual_information, foreign.mutual_information)
        found["aupr_mi"] = aupr_ood(test.mutual_information, foreign.mutual_information)
    return found


def run(
    method: str,
    seed: int,
    settings: Settings = Settings(),
    watch: Watch | None = None,
    keep: Keep | None = None,
) -> Record:
    """Trains one network on the known digits and scores it on test and held-out images."""
    require_method(method, METHODS)
    keras.utils.set_random_seed(seed)
    data = load(settings.held_out, seed)
    model = network(method, len(data.classes), settings)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    seconds = fit(model, loss, *data.train, settings, watch, keep)

    def ask(images: np.ndarray) -> ClassPredictive:
        predictive = predict(model, images, settings.draws, seed)
        assert isinstance(predictive, ClassPredictive)
        return predictive

    validation, test, foreign = (ask(part[0]) for part in (data.validation, data.test, data.foreign))
    metrics = {
        **{f"validation_{name}": value for name, value in scores(validation, data.validation[1]).items()},
        **scores(test, data.test[1]),
        **detection(test, foreign),
    }
    classes = np.array(data.classes)
    arrays = {
        "mi_test": test.mutual_information,
        "mi_foreign": foreign.mutual_information,
        "entropy_test": test.entropy,
        "entropy_foreign": foreign.entropy,
        "images_foreign": data.foreign[0].reshape(-1, 8, 8),
        "digits_foreign": data.foreign[1],
        "guesses_foreign": classes[foreign.labels],
    }
    return Record(
        "digits",
        method,
        seed,
        plain(settings),
        metrics,
        count_trained(model),
        seconds,
        paper=departures(settings),
        stored=count_stored(model),
        arrays=arrays,
    )
