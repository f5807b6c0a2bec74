"""Regression with outliers: Student-t and Laplace noise, of known scale or of one that the model predicts."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_positive
from singularbayes.likelihoods.base import Regression, export_moments, is_loss, one_column
from singularbayes.likelihoods.gaussian import match_targets
from singularbayes.likelihoods.mean_scale import split_scales, split_scales_exactly
from singularbayes.likelihoods.noise_families import LAPLACE, NoiseFamily, StudentTFamily


class _LocationScaleNLL(keras.losses.Loss):
    """A loss of means, and of as many raw scales ρ where `scale` is None."""

    def __init__(self, scale: float | None, reduction, name, **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if scale is not None:
            require_positive(type(self).__name__, scale=scale)
        self.scale = scale

    def call(self, y_true, y_pred):
        if self.scale is None:
            mean, scale = split_scales(y_pred)
        else:
            mean, scale = y_pred, ops.convert_to_tensor(self.scale, y_pred.dtype)
        z = (match_targets(type(self).__name__, y_true, mean) - mean) / scale
        return ops.sum(self.standard_nll(z) + ops.log(scale), axis=-1)

    def standard_nll(self, z):
        """Returns −log p(z) of scale 1."""
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="singularbayes")
class LaplaceNLL(_LocationScaleNLL):
    """−log Laplace(y; mean, scale) summed over outputs, in nats: |y − mean|/scale + log 2 scale.

    The last axis of the prediction holds all means, then as many raw scales ρ with scale = softplus(ρ) + 10⁻⁶: a
    `Dense(2)` head, or `layers.LearnedNoise()` behind a `Dense(1)` for one scale for all.

    Args:
        scale: where it is known; the outputs are then the means alone. The standard deviation is √2 scale.

    >>> round(float(LaplaceNLL(scale=0.5)(np.ones((1, 1)), np.full((1, 1), 0.8))), 4)
    0.4
    """

    def __init__(self, scale: float | None = None, reduction="sum_over_batch_size", name="laplace_nll", **kwargs):
        super().__init__(scale, reduction, name, **kwargs)

    def standard_nll(self, z):
        return ops.absolute(z) + math.log(2)


@keras.saving.register_keras_serializable(package="singularbayes")
class StudentTNLL(_LocationScaleNLL):
    """−log t(y; df, mean, scale) summed over outputs, in nats: regression that outliers hardly move.

    Means and scales are as in `LaplaceNLL`.

    Args:
        df: degrees of freedom, above 2, so that the noise has a variance; fewer are heavier tails.
        scale: where it is known; the outputs are then the means alone. The standard deviation is scale √(df/(df − 2)).

    >>> round(float(StudentTNLL(df=3, scale=0.5)(np.ones((1, 1)), np.full((1, 1), 0.8))), 4)
    0.4117
    """

    def __init__(
        self,
        df: float = 4.0,
        scale: float | None = None,
        reduction="sum_over_batch_size",
        name="student_t_nll",
        **kwargs,
    ):
        super().__init__(scale, reduction, name, **kwargs)
        _require_df("StudentTNLL", df)
        self.df = df

    def standard_nll(self, z):
        df = self.df
        constant = math.lgamma(df / 2) - math.lgamma((df + 1) / 2) + 0.5 * math.log(df * math.pi)
        return 0.5 * (df + 1) * ops.log1p(z * z / df) + constant

    def get_config(self):
        return {**super().get_config(), "df": self.df}


class _LocationScale(Regression):
    """Means, and raw scales behind them where `scale` is None."""

    @property
    def predicts_noise(self) -> bool:  # type: ignore[override]
        return self.scale is None

    @property
    @abstractmethod
    def std_of_scale_1(self) -> float:
        """The standard deviation of the noise of scale 1."""

    @property
    def noise_std(self) -> float | None:
        return None if self.scale is None else self.std_of_scale_1 * self.scale

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        if self.scale is not None:
            return {"prediction": np.asarray(outputs, "float64")}
        mean, scale = split_scales_exactly(outputs)
        return {"prediction": mean, "noise_variance": (self.std_of_scale_1 * scale) ** 2}

    def export(self, outputs) -> dict:
        if self.scale is not None:
            return export_moments(outputs)
        mean, scale = split_scales(outputs)
        std = self.std_of_scale_1 * scale
        return {**export_moments(mean), "noise": ops.sqrt(ops.mean(ops.square(one_column(std)), axis=0))}


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class LaplaceNoise(_LocationScale):
    """The mean of a Laplace distribution, and its raw scale ρ where `scale` is None, as `LaplaceNLL` takes them.

    >>> LaplaceNoise(scale=1.0)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    LaplaceNoise(scale=1.0)
    """

    scale: float | None = None

    @property
    def family(self) -> NoiseFamily:
        return LAPLACE

    @property
    def std_of_scale_1(self) -> float:
        return math.sqrt(2)

    @classmethod
    def from_loss(cls, loss) -> "LaplaceNoise | None":
        return cls(loss.scale) if is_loss(loss, (LaplaceNLL,)) else None


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class StudentTNoise(_LocationScale):
    """The mean of a Student-t distribution, and its raw scale ρ where `scale` is None, as `StudentTNLL` takes them.

    >>> StudentTNoise(df=4.0, scale=1.0)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    StudentTNoise(df=4.0, scale=1.0)
    """

    df: float = 4.0
    scale: float | None = None

    def __post_init__(self):
        _require_df("StudentTNoise", self.df)

    @property
    def family(self) -> NoiseFamily:
        return StudentTFamily(self.df)

    @property
    def std_of_scale_1(self) -> float:
        return math.sqrt(self.df / (self.df - 2))

    @classmethod
    def from_loss(cls, loss) -> "StudentTNoise | None":
        return cls(loss.df, loss.scale) if is_loss(loss, (StudentTNLL,)) else None


def _require_df(name: str, df: float) -> None:
    if not 2 < df < math.inf:
        raise ValueError(f"{name} needs df > 2, so that the noise has a variance; got df={df!r}.")
