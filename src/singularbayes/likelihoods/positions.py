"""Predictions, targets and weights with one row per position: per token, per pixel, per label, or per example."""

from typing import Any

import numpy as np

from singularbayes.checks import require_finite, require_unmasked
from singularbayes.likelihoods.predictive import Predictive
from singularbayes.likelihoods.value_predictive import ValuePredictive


def by_position(name: str, p: Any, y: Any, sample_weight: Any = None) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Returns predictions, targets and weights of every position that counts, each as an example of its own.

    Positions of weight 0, such as padding, are left out before targets are looked at. The weights are None where all
    that are left weigh the same. Values (examples, …) without weights stay as they are: every score is a mean over all.

    Args:
        name: the function that errors name.
        sample_weight: at least 0, one per example (examples,) or per position (examples, …), or a mask.
    """
    require_unmasked(name, y=y)
    targets = np.asarray(y)
    if isinstance(p, ValuePredictive):
        if sample_weight is None:
            return p, targets, None
        if targets.size != p.mean.size or len(targets) != len(p):
            raise ValueError(
                f"{name} needs targets in the shape of the predictions, {p.mean.shape}; got {targets.shape}."
            )
        targets = targets.reshape(p.mean.shape)
        weights = _weights(name, sample_weight, p.mean.shape)
    else:
        shape = p.position_shape
        if len(shape) == 1 and sample_weight is None:
            return p, targets, None
        if targets.shape == (*shape, 1):
            targets = targets[..., 0]
        if targets.shape != shape:
            hint = " Of one-hot labels take labels.argmax(axis=-1)." if targets.shape == p.mean.shape else ""
            raise ValueError(f"{name} needs one label per position, {shape}; got {targets.shape}.{hint}")
        weights = np.ones(shape) if sample_weight is None else _for_all(_weights(name, sample_weight, shape), shape)
    where = weights > 0
    left = weights[where]
    return p.positions(where), targets[where], None if (left == left[0]).all() else left


def position_weights(p: Predictive, sample_weight: Any = None) -> np.ndarray | None:
    """Returns `sample_weight` times `p.weights`: the weights of the data and 0 where the model masks its outputs."""
    if p.weights is None or sample_weight is None:
        return p.weights if sample_weight is None else sample_weight
    one, other = (np.asarray(weights, "float64") for weights in (p.weights, sample_weight))
    one, other = (w[..., 0] if w.ndim > 1 and w.shape[-1] == 1 else w for w in (one, other))
    axes = max(one.ndim, other.ndim)
    one, other = (w.reshape(w.shape + (1,) * (axes - w.ndim)) for w in (one, other))
    try:
        return one * other
    except ValueError:
        raise ValueError(
            f"sample_weight needs one weight per example or position; got {np.shape(sample_weight)}."
        ) from None


def drop_unweighted(p: Predictive, sample_weight: Any = None) -> Predictive:
    """Returns the predictions of every position (of classes) or example (of values) that has a weight."""
    mask = position_weights(p, sample_weight)
    if mask is None:
        return p if isinstance(p, ValuePredictive) or len(p.position_shape) == 1 else p.positions()
    if isinstance(p, ValuePredictive):
        return p.positions(_weights("evaluate", mask, p.mean.shape) > 0)
    return p.positions(_for_all(_weights("evaluate", mask, p.position_shape), p.position_shape) > 0)


def _for_all(weights: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns weights of examples as weights of all their positions."""
    return np.broadcast_to(weights.reshape(weights.shape + (1,) * (len(shape) - weights.ndim)), shape)


def _weights(name: str, sample_weight: Any, shape: tuple[int, ...]) -> np.ndarray:
    weights = np.asarray(sample_weight, "float64")
    if weights.ndim > 1 and weights.shape[-1] == 1 and weights.shape != shape[: weights.ndim]:
        weights = weights[..., 0]
    if not weights.ndim or weights.shape != shape[: weights.ndim]:
        raise ValueError(
            f"{name} needs a sample_weight per example or position of the targets, {shape}; got {weights.shape}."
        )
    require_finite(name, sample_weight=weights)
    if weights.min() < 0 or not weights.any():
        raise ValueError(
            f"{name} needs a sample_weight >= 0 and not 0 for all; got from {weights.min():.3g} to {weights.max():.3g}."
        )
    return weights
