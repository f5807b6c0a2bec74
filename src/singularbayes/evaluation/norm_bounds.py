"""Rows of the bounds that rest on norms: Gaussian complexity of the mean predictor, and small variance."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes import bounds
from singularbayes.bounds import Bound
from singularbayes.checks import labelled
from singularbayes.evaluation.bounds_table import Row
from singularbayes.evaluation.certificate_forms import certified_kl
from singularbayes.evaluation.feed_forward import DenseWeight, factor_draws
from singularbayes.evaluation.rank_curves import Weight
from singularbayes.evaluation.small_variance import norm_limits, small_variance_of_model, within_limits
from singularbayes.likelihoods import Classification, RunningMoments, likelihood_of_output
from singularbayes.metrics import brier
from singularbayes.posteriors import draw_keys, scope
from singularbayes.prediction import stream_draws

# Half the Brier score of softmax(outputs): √2-Lipschitz in probabilities, which are ½-Lipschitz in the outputs.
_LIPSCHITZ = bounds.SOFTMAX_LIPSCHITZ * math.sqrt(2)
_BATCH = 1024
_AVERAGED = 100  # draws in the mean predictor, at most
_AS_PRINTED = {"A": "each of the 2D factors may fail with δ/(2D)", "B": "each of the D pairs may fail with δ/(2D)"}


@dataclass(frozen=True)
class Question:
    """What all rows are about: a model, examples, and the δ of each row, of which 1/`tried` is its own."""

    model: keras.Model
    x: Any
    y: np.ndarray
    delta: float
    draws: int
    seed: int
    tried: int
    likelihood: Any

    @property
    def num_data(self) -> int:
        return len(self.y)

    @property
    def flat(self) -> np.ndarray:
        return self.x.reshape(len(self.x), -1).astype("float64")

    @property
    def input_norm(self) -> float:
        """‖X‖_F."""
        return float(np.linalg.norm(self.flat))


@dataclass(frozen=True)
class NormClass:
    """The class that the draws within their norms belong to, the share of δ of its cell, and the norms themselves."""

    network: bounds.NetworkClass
    share: float
    limits: Sequence[tuple[float, float]]

    @classmethod
    def from_weights(cls, weights: Sequence[DenseWeight], failure: float) -> "NormClass":
        limits = norm_limits(weights, failure)
        norms = [first * second for first, second in limits]  # ‖A Bᵀ‖ ≤ ‖A‖ ‖B‖
        strata = [bounds.stratify([norm]) for norm in norms]  # norms that were learned are rounded up to a grid
        norms, share = [cell.norms[0] for cell in strata], math.prod(cell.share for cell in strata)
        # Between a layer that acts on every time step and one behind a Flatten, all steps together are the width.
        outputs, inputs = [weight.shape[1] for weight in weights], [weight.shape[0] for weight in weights]
        widths = [inputs[0], *map(max, outputs[:-1], inputs[1:]), outputs[-1]]
        return cls(bounds.NetworkClass(norms, [w.rank for w in weights], widths), share, limits)

    def at(self, rank: int) -> bounds.NetworkClass:
        """Returns the class with another rank in all layers."""
        return replace(self.network, ranks=[rank] * self.network.depth)


def complexity_rows(question: Question, weights: list[DenseWeight]) -> Iterator[Row]:
    """Yields the bounds for the mean over accepted draws by every variant of Ĝ, then approaches A and B."""
    failure, draws = question.delta / 5, min(question.draws, _AVERAGED)
    inside = NormClass.from_weights(weights, failure)
    mean, each = accepted_brier(
        question.model,
        weights,
        question.x,
        question.y,
        limits=inside.limits,
        draws=draws,
        seed=question.seed,
        likelihood=question.likelihood,
    )

    for variant in ("explicit", "sound", "pinto", "published"):
        found = _risk(question, inside, _complexity(question, inside.network, variant), mean, variant)
        yield Row(f"Gaussian complexity, {variant}", bounds.good_event_risk(found, failure))
    if len(weights) == 1:
        found = _exact(question, inside, mean)
        yield Row("Gaussian complexity, exact", bounds.good_event_risk(found, failure))
    yield from _approaches(question, weights, each)


def _exact(question: Question, inside: NormClass, risk: float) -> Bound:
    """Returns the bound of one layer by its own Ĝ; a fifth of δ is for its draws."""
    part = question.delta / 5
    (norm,), (rank,), (features, width) = inside.network.norms, inside.network.ranks, inside.network.widths
    rng = np.random.default_rng(question.seed)
    rows = question.flat.reshape(question.num_data, -1, features)  # of inputs (T, features) the layer maps every row
    complexity = bounds.linear_complexity(rows, width, rank, norm, part, question.draws, rng)
    return _risk(replace(question, delta=question.delta - part), inside, complexity, risk)


def _approaches(question: Question, weights: list[DenseWeight], each: np.ndarray) -> Iterator[Row]:
    """Yields the paper's approaches A and B, which are about the mean over all draws, and both as printed.

    The loss is half the Brier score of probabilities, convex and in [0, 1] as they need it. For a convex loss the mean
    over draws has no larger loss than a draw has on average, which draws bound with a fifth of δ.
    """
    part, failure = question.delta / 5, question.delta / 5
    risk = bounds.empirical_risk(each, part, 1 / question.tried, "betting")
    smaller = replace(question, delta=question.delta - part)
    for approach in ("A", "B"):
        # As the paper has it B spends only half of its δ on norms.
        inside = NormClass.from_weights(weights, failure if approach == "A" else failure / 2)
        found = _risk(smaller, inside, _complexity(question, inside.network, "explicit"), risk.value)
        found = replace(found, deltas={**found.deltas, **risk.deltas})
        bound = bounds.good_event_risk(found, failure, approach, convex_on_outputs=True)
        yield Row(f"Gaussian complexity, approach {approach}", bound)
        printed = _complexity(question, inside.network, "published")
        found = _risk(question, inside, printed, float(each.mean()), "published")
        bound = bounds.good_event_risk(found, failure, approach)
        bound = replace(bound, assumptions=(*bound.assumptions, _AS_PRINTED[approach]))
        yield Row(f"Gaussian complexity, approach {approach}, published", bound)


def _complexity(question: Question, network: bounds.NetworkClass, variant: str) -> Bound:
    return bounds.gaussian_complexity(network, question.input_norm, question.num_data, variant)


def _risk(question: Question, inside: NormClass, complexity: Bound, risk: float, variant: str = "sound") -> Bound:
    form = "published" if variant == "published" else "sound"
    share = inside.share / question.tried
    return bounds.complexity_risk(risk, complexity, question.num_data, _LIPSCHITZ, question.delta, share, form)


def explicit_curve(question: Question, weights: list[DenseWeight], ranks: Sequence[int], own: Bound) -> list[float]:
    """Returns the explicit bound, not cut at 1, at every rank; `own` is the one at the model's."""
    inside = NormClass.from_weights(weights, question.delta / 5)
    rest = own.terms["empirical risk"] + own.terms["slack"]
    factor = math.sqrt(2 * math.pi) * _LIPSCHITZ
    return [rest + factor * _complexity(question, inside.at(rank), "explicit").value for rank in ranks]


