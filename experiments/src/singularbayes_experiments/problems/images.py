"""Classifying images and detecting others: what the experiments on MNIST and Fashion-MNIST share.

The paper: 784-1200-1200-10 with ReLU, pixels divided by 126, ranks 25, 25 and 10, plain biases, the scale-mixture prior
with σ₂ = e⁻⁶, Adam at 10⁻³, batches of 128, 50 epochs, β = 1 after a linear rise over 20 epochs, 50 draws. Of 60,000
images 50,000 train and 10,000 are held out to validate. It compares low-rank with Gaussian and Laplace factors,
full-rank and rank-one networks.

Ours: the other methods, out-of-distribution images (the other data set and notMNIST), and settings chosen on validation
(`configurations.py`). The paper does not say where these networks start: means are variance-matched (He), scales η =
0.1 times that. A tuning run is scored on the validation images alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from singularbayes import layers
from singularbayes_experiments import data
from singularbayes_experiments.methods import class_scores, methods, study
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.study import Arrays, Ask, Scores
from singularbayes_experiments.methods.trainers import Training
from singularbayes_experiments.methods.weights import Weights, ranks_of

CLASSES = 10
METHODS = methods.sentences(*methods.METHODS, "low_rank_10", "low_rank_50")
# What runs on MNIST and Fashion-MNIST when no method is given: those that the paper compares.
PAPER_METHODS = ("low_rank", "low_rank_laplace", "full_rank", "rank_one")
_SPLIT = 0  # one split for all seeds and methods
Part = tuple[np.ndarray, np.ndarray]  # images and labels


@dataclass(frozen=True)
class ImageSettings(TrainingSettings):
    """The paper's values; of what it does not have (ensembles, SWAG, the warm start) ours.

    Ranks are of the hidden weights and the last one. SWAG's epochs and those of the deterministic network before it are
    `epochs` together.
    """

    num_train: int = 50_000
    num_validation: int = 10_000
    pixel_scale: float = 126.0
    units: tuple[int, ...] = (1200, 1200)
    ranks: tuple[int, ...] = (25, 25, 10)
    pi: float = 0.5
    eta: float = 0.1
    damping: float = 1.0
    estimator: str = "shared"
    rank_one_form: str = "scale"
    learning_rate: float = 1e-3
    batch_size: int = 128
    epochs: int = 50
    beta: float = 1.0
    warmup: int = 20
    draws: int = 50
    svd_epochs: int = 10
    swag_epochs: int = 20
    swag_rank: int = 20
    swag_rate: float = 0.01


QUICK = ImageSettings(
    num_train=10_000,
    units=(400, 400),
    rho_lr=4.0,
    learning_rate=3e-3,
    cosine=True,
    epochs=6,
    beta=0.1,
    warmup=2,
    draws=20,
    svd_epochs=2,
    swag_epochs=3,
)


def mlp(weights: Weights, settings: ImageSettings, classes: int = CLASSES) -> keras.Model:
    """Returns pixels → logits, fully connected with ReLU."""
    *ranks, last = ranks_of(settings, len(settings.units) + 1)
    stack: list[keras.layers.Layer] = [keras.Input((28 * 28,))]
    for i, (units, rank) in enumerate(zip(settings.units, ranks, strict=True), start=1):
        options = {"posterior": weights(rank), "estimator": settings.estimator, "name": f"hidden_{i}"}
        stack.append(layers.Dense(units, "relu", **options))
    logits = layers.Dense(classes, posterior=weights(last), estimator=settings.estimator, name="logits")
    return keras.Sequential([*stack, logits])


@dataclass(frozen=True)
class ImageProblem(study.Comparison):
    """An experiment's name, its in-distribution and out-of-distribution images, and its network."""

    name: str
    known: str
    ood: tuple[str, ...]
    make: Callable[[Weights, Any], keras.Model] = mlp
    shape: tuple[int, ...] = (28 * 28,)
    methods: Mapping[str, str] = field(default_factory=lambda: METHODS)
    paper: Any = ImageSettings()

    def network(self, weights: Weights, settings) -> keras.Model:
        return self.make(weights, settings)

    def with_rank(self, settings, rank: int):
        """Returns the settings with that rank of the hidden weights."""
        *hidden, last = settings.ranks
        return replace(settings, ranks=(*[rank] * len(hidden), last))

    def inputs(self, pixels: np.ndarray, settings) -> np.ndarray:
        """Returns pixels as the network takes them."""
        return (pixels.astype("float32") / np.float32(settings.pixel_scale)).reshape(-1, *self.shape)

    def split(self, settings) -> tuple[Part, Part]:
        """Returns what to train on and what to validate on: the same for all seeds, and no test image among them."""
        pixels, labels = getattr(data, self.known)().train
        wanted = settings.num_validation + settings.num_train
        if wanted > len(labels):
            raise ValueError(
                f"{self.name} needs num_train + num_validation <= {len(labels)} images; got {settings.num_train} + "
                f"{settings.num_validation}."
            )
        order = np.random.default_rng(_SPLIT).permutation(len(labels))[:wanted]
        held, used = np.split(order, [settings.num_validation])
        train, validation = ((self.inputs(pixels[ids], settings), labels[ids]) for ids in (used, held))
        return train, validation

    def testing(self, settings) -> tuple[Part, dict[str, np.ndarray]]:
        """Returns the test images with their labels, and the out-of-distribution images by name."""
        pixels, labels = getattr(data, self.known)().test
        ood = {name: self.inputs(getattr(data, name)().test[0], settings) for name in self.ood}
        return (self.inputs(pixels, settings), labels), ood

    def training(self, settings) -> Training:
        (x, y), _ = self.split(settings)
        return Training(x, y)

    def validated(self, ask: Ask, settings) -> Scores:
        _, (x, y) = self.split(settings)
        return study.prefixed("validation", class_scores.quality(ask({"validation": x})["validation"], y))

    def tested(self, ask: Ask, settings) -> tuple[Scores, Arrays]:
        _, (x, y) = self.split(settings)
        (x_test, y_test), ood = self.testing(settings)
        p = ask({"validation": x, "test": x_test, **ood})
        held, test = p.pop("validation"), p.pop("test")
        found = class_scores.of_test(test, y_test, p) | class_scores.recalibrated(test, y_test, held, y)
        found |= study.prefixed("validation", class_scores.quality(held, y))
        arrays = class_scores.stored("validation", held, y) | class_scores.stored("test", test, y_test)
        for name, part in p.items():
            arrays |= class_scores.stored(name, part)
        return found, arrays
