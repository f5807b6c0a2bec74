"""Digits with two classes held out: is a network less certain about classes that it was never trained on?

The 1,797 images of 8 × 8 pixels that are part of scikit-learn, with noise on every pixel so that there are errors to
look at. The settings were tuned on validation images without noise: β is the largest of 0.03, 0.1, 0.3 and 1 with which
(seed 0) both Bayesian networks have there at most the deterministic network's negative log-likelihood. In a first round
of twelve tuning runs the test and out-of-distribution scores were visible too.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import singularbayes as sb
from singularbayes import layers, plots
from singularbayes.demo.page import Story
from singularbayes.demo.training import Trainer, Training
from singularbayes.evaluation import Evaluation
from singularbayes.posteriors import Posterior

COLUMNS = ("num_stored", "accuracy", "nll", "ece", "auroc_ood_mi", "auroc_ood_entropy")
METHODS: dict[str, Callable[[int], Posterior]] = {  # given a rank
    "low-rank": sb.LowRank.paper,
    "full-rank": lambda _: sb.FullRank(),
    "deterministic": lambda _: sb.Deterministic(),
}
Part = tuple[np.ndarray, np.ndarray]  # images (examples, 64) and labels


@dataclass(frozen=True)
class Settings(Training):
    """The same for all methods."""

    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 3e-3
    cosine: bool = True
    beta: float = 0.1
    warmup: int = 20
    held_out: tuple[int, ...] = (8, 9)
    pixel_noise: float = 0.35  # standard deviation; pixels are from 0 to 1
    units: int = 128
    rank: int = 16
    draws: int = 100


QUICK = Settings(epochs=30, warmup=5)


@dataclass(frozen=True)
class Data:
    """Images with pixels in [0, 1] and labels counted from 0: 60 % to train, 20 % to validate, 20 % to test."""

    train: Part
    validation: Part
    test: Part
    ood: Part  # the held-out classes; labels are the digits themselves
    classes: tuple[int, ...]  # the digit that each label stands for


def load(held_out: tuple[int, ...], seed: int) -> Data:
    """Returns the split of a seed, stratified by class."""
    images, digits = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")
    ood = np.isin(digits, held_out)
    classes = np.setdiff1d(digits, held_out)
    x, y = images[~ood], np.searchsorted(classes, digits[~ood])
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=seed, stratify=y)
    x, x_validation, y, y_validation = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return Data(
        (x, y),
        (x_validation, y_validation),
        (x_test, y_test),
        (images[ood], digits[ood]),
        tuple(int(c) for c in classes),
    )


def add_noise(data: Data, std: float, seed: int) -> Data:
    """Returns the data with Gaussian noise on every pixel."""
    rng = np.random.default_rng(seed)

    def noisy(part: Part) -> Part:
        return (part[0] + std * rng.normal(size=part[0].shape)).astype("float32"), part[1]

    train, validation, test, ood = map(noisy, (data.train, data.validation, data.test, data.ood))
    return replace(data, train=train, validation=validation, test=test, ood=ood)


def network(posterior: Callable[[int], Posterior], units: int, classes: int) -> keras.Model:
    """Returns 64-units-units-classes with ReLU; `posterior` is given the number of columns of each weight."""
    return keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(units, "relu", posterior=posterior(units)),
            layers.Dense(units, "relu", posterior=posterior(units)),
            layers.Dense(classes, posterior=posterior(classes)),
        ]
    )


def run(trainer: Trainer, settings: Settings) -> Story:
    """Trains three networks, and compares their entropy on test images and on the held-out digits."""
    data = add_noise(load(settings.held_out, trainer.seed), settings.pixel_noise, trainer.seed)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    evaluations, entropies = [], {}
    for method, make in METHODS.items():

        def build(make=make) -> keras.Model:
            return network(lambda columns: make(min(settings.rank, columns)), settings.units, len(data.classes))

        model = trainer.fit(f"digits, {method}", build, loss, *data.train, settings)
        entropies[method] = tuple(_entropy(model, x, settings.draws, trainer.seed) for x, _ in (data.test, data.ood))
        evaluations.append(
            sb.evaluate(model, data.test, ood=data.ood[0], name=method, draws=settings.draws, seed=trainer.seed)
        )
    held_out = " and ".join(map(str, settings.held_out))
    return Story(
        name="digits",
        title="Digits: classes held out",
        setup=(
            f"Images of 8 × 8 pixels with noise, from scikit-learn. Three 64-{settings.units}-{settings.units}-"
            f"{len(data.classes)} networks are trained on {len(data.train[0])} images of the other digits; "
            f"{held_out} are out-of-distribution. Are the networks less certain about them?"
        ),
        sentence=summary(evaluations, held_out),
        figure=plots.uncertainty_histograms(entropies, "entropy (nats)"),
        alt=(
            f"Histograms of each network's predictive entropy for test images and for the digits {held_out}. AUROC: "
            + ", ".join(f"{e.method} {e.value('auroc_ood_entropy'):.3f}" for e in evaluations)
            + "."
        ),
        table=sb.compare(evaluations, COLUMNS),
        note=(
            "Accuracy, NLL (nats) and expected calibration error (ECE, 15 bins of equal mass) are on "
            f"{len(data.test[0])} test images; one image is {1 / len(data.test[0]):.3f} of accuracy. AUROC-OOD: the "
            f"{len(data.ood[0])} images of the held-out digits against the test images, by mutual information (MI) and "
            "by entropy. A deterministic network is one function and has no mutual information."
        ),
        settings=asdict(settings),
    )


def _entropy(model: keras.Model, x: np.ndarray, draws: int, seed: int) -> np.ndarray:
    predictive = sb.predict(model, x, draws, seed)
    assert isinstance(predictive, sb.ClassPredictive)
    return predictive.entropy


def summary(evaluations: list[Evaluation], held_out: str) -> str:
    """Returns which network detects the held-out digits best, and what the low-rank one costs and gains."""
    by_method = {evaluation.method: evaluation for evaluation in evaluations}
    low, full = by_method["low-rank"], by_method["full-rank"]
    rates = ", ".join(f"{e.value('auroc_ood_entropy'):.3f} ({e.method})" for e in evaluations)
    share = low.value("num_stored") / full.value("num_stored")
    return (
        f"Entropy separates the held-out {held_out} from test images with an AUROC of {rates}; the low-rank network "
        f"has {100 * share:.0f}\N{NO-BREAK SPACE}% of the parameters of the full-rank one, and an accuracy of "
        f"{low.value('accuracy'):.3f} against {full.value('accuracy'):.3f}."
    )
