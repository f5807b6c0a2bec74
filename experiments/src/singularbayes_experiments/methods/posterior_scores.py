"""What is measured of a trained network's weights: how far posteriors went from the prior, widths, singular values."""

import keras
import numpy as np

from singularbayes.convert import spectrum
from singularbayes.models import compiled, quiet
from singularbayes.posteriors import find_posteriors
from singularbayes.training import kl

SINGULAR_VALUES = "singular_values/"  # what the names of their arrays begin with


def of_posteriors(models: list[keras.Model]) -> dict[str, float]:
    """Returns the KL of a model in nats, as training estimates it, and how wide its posteriors are; means over models.

    `signal` is the median of |mean| / sd over the random weights; `pruned` the share of those whose mean is within one
    sd of 0, whose sign the posterior leaves open.
    """
    factors = [factor for model in models for q in find_posteriors(model) for factor in q.factors]
    if not factors:
        return {}
    means, deviations = (
        np.concatenate([keras.ops.convert_to_numpy(part).ravel() for part in parts])
        for parts in ([f.loc for f in factors], [f.variance**0.5 for f in factors])
    )
    low, middle, high = np.quantile(deviations, [0.05, 0.5, 0.95])
    signal = np.abs(means) / deviations
    total = sum(float(keras.ops.convert_to_numpy(compiled(model, kl))) for model in models)
    found = {
        "kl": total / len(models),
        "sd_05": low,
        "sd_median": middle,
        "sd_95": high,
        "signal": np.median(signal),
        "pruned": (signal < 1).mean(),
    }
    return {f"posterior_{name}": float(value) for name, value in found.items()} | _learned_ranks(models[0])


def _learned_ranks(model: keras.Model) -> dict[str, float]:
    """Returns the columns in use of every weight whose rank is learned, in the order of `find_posteriors`."""
    learned = [q.learned_rank for q in find_posteriors(model) if q.learned_rank is not None]
    return {f"learned_rank_{i:02}": float(rank) for i, rank in enumerate(learned, start=1)}


def singular_values(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the singular values of the mean of every weight matrix, by "singular_values/" and its path."""
    with quiet():
        found = spectrum(model).rows
    return {f"{SINGULAR_VALUES}{row.name}": row.values.astype("float32") for row in found}
