"""The interface of a likelihood, and what those of classification and of regression have in common."""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.losses.losses import LossFunctionWrapper  # what `compile` makes of a function
from scipy import special

from singularbayes.likelihoods.class_predictive import ClassPredictive
from singularbayes.likelihoods.noise_families import GAUSSIAN, NoiseFamily
from singularbayes.likelihoods.predictive import Predictive, RunningMoments
from singularbayes.likelihoods.value_predictive import ValuePredictive

Moments = Mapping[str, RunningMoments]


class Likelihood(ABC):
    """What the outputs of a model mean, and what predictive distribution their draws make.

    One of your own subclasses `Classification` or `Regression`; pass an object of it as `likelihood=`.

    Attributes:
        task: "classification" or "regression".
        from_logits: the outputs still need `activation`; None where they are neither logits nor probabilities.
        predicts_noise: every draw of a regression predicts the noise around its prediction.

    >>> from singularbayes.likelihoods import Categorical, Gaussian
    >>> Categorical().task, Gaussian(0.1).task
    ('classification', 'regression')
    """

    task: str
    from_logits: bool | None = None
    predicts_noise = False

    @property
    def specifies_noise(self) -> bool:
        """Whether predictions have a total variance."""
        return True

    @classmethod
    def from_loss(cls, loss) -> "Likelihood | None":
        """Returns the likelihood that a compiled loss stands for; None where it is not of this class."""
        return None

    @classmethod
    def highest_label(cls, loss, width: int) -> int | None:
        """Returns the highest label that the loss takes for outputs of that width; None if targets are not labels."""
        return None

    @abstractmethod
    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """Returns what is averaged over draws, from the outputs (draws, examples, …), in float64.

        One of them is the "prediction" of every draw, which `keep_draws=True` keeps.
        """

    @abstractmethod
    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> Predictive:
        """Returns the predictive distribution from the moments over draws of the statistics."""

    def export(self, outputs) -> dict[str, Any]:
        """Returns the predictive distribution as tensors, from the tensor of outputs (draws, examples, …)."""
        raise NotImplementedError(
            f"freeze_draws needs a likelihood with the method `export`; {type(self).__name__} has none."
        )

    def export_interval(self, found: Mapping[str, Any], level: float) -> dict[str, Any]:
        """Returns what follows from the tensors of `export` about the targets; for regression with known noise.

        These are "total_std" and, except for counts, the ends "lower" and "upper" of the central interval of the total
        variance.
        """
        return {}

    def get_config(self) -> dict[str, Any]:
        return dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Likelihood":
        return cls(**config)


