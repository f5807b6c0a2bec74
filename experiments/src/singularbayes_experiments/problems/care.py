"""Who dies in intensive care, and which stays are of another kind.

PhysioNet 2012, 12,000 stays, the open stand-in for MIMIC-III (`mimic3.py`). Each of the four kinds of intensive care is
held out in turn as the shift, and the network is trained on stays of the other three. A fifth shift is the eICU demo:
other hospitals, years and machines, with the network trained on all of PhysioNet by the 23 features that both have
(`care_features.py`). Challenge sets a and b train and validate, four to one, split by seed 0 within kind of care and
outcome; set c tests. Held-out stays are out-of-distribution, whatever their set.

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

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import keras
import numpy as np

from singularbayes import layers, metrics
from singularbayes.posteriors import Deterministic, Posterior
from singularbayes.prediction import ClassPredictive
from singularbayes_experiments import protocol, scores
from singularbayes_experiments.methods import Settings, Weights
from singularbayes_experiments.problems import care_features
from singularbayes_experiments.problems.base import TUNING, Arrays, Data, Part, Predict, Problem, Scores

SHIFTS = {"coronary": 1, "cardiac": 2, "medical": 3, "surgical": 4, "eicu": None}  # PhysioNet's number of the kind
REACH = 8.0  # interquartile ranges beyond a quartile, from where a value is an outlier
OOD, ENDS = "held_out_care", "ends"  # stays of another kind, and whether they ended in death; −1 where nobody knows
_SPLIT = 0  # one split for all seeds and methods


@dataclass(frozen=True)
class CareSettings(Settings):
    """The paper's values for a variational network; of what it does not have, ours.

    Args:
        scaling: "range", the paper's: [least, most] of training becomes [0, 1]. "deviation": mean 0, deviation 1.
        full_rank_start: means of full-rank weights start uniform between − and + this.
    """

    scaling: Literal["range", "deviation"] = "range"
    units: tuple[int, ...] = (128, 128)
    ranks: tuple[int, ...] = (15, 15, 1)
    bayesian_bias: bool = True
    rho_start: tuple[float, float] | None = (-5.0, -4.0)
    damping: float = 0.55
    class_weights: bool = True
    batch_size: int = 64
    epochs: int = 256
    beta: float = 32.0
    draws: int = 512
    svd_epochs: int = 32
    full_rank_start: float | None = None


class Mortality(Problem):
    """The network, the loss and the scores of death in intensive care; labels are 1 for death."""

    Settings = CareSettings

    def network(self, weights: Weights, settings) -> keras.Model:
        """Returns features → the logit of death."""
        wide = settings.full_rank_start if weights.kind == "full_rank" else None

        def options(posterior: Posterior) -> dict[str, Any]:
            start = None if wide is None else keras.initializers.RandomUniform(-wide, wide)
            return {"posterior": posterior, "bias_posterior": weights.bias(), "kernel_initializer": start}

        *ranks, last = settings.ranks
        stack: list[keras.layers.Layer] = [keras.Input(weights.inputs)]
        for i, (inputs, units) in enumerate(pairwise((*weights.inputs, *settings.units)), start=1):
            posterior = weights(min(ranks[i - 1], inputs, units))  # the eICU demo has fewer features than rank 30
            stack.append(layers.Dense(units, "relu", name=f"hidden_{i}", **options(posterior)))
        head = Deterministic() if weights.kind == "rank_one" else weights(last)
        return keras.Sequential([*stack, layers.Dense(1, name="logit", **options(head))])

    def loss(self, settings) -> keras.losses.Loss:
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def score(self, predict: Predict, data: Data, settings, stage) -> tuple[Scores, Arrays]:
        known, held = labels(data.train), data.validation
        assert held is not None
        p = predict(held.x)
        if data.test is None:
            return scores.class_tuning(p, labels(held), predict(data.ood["perturbed"]), known), {}
        test, y = predict(data.test.x), labels(data.test)
        ood = {OOD: predict(data.ood[OOD])} if OOD in data.ood else {}
        found = scores.class_result(test, y, ood, known, (p, labels(held)))
        if "nll" not in found:  # training diverged
            return found, {}
        # Runs of the paper's settings have them under their bare names.
        found |= {name.removeprefix(f"{OOD}/"): value for name, value in found.items() if name.startswith(OOD)}
        if ood:
            found |= scores.prefixed("shifted", _of_known_ends(ood[OOD], data.ood[ENDS]))
        if settings.class_weights:
            corrected = without_weight(test, death_weight(known))
            found |= scores.prefixed("unweighted", scores.class_quality(corrected, y))
        return found, scores.class_arrays(test, y)


def labels(part: Part) -> np.ndarray:
    return part.y[:, 0].astype(int)


def death_weight(died: np.ndarray) -> float:
    """Returns the paper's weight of a death, N / deaths; that of a survival is 1.

    >>> death_weight(np.array([0, 1, 0, 0]))
    4.0
    """
    return len(died) / max(1, int(died.sum()))


def without_weight(p: ClassPredictive, weight: float) -> ClassPredictive:
    """Returns predictions whose odds of death, averaged over draws, are divided by the weight of a death.

    >>> p = ClassPredictive(np.array([[0.5, 0.5]]), np.zeros((1, 2)), 1)
    >>> without_weight(p, 4.0).mean.tolist()
    [[0.8, 0.2]]
    """
    odds = p.mean / np.array([1.0, weight])
    return replace(p, mean=odds / odds.sum(axis=1, keepdims=True))


def _of_known_ends(p: ClassPredictive, died: np.ndarray) -> Scores:
    """Returns how good predictions are where the end of the stay is known."""
    known = died >= 0
    mean, ends = p.mean[known], died[known]
    found = {"deaths": float(ends.mean()), "nll": metrics.negative_log_likelihood(mean, ends)}
    return found | ({"auroc": metrics.auroc(mean, ends)} if 0 < ends.sum() < len(ends) else {})


def weighted(train: Part, settings) -> Part:
    """Returns the training stays with the weights of their classes, where these are set."""
    died = labels(train)
    weight = np.where(died == 1, death_weight(died), 1.0).astype("float32")
    return replace(train, weight=weight) if settings.class_weights else train


def scaling(training: np.ndarray, unit: str) -> Callable[[np.ndarray], np.ndarray]:
    """Returns what turns features, (stays, features) with NaN where a value is missing, into those for a network.

    All of it is learned on the training stays. Outliers become missing, and missing values the median. A feature of
    mostly one value, as whether a machine breathes, has no interquartile range, so no outliers. One that no training
    stay has is 0 everywhere. Out-of-distribution stays are not clipped: what is beyond training stays beyond.
    """
    counted = np.where(np.isfinite(training).any(axis=0), training, 0.0)
    first, median, third = np.nanquantile(counted, [0.25, 0.5, 0.75], axis=0)
    reach = np.where(third > first, REACH * (third - first), np.inf)

    def filled(features: np.ndarray) -> np.ndarray:
        inside = (features >= first - reach) & (features <= third + reach)  # NaN is not
        return np.where(inside, features, median)

    whole = filled(counted)
    ends = (whole.min(axis=0), np.ptp(whole, axis=0)) if unit == "range" else (whole.mean(axis=0), whole.std(axis=0))
    zero, width = ends[0], np.where(ends[1] > 0, ends[1], np.inf)
    return lambda features: ((filled(features) - zero) / width).astype("float32")


class Care(Mortality):
    """PhysioNet 2012 with one kind of stay held out."""

    def data(self, task, seed, settings: CareSettings, stage) -> Data:
        """One split serves all seeds; tuning reads the sets a and b alone."""
        stays = care_features.physionet("ab" if stage == TUNING else "abc")
        kind = SHIFTS[task]
        x = stays.apache if kind is None else stays.features
        inside = np.ones(len(x), bool) if kind is None else stays.unit != kind
        used = inside & (stays.sets != "c")
        held = _a_fifth(used, stays.unit * 2 + stays.died)
        scale = scaling(x[used & ~held], settings.scaling)
        train, validation, test = (
            Part(scale(x[rows]), stays.died[rows, None].astype("float32"))
            for rows in (used & ~held, held, inside & (stays.sets == "c"))
        )
        train = weighted(train, settings)
        if stage == TUNING:
            return Data(train, validation, ood={"perturbed": protocol.perturbed(train.x)})
        if kind is None:
            elsewhere = care_features.eicu()
            ood, ends = elsewhere.features, np.nan_to_num(elsewhere.died, nan=-1).astype(int)
        else:
            ood, ends = x[~inside], stays.died[~inside]
        return Data(train, validation, test, {OOD: scale(ood), ENDS: ends})


def _a_fifth(used: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """Returns every fifth row of each stratum among the used ones, in a random order."""
    held, rng = np.zeros(len(used), bool), np.random.default_rng(_SPLIT)
    for one in np.unique(stratum):
        held[rng.permutation(np.flatnonzero(used & (stratum == one)))[::5]] = True
    return held