def published_index(question: Question, weights: Sequence[Weight], rank: int | None) -> float:
    """Returns the paper's Ĝ of all matrices as if they were layers one after another: of an LSTM it bounds nothing.

    Args:
        rank: of all weights; None is their own.
    """
    matrices = [DenseWeight(weight.posterior) for weight in weights]
    norms = [first * second for first, second in norm_limits(matrices, question.delta / 5)]
    ranks = [weight.at(rank or weight.rank or max(weight.shape)) for weight in weights]
    widths = [weights[0].shape[0], *(weight.shape[1] for weight in weights)]
    return _complexity(question, bounds.NetworkClass(norms, ranks, widths), "published").value


def small_variance_rows(question: Question, margin: float, radius: float | None, seen: str | None) -> Iterator[Row]:
    """Yields how probable it is that draws stay near the mean network, and the margin bound that follows."""
    largest = float(np.linalg.norm(question.flat, axis=1).max())
    if radius is not None and radius < largest:
        raise ValueError(f"bounds_report needs radius >= ‖x‖; got radius={radius} and an example of {largest:.4g}.")
    half = question.delta / question.tried / 2
    found = small_variance_of_model(question.model, radius or largest, margin, half, question.draws, seed=question.seed)
    yield Row("Small variance, by draws", found.sampled)
    if found.analytic is not None:
        yield Row("Small variance, by budget", found.analytic)
    risk = margin_risk_of(question.model, question.x, question.y, margin)
    bound = bounds.margin_risk(risk, certified_kl(question.model)[1], question.num_data, half, found)
    bound = replace(bound, terms={**bound.terms, "R": radius or largest})
    for defect in (seen, None if radius else "R is the largest norm of these examples; a new one may be larger"):
        bound = bound if defect is None else bound.with_defect(defect)
    yield Row("Margin", bound)


def accepted_brier(
    model: keras.Model,
    weights: Sequence[DenseWeight],
    x: np.ndarray,
    y: np.ndarray,
    *,
    limits: Sequence[tuple[float, float]],
    draws: int,
    seed: int,
    likelihood=None,
) -> tuple[float, np.ndarray]:
    """Returns half the Brier score, from 0 to 1, of the average of the draws within the limits, and of each of them."""
    accepted = [within_limits(draw, limits) for draw in factor_draws(model, list(weights), draws, seed)]
    if not any(accepted):
        raise ValueError(
            f"bounds_report needs at least one draw within the norm limits; got none of {draws}. Take more draws."
        )
    meaning = likelihood_of_output(model, None, likelihood, "bounds_report")
    assert isinstance(meaning, Classification)  # `bounds_report` has checked it
    moments = RunningMoments(len(x))
    keys = draw_keys(seed, draws)[np.array(accepted)]
    each = np.zeros(len(keys))
    for first, where, outputs in stream_draws(model, x, keys, 256):
        probabilities = meaning.probabilities(outputs[0])
        moments.update(where, probabilities)
        scores = [brier(*labelled("bounds_report", draw, y[where])) for draw in probabilities]
        each[first : first + len(scores)] += 0.5 * np.array(scores) * len(x[where]) / len(x)
    return 0.5 * brier(*labelled("bounds_report", moments.mean, y)), each


def margin_risk_of(model: keras.Model, x: np.ndarray, y: np.ndarray, margin: float) -> float:
    """Returns the share of examples on which the mean network's prediction leads by at most the margin."""
    with scope.at_means():
        parts = [ops.convert_to_numpy(model(x[i : i + _BATCH])) for i in range(0, len(x), _BATCH)]
    outputs = np.concatenate(parts).astype("float64")
    if outputs.shape[-1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=-1)
    _, labels = labelled("bounds_report", special.softmax(outputs, axis=-1), y)
    own = np.take_along_axis(outputs, labels[:, None], axis=1)[:, 0]
    np.put_along_axis(outputs, labels[:, None], -np.inf, axis=1)
    return float((own - outputs.max(axis=1) <= margin).mean())
