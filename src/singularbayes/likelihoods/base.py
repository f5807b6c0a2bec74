"""The interface of a likelihood, and what those of classification and of regression have in common."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.likelihoods.class_predictive import ClassPredictive
from singularbayes.likelihoods.noise_families import GAUSSIAN, NoiseFamily
from singularbayes.likelihoods.predictive import Predictive, RunningMoments
from singularbayes.likelihoods.value_predictive import ValuePredictive

Moments = Mapping[str, RunningMoments]


class Likelihood(keras.losses.Loss):
    """What the outputs of a model mean: the loss to compile with, and the predictive distribution that draws make.

    One of your own subclasses `Classification` or `Regression`. With `call` a model can be compiled with it; otherwise
    pass it as `likelihood=`.

    Attributes:
        task: "classification" or "regression".
        from_logits: the outputs still need `activation`; None where they are neither logits nor probabilities.
        predicts_noise: every draw of a regression predicts the noise around its prediction.
        log_likelihood: the loss is minus the log-likelihood of the targets, so that the objective is an ELBO.
        arguments: the names of the arguments of the constructor, which are attributes too.

    >>> from singularbayes.likelihoods import Categorical, Gaussian
    >>> Categorical().task, Gaussian(0.1).task, Gaussian(0.1) == Gaussian(0.1)
    ('classification', 'regression', True)
    """

    task: str
    from_logits: bool | None = None
    predicts_noise = False
    log_likelihood = True
    arguments: tuple[str, ...] = ()

    def __init__(self, name=None, **kwargs):
        super().__init__(name=name or type(self).__name__.lower(), **kwargs)

    @property
    def specifies_noise(self) -> bool:
        """Whether predictions have a total variance."""
        return True

    def highest_label(self, width: int) -> int | None:
        """Returns the highest label for outputs of that width; None if targets are not labels."""
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
        return {**super().get_config(), **self._values()}

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.arguments}

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"


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
    """Outputs that give the mean of every target; `statistics` takes them as they are.

    Attributes:
        scale: of the noise, where it is one number; None where it is unknown, or where every draw predicts it. Then
            `predicts_noise` is True, and its variance is the statistic "noise_variance".
        family: how targets are distributed around their mean.

    >>> from singularbayes.likelihoods import Gaussian
    >>> Gaussian(scale=0.1).scale
    0.1
    """

    task = "regression"
    scale: float | None = None
    family: NoiseFamily = GAUSSIAN

    @property
    def noise_std(self) -> float | None:
        """The standard deviation of noise that is one number."""
        return self.scale

    @property
    def specifies_noise(self) -> bool:
        return self.predicts_noise or self.scale is not None

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        return {"prediction": np.asarray(outputs, "float64")}

    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> ValuePredictive:
        p = moments["prediction"]
        noise = np.sqrt(moments["noise_variance"].mean) if self.predicts_noise else self.noise_std
        return ValuePredictive(p.mean, np.sqrt(p.variance), num_draws, draws, noise, self.family).in_one_column()

    def export_interval(self, found: Mapping[str, Any], level: float) -> dict[str, Any]:
        noise = found.get("noise", self.noise_std)
        if noise is None or "std" not in found:
            return {}
        total = ops.sqrt(ops.square(found["std"]) + ops.square(ops.cast(noise, found["std"].dtype)))
        if self.family.discrete:  # quantiles of counts are not multiples of their standard deviation
            return {"total_std": total}
        z = float(self.family.quantile((1 + level) / 2, np.zeros(()), np.ones(())))
        return {"total_std": total, "lower": found["mean"] - z * total, "upper": found["mean"] + z * total}


MIN_SCALE = 1e-6  # so that a target hit exactly has a finite density


def split_scales(outputs):
    """Returns the first half of the last axis, and scales softplus(ρ) + 10⁻⁶ of the second half.

    Tensors give tensors; arrays of NumPy give float64.
    """
    if outputs.shape[-1] % 2:
        raise ValueError(
            "A mean and a scale need two outputs for every target, the means first; got outputs of shape (examples, …, "
            f"{outputs.shape[-1]}). Double the units of the last layer, or put layers.LearnedNoise() behind it."
        )
    if isinstance(outputs, np.ndarray):
        mean, rho = np.split(np.asarray(outputs, "float64"), 2, axis=-1)
        return mean, np.logaddexp(0.0, rho) + MIN_SCALE
    mean, rho = ops.split(outputs, 2, axis=-1)
    return mean, ops.softplus(rho) + MIN_SCALE


def match_targets(loss: Likelihood, y_true, outputs):
    """Returns targets in the shape of the outputs; (examples,) and (examples, 1) would make a table of differences."""
    if len(y_true.shape) == len(outputs.shape) - 1 and outputs.shape[-1] == 1:
        y_true = ops.expand_dims(y_true, -1)
    if len(y_true.shape) != len(outputs.shape) or y_true.shape[-1] != outputs.shape[-1]:
        need, got = tuple(outputs.shape), tuple(y_true.shape)
        raise ValueError(f"{type(loss).__name__} needs targets in the shape of the outputs, {need}; got {got}.")
    return ops.cast(y_true, outputs.dtype)


def export_probabilities(probabilities) -> dict[str, Any]:
    """Returns mean, its entropy and mutual information over the draws in the first axis, as tensors."""
    mean = ops.mean(probabilities, axis=0)
    entropy = _entropy(mean)
    disagreement = entropy - ops.mean(_entropy(probabilities), axis=0)
    return {"mean": mean, "entropy": entropy, "mutual_information": ops.maximum(disagreement, 0.0)}


def export_moments(values, noise_variance=None) -> dict[str, Any]:
    """Returns mean and standard deviation over the draws in the first axis, and the noise, as tensors."""
    values = _one_column(values)
    mean = ops.mean(values, axis=0)
    found = {"mean": mean, "std": ops.sqrt(ops.mean(ops.square(values - mean), axis=0))}
    noise = {} if noise_variance is None else {"noise": ops.sqrt(ops.mean(_one_column(noise_variance), axis=0))}
    return found | noise


def _one_column(values):
    """Returns draws (draws, examples, 1) as (draws, examples), as `ValuePredictive` has them; others as they are."""
    return values[..., 0] if len(values.shape) == 3 and values.shape[-1] == 1 else values


def _entropy(p):
    """Returns the entropy over the last axis, in nats."""
    return -ops.sum(p * ops.log(ops.maximum(p, 1e-37)), axis=-1)
