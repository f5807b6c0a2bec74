"""What a model's outputs mean: probabilities, logits, or the mean of a Gaussian."""

from dataclasses import dataclass

import keras
import numpy as np
from scipy import special


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
        ratio = (y_pred - keras.ops.cast(y_true, y_pred.dtype)) / self.scale
        return keras.ops.sum(0.5 * ratio * ratio + float(np.log(self.scale) + 0.5 * np.log(2 * np.pi)), axis=-1)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


def _require_probabilities(outputs: np.ndarray, sums_to_one: bool, name: str) -> None:
    if outputs.size and not (sums_to_one and outputs.min() >= 0 and outputs.max() <= 1 + 1e-6):
        raise ValueError(
            f"The loss says that the outputs are probabilities; got values from {outputs.min():.3g} to "
            f"{outputs.max():.3g}. If they are logits, compile with from_logits=True or pass likelihood={name!r}."
        )


@dataclass(frozen=True)
class Categorical:
    """One probability a class in the last axis; `from_logits` says that a softmax is still to be taken."""

    from_logits: bool = True

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        tolerance = 1e-3 if outputs.dtype.itemsize > 2 else 0.03  # half precision rounds every class
        outputs = np.asarray(outputs, "float64")
        if self.from_logits:
            return special.softmax(outputs, axis=-1)
        total = outputs.sum(-1, keepdims=True)
        _require_probabilities(outputs, np.abs(total - 1).max(initial=0) < tolerance, "categorical_logits")
        return outputs / total


@dataclass(frozen=True)
class Bernoulli:
    """The probability of class 1 in a last axis of size 1; `from_logits` says that a sigmoid is still to be taken."""

    from_logits: bool = True

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities of class 0 and class 1 in the last axis."""
        outputs = np.asarray(outputs, "float64")
        if outputs.shape[-1] != 1:
            raise ValueError(
                f"A Bernoulli likelihood needs one output a row; got outputs of shape (examples, {outputs.shape[-1]}). "
                "For several classes compile with SparseCategoricalCrossentropy; for several labels give each its own "
                "output."
            )
        if not self.from_logits:
            _require_probabilities(outputs, True, "bernoulli_logits")
        one = special.expit(outputs) if self.from_logits else outputs
        return np.concatenate([1 - one, one], axis=-1)


@dataclass(frozen=True)
class Gaussian:
    """The mean of a Gaussian; `scale` is the standard deviation of the noise, None where it was not said."""

    scale: float | None = None


Likelihood = Categorical | Bernoulli | Gaussian
NAMES: dict[str, Likelihood] = {
    "categorical_logits": Categorical(),
    "categorical": Categorical(from_logits=False),
    "bernoulli_logits": Bernoulli(),
    "bernoulli": Bernoulli(from_logits=False),
    "gaussian": Gaussian(),
}


def get(identifier: Likelihood | str | None, loss=None, model: str = "model", asked: str = "predict") -> Likelihood:
    """Returns a likelihood from itself, its name, or, for None, from the loss that the model was compiled with.

    Args:
        asked: the function that errors speak for.
    """
    if isinstance(identifier, Likelihood):
        return identifier
    if isinstance(identifier, str) and identifier in NAMES:
        return NAMES[identifier]
    if identifier is not None:
        raise ValueError(
            f"{asked} needs likelihood to be a Likelihood or one of {sorted(NAMES)}; got likelihood={identifier!r}."
        )
    found = _of_loss(loss)
    if found is None:
        raise ValueError(
            f"{asked} needs to know what the outputs mean, and the loss of {model!r} does not say; got "
            f"loss={loss!r}. Pass likelihood= one of {sorted(NAMES)}."
        )
    return found


def _of_loss(loss) -> Likelihood | None:
    loss = keras.losses.get(loss) if isinstance(loss, str) else loss
    match getattr(loss, "__name__", type(loss).__name__):
        case "GaussianNLL":
            return Gaussian(loss.scale)
        case "SparseCategoricalCrossentropy" | "CategoricalCrossentropy":
            return Categorical(loss.from_logits)
        case "sparse_categorical_crossentropy" | "categorical_crossentropy":
            return Categorical(from_logits=False)
        case "BinaryCrossentropy":
            return Bernoulli(loss.from_logits)
        case "binary_crossentropy":
            return Bernoulli(from_logits=False)
        case "MeanSquaredError" | "MeanAbsoluteError" | "mean_squared_error" | "mean_absolute_error":
            return Gaussian()
    return None