class Classification(Likelihood):
    """Outputs that give the probability of every class.

    Attributes:
        activation: what makes probabilities out of logits.

    >>> from singularbayes.likelihoods import Categorical
    >>> isinstance(Categorical(), Classification)
    True
    """

    task = "classification"
    activation: Callable

    @abstractmethod
    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities of the classes in the last axis, in float64."""

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        probabilities = self.probabilities(outputs)
        return {"prediction": probabilities, "entropy": special.entr(probabilities).sum(axis=-1)}

    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> Predictive:
        p = moments["prediction"]
        return ClassPredictive(p.mean, np.sqrt(p.variance), num_draws, draws, moments["entropy"].mean)


class Regression(Likelihood):
    """Outputs that give the mean of every target.

    Attributes:
        scale: standard deviation of the noise, where it is one number; None where it is unknown, or where every draw
            predicts it. Then `predicts_noise` is True, and its variance is the statistic "noise_variance".
        family: how targets are distributed around their mean.

    >>> from singularbayes.likelihoods import Gaussian
    >>> Gaussian(scale=0.1).scale
    0.1
    """

    task = "regression"
    scale: float | None = None

    @property
    def family(self) -> NoiseFamily:
        return GAUSSIAN

    @property
    def noise_std(self) -> float | None:
        """The standard deviation of noise that is one number."""
        return self.scale

    @property
    def specifies_noise(self) -> bool:
        return self.predicts_noise or self.scale is not None

    def export_interval(self, found: Mapping[str, Any], level: float) -> dict[str, Any]:
        noise = found.get("noise", self.noise_std)
        if noise is None or "std" not in found:
            return {}
        total = ops.sqrt(ops.square(found["std"]) + ops.square(ops.cast(noise, found["std"].dtype)))
        if self.family.discrete:  # quantiles of counts are not multiples of their standard deviation
            return {"total_std": total}
        z = float(self.family.quantile((1 + level) / 2, np.zeros(()), np.ones(())))
        return {"total_std": total, "lower": found["mean"] - z * total, "upper": found["mean"] + z * total}

    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> ValuePredictive:
        p = moments["prediction"]
        noise = np.sqrt(moments["noise_variance"].mean) if self.predicts_noise else self.noise_std
        return ValuePredictive(p.mean, np.sqrt(p.variance), num_draws, draws, noise, self.family).in_one_column()


def is_loss(loss, kinds: Sequence) -> bool:
    """Returns whether a loss is one of the classes or functions, or of a subclass that computes the same.

    A subclass with a method of its own, other than its constructor and config, may compute anything, and so may a loss
    of the same name.
    """
    return any(kind_of_loss(loss) is kind or _computes(loss, kind) for kind in kinds)


def _computes(loss, kind) -> bool:
    if not isinstance(kind, type) or not isinstance(loss, kind):
        return False
    mro = type(loss).__mro__
    own = {name for cls in mro[: mro.index(kind)] for name in vars(cls) if hasattr(kind, name)}
    same = own.isdisjoint({"__call__", *(name for name in dir(kind) if not name.startswith("__"))} - _HARMLESS)
    return same and getattr(loss, "fn", None) is _function_of(kind)


_HARMLESS = {"get_config", "from_config"}


@functools.cache
def _function_of(kind):
    """Returns the function that Keras's class of a loss wraps; None for other classes."""
    return kind().fn if issubclass(kind, LossFunctionWrapper) else None


def as_loss(loss):
    """Returns a loss that `compile` was given as a name or a class as the object that Keras makes of it."""
    return keras.losses.get(loss) if isinstance(loss, (str, type)) else loss


def kind_of_loss(loss):
    """Returns the class of a loss object, or the function that a loss is."""
    if type(loss) is LossFunctionWrapper and not loss._fn_kwargs:
        return loss.fn
    return type(loss) if isinstance(loss, keras.losses.Loss) else loss


def require_probabilities(outputs: np.ndarray, sum_to_one: bool, name: str) -> None:
    """Raises where outputs cannot be probabilities; `name` is the likelihood of logits."""
    if outputs.size and not (sum_to_one and outputs.min() >= 0 and outputs.max() <= 1 + 1e-6):
        raise ValueError(
            f"The likelihood needs outputs that are probabilities; got values from {outputs.min():.3g} to "
            f"{outputs.max():.3g}. If they are logits, compile with from_logits=True or pass likelihood={name!r}."
        )


_MANY_CLASSES = 256  # below which the axis of the classes comes first in memory: NumPy is slow along a short last axis


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns softmax over the last axis, in float64."""
    axis = 0 if logits.shape[-1] < _MANY_CLASSES else -1
    z = np.array(np.moveaxis(logits, -1, axis), "float64", order="C")
    z -= z.max(axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis, keepdims=True)
    return np.moveaxis(z, axis, -1)


def export_probabilities(probabilities) -> dict[str, Any]:
    """Returns mean, its entropy and mutual information over the draws in the first axis, as tensors."""
    mean = ops.mean(probabilities, axis=0)
    entropy = export_entropy(mean)
    disagreement = entropy - ops.mean(export_entropy(probabilities), axis=0)
    return {"mean": mean, "entropy": entropy, "mutual_information": ops.maximum(disagreement, 0.0)}


def export_moments(values) -> dict[str, Any]:
    """Returns mean and standard deviation over the draws in the first axis, as tensors."""
    values = one_column(values)
    mean = ops.mean(values, axis=0)
    return {"mean": mean, "std": ops.sqrt(ops.mean(ops.square(values - mean), axis=0))}


def one_column(values):
    """Returns draws (draws, examples, 1) as (draws, examples), as `ValuePredictive` has them; others as they are."""
    return values[..., 0] if len(values.shape) == 3 and values.shape[-1] == 1 else values


def export_entropy(p):
    """Returns the entropy over the last axis, in nats."""
    return -ops.sum(p * ops.log(ops.maximum(p, 1e-37)), axis=-1)
