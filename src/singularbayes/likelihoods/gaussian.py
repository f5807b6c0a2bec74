"""Regression with noise of one scale, known or not."""

from dataclasses import dataclass, field

import keras
import numpy as np
from keras import ops

from singularbayes.likelihoods.base import Regression, export_moments, is_loss


@keras.saving.register_keras_serializable(package="singularbayes")
class GaussianNLL(keras.losses.Loss):
    """−log N(y; prediction, scale²) summed over outputs, in nats: regression with known noise.

    >>> round(float(GaussianNLL(scale=0.5)(np.ones((1, 1)), np.full((1, 1), 0.8))), 6)
    0.305791
    """

    def __init__(self, scale: float = 1.0, reduction="sum_over_batch_size", name="gaussian_nll", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if not 0 < scale < float("inf"):
            raise ValueError(f"GaussianNLL needs scale > 0, the standard deviation of the noise; got scale={scale!r}.")
        self.scale = scale

    def call(self, y_true, y_pred):
        ratio = (y_pred - match_targets("GaussianNLL", y_true, y_pred)) / self.scale
        return ops.sum(0.5 * ratio * ratio + float(np.log(self.scale) + 0.5 * np.log(2 * np.pi)), axis=-1)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="singularbayes")
class BoundedError(keras.losses.Loss):
    """min(|y − prediction|/limit, 1)^power, mean over outputs: an error clipped and scaled into [0, 1].

    PAC-Bayes bounds hold for it: `certify(model, x, y, loss=BoundedError(limit))`. It is read as `Gaussian()`, a
    regression without a total variance.

    Args:
        limit: larger errors cost no more than this one; to be chosen without the certifying examples.
        power: 1 for the absolute error, 2 for the squared one.

    >>> loss = BoundedError(limit=2.0)
    >>> [float(loss(np.zeros((1, 1)), np.full((1, 1), error))) for error in (0.0, -1.0, 5.0)]
    [0.0, 0.5, 1.0]
    """

    def __init__(self, limit: float, power: int = 1, reduction="sum_over_batch_size", name="bounded_error", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if not 0 < limit < float("inf") or power not in (1, 2):
            raise ValueError(
                f"BoundedError needs limit > 0, finite, and power 1 or 2; got limit={limit!r}, power={power!r}."
            )
        self.limit, self.power = float(limit), int(power)

    def call(self, y_true, y_pred):
        error = ops.abs(y_pred - match_targets("BoundedError", y_true, y_pred)) / self.limit
        return ops.mean(ops.minimum(error, 1.0) ** self.power, axis=-1)

    def get_config(self):
        return {**super().get_config(), "limit": self.limit, "power": self.power}


def match_targets(name: str, y_true, mean):
    """Returns targets in the shape of the means; (examples,) and (examples, 1) would make a table of differences."""
    if len(y_true.shape) == len(mean.shape) - 1 and mean.shape[-1] == 1:
        y_true = ops.expand_dims(y_true, -1)
    if len(y_true.shape) != len(mean.shape) or y_true.shape[-1] != mean.shape[-1]:
        need, got = tuple(mean.shape), tuple(y_true.shape)
        raise ValueError(f"{name} needs targets in the shape of the means, {need}; got {got}.")
    return ops.cast(y_true, mean.dtype)


# The noise that a loss without one implies for the weight of the KL, per output; Keras averages over k outputs, which
# makes the implied noise of a squared error √k times as large.
_IMPLIED = (
    (
        (keras.losses.MeanSquaredError, keras.losses.mean_squared_error),
        "Gaussian noise of standard deviation √½ (0.71)",
    ),
    ((keras.losses.Huber, keras.losses.huber), "Gaussian noise of standard deviation 1 for small errors"),
    ((keras.losses.MeanAbsoluteError, keras.losses.mean_absolute_error), "Laplace noise of scale 1"),
)


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class Gaussian(Regression):
    """The mean of a Gaussian; `scale` is the standard deviation of the noise, None where it is unknown.

    A mean squared or absolute error and Huber's loss are read as `Gaussian()`: predictions then have no total variance.

    Attributes:
        implied: the noise that such a loss implies for the weight of the KL, in words.

    >>> Gaussian.from_loss(keras.losses.Huber())
    Gaussian(scale=None, implied='Gaussian noise of standard deviation 1 for small errors')
    """

    scale: float | None = None
    implied: str | None = field(default=None, compare=False)

    @classmethod
    def from_loss(cls, loss) -> "Gaussian | None":
        if is_loss(loss, (GaussianNLL,)):
            return cls(loss.scale)
        if is_loss(loss, (BoundedError,)):
            return cls()
        return next((cls(implied=noise) for kinds, noise in _IMPLIED if is_loss(loss, kinds)), None)

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        return {"prediction": np.asarray(outputs, "float64")}

    def export(self, outputs) -> dict:
        return export_moments(outputs)
