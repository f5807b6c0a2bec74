"""The paper's forecaster: a two-layer LSTM on hourly air quality, and out-of-distribution cities.

The paper: 24 hours of Beijing's PM2.5 and weather → the PM2.5 of the next hour, in units of its standard deviation in
training. Two LSTM layers of 64 units, ranks 14 (input kernel of the first), 20, 20, 20 and 1 (head), random biases, the
scale-mixture prior, batches of 64, KL weight 0.09 / N. Adam at 10⁻³, halved when the validation MAE has not fallen for
5 epochs; training ends when it has not fallen for 30 (in the ensemble for 10), or after 150 epochs. 150 draws. Means of
full-rank weights start uniform in ±0.2, their ρ in (−3, −2). SWAG: 25 further epochs of SGD, 250 draws.

What the paper leaves open, and what is done here: the noise (training assumes a standard deviation of 1, in units of
that of the targets, so that 0.09 / N is β = 0.09 of the evidence bound); the start of low-rank factors
(variance-matched, η = 0.1); an annealing of the KL (none); the patience of the deterministic network and of SWAG (10,
as in the ensemble).

Windows, the out-of-distribution cities and the rules that put them in Beijing's terms are in `air.py`. The total
variance is the epistemic one plus a noise that is fitted to the validation windows after training (`value_scores.py`):
the same for all hours with the paper's settings, with ours one that grows. The conformal intervals take their width
from the same windows, and the test windows come later in time: their coverage is measured and not guaranteed.

Ours: methods that the paper lacks here, ranks, other cities, and settings chosen on validation (`beijing.py`).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import keras
import numpy as np
from keras import ops

from singularbayes import layers, metrics
from singularbayes.likelihoods import GaussianNLL, MeanScaleNLL
from singularbayes.prediction import ValuePredictive
from singularbayes_experiments import data
from singularbayes_experiments.methods import study, value_scores
from singularbayes_experiments.methods.methods import COMPARED, sentences
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.stopping import EarlyStop, Plateau, Resumable
from singularbayes_experiments.methods.trainers import Training
from singularbayes_experiments.methods.weights import Weights, ranks_of
from singularbayes_experiments.problems import air

OOD = ("Guangzhou", "Chengdu", "Shanghai", "Shenyang")
MAIN = OOD[0]  # the paper's out-of-distribution city
UNROLL = "SINGULARBAYES_UNROLL"  # set, hours are compiled one by one: longer to compile, and faster on a GPU
METHODS = sentences(
    "low_rank",
    "low_rank_svd",
    "full_rank",
    "rank_one",
    "deterministic",
    "deep_ensemble",
    "low_rank_ensemble",
    "swag",
    *(f"low_rank_{rank}" for rank in (4, 8, 12, 32)),
)
PAPER_METHODS = COMPARED  # what runs when no method is given


@dataclass(frozen=True)
class ForecastSettings(TrainingSettings):
    """The paper's values.

    Args:
        windows: how many to train on, to validate and to test, in the order of time.
        ranks: of the input and recurrent kernel of both layers and of the head.
        noise: in training, "one" and "grows" assume a standard deviation of 1, and "own" lets the network predict it.
            In scores it is fitted to the validation windows: "one" is the same for all windows, "grows" a sum of a
            constant, the window's last value and its mean change from hour to hour, each with a weight, "own" what the
            network predicts, times a factor.
        from_last: the network predicts the change from the last hour instead of the value.
        mean_start: means of weights start uniform between these; None is variance-matched, and orthogonal where
            recurrent.
        patience: epochs without a better validation MAE after which training ends, None trains all epochs;
            plateau: those after which the learning rate is halved.
        every: Guangzhou's windows are all scored; of the other cities, and where mapped features are left out, every
            `every`-th window is.
    """

    windows: tuple[int, int, int] = (29_213, 6_260, 6_260)
    hours: int = 24
    units: int = 64
    ranks: tuple[int, int, int, int, int] = (14, 20, 20, 20, 1)
    noise: Literal["one", "grows", "own"] = "one"
    from_last: bool = False
    bayesian_bias: bool = True
    pi: float = 0.5
    eta: float = 0.1
    rho_start: tuple[float, float] | None = None
    mean_start: tuple[float, float] | None = None
    rank_one_form: str = "product"
    learning_rate: float = 1e-3
    batch_size: int = 64
    epochs: int = 150
    patience: int | None = 30
    plateau: int = 5
    least_rate: float = 1e-6
    beta: float = 0.09
    warmup: int = 0
    draws: int = 150
    svd_epochs: int = 30
    swag_epochs: int = 25
    swag_rank: int = 20
    swag_rate: float = 0.01
    every: int = 4


class Forecast(study.Comparison):
    """PM2.5 of the next hour."""

    name = "beijing"
    methods = METHODS

    def __init__(self, paper: Mapping[str, ForecastSettings]):
        self.paper = paper

    def training(self, settings: ForecastSettings) -> Training:
        split = windows(settings.windows, settings.hours)
        watched = settings.patience is not None
        return Training(
            split.train.x,
            split.train.y,
            MeanScaleNLL if settings.noise == "own" else GaussianNLL,
            (split.validation.x, split.validation.y) if watched else None,
            callbacks=_rules,
            metrics=("mae",) if watched else (),
        )

    def network(self, weights: Weights, settings: ForecastSettings) -> keras.Model:
        """Returns windows (hours, features) → the next value, or its mean and ρ of its noise."""
        *ranks, head = ranks_of(settings, 5)  # input and state of two layers, and the head
        inputs = keras.Input((settings.hours, len(air.FEATURES)))
        hidden = _lstm(weights, ranks[:2], settings, name="first", return_sequences=True)(inputs)
        hidden = _lstm(weights, ranks[2:], settings, name="second")(hidden)
        mean = layers.Dense(1, posterior=weights(head), bias_posterior=weights.bias(), name="mean")(hidden)
        if settings.from_last:
            mean = mean + inputs[:, -1, :1]  # PM2.5 is the first feature, in nearly the unit of the target
        if settings.noise != "own":
            return keras.Model(inputs, mean, name="beijing")
        noise = layers.Dense(1, posterior=weights(head), bias_posterior=weights.bias(), name="noise")(hidden)
        return keras.Model(inputs, ops.concatenate([mean, noise], axis=-1), name="beijing")

    def validated(self, ask: study.Ask, settings: ForecastSettings) -> study.Scores:
        split = windows(settings.windows, settings.hours)
        held = _in_units(ask({"validation": split.validation.x})["validation"], split.scaling)
        y = _values(split, "validation")
        kinds = noise_kinds(held, split.validation.x, split.scaling, settings)
        fitted = value_scores.with_noise(held, kinds @ value_scores.noise_weights(held, y, kinds))
        return study.prefixed("validation", value_scores.quality(fitted, y))

    def tested(self, ask: study.Ask, settings: ForecastSettings) -> tuple[study.Scores, study.Arrays]:
        split = windows(settings.windows, settings.hours)
        ood = ood_windows(settings.windows, settings.hours, settings.every)
        bare = {"test": air.without_mapped(split.test.x), MAIN: air.without_mapped(ood[MAIN][:: settings.every])}
        inputs = {"validation": split.validation.x, "test": split.test.x, **ood}
        inputs |= {f"{name}, bare": x for name, x in bare.items()}
        predicted = {name: _in_units(part, split.scaling) for name, part in ask(inputs).items()}
        y_held, y = _values(split, "validation"), _values(split, "test")
        kinds = {name: noise_kinds(part, inputs[name], split.scaling, settings) for name, part in predicted.items()}
        weights = value_scores.noise_weights(predicted["validation"], y_held, kinds["validation"])
        p = {name: value_scores.with_noise(part, kinds[name] @ weights) for name, part in predicted.items()}
        cities = {name.lower(): p[name] for name in OOD}

        found = value_scores.of_test(p["test"], y, cities)
        found |= {name.removeprefix(f"{MAIN.lower()}/"): value for name, value in found.items()}
        found |= value_scores.conformal(p["test"], y, p["validation"], y_held)
        found |= study.prefixed("validation", value_scores.quality(p["validation"], y_held))
        found |= {f"noise_weight_{i}": float(weight) for i, weight in enumerate(weights)}
        last = split.scaling.mean[0] + split.scaling.std[0] * split.test.x[:, -1, 0].astype("float64")
        found["last_value_mae"] = metrics.mean_absolute_error(last, y)
        if p["test"].num_draws > 1:
            scores = metrics.ood_scores(p["test, bare"].std, p[f"{MAIN}, bare"].std)
            found |= {f"{MAIN.lower()}_bare/{name}_epistemic": value for name, value in scores.items()}
        arrays = value_scores.stored("validation", p["validation"], y_held) | value_scores.stored("test", p["test"], y)
        arrays |= {f"{name}_std": part.std.astype("float32") for name, part in cities.items()}
        return found, arrays | value_scores.stored(MAIN.lower(), p[MAIN])

    def with_rank(self, settings: ForecastSettings, rank: int) -> ForecastSettings:
        *_, head = settings.ranks
        return replace(settings, ranks=(min(rank, len(air.FEATURES)), rank, rank, rank, head))


@lru_cache(maxsize=1)
def windows(sizes: tuple[int, int, int], hours: int) -> air.AirSplit:
    """Returns the windows of Beijing."""
    return air.split(air.rows_of(data.beijing_pm25().table), sizes, hours)


@lru_cache(maxsize=1)
def ood_windows(sizes: tuple[int, int, int], hours: int, every: int) -> dict[str, np.ndarray]:
    """Returns the windows of the other cities by name: all of the paper's, every so many-th of the others."""
    scaling = windows(sizes, hours).scaling
    rows = air.ood_rows(data.five_cities_pm25().tables, OOD)
    return {city: air.windows(rows[city], scaling, hours, 1 if city == MAIN else every).x for city in OOD}


