"""One hidden layer on one of the small regression sets: what a split is, the network, its training, its scores.

All splits of a set train as one program on JAX.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np

from singularbayes import layers
from singularbayes.baselines import DeepEnsemble, member_seeds
from singularbayes.likelihoods import MeanScaleNLL
from singularbayes.models import count_trained
from singularbayes.prediction import ValuePredictive, predict
from singularbayes.training import KLSchedule, fit_many
from singularbayes_experiments import data
from singularbayes_experiments.data.uci import UCI_SETS
from singularbayes_experiments.methods import value_scores
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.training import Watch, adam
from singularbayes_experiments.methods.weights import Weights

WIDE = {"protein_tertiary_structure": 100}  # hidden units of the sets that have not 50


@dataclass(frozen=True)
class UCISettings(TrainingSettings):
    """One for all sets.

    Args:
        rank: of the hidden weights; that of the inputs where they are fewer. The last layer has one column.
        own_noise: the network predicts the noise of every example; else one noise is learned for all.
        least_steps: where all epochs together have fewer steps, an epoch goes through the rows several times.
    """

    sets: tuple[str, ...] = UCI_SETS
    units: int = 50
    rank: int = 5
    own_noise: bool = False
    bayesian_bias: bool = True
    learning_rate: float = 0.01
    cosine: bool = True
    batch_size: int = 32
    epochs: int = 40
    least_steps: int = 0
    beta: float = 1.0
    warmup: int = 10
    draws: int = 100
    members: int = 5


@dataclass(frozen=True)
class Fold:
    """Standardised rows to train on, rows to predict, and the targets of these in their own units."""

    x: np.ndarray
    y: np.ndarray
    x_tested: np.ndarray
    y_tested: np.ndarray
    mean: float
    std: float


def fold(name: str, split: int, tuning: bool = False) -> Fold:
    """Returns a split of a set; of a tuning run, the training rows alone, a fifth of them to predict."""
    table = data.uci_regression(name)
    train, tested = table.splits[split]
    if tuning:
        order = np.random.default_rng(split).permutation(train)
        train, tested = np.split(order, [len(order) * 4 // 5])
    x, y = table.x[train], table.y[train]
    std = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)  # naval has two columns that never vary
    scaled, scaled_tested = ((rows - x.mean(axis=0)) / std for rows in (x, table.x[tested]))
    return Fold(scaled, (y - y.mean()) / y.std(), scaled_tested, table.y[tested], float(y.mean()), float(y.std()))


def network(kind: str, inputs: int, units: int, settings: UCISettings) -> keras.Model:
    """Returns standardised inputs → the mean and ρ of the noise of the standardised target."""
    weights = Weights(kind, settings)
    first = keras.Input((inputs,))
    options = {"posterior": weights(min(settings.rank, inputs)), "bias_posterior": weights.bias()}
    hidden = layers.Dense(units, "relu", **options)(first)
    heads = [
        layers.Dense(1, posterior=weights(1), bias_posterior=weights.bias()) for _ in range(1 + settings.own_noise)
    ]
    if settings.own_noise:
        return keras.Model(first, keras.ops.concatenate([head(hidden) for head in heads], axis=-1))
    return keras.Model(first, layers.LearnedNoise()(heads[0](hidden)))


def train(
    method: str, name: str, folds: dict[int, Fold], settings: UCISettings, watch: Watch | None = None
) -> list[list]:
    """Returns the trained networks of every split, as one program: one each, or the members of an ensemble."""
    examples = list(folds.values())
    rows = len(examples[0].y)
    passes = math.ceil(settings.least_steps / (settings.epochs * math.ceil(rows / settings.batch_size))) or 1
    kind, size = ("deterministic", settings.members) if method == "deep_ensemble" else (method, 1)
    seeds = [member for split in folds for member in member_seeds(split, settings.members)[:size]]
    own = np.repeat(np.arange(len(examples) * rows).reshape(len(examples), rows), size, axis=0)

    def build() -> keras.Model:
        model = network(kind, examples[0].x.shape[1], WIDE.get(name, settings.units), settings)
        model.compile(adam(model, passes * rows, settings), MeanScaleNLL())
        return model

    watching = [] if watch is None else [keras.callbacks.LambdaCallback(on_epoch_end=watch)]

    def callbacks() -> list[keras.callbacks.Callback]:
        first = [watching.pop()] if watching else []  # of one member
        return [KLSchedule(rows, settings.beta, warmup=settings.warmup), *first]

    x, y = (np.concatenate([getattr(one, part) for one in examples]).astype("float32") for part in ("x", "y"))
    with warnings.catch_warnings():
        if passes > 1:  # the KL is divided by the rows, however often an epoch passes over them
            warnings.filterwarnings("ignore", message="KLSchedule has num_data")
        runs = fit_many(
            build, x, y, seeds, settings.epochs, settings.batch_size, callbacks=callbacks, rows=np.tile(own, passes)
        )
    models = [run.model for run in runs]
    return [models[i * size : (i + 1) * size] for i in range(len(examples))]


def predictions(models: list[keras.Model], one: Fold, draws: int, seed: int) -> ValuePredictive:
    """Returns what a network, or an ensemble, predicts for the test rows, in the units of the targets."""
    x = one.x_tested.astype("float32")
    p = (
        predict(models[0], x, draws, seed)
        if len(models) == 1
        else DeepEnsemble.from_models(models).predict(x, draws, seed)
    )
    assert isinstance(p, ValuePredictive)
    return value_scores.in_units(p, one.mean, one.std)


@dataclass(frozen=True)
class SplitOutcome:
    """What one split of one set gave."""

    split: int
    scores: dict[str, float]
    arrays: dict[str, np.ndarray]
    parameters: int


def outcomes(
    name: str,
    method: str,
    seeds: Sequence[int],
    settings: UCISettings,
    *,
    tuning: bool,
    watch: Watch | None = None,
) -> list[SplitOutcome]:
    """Returns what a method gives on these splits of one set; none for a split that the set does not have."""
    splits = [seed for seed in seeds if seed < len(data.uci_regression(name).splits)]
    folds = {split: fold(name, split, tuning) for split in splits}
    found = []
    for split, models in zip(splits, train(method, name, folds, settings, watch) if folds else [], strict=True):
        p, y = predictions(models, folds[split], settings.draws, split), folds[split].y_tested
        scores = {f"{name}/{score}": value for score, value in value_scores.quality(p, y).items()}
        arrays = {} if tuning else value_scores.stored(name, p, y)
        found.append(SplitOutcome(split, scores, arrays, sum(map(count_trained, models))))
    return found
