"""Classifying images, and knowing which were never seen: what the experiments on MNIST and Fashion-MNIST share.

The paper: 784-1200-1200-10 with ReLU, pixels divided by 126, ranks 25, 25 and 10, plain biases, the scale-mixture prior
with σ₂ = e⁻⁶, Adam at 10⁻³, batches of 128, 50 epochs, β = 1 after a linear rise over 20 epochs, 50 draws. Of 60,000
images 50,000 train and 10,000 are held out to validate. It compares low-rank with Gaussian and Laplace factors,
full-rank and rank-one networks.

Ours: the other methods, foreign images (the other data set and notMNIST), and settings chosen on validation
(`candidates.py`). The paper does not say where these networks start: means are variance-matched (He), scales η = 0.1
times that. A trial is scored on the validation images alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np

from singularbayes import data, layers
from singularbayes.assess.memory import Peak
from singularbayes.experiments import image_scores, methods
from singularbayes.experiments.keep import Keep
from singularbayes.experiments.record import Record, departures, machine, plain
from singularbayes.experiments.trainers import Alone, Network, Together, Weights
from singularbayes.experiments.training import Watch, require_method
from singularbayes.inference import ClassPredictive, predict
from singularbayes.inference.counts import count_stored, count_trained

CLASSES = 10
METHODS = {name: method.says for name, method in methods.METHODS.items()}
_SPLIT = 0  # one split for all seeds and methods
Part = tuple[np.ndarray, np.ndarray]  # images and labels


@dataclass(frozen=True)
class Settings:
    """The paper's values; of what it does not have (ensembles, SWAG, the warm start) ours.

    Ranks are of the hidden weights and the last one. SWAG's epochs and those of the point network before it are
    `epochs` together.
    """

    num_train: int = 50_000
    num_validation: int = 10_000
    pixel_scale: float = 126.0
    units: tuple[int, ...] = (1200, 1200)
    ranks: tuple[int, ...] = (25, 25, 10)
    pi: float = 0.5
    sigma1: float = 1.0
    sigma2: float = math.exp(-6)
    eta: float = 0.1
    damping: float = 1.0
    rho_lr: float = 1.0
    estimator: str = "shared"
    rank_one_form: str = "scale"
    learning_rate: float = 1e-3
    cosine: bool = False
    batch_size: int = 128
    epochs: int = 50
    beta: float = 1.0
    warmup: int = 20
    draws: int = 50
    members: int = 5
    svd_epochs: int = 10
    swag_epochs: int = 20
    swag_rank: int = 20
    swag_rate: float = 0.01


QUICK = Settings(
    num_train=10_000, units=(400, 400), epochs=6, warmup=2, cosine=True, draws=20, svd_epochs=2, swag_epochs=3
)


def mlp(weights: Weights, settings: Settings) -> keras.Model:
    """Returns pixels → logits, fully connected with ReLU."""
    *ranks, last = settings.ranks
    stack: list[keras.layers.Layer] = [keras.Input((28 * 28,))]
    for i, (units, rank) in enumerate(zip(settings.units, ranks, strict=True), start=1):
        options = {"posterior": weights(rank), "estimator": settings.estimator, "name": f"hidden_{i}"}
        stack.append(layers.Dense(units, "relu", **options))
    logits = layers.Dense(CLASSES, posterior=weights(last), estimator=settings.estimator, name="logits")
    return keras.Sequential([*stack, logits])


@dataclass(frozen=True)
class Problem:
    """An experiment's name, the images it knows and those it has never seen, and its network."""

    name: str
    known: str
    foreign: tuple[str, ...]
    network: Callable[[Weights, Any], keras.Model] = mlp
    shape: tuple[int, ...] = (28 * 28,)

    def inputs(self, pixels: np.ndarray, settings) -> np.ndarray:
        """Returns pixels as the network takes them."""
        return (pixels.astype("float32") / np.float32(settings.pixel_scale)).reshape(-1, *self.shape)

    def training(self, settings) -> tuple[Part, Part]:
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
        """Returns the test images with their labels, and the foreign images by name."""
        pixels, labels = getattr(data, self.known)().test
        foreign = {name: self.inputs(getattr(data, name)().test[0], settings) for name in self.foreign}
        return (self.inputs(pixels, settings), labels), foreign


