"""Data, networks and scores of the comparison of modes (`modes.py`); those of large sets are in `modes_large.py`."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes import layers, metrics
from singularbayes.posteriors import Centred, Deterministic, FullRank, LowRank, Normal, Posterior, find_posteriors
from singularbayes.prediction import ValuePredictive
from singularbayes_experiments import data
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.network_draws import NetworkDraws
from singularbayes_experiments.methods.network_fit import RATE
from singularbayes_experiments.problems import defaults, fashion_mnist, mnist, modes_large, toy
from singularbayes_experiments.problems.images import ImageSettings
from singularbayes_experiments.problems.modes import IMAGES, RESULT_SEEDS, TOY, TUNING_SEEDS, ModesSet

SMALL = ("images", TOY, "uci")  # families whose data and networks are here
PERTURBED = 2000  # training inputs that are perturbed for the proxy OOD score
_PROBLEMS: dict[str, Any] = {"mnist": mnist.EXPERIMENT.problem, "fashion_mnist": fashion_mnist.EXPERIMENT.problem}


@dataclass(frozen=True)
class Part:
    """Inputs (examples, features) and targets; `unit` is the standard deviation of targets before they were scaled."""

    x: np.ndarray
    y: np.ndarray | None = None
    unit: float = 1.0


@dataclass(frozen=True)
class Data:
    """Rows that train, by seed, and what is predicted, by seed and name; where seeds share them, one stands for all."""

    x: np.ndarray
    y: np.ndarray
    rows: dict[int, np.ndarray]
    parts: dict[int, dict[str, Part]]

    def train(self, seed: int) -> np.ndarray:
        return self.rows.get(seed, self.rows[min(self.rows)])

    def evaluation_parts(self, seed: int) -> dict[str, Part]:
        return self.parts.get(seed, self.parts[min(self.parts)])


def data_of(one: ModesSet, tuning: bool) -> Data:
    """Returns what tuning sees, validation rows and perturbed training inputs, or what results are scored on."""
    if one.name in IMAGES:
        return _images(one, tuning)
    if one.family in (TOY, "uci"):
        return _toy(tuning) if one.name == TOY else _uci(one, tuning)
    (x, y), evaluation = modes_large.parts_of(one, tuning)
    if one.tiny:
        x, y, evaluation = (
            x[:640],
            y[:640],
            {name: tuple(each[:100] for each in part) for name, part in evaluation.items()},
        )
    y = y.astype("int32") if one.task == "classes" else y
    parts = {name: Part(part[0], part[1] if len(part) > 1 else None) for name, part in evaluation.items()}
    return Data(x, y, {0: np.arange(len(x))}, {0: parts})


def result_seeds(one: ModesSet) -> tuple[int, ...]:
    """Returns the seeds of the results."""
    return RESULT_SEEDS[: one.seeds]


def _images(one: ModesSet, tuning: bool) -> Data:
    problem, settings = _PROBLEMS[one.name], ImageSettings()
    (x, y), held = problem.split(settings)
    if tuning:
        parts = {"validation": Part(*held), "perturbed": Part(protocol.perturbed(x[:PERTURBED]))}
    else:
        test, ood = problem.testing(settings)
        parts = {"test": Part(*test)} | {name: Part(inputs) for name, inputs in ood.items()}
    return Data(x, y.astype("int32"), {0: np.arange(len(x))}, {0: parts})


def _toy(tuning: bool) -> Data:
    settings = toy.ToySettings()
    known = toy.parts(settings)
    x, y = known["train"]
    if tuning:
        parts = {"validation": Part(*known["validation"]), "perturbed": Part(protocol.perturbed(x))}
    else:
        grid = np.linspace(*settings.grid_range, 401, dtype="float32")[:, None]
        parts = {"test": Part(*known["near"]), "grid": Part(grid)}
    return Data(x, y, {0: np.arange(len(x))}, {0: parts})


def _uci(one: ModesSet, tuning: bool) -> Data:
    table = data.uci_regression(one.name)
    every: list[tuple[np.ndarray, np.ndarray]] = []
    rows, parts = {}, {}
    for seed in TUNING_SEEDS if tuning else result_seeds(one):
        train, test = table.splits[0 if tuning else seed - len(TUNING_SEEDS) + 1]
        if tuning:
            order = np.random.default_rng(seed).permutation(train)
            train, test = np.split(order, [len(order) * 4 // 5])
        x, y = table.x[train], table.y[train]
        std = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
        scaled, evaluation = (((part - x.mean(axis=0)) / std).astype("float32") for part in (x, table.x[test]))
        targets, held = (((part - y.mean()) / y.std()).astype("float32")[:, None] for part in (y, table.y[test]))
        start = sum(len(before) for before, _ in every)
        rows[seed] = np.arange(start, start + len(scaled))
        every.append((scaled, targets))
        parts[seed] = {"validation" if tuning else "test": Part(evaluation, held, float(y.std()))}
        if tuning:
            parts[seed]["perturbed"] = Part(protocol.perturbed(scaled[:PERTURBED], seed))
    x, y = (np.concatenate(part) for part in zip(*every, strict=True))
    return Data(x, y, rows, parts)


# -- networks ----------------------------------------------------------------------------------------------------------


def network(one: ModesSet, kind: str, inputs: int) -> keras.Model:
    """Returns a compiled network: "deterministic", "full_rank" or "low_rank"; priors are centred, of unit width."""
    if one.family not in SMALL:
        model = modes_large.network(one, kind)
        model.compile(keras.optimizers.Adam(RATE), modes_large.loss(one))
        return model
    classes = one.task == "classes"
    outputs = one.classes if classes else 1

    def posterior(kind: str, rank: int, shape: tuple[int, int]) -> Posterior:
        prior = Centred(Normal(1.0))
        kinds = {
            "deterministic": Deterministic,
            "full_rank": lambda: FullRank(prior=prior),
            "low_rank": lambda: LowRank.paper(min(rank, *shape), prior=prior),
        }
        return kinds[kind]()

    first = hidden = keras.Input((inputs,))
    random = kind != "deterministic"
    for i, shape in enumerate(itertools.pairwise((inputs, *one.units, outputs))):
        activation = None if i == len(one.units) else "tanh" if one.name == TOY else "relu"
        own = (
            "full_rank" if one.name == TOY and random and i != 1 else kind
        )  # the toy's hidden weight alone is the method's
        bias = FullRank(prior=Centred(Normal(1.0))) if one.name == TOY and random else None
        options: dict[str, Any] = {"posterior": posterior(own, one.ranks[i], shape), "bias_posterior": bias}
        if one.family == "uci" and not random:
            options["kernel_initializer"] = "glorot_uniform"  # as in Keras
        hidden = layers.Dense(shape[1], activation, **options)(hidden)
    return defaults.compiled(keras.Model(first, hidden if classes else layers.LearnedNoise()(hidden)), one.task)


def products(one: ModesSet, model: keras.Model) -> int:
    """Returns the multiplications of one example in the matrix products of a forward pass; of text, of one token."""
    biases = {id(getattr(layer, "bias_posterior", None)) for layer in model.layers}
    matrices = [each for each in find_posteriors(model) if id(each) not in biases]
    uses = [1] * len(matrices) if one.family in SMALL else modes_large.uses(one)
    ranks = [each.effective_rank for each in matrices]
    sizes = [sum(q.shape) * r if r else math.prod(q.shape) for q, r in zip(matrices, ranks, strict=True)]
    return sum(size * times for size, times in zip(sizes, uses, strict=True))


def network_draws(model: keras.Model, task: str, draws: int, together: int = 8) -> NetworkDraws:
    """Returns predictions of many networks: of classes the mean probabilities and the mean entropy over draws
    (examples, classes + 1); of values mean and noise variance of every draw (draws, examples, 2)."""

    def likelihood(outputs):
        if task == "classes":
            p = jax.nn.softmax(outputs)
            entropy = -jnp.sum(p * jax.nn.log_softmax(outputs), axis=1, keepdims=True)
            return jnp.concatenate([p, entropy], axis=1)
        if task == "forecast":  # its noise is fitted later
            return jnp.stack([outputs[:, 0], jnp.zeros_like(outputs[:, 0])], axis=1)
        return defaults.mean_and_noise(outputs)

    def summary(found):
        return found.mean(axis=0) if task == "classes" else found

    return NetworkDraws(model, draws, likelihood, summary, together)


# -- scores ------------------------------------------------------------------------------------------------------------


def pooled(task: str, draws: np.ndarray) -> np.ndarray:
    """Returns the predictions of a mixture from those of its components, on the first axis."""
    draws = draws.astype("float64")
    return draws.mean(axis=0) if task == "classes" else draws.reshape(-1, *draws.shape[2:])


def scores(task: str, p: np.ndarray, part: Part) -> dict[str, float]:
    """Returns the quality of pooled predictions, of values in their own units."""
    assert part.y is not None
    if task == "classes":
        return defaults.class_scores(_probabilities(p), part.y)
    found = toy.fit_scores(_values(p, part.unit), part.y[:, 0] * part.unit)
    return found | {"mae": metrics.mean_absolute_error(p[..., 0].mean(axis=0), part.y[:, 0]) * part.unit}


def uncertainty(task: str, p: np.ndarray) -> np.ndarray:
    """Returns predictive entropy, or the total standard deviation."""
    return metrics.entropy(_probabilities(p)) if task == "classes" else np.sqrt(_values(p).variance("total"))


def forecast_scores(p: dict[str, np.ndarray], parts: dict[str, Part]) -> dict[str, float]:
    """Returns the scores of forecasts: of validation windows with the proxy of OOD, or of the latest and another city.

    The noise is that which is best on validation windows. Another city is detected by the spread of draws, of one
    deterministic network by the noise.
    """
    inputs = {name: part.x for name, part in parts.items()}
    y = {name: modes_large.in_units(part.y) for name, part in parts.items() if part.y is not None}
    bare = {name: modes_large.forecasts(each) for name, each in p.items()}
    found = modes_large.with_fitted_noise(bare, inputs, y["validation"])
    total = {name: np.sqrt(each.variance("total")) for name, each in found.items()}
    if "perturbed" in found:
        scores = modes_large.forecast_scores(found["validation"], y["validation"])
        return scores | {"proxy_ood": metrics.auroc_ood(total["validation"], total["perturbed"])}
    scores = modes_large.forecast_scores(found["test"], y["test"])
    city = next(name for name in found if name not in ("validation", "test"))
    scores[f"{city}/auroc_ood_total"] = metrics.auroc_ood(total["test"], total[city])
    if found["test"].num_draws > 1:
        scores[f"{city}/auroc_ood_epistemic"] = metrics.auroc_ood(found["test"].std, found[city].std)
    return scores


def ood_scores(inside: np.ndarray, outside: np.ndarray, several: bool) -> dict[str, float]:
    """Returns how well entropy and, of several draws, mutual information tell inputs of another kind."""
    found = {"auroc_ood_entropy": metrics.auroc_ood(*(uncertainty("classes", p) for p in (inside, outside)))}
    if several:
        mi = [np.maximum(uncertainty("classes", p) - p[:, -1], 0.0) for p in (inside, outside)]
        found["auroc_ood_mi"] = metrics.auroc_ood(*mi)
    return found


def band_scores(p: np.ndarray) -> dict[str, float]:
    """Returns how much wider the toy's band of functions is away from the data."""
    settings = toy.ToySettings()
    grid = np.linspace(*settings.grid_range, 401, dtype="float32")
    found = toy.spread(grid, metrics.epistemic_iqr(p[..., 0]), settings)
    return {f"iqr_{name}": value for name, value in found.items()}


def without_inputs(task: str, part: Part, known: np.ndarray) -> float:
    """Returns the NLL of a prediction that ignores the inputs, in the units of the targets."""
    assert part.y is not None
    if task == "forecast":
        unit = modes_large.forecast_unit()
        return defaults.nll_without_inputs("regression", part.y, known) + float(np.log(unit))
    return defaults.nll_without_inputs(task, part.y, known) + (0.0 if task == "classes" else float(np.log(part.unit)))


def _probabilities(p: np.ndarray) -> np.ndarray:
    p = p[:, :-1]
    return p / p.sum(axis=1, keepdims=True)


def _values(p: np.ndarray, unit: float = 1.0) -> ValuePredictive:
    mean, noise = p[..., 0].mean(axis=0), np.sqrt(p[..., 1].mean(axis=0))
    return ValuePredictive(unit * mean, unit * p[..., 0].std(axis=0), len(p), noise=unit * noise)
