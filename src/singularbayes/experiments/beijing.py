"""The paper's forecaster: a two-layer LSTM on hourly air quality. Its network alone, so far."""

from dataclasses import dataclass

import keras

from singularbayes import layers
from singularbayes.experiments.training import require_method
from singularbayes.posteriors import Deterministic, FullRank, LowRank


@dataclass(frozen=True)
class Settings:
    """The paper's values. Ranks are of the input and recurrent kernel of both layers and of the head, in this order."""

    hours: int = 24
    features: int = 15
    units: int = 64
    ranks: tuple[int, int, int, int, int] = (14, 20, 20, 20, 1)


METHODS = {
    "low_rank": LowRank,
    "full_rank": lambda rank: FullRank(),
    "deterministic": lambda rank: Deterministic(),
}


def network(method: str, settings: Settings = Settings()) -> keras.Model:
    """Returns windows (hours, features) → the next value.

    >>> network("low_rank").count_params() > 47_144  # and its seeds and KL weights
    True
    """
    require_method(method, METHODS)
    first, recurrent, second, recurrent2, head = map(METHODS[method], settings.ranks)
    bias = {"bias_posterior": None if method == "deterministic" else FullRank()}
    return keras.Sequential(
        [
            keras.Input((settings.hours, settings.features)),
            layers.LSTM(settings.units, return_sequences=True, posterior=first, recurrent_posterior=recurrent, **bias),
            layers.LSTM(settings.units, posterior=second, recurrent_posterior=recurrent2, **bias),
            layers.Dense(1, posterior=head, **bias),
        ],
        name=f"beijing_{method}",
    )
