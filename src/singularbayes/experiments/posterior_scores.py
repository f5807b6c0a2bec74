"""What is measured of posteriors: how far they went from the prior, and how wide they are."""

import keras
import numpy as np

from singularbayes.inference import find_posteriors, kl
from singularbayes.inference.engine import compiled


def of_posteriors(models: list[keras.Model]) -> dict[str, float]:
    """Returns the KL of a model in nats, as training estimates it, and how wide its posteriors are; means over models.

    `signal` is the median of |mean| / sd over the random weights; `pruned` the share of those whose mean is within one
    sd of 0, where prior and posterior are nearly one.
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
    return {f"posterior_{name}": float(value) for name, value in found.items()}
