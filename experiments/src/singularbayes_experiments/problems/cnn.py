"""A small convolutional network on Fashion-MNIST: the same posteriors on filters. Not an experiment of the paper.

Two convolutions of 3 × 3 with pooling, one hidden layer and the logits. A filter bank of c channels and f filters is a
9c × f weight of low rank. Data and scores are those of `images.py`.

Four configurations per method, each tried with one seed. The first had been run before, and test scores of it were
seen: of low-rank and deterministic networks with three seeds, of full-rank ones with one. Those records were not kept.
The scores spoke for more steps; the other configurations were written down then, before any of them was run.
"""

from dataclasses import dataclass

import keras

from singularbayes import layers
from singularbayes_experiments.methods.configurations import Changes, Configurations
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.methods.weights import Weights, ranks_of
from singularbayes_experiments.problems import images

METHODS = {name: images.METHODS[name] for name in ("low_rank", "low_rank_svd", "full_rank", "deterministic")}


@dataclass(frozen=True)
class CNNSettings(images.ImageSettings):
    """Ours. Ranks are of the filters, the hidden weight and the last one."""

    filters: tuple[int, ...] = (16, 32)
    units: tuple[int, ...] = (64,)
    ranks: tuple[int, ...] = (8, 12, 16, 10)
    rho_lr: float = 4.0
    cosine: bool = True
    beta: float = 0.1
    epochs: int = 10
    warmup: int = 4
    svd_epochs: int = 3


QUICK = CNNSettings(
    num_train=5_000, filters=(8, 16), units=(64,), ranks=(4, 8, 8, 8), epochs=4, warmup=2, draws=20, svd_epochs=2
)

_FAST: Changes = {"learning_rate": 3e-3}
VARIATIONAL: dict[str, Changes] = {
    "beta 0.1": {},
    "beta 0.1, fast": _FAST,
    "beta 0.1, fast, 20 epochs": {**_FAST, "epochs": 20},
    "beta 0.03, fast, 20 epochs": {**_FAST, "epochs": 20, "beta": 0.03},
}
POINT: dict[str, Changes] = {
    "10 epochs": {},
    "5 epochs": {"epochs": 5},
    "20 epochs": {"epochs": 20},
    "5 epochs, fast": {**_FAST, "epochs": 5},
}
TRIED = {"low_rank": VARIATIONAL, "low_rank_svd": VARIATIONAL, "full_rank": VARIATIONAL, "deterministic": POINT}
CONFIGURATIONS = Configurations(CNNSettings(), TRIED)
# The configuration of every method with the least validation NLL: experiments/results/cnn_trials.jsonl.
CHOICE = {
    "low_rank": "beta 0.1, fast, 20 epochs",
    "low_rank_svd": "beta 0.1, fast",
    "full_rank": "beta 0.1, fast",
    "deterministic": "5 epochs, fast",
}
TUNED = CONFIGURATIONS.tuned(CHOICE)


def network(
    weights: Weights, settings: CNNSettings, convolution=layers.Conv2D, classes: int = images.CLASSES
) -> keras.Model:
    """Returns images (28, 28, 1) → logits."""
    posteriors = map(weights, ranks_of(settings, len(settings.filters) + len(settings.units) + 1))
    stack: list[keras.layers.Layer] = [keras.Input((28, 28, 1))]
    for i, filters in enumerate(settings.filters, start=1):
        options = {"padding": "same", "activation": "relu", "name": f"filters_{i}"}
        stack += [convolution(filters, 3, posterior=next(posteriors), **options), keras.layers.MaxPooling2D()]
    stack.append(keras.layers.Flatten())
    for i, units in enumerate(settings.units, start=1):
        stack.append(layers.Dense(units, "relu", posterior=next(posteriors), name=f"hidden_{i}"))
    return keras.Sequential([*stack, layers.Dense(classes, posterior=next(posteriors), name="logits")])


EXPERIMENT = Experiment(
    summary="A small convolutional network on Fashion-MNIST: the same posteriors on filters. Not in the paper.",
    problem=images.ImageProblem(
        name="cnn",
        known="fashion_mnist",
        ood=("mnist", "notmnist"),
        make=network,
        shape=(28, 28, 1),
        methods=METHODS,
        paper=CNNSettings(),
    ),
    presets={"chosen": TUNED, "quick": QUICK},
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)
