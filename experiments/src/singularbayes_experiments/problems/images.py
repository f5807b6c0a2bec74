"""Classifying images and detecting others: MNIST, Fashion-MNIST, and a small convolutional network on the second.

The paper: 784-1200-1200-10 with ReLU, pixels divided by 126, ranks 25, 25 and 10, plain biases, the scale-mixture prior
with σ₂ = e⁻⁶, Adam at 10⁻³, batches of 128, 50 epochs, β = 1 after a linear rise over 20 epochs, 50 draws. Of 60,000
images 50,000 train and 10,000 are held out to validate. It does not say where these networks start: means are
variance-matched (He), scales η = 0.1 times that. Out-of-distribution images (the other data set and notMNIST) are ours.

The convolutional network is ours: two convolutions of 3 × 3 with pooling, one hidden layer and the logits. A filter
bank of c channels and f filters is a 9c × f weight of low rank.
"""

from dataclasses import dataclass

import keras
import numpy as np

from singularbayes import layers
from singularbayes_experiments import data, protocol, scores
from singularbayes_experiments.methods import Settings, Weights
from singularbayes_experiments.problems.base import TUNING, Arrays, Data, Part, Predict, Problem, Scores

CLASSES = 10
_SPLIT = 0  # one split for all seeds and methods


@dataclass(frozen=True)
class ImageSettings(Settings):
    """The paper's values. With `filters`, units are those after the convolutions."""

    num_train: int = 50_000
    num_validation: int = 10_000
    pixel_scale: float = 126.0
    filters: tuple[int, ...] = ()
    units: tuple[int, ...] = (1200, 1200)
    ranks: tuple[int, ...] = (25, 25, 10)
    warmup: int = 20


class Images(Problem):
    """In-distribution images `known`, and out-of-distribution ones, `ood`."""

    Settings = ImageSettings

    def __init__(self, known: str, ood: tuple[str, ...], classes: int = CLASSES):
        self.known, self.ood, self.classes = known, tuple(ood), classes

    def data(self, task, seed, settings: ImageSettings, stage) -> Data:
        """One split serves all seeds."""
        pixels, labels = getattr(data, self.known)().train
        wanted = settings.num_validation + settings.num_train
        if wanted > len(labels):
            raise ValueError(f"num_train + num_validation must be <= {len(labels)}; got {wanted} ({self.known}).")
        order = np.random.default_rng(_SPLIT).permutation(len(labels))[:wanted]
        held, used = np.split(order, [settings.num_validation])
        train, validation = (Part(inputs(pixels[ids], settings), labels[ids].astype("int32")) for ids in (used, held))
        if stage == TUNING:
            return Data(train, validation, ood={"perturbed": protocol.perturbed(train.x[: scores.PERTURBED])})
        pixels, labels = getattr(data, self.known)().test
        ood = {name: inputs(getattr(data, name)().test[0], settings) for name in self.ood}
        return Data(train, validation, Part(inputs(pixels, settings), labels.astype("int32")), ood)

    def network(self, weights: Weights, settings: ImageSettings) -> keras.Model:
        """Returns images → logits."""
        wanted = len(settings.filters) + len(settings.units) + 1
        if len(settings.ranks) != wanted:
            raise ValueError(f"ranks must be {wanted} numbers, one for each weight; got ranks={settings.ranks}.")
        posteriors = map(weights, settings.ranks)
        stack: list[keras.layers.Layer] = [keras.Input((28, 28, 1) if settings.filters else (28 * 28,))]
        for i, filters in enumerate(settings.filters, start=1):
            options = {"padding": "same", "activation": "relu", "name": f"filters_{i}"}
            stack += [layers.Conv2D(filters, 3, posterior=next(posteriors), **options), keras.layers.MaxPooling2D()]
        stack += [keras.layers.Flatten()] if settings.filters else []
        for i, units in enumerate(settings.units, start=1):
            stack.append(layers.Dense(units, "relu", posterior=next(posteriors), name=f"hidden_{i}"))
        return keras.Sequential([*stack, layers.Dense(self.classes, posterior=next(posteriors), name="logits")])

    def uses(self, settings: ImageSettings) -> list[int]:
        places = [(28 >> i) ** 2 for i in range(len(settings.filters))]
        return [*places, *[1] * (len(settings.units) + 1)]

    def score(self, predict: Predict, data: Data, settings, stage) -> tuple[Scores, Arrays]:
        known, held = data.train.y, data.validation
        assert held is not None
        p = predict(held.x)
        ood = {name: predict(x) for name, x in data.ood.items()}
        if data.test is None:
            return scores.class_tuning(p, held.y, ood["perturbed"], known), {}
        test = predict(data.test.x)
        found = scores.class_result(test, data.test.y, ood, known, (p, held.y))
        return found, {}


def inputs(pixels: np.ndarray, settings: ImageSettings) -> np.ndarray:
    """Returns pixels as the network takes them."""
    shape = (28, 28, 1) if settings.filters else (28 * 28,)
    return (pixels.astype("float32") / np.float32(settings.pixel_scale)).reshape(-1, *shape)
