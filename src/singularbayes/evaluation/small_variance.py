"""Whether a model's draws stay close to its mean network, and what that certifies about the mean network."""

from collections.abc import Sequence

import keras
import numpy as np

from singularbayes import bounds
from singularbayes.bounds import (
    GaussianLayer,
    SmallVariance,
    gaussian_norm,
    good_event_failure,
    relative_perturbation,
    sum_threshold,
)
from singularbayes.checks import require_integer, require_positive, require_share
from singularbayes.evaluation.feed_forward import DenseWeight, factor_draws, read_dense_layers


def small_variance_of_model(
    model: keras.Model,
    radius: float,
    margin: float = 1.0,
    delta: float = 0.05,
    draws: int = 1000,
    *,
    failure: float | None = None,
    seed: int = 0,
) -> SmallVariance:
    """Returns how probable it surely is that a drawn network stays within margin/4 of the mean network on ‖x‖ ≤ radius.

    S = Σ ‖W_i − W̄_i‖₂/‖W̄_i‖₂ has to be at most s* = ln(1 + margin/(4 radius ∏‖W̄_i‖₂)), as a sum: no layer has a limit
    of its own. By draws (Clopper–Pearson) and by the analytic budget; `reached` is whether either is ½.

    Args:
        model: a Sequential of dense layers with posteriors, without biases and with activations that are 0 at 0.
        delta: probability that the bound by draws is wrong.
        failure: look at draws within the good event only, in which every factor has a norm that it exceeds with
            probability failure/(number of factors); then ½/(1 − failure) is required.

    >>> import keras, singularbayes as sb
    >>> layer = sb.layers.Dense(2, use_bias=False, posterior=sb.LowRank(2, eta=1e-3))
    >>> model = keras.Sequential([keras.Input((4,)), layer])
    >>> small_variance_of_model(model, radius=1.0, draws=100).reached
    True
    """
    require_positive("small_variance_of_model", radius=radius, margin=margin)
    require_integer("small_variance_of_model", draws=draws)
    require_integer("small_variance_of_model", 0, seed=seed)
    weights, reasons = read_dense_layers(model)
    if reasons:
        raise ValueError(
            "small_variance_of_model needs dense layers without biases and 1-Lipschitz activations that are 0 at 0; "
            f"got {'; '.join(reasons)}."
        )
    threshold = sum_threshold(margin, [weight.norm for weight in weights], radius)
    layers = [GaussianLayer.from_factors(weight.a, weight.b) for weight in weights]
    limits, total = (None, None) if failure is None else _good_event(weights, failure)
    sums = np.array([s for s in _sums(model, weights, draws, seed, limits) if s is not None])
    if not len(sums):
        raise ValueError(
            f"small_variance_of_model needs draws within the good event; none of {draws} was. Take more draws."
        )
    return bounds.small_variance(sums, threshold, delta, layers, total)


def norm_limits(weights: Sequence[DenseWeight], failure: float) -> list[tuple[float, float]]:
    """Returns C_A and C_B of every layer; all factors are within with probability 1 − failure."""
    require_share("norm_limits", failure=failure)
    each = failure / max(1, sum(2 if weight.low_rank else 1 for weight in weights))

    def limits(weight: DenseWeight) -> tuple[float, float]:
        return gaussian_norm(*weight.a, each).value, gaussian_norm(*weight.b, each).value if weight.low_rank else 1.0

    return [limits(weight) for weight in weights]


def within_limits(draw: Sequence[tuple[np.ndarray, np.ndarray]], limits: Sequence[tuple[float, float]]) -> bool:
    """Returns whether all factors of a draw have norms within their limits."""
    pairs = zip(draw, limits, strict=True)
    return all(np.linalg.norm(f, 2) <= c for factors, cs in pairs for f, c in zip(factors, cs, strict=True))


def _good_event(weights, failure: float) -> tuple[list[tuple[float, float]], float]:
    count = sum(2 if weight.low_rank else 1 for weight in weights)
    return norm_limits(weights, failure), good_event_failure([failure / count] * count)


def _sums(model, weights, draws: int, seed: int, limits):
    """Yields S of every draw; None for one outside the good event."""
    means = [(weight.a[0], weight.b[0]) for weight in weights]
    for draw in factor_draws(model, weights, draws, seed):
        if limits is not None and not within_limits(draw, limits):
            yield None
        else:
            parts = zip(draw, means, strict=True)
            yield sum(float(relative_perturbation(a[None], b[None], *mean)[0]) for (a, b), mean in parts)
