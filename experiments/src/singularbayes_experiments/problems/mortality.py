"""Who dies in intensive care, and which stays are of another kind: what `mimic3` and `icu` share.

The paper (MIMIC-III): 44 features of the first 48 hours in [0, 1], 44-128-128-1 with ReLU and a sigmoid, rank 15 and a
head of rank 1, Bayesian biases, damping 0.55, ρ from U(−5, −4), the scale-mixture prior with σ₂ = e⁻⁶, Adam at 10⁻³,
batches of 64, 256 epochs, KL weight 0.5 / batches (β = 32 for a mean loss: 0.5 · 64), 512 draws, classes weighted by 1
and N / deaths. Deterministic networks train for 32 epochs, SWAG for 20 and 20. The rank-one network has a plain head.

Full-rank means start at U(−0.2, 0.2) there, and with the paper's settings here; ours start variance-matched. The paper
damps low ranks up to 5, so its head, by 0.32; here one damping is for all that is low-rank. SWAG's first epochs are
Adam's, as for the other methods.

Class weights tell a network that deaths are as frequent as survivals, so its probabilities are too high. Dividing the
odds by the weight undoes that: scores with it are called `unweighted_…`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import keras
import numpy as np

from singularbayes import layers, metrics
from singularbayes.posteriors import Deterministic, Posterior
from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods import class_scores, methods, study
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.study import Arrays, Ask, Scores
from singularbayes_experiments.methods.trainers import Training
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems.mortality_scaling import Units
from singularbayes_experiments.records.record import omitted_default

METHODS = methods.sentences(
    "low_rank",
    "low_rank_svd",
    "full_rank",
    "rank_one",
    "deterministic",
    "deep_ensemble",
    "low_rank_ensemble",
    "swag",
    "low_rank_2",
    "low_rank_5",
    "low_rank_30",
)
OOD = "foreign"  # the name of out-of-distribution stays in the arrays of records
PAPER_METHODS = methods.COMPARED  # what runs when no method is given
Part = tuple[np.ndarray, np.ndarray]  # features and labels


@dataclass(frozen=True)
class MortalitySettings(TrainingSettings):
    """The paper's values for a variational network; of what it does not have, ours."""

    scaling: Units = "range"
    units: tuple[int, ...] = (128, 128)
    rank: int = 15
    bayesian_bias: bool = True
    rho_start: tuple[float, float] | None = (-5.0, -4.0)
    eta: float = 0.1
    damping: float = 0.55
    rank_one_form: str = "scale"
    class_weights: bool = True
    learning_rate: float = 1e-3
    batch_size: int = 64
    epochs: int = 256
    beta: float = 32.0
    warmup: int = 0
    draws: int = 512
    svd_epochs: int = 32
    swag_epochs: int = 20
    swag_rank: int = 20
    swag_rate: float = 0.01
    full_rank_start: float | None = omitted_default(
        None
    )  # means of full-rank weights start uniform between − and + this


def published(settings: MortalitySettings) -> dict:
    """Returns the paper's settings by method: deterministic networks and SWAG train less, full-rank starts wide."""
    fewer = {"deterministic": 32, "deep_ensemble": 32, "swag": 40}
    found = {name: replace(settings, epochs=fewer.get(name, settings.epochs)) for name in METHODS}
    return found | {"full_rank": replace(settings, full_rank_start=0.2)}


@dataclass(frozen=True)
class MortalitySets:
    """What a network trains on, validates on and is tested on, and stays of another kind; labels are 1 for death.

    There may be no out-of-distribution stays, and such a stay may have no known end: −1.
    """

    train: Part
    validation: Part
    test: Part
    ood: Part | None


