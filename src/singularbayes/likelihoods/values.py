"""Regression: Gaussian, Laplace and Student-t noise, of known scale or of one that the model predicts."""

import math
from abc import abstractmethod

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_positive
from singularbayes.likelihoods.base import Regression, export_moments, match_targets, split_scales
from singularbayes.likelihoods.noise_families import LAPLACE, StudentTFamily

_GAUSSIAN_CONSTANT = 0.5 * math.log(2 * math.pi)


@keras.saving.register_keras_serializable(package="singularbayes")
class Gaussian(Regression):
    """−log N(y; prediction, scale²) summed over outputs, in nats: regression with known noise.

    A mean squared or absolute error and Huber's loss are read as `Gaussian()`, of unknown scale: predictions then have
    no total variance, and no model can be compiled with it.

    Args:
        scale: standard deviation of the noise, None where it is unknown.
        implied: the noise that a loss without one implies for the weight of the KL, in words.

    >>> round(float(Gaussian(scale=0.5)(np.ones((1, 1)), np.full((1, 1), 0.8))), 6)
    0.305791
    """

    arguments: tuple[str, ...] = ("scale",)

    def __init__(self, scale: float | None = None, implied: str | None = None, **kwargs):
        super().__init__(**kwargs)
        if scale is not None:
            require_positive(type(self).__name__, scale=scale)
        self.scale, self.implied = scale, implied

    def call(self, y_true, y_pred):
        if self.scale is None:
            raise ValueError(
                "A model needs a Gaussian of known scale as its loss, such as Gaussian(1.0); got Gaussian(). To learn "
                "the noise, compile with MeanScale()."
            )
        ratio = (y_pred - match_targets(self, y_true, y_pred)) / self.scale
        return ops.sum(0.5 * ratio * ratio + (math.log(self.scale) + _GAUSSIAN_CONSTANT), axis=-1)

    def __repr__(self) -> str:
        return f"Gaussian(scale={self.scale!r}{f', implied={self.implied!r}' if self.implied else ''})"

    def export(self, outputs) -> dict:
        return export_moments(outputs)


@keras.saving.register_keras_serializable(package="singularbayes")
class BoundedError(Gaussian):
    """min(|y − prediction|/limit, 1)^power, mean over outputs: an error clipped and scaled into [0, 1].

    PAC-Bayes bounds hold for it: `certify(model, x, y, loss=BoundedError(limit))`. Predictions have no total variance.

    Args:
        limit: larger errors cost no more than this one; to be chosen without the certifying examples.
        power: 1 for the absolute error, 2 for the squared one.

    >>> loss = BoundedError(limit=2.0)
    >>> [float(loss(np.zeros((1, 1)), np.full((1, 1), error))) for error in (0.0, -1.0, 5.0)]
    [0.0, 0.5, 1.0]
    """

    log_likelihood = False
    arguments = ("limit", "power")

    def __init__(self, limit: float, power: int = 1, **kwargs):
        super().__init__(**kwargs)
        if not 0 < limit < float("inf") or power not in (1, 2):
            raise ValueError(
                f"BoundedError needs limit > 0, finite, and power 1 or 2; got limit={limit!r}, power={power!r}."
            )
        self.limit, self.power = float(limit), int(power)

    def call(self, y_true, y_pred):
        error = ops.abs(y_pred - match_targets(self, y_true, y_pred)) / self.limit
        return ops.mean(ops.minimum(error, 1.0) ** self.power, axis=-1)


