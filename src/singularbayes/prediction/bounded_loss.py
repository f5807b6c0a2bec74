"""Losses in [0, 1], as certificates need them: mistakes, 1 − p(label), clipped cross-entropy and clipped errors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from singularbayes.checks import labelled, require_finite
from singularbayes.likelihoods import BoundedCrossentropy, BoundedError, Classification, Likelihood, Regression


@dataclass(frozen=True)
class BoundedLoss:
    """A loss in [0, 1] of a prediction.

    Attributes:
        words: what its mean is called.
        values: (prediction (…, outputs), targets (…)) → losses (…).
        classes: the prediction is a probability for each class, and targets are labels.
        binary: it is 0 or 1.
        linear: it is linear in the prediction, so that an average over draws has the mean of their losses.
        level: the clipped error that a loss of 1 stands for, in units of the target; None for classes.
    """

    words: str
    values: Callable[[np.ndarray, np.ndarray], np.ndarray]
    classes: bool = True
    binary: bool = False
    linear: bool = False
    level: float | None = None

    def predictions(self, meaning: Likelihood, outputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities, or the predicted values, of outputs (draws, examples, …)."""
        if isinstance(meaning, Classification):
            return meaning.probabilities(outputs)
        return meaning.statistics(outputs)["prediction"]

    def require_single(self, caller: str, shape: tuple[int, ...]) -> None:
        """Raises unless predictions of this shape (examples, …) are one for every example, as targets are."""
        if len(shape) > 2 or (self.classes and len(shape) < 2):
            raise ValueError(
                f"{caller} needs one prediction per example, which has one loss; got several, of shape {shape[1:]}, as "
                "a model of sequences or of several labels has them. Certify one of them, by a model that has it alone."
            )

    def targets(self, caller: str, y, count: int, outputs: int) -> np.ndarray:
        """Returns the labels or values that the loss compares with; raises unless there is one per example."""
        if self.classes:
            certain = np.broadcast_to(np.eye(outputs)[0], (count, outputs))
            return labelled(caller, certain, y)[1]
        y = np.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        if y.dtype.kind not in "biuf" or y.shape != (count, outputs):
            raise ValueError(f"{caller} needs targets of shape ({count}, {outputs}); got {y.shape} of {y.dtype}.")
        require_finite(caller, y=y)
        return y.astype("float64")


ERROR = BoundedLoss("0-1 risk", lambda p, y: (p.argmax(axis=-1) != y).astype("float64"), binary=True)
PROBABILITY = BoundedLoss("mean of 1 − p(label)", lambda p, y: np.clip(1 - _chosen(p, y), 0.0, 1.0), linear=True)


def find_bounded_loss(loss, meaning: Likelihood, caller: str) -> BoundedLoss:
    """Returns the loss of certificates that a name or a Keras loss stands for.

    Args:
        loss: "error" (0-1), "probability" (1 − p of the label), `BoundedCrossentropy` or `BoundedError`; None is
            "error", for classifiers.
    """
    if loss in (None, "error", "probability"):
        if not isinstance(meaning, Classification):
            raise ValueError(
                f"{caller} needs a classifier, whose predictions are right or wrong, or loss=BoundedError(limit=…) for "
                f"a regression; got {meaning!r}."
            )
        return PROBABILITY if loss == "probability" else ERROR
    kinds = {BoundedCrossentropy: Classification, BoundedError: Regression}
    if type(loss) not in kinds:
        raise ValueError(
            f"{caller} needs loss to be 'error', 'probability', BoundedCrossentropy(p_min) or BoundedError(limit), "
            f"which lie in [0, 1]; got loss={loss!r}."
        )
    if not isinstance(meaning, kinds[type(loss)]):
        raise ValueError(f"{caller} needs a loss that fits the outputs; got {type(loss).__name__} for {meaning!r}.")
    if isinstance(loss, BoundedCrossentropy):
        floor = math.log(loss.p_min)
        return BoundedLoss(
            f"mean cross-entropy, clipped at p = {loss.p_min:g} and divided by {-floor:.4g}",
            lambda p, y: np.log(np.maximum(np.minimum(_chosen(p, y), 1.0), loss.p_min)) / floor,
        )
    name = "absolute" if loss.power == 1 else "squared"
    return BoundedLoss(
        f"mean {name} error, clipped at {loss.limit:g} and divided by {loss.limit**loss.power:g}",
        lambda p, y: (np.minimum(np.abs(_columns(p, y) - y) / loss.limit, 1.0) ** loss.power).mean(axis=-1),
        classes=False,
        level=loss.limit**loss.power,
    )


def _chosen(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the probability of the label."""
    return np.take_along_axis(p, np.broadcast_to(y, p.shape[:-1])[..., None], axis=-1)[..., 0]


def _columns(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns predictions with an axis for outputs, as targets have one."""
    return p if p.ndim == y.ndim else p[..., None]
