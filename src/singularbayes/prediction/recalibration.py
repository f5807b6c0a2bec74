"""Recalibration: one number is fitted on held-out data, then applied to any prediction of the same model."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from singularbayes.checks import aligned, labelled, require_positive, weighted_mean
from singularbayes.likelihoods import (
    ClassPredictive,
    LabelPredictive,
    Predictive,
    ValuePredictive,
    by_position,
    position_weights,
    require_kind,
    targets_of,
)


@dataclass(frozen=True)
class Temperature:
    """Raises the averaged probabilities to the power 1/`value` and normalises them: above 1 they become less confident.

    The average over draws is tempered, not each draw: it is what was scored, the most probable class stays, and nothing
    but the average is needed. The draws are not recalibrated, so of several draws `std` and `mutual_information` are
    errors afterwards; take them before. `entropy` is that of the tempered average.

    >>> p = ClassPredictive(np.array([[0.9, 0.1]]), np.zeros((1, 2)), 1)
    >>> Temperature(2.0)(p).mean
    array([[0.75, 0.25]])
    """

    value: float

    def __post_init__(self):
        require_positive("Temperature", value=self.value)

    def __call__(self, p: ClassPredictive) -> ClassPredictive:
        require_kind("Temperature", p, ClassPredictive)
        mean = _tempered(p.mean, 1 / self.value)
        if p.num_draws > 1:
            return TemperedPredictive(mean, p.num_draws, p.targets, p.weights)
        draws = None if p.draws is None else mean[None]
        same = {"targets": p.targets, "weights": p.weights}
        return ClassPredictive(mean, np.zeros_like(mean), 1, draws, special.entr(mean).sum(axis=-1), **same)


class TemperedPredictive(ClassPredictive):
    """Tempered averages over several draws. Properties of single draws are errors: they were not recalibrated."""

    def __init__(self, mean: np.ndarray, num_draws: int, targets=None, weights: np.ndarray | None = None):
        given = {"mean": mean, "num_draws": num_draws, "targets": targets, "weights": weights}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    def std(self) -> np.ndarray:
        raise _untempered("std")

    def changed(self, function, **others) -> "TemperedPredictive":
        data = {"targets": self.targets, "weights": self.weights} | others
        return TemperedPredictive(function(self.mean), self.num_draws, **data)

    @property
    def mutual_information(self) -> np.ndarray:
        raise _untempered("mutual_information")

    def quantile(self, q) -> np.ndarray:
        raise _untempered("quantile")

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        reason = "a temperature recalibrates the average alone, not the draws"
        return {"entropy": self.entropy, "mi": reason, "std": reason}


@dataclass(frozen=True)
class VarianceScale:
    """Multiplies the total variance by `value`: epistemic part and noise alike, so their shares stay.

    >>> p = ValuePredictive(np.zeros((1, 1)), np.ones((1, 1)), 10, noise=1.0)
    >>> p.variance("total"), VarianceScale(0.5)(p).variance("total")
    (array([[2.]]), array([[1.]]))
    """

    value: float

    def __post_init__(self):
        require_positive("VarianceScale", value=self.value)

    def __call__(self, p: ValuePredictive) -> ValuePredictive:
        require_kind("VarianceScale", p, ValuePredictive)
        _require_noise("VarianceScale", p)
        scale = np.sqrt(self.value)
        draws = None if p.draws is None else p.mean + scale * (p.draws - p.mean)
        kept = p.quantiles and {q: p.mean + scale * (values - p.mean) for q, values in p.quantiles.items()}
        return replace(p, std=scale * p.std, noise=scale * p.noise, draws=draws, quantiles=kept)


def recalibrate(p: Predictive, y=None, *, sample_weight=None) -> Temperature | VarianceScale:
    """Returns the recalibration, of one parameter, that makes held-out targets `y` of predictions `p` most likely.

    `y=None` takes `p.targets`, those of the data that were predicted. Call the result on other predictions of the
    model: `recalibrate(held_out, y)(p_test)`. A classification gets the `Temperature` with the least negative
    log-likelihood; a regression the `VarianceScale` mean (y − mean)²/variance, which has the least Gaussian one. Of
    labels that do not exclude each other each has a temperature of its own: `recalibrate(p.label(k), y[:, k])`.

    Args:
        sample_weight: how much each example, or each position of it, counts; a mask leaves padding out.

    >>> p = ClassPredictive(np.array([[0.9, 0.1]] * 4), np.zeros((4, 2)), 1)
    >>> temperature = recalibrate(p, [0, 0, 0, 1])  # confidence 90 %, accuracy 75 %
    >>> temperature, temperature(p).mean[0]
    (Temperature(value=2.0), array([0.75, 0.25]))
    """
    require_kind("recalibrate", p, Predictive)
    if isinstance(p, LabelPredictive):
        raise TypeError(
            "recalibrate needs one label at a time: recalibrate(p.label(k), y[:, k]); got a LabelPredictive."
        )
    y = targets_of("recalibrate", p, y)
    p, y, weights = by_position("recalibrate", p, y, position_weights(p, sample_weight))
    if isinstance(p, ClassPredictive):
        return Temperature(_temperature(p.mean, y, weights))
    assert isinstance(p, ValuePredictive)
    _require_noise("recalibrate", p)
    mean, variance, targets = aligned("recalibrate", mean=p.mean, variance=p.variance("total"), targets=y)
    value = weighted_mean("recalibrate", (targets - mean) ** 2 / variance, weights)
    if value == 0:
        raise ValueError("recalibrate needs held-out targets that differ from the predictions; got no difference.")
    return VarianceScale(value)


def _temperature(mean: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
    p, labels = labelled("recalibrate", mean, y)
    chosen = p[np.arange(len(labels)), labels]
    if not chosen.all():
        raise ValueError(
            f"recalibrate needs held-out labels that are possible; got probability 0 for {int((chosen == 0).sum())} of "
            f"{len(labels)}, and no temperature changes that."
        )
    logs = np.log(np.where(p > 0, p, 1))

    def slope(power: float) -> float:
        """The derivative of the negative log-likelihood by 1/temperature, in which it is convex."""
        return weighted_mean("recalibrate", (_tempered(p, power) * logs).sum(axis=1) - np.log(chosen), weights)

    if slope(0.0) >= 0:
        raise ValueError(
            "recalibrate needs probabilities that are better than chance on the held-out labels; got ones for which "
            "equal probabilities (an infinite temperature) are best."
        )
    sharper = (2.0**k for k in range(40) if slope(2.0**k) > 0)
    sharp = None if (chosen == p.max(axis=1)).all() else next(sharper, None)
    if sharp is None:
        raise ValueError(
            f"recalibrate needs some wrong predictions; got {len(labels)} held-out examples that are all right, for "
            "which the best temperature is 0. Hold out more."
        )
    return 1 / optimize.brentq(slope, 0.0, sharp, xtol=1e-15)


def _tempered(p: np.ndarray, power: float) -> np.ndarray:
    weights = np.where(p > 0, (p / p.max(axis=-1, keepdims=True)) ** power, 0)
    return weights / weights.sum(axis=-1, keepdims=True)


def _untempered(what: str) -> ValueError:
    return ValueError(
        f"{what} is about single draws, and a temperature recalibrates their average alone; take {what} before."
    )


def _require_noise(name: str, p: ValuePredictive) -> None:
    if p.noise is None:
        raise ValueError(
            f"{name} needs the total variance, and the likelihood does not specify the noise; compile with "
            "singularbayes.Gaussian(scale) or MeanScale(), or pass likelihood=singularbayes.Gaussian(scale) to "
            "predict."
        )
