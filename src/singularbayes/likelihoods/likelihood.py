"""What a model's outputs mean: probabilities, logits, the mean of a Gaussian, or its mean and scale."""

from dataclasses import dataclass

import keras
import numpy as np
from scipy import special

from singularbayes.likelihoods.bounded_crossentropy import BoundedCrossentropy

LEAST_SCALE = 1e-6  # a predicted scale is never below, so that a target hit exactly has a finite density


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
        ratio = (y_pred - _targets("GaussianNLL", y_true, y_pred)) / self.scale
        return keras.ops.sum(0.5 * ratio * ratio + float(np.log(self.scale) + 0.5 * np.log(2 * np.pi)), axis=-1)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="singularbayes")
class MeanScaleNLL(keras.losses.Loss):
    """−log N(y; mean, scale²) summed over outputs, in nats, where the model says both: regression with unknown noise.

    The last axis of the prediction holds the means of all outputs, then as many raw scales ρ with
    scale = softplus(ρ) + 10⁻⁶. A `Dense(2)` head gives every example its own noise; `layers.LearnedNoise()` behind a
    `Dense(1)` learns one for all.

    >>> rho = np.log(np.expm1(0.5))
    >>> round(float(MeanScaleNLL()(np.ones((1, 1)), np.array([[0.8, rho]]))), 4)
    0.3058
    """

    def __init__(self, reduction="sum_over_batch_size", name="mean_scale_nll", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true, y_pred):
        _require_even(y_pred.shape)
        mean, rho = keras.ops.split(y_pred, 2, axis=-1)
        scale = keras.ops.softplus(rho) + LEAST_SCALE
        ratio = (mean - _targets("MeanScaleNLL", y_true, mean)) / scale
        return keras.ops.sum(0.5 * ratio * ratio + keras.ops.log(scale) + float(0.5 * np.log(2 * np.pi)), axis=-1)


def _targets(name: str, y_true, mean):
    """Returns targets in the shape of the means; (examples,) and (examples, 1) would make a table of differences."""
    if len(y_true.shape) == len(mean.shape) - 1 and mean.shape[-1] == 1:
        y_true = keras.ops.expand_dims(y_true, -1)
    if len(y_true.shape) != len(mean.shape) or y_true.shape[-1] != mean.shape[-1]:
        raise ValueError(f"{name} needs targets in the shape of the means, {mean.shape}; got {y_true.shape}.")
    return keras.ops.cast(y_true, mean.dtype)


def _require_even(shape) -> None:
    if shape[-1] % 2:
        raise ValueError(
            "A mean and a scale need two numbers for every target, the means first; got outputs of shape (examples, …, "
            f"{shape[-1]}). Double the units of the last layer, or put layers.LearnedNoise() behind it."
        )


def _require_probabilities(outputs: np.ndarray, sums_to_one: bool, name: str) -> None:
    if outputs.size and not (sums_to_one and outputs.min() >= 0 and outputs.max() <= 1 + 1e-6):
        raise ValueError(
            f"The loss says that the outputs are probabilities; got values from {outputs.min():.3g} to "
            f"{outputs.max():.3g}. If they are logits, compile with from_logits=True or pass likelihood={name!r}."
        )


def _refuse_probabilities(outputs: np.ndarray, total: np.ndarray) -> None:
    # Logits of chance sum to 1 in no example, those of a softmax in all.
    if outputs.size and outputs.min() >= 0 and np.abs(total - 1).max() < 1e-5:
        raise ValueError(
            "The loss says that the outputs are logits; got numbers >= 0 that sum to 1, as a softmax gives them, and a "
            "second softmax would flatten them. Take the softmax out of the last layer, or compile with "
            "from_logits=False, and train again."
        )


@dataclass(frozen=True)
class Categorical:
    """One probability a class in the last axis; `from_logits` says that a softmax is still to be taken."""

    from_logits: bool = True

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        tolerance = 1e-3 if outputs.dtype.itemsize > 2 else 0.03  # half precision rounds every class
        outputs = np.asarray(outputs, "float64")
        total = outputs.sum(-1, keepdims=True)
        if outputs.shape[-1] == 1:
            raise ValueError(
                "A categorical likelihood needs an output a class, two or more; got outputs of shape (examples, …, 1). "
                "For one output that says yes or no compile with BinaryCrossentropy."
            )
        if self.from_logits:
            _refuse_probabilities(outputs, total)
            return special.softmax(outputs, axis=-1)
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


@dataclass(frozen=True)
class MeanScale:
    """The mean of a Gaussian and its raw scale ρ, as `MeanScaleNLL` takes them: the noise is the model's to say."""

    def mean_and_scale(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the two halves of the last axis, scales as standard deviations."""
        _require_even(outputs.shape)
        mean, rho = np.split(np.asarray(outputs, "float64"), 2, axis=-1)
        return mean, np.logaddexp(0.0, rho) + LEAST_SCALE


Likelihood = Categorical | Bernoulli | Gaussian | MeanScale
NAMES: dict[str, Likelihood] = {
    "categorical_logits": Categorical(),
    "categorical": Categorical(from_logits=False),
    "bernoulli_logits": Bernoulli(),
    "bernoulli": Bernoulli(from_logits=False),
    "gaussian": Gaussian(),
    "mean_scale": MeanScale(),
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
    found = of_loss(loss)
    if found is None:
        remedy = "Compile the model with its loss, or pass" if loss is None else "Pass"
        raise ValueError(
            f"{asked} needs to know what the outputs mean, and the loss of {model!r} does not say; got "
            f"loss={loss!r}. {remedy} likelihood= one of {sorted(NAMES)}."
        )
    return found


def of_loss(loss) -> Likelihood | None:
    """Returns what a compiled loss says of the outputs; None where it does not say.

    Losses are known by identity: a subclass, or one of the same name, may compute anything.
    """
    known = keras.losses
    loss = known.get(loss) if isinstance(loss, str) else loss
    kind = type(loss) if isinstance(loss, known.Loss) else loss
    if kind is GaussianNLL:
        return Gaussian(loss.scale)
    if kind is MeanScaleNLL:
        return MeanScale()
    if kind in (known.SparseCategoricalCrossentropy, known.CategoricalCrossentropy, BoundedCrossentropy):
        return Categorical(loss.from_logits)
    if kind in (known.sparse_categorical_crossentropy, known.categorical_crossentropy):
        return Categorical(from_logits=False)
    if kind is known.BinaryCrossentropy:
        return Bernoulli(loss.from_logits)
    if kind is known.binary_crossentropy:
        return Bernoulli(from_logits=False)
    if kind in (known.MeanSquaredError, known.MeanAbsoluteError, known.mean_squared_error, known.mean_absolute_error):
        return Gaussian()
    return None