def network_of(problem: Problem, method: str, settings) -> Network:
    """Returns what makes the network of a method, at the ranks that it asks for."""
    rank = methods.METHODS[method].hidden_rank
    if rank is not None:
        *hidden, last = settings.ranks
        settings = replace(settings, ranks=(*[rank] * len(hidden), last))
    return lambda weights: problem.network(weights, settings)


def run(
    problem: Problem,
    method: str,
    seed: int,
    settings=Settings(),
    watch: Watch | None = None,
    keep: Keep | None = None,
    preset: str = "paper",
) -> Record:
    """Trains one method with one seed and scores it on validation, test and foreign images.

    Args:
        preset: what the settings are called: "paper", "chosen", "quick", or "trial", which is scored on the validation
            images alone.
    """
    require_method(method, methods.METHODS)
    train, validation = problem.training(settings)
    trainer = Alone(network_of(problem, method, settings), *train, settings, watch, keep)
    (trained,) = methods.METHODS[method].train(trainer, [seed])
    made = _record(problem, method, seed, settings, trained, validation, preset)
    return replace(made, seconds=trainer.seconds)


def run_many(
    problem: Problem, method: str, seeds: Sequence[int], settings=Settings(), preset: str = "paper"
) -> list[Record]:
    """Returns what `run` returns for every seed, to the accuracy of floats; on JAX all seeds train as one program.

    The seconds of a record are its share of the program's. Its machine says how many runs shared it.
    """
    require_method(method, methods.METHODS)
    train, validation = problem.training(settings)
    trainer = Together(network_of(problem, method, settings), *train, settings)
    with Peak() as peak:
        trained = methods.METHODS[method].train(trainer, list(seeds))
    share = trainer.seconds / len(seeds)
    where = machine() | {"trained_together": len(seeds)}
    costs = {"seconds": share, "machine": where, "peak_memory": peak.bytes}
    return [
        replace(_record(problem, method, seed, settings, one, validation, preset), **costs)
        for seed, one in zip(seeds, trained, strict=True)
    ]


def _record(problem: Problem, method: str, seed: int, settings, trained, validation: Part, preset: str) -> Record:
    x, y = validation
    if preset == "trial":
        held = _ask(trained, {"validation": x}, settings.draws, seed)["validation"]
        found, arrays = {}, {}
    else:
        (x_test, y_test), foreign = problem.testing(settings)
        strange = _ask(trained, {"validation": x, "test": x_test, **foreign}, settings.draws, seed)
        held, test = strange.pop("validation"), strange.pop("test")
        found = image_scores.of_test(test, y_test, strange) | image_scores.recalibrated(test, y_test, held, y)
        arrays = image_scores.stored("validation", held, y) | image_scores.stored("test", test, y_test)
        for name, p in strange.items():
            arrays |= image_scores.stored(name, p)
    found |= image_scores.prefixed("validation", image_scores.quality(held, y))
    found |= image_scores.of_posteriors(_networks(trained))
    trained_numbers, stored_numbers = _sizes(trained)
    return Record(
        problem.name,
        method,
        seed,
        plain(settings),
        found,
        trained_numbers,
        seconds=0.0,
        paper=departures(settings),
        stored=stored_numbers,
        preset=preset,
        arrays=arrays,
    )


def _ask(trained, sets: dict[str, np.ndarray], draws: int, seed: int) -> dict[str, ClassPredictive]:
    """Returns the predictions of every set; one call for all of them, so that each draw is made once."""
    answer = partial(predict, trained) if isinstance(trained, keras.Model) else trained.predict
    p = answer(np.concatenate(list(sets.values())), draws, seed)
    assert isinstance(p, ClassPredictive) and p.expected_entropy is not None
    ends = np.cumsum([len(images) for images in sets.values()])[:-1]
    parts = zip(*(np.split(part, ends) for part in (p.mean, p.std, p.expected_entropy)), strict=True)
    return {
        name: ClassPredictive(mean, std, p.num_draws, expected_entropy=entropy)
        for name, (mean, std, entropy) in zip(sets, parts, strict=True)
    }


def _networks(trained) -> list[keras.Model]:
    return [trained] if isinstance(trained, keras.Model) else getattr(trained, "models", [])


def _sizes(trained) -> tuple[int, int]:
    """Returns how many numbers are trained, and how many predictions are made from."""
    if isinstance(trained, keras.Model):
        return count_trained(trained), count_stored(trained)
    return trained.num_trained, trained.num_stored