class _LocationScale(Regression):
    """Means, and as many raw scales ρ behind them where `scale` is None.

    Attributes:
        std_of_scale_1: the standard deviation of the noise of scale 1.
    """

    arguments: tuple[str, ...] = ("scale",)
    std_of_scale_1: float

    def __init__(self, scale: float | None = None, **kwargs):
        super().__init__(**kwargs)
        if scale is not None:
            require_positive(type(self).__name__, scale=scale)
        self.scale = scale

    @abstractmethod
    def standard_nll(self, z):
        """Returns −log p(z) of scale 1."""

    @property
    def predicts_noise(self) -> bool:  # type: ignore[override]
        return self.scale is None

    @property
    def noise_std(self) -> float | None:
        return None if self.scale is None else self.std_of_scale_1 * self.scale

    def call(self, y_true, y_pred):
        known = self.scale is not None
        mean, scale = (y_pred, ops.convert_to_tensor(self.scale, y_pred.dtype)) if known else split_scales(y_pred)
        z = (match_targets(self, y_true, mean) - mean) / scale
        return ops.sum(self.standard_nll(z) + ops.log(scale), axis=-1)

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        if self.scale is not None:
            return super().statistics(outputs)
        mean, scale = split_scales(np.asarray(outputs))
        return {"prediction": mean, "noise_variance": (self.std_of_scale_1 * scale) ** 2}

    def export(self, outputs) -> dict:
        if self.scale is not None:
            return export_moments(outputs)
        mean, scale = split_scales(outputs)
        return export_moments(mean, ops.square(self.std_of_scale_1 * scale))


@keras.saving.register_keras_serializable(package="singularbayes")
class MeanScale(_LocationScale):
    """−log N(y; mean, scale²) summed over outputs, in nats: regression with noise that the model predicts.

    The last axis of the prediction holds the means of all outputs, then as many raw scales ρ with
    scale = softplus(ρ) + 10⁻⁶. A `Dense(2)` head gives every example its own noise; `layers.LearnedNoise()` behind a
    `Dense(1)` learns one for all.

    >>> rho = np.log(np.expm1(0.5))
    >>> round(float(MeanScale()(np.ones((1, 1)), np.array([[0.8, rho]]))), 4)
    0.3058
    """

    arguments = ()
    std_of_scale_1 = 1.0

    def __init__(self, **kwargs):
        super().__init__(None, **kwargs)

    def standard_nll(self, z):
        return 0.5 * z * z + _GAUSSIAN_CONSTANT


@keras.saving.register_keras_serializable(package="singularbayes")
class LaplaceNoise(_LocationScale):
    """−log Laplace(y; mean, scale) summed over outputs, in nats: |y − mean|/scale + log 2 scale.

    The last axis of the prediction holds all means, then as many raw scales ρ with scale = softplus(ρ) + 10⁻⁶: a
    `Dense(2)` head, or `layers.LearnedNoise()` behind a `Dense(1)` for one scale for all.

    Args:
        scale: where it is known; the outputs are then the means alone. The standard deviation is √2 scale.

    >>> round(float(LaplaceNoise(scale=0.5)(np.ones((1, 1)), np.full((1, 1), 0.8))), 4)
    0.4
    """

    std_of_scale_1 = math.sqrt(2)
    family = LAPLACE

    def standard_nll(self, z):
        return ops.absolute(z) + math.log(2)


@keras.saving.register_keras_serializable(package="singularbayes")
class StudentTNoise(_LocationScale):
    """−log t(y; df, mean, scale) summed over outputs, in nats: regression that outliers hardly move.

    Means and scales are as in `LaplaceNoise`.

    Args:
        df: degrees of freedom, above 2, so that the noise has a variance; fewer are heavier tails.
        scale: where it is known; the outputs are then the means alone. The standard deviation is scale √(df/(df − 2)).

    >>> round(float(StudentTNoise(df=3, scale=0.5)(np.ones((1, 1)), np.full((1, 1), 0.8))), 4)
    0.4117
    """

    arguments = ("df", "scale")

    def __init__(self, df: float = 4.0, scale: float | None = None, **kwargs):
        super().__init__(scale, **kwargs)
        if not 2 < df < math.inf:
            raise ValueError(f"StudentTNoise needs df > 2, so that the noise has a variance; got df={df!r}.")
        self.df, self.family, self.std_of_scale_1 = df, StudentTFamily(df), math.sqrt(df / (df - 2))

    def standard_nll(self, z):
        df = self.df
        constant = math.lgamma(df / 2) - math.lgamma((df + 1) / 2) + 0.5 * math.log(df * math.pi)
        return 0.5 * (df + 1) * ops.log1p(z * z / df) + constant