def _lstm(weights: Weights, ranks: Sequence[int], settings: ForecastSettings, **options) -> layers.LSTM:
    if settings.mean_start is not None:
        # One for each kernel: an initializer gives the same numbers every time.
        for name in ("kernel_initializer", "recurrent_initializer"):
            options[name] = keras.initializers.RandomUniform(*settings.mean_start)
    return layers.LSTM(
        settings.units,
        posterior=weights(ranks[0]),
        recurrent_posterior=weights(ranks[1]),
        bias_posterior=weights.bias(),
        unroll=UNROLL in os.environ,
        **options,
    )


def _rules(settings: ForecastSettings) -> list[Resumable]:
    if settings.patience is None:
        return []
    return [
        Plateau("val_mae", settings.plateau, factor=0.5, least=settings.least_rate),
        EarlyStop("val_mae", settings.patience),
    ]


def noise_kinds(p: ValuePredictive, x: np.ndarray, scaling: air.AirScaling, settings: ForecastSettings) -> np.ndarray:
    """Returns what the noise of every window is weighed from, (windows, kinds), none below 0.

    Of a noise that grows: 1, the last value and the mean change from hour to hour, both in µg/m³.
    """
    if settings.noise == "own":
        return np.broadcast_to(p.noise, p.mean.shape)[:, None]  # type: ignore[arg-type]
    ones = np.ones(len(x))
    if settings.noise == "one":
        return ones[:, None]
    values = np.maximum(scaling.mean[0] + scaling.std[0] * x[..., 0].astype("float64"), 0)  # 0 may round to less
    return np.stack([ones, values[:, -1], np.abs(np.diff(values, axis=1)).mean(axis=1)], axis=1)


def _in_units(p: ValuePredictive, scaling: air.AirScaling) -> ValuePredictive:
    """Returns predictions in µg/m³."""
    return value_scores.in_units(p, scaling.target_mean, scaling.target_std)


def _values(split: air.AirSplit, part: str) -> np.ndarray:
    """Returns the targets of a part in µg/m³."""
    return split.scaling.target_mean + split.scaling.target_std * getattr(split, part).y.astype("float64")