class MortalityProblem(study.Comparison):
    """Death in intensive care; `sets` gives the stays."""

    methods: Mapping[str, str] = METHODS

    @abstractmethod
    def sets(self, settings) -> MortalitySets:
        """Returns the stays; the same for all seeds and methods."""

    def network(self, weights: Weights, settings) -> keras.Model:
        """Returns features → the logit of death."""
        features = self.sets(settings).train[0].shape[1]
        wide = settings.full_rank_start if weights.kind == "full_rank" else None

        def options(posterior: Posterior) -> dict[str, Any]:
            start = None if wide is None else keras.initializers.RandomUniform(-wide, wide)
            return {"posterior": posterior, "bias_posterior": weights.bias(), "kernel_initializer": start}

        stack: list[keras.layers.Layer] = [keras.Input((features,))]
        for i, (inputs, units) in enumerate(pairwise((features, *settings.units)), start=1):
            posterior = weights(min(settings.rank, inputs, units))  # the eICU demo has fewer features than rank 30
            stack.append(layers.Dense(units, "relu", name=f"hidden_{i}", **options(posterior)))
        head = Deterministic() if weights.kind == "rank_one" else weights(1)
        return keras.Sequential([*stack, layers.Dense(1, name="logit", **options(head))])

    def training(self, settings) -> Training:
        x, y = self.sets(settings).train
        weight = np.where(y == 1, death_weight(y), 1.0).astype("float32") if settings.class_weights else None
        return Training(x, y[:, None].astype("float32"), death_loss, weight=weight)

    def validated(self, ask: Ask, settings) -> Scores:
        x, y = self.sets(settings).validation
        return study.prefixed("validation", class_scores.quality(ask({"validation": x})["validation"], y))

    def tested(self, ask: Ask, settings) -> tuple[Scores, Arrays]:
        sets = self.sets(settings)
        parts = {"validation": sets.validation, "test": sets.test}
        if sets.ood is not None:
            parts[OOD] = sets.ood
        p = ask({name: x for name, (x, _) in parts.items()})
        held, test, ood = p["validation"], p["test"], p.get(OOD)
        y_held, y_test = sets.validation[1], sets.test[1]
        found = class_scores.of_test(test, y_test, ood) | class_scores.recalibrated(test, y_test, held, y_held)
        found |= study.prefixed("validation", class_scores.quality(held, y_held))
        if settings.class_weights:
            corrected = without_weight(test, death_weight(sets.train[1]))
            found |= study.prefixed("unweighted", class_scores.quality(corrected, y_test))
        arrays = class_scores.stored("validation", held, y_held) | class_scores.stored("test", test, y_test)
        if ood is not None and sets.ood is not None:
            found |= study.prefixed("shifted", _of_known_ends(ood, sets.ood[1]))
            arrays |= class_scores.stored(OOD, ood)
        return found, arrays


def death_loss() -> keras.losses.Loss:
    return keras.losses.BinaryCrossentropy(from_logits=True)


def death_weight(labels: np.ndarray) -> float:
    """Returns the paper's weight of a death, N / deaths; that of a survival is 1.

    >>> death_weight(np.array([0, 1, 0, 0]))
    4.0
    """
    return len(labels) / max(1, int(labels.sum()))


def without_weight(p: ClassPredictive, weight: float) -> ClassPredictive:
    """Returns predictions whose odds of death, averaged over draws, are divided by the weight of a death.

    >>> p = ClassPredictive(np.array([[0.5, 0.5]]), np.zeros((1, 2)), 1)
    >>> without_weight(p, 4.0).mean.tolist()
    [[0.8, 0.2]]
    """
    odds = p.mean / np.array([1.0, weight])
    return replace(p, mean=odds / odds.sum(axis=1, keepdims=True))


def _of_known_ends(p: ClassPredictive, labels: np.ndarray) -> Scores:
    """Returns how good predictions are where the end of the stay is known."""
    known = labels >= 0
    mean, ends = p.mean[known], labels[known]
    found = {"deaths": float(ends.mean()), "nll": metrics.negative_log_likelihood(mean, ends)}
    return found | ({"auroc": metrics.auroc(mean, ends)} if 0 < ends.sum() < len(ends) else {})
