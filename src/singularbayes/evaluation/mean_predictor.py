"""Risks on given examples of the predictors that average: over draws within norms, and over weights."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.checks import labelled
from singularbayes.evaluation.feed_forward import DenseWeight, factor_draws
from singularbayes.evaluation.small_variance import within
from singularbayes.likelihoods import Classification, RunningMoments, likelihood_of_output
from singularbayes.metrics import brier
from singularbayes.models import draw_keys, mean_weights
from singularbayes.prediction import stream_draws

_BATCH = 1024


def accepted_brier(
    model: keras.Model,
    weights: Sequence[DenseWeight],
    x: np.ndarray,
    y: np.ndarray,
    limits: Sequence[tuple[float, float]],
    draws: int,
    seed: int,
    likelihood=None,
) -> tuple[float, np.ndarray]:
    """Returns half the Brier score, from 0 to 1, of the average of the draws within the limits, and of each of them."""
    accepted = [within(draw, limits) for draw in factor_draws(model, list(weights), draws, seed)]
    if not any(accepted):
        raise ValueError(f"A mean over accepted draws needs one; none of {draws} was within its norms.")
    meaning = likelihood_of_output(model, None, likelihood, "bounds_report")
    assert isinstance(meaning, Classification)  # `certify` has checked it
    moments = RunningMoments(len(x))
    keys = draw_keys(seed, draws)[np.array(accepted)]
    each = np.zeros(len(keys))
    for first, where, answers in stream_draws(model, x, len(x), keys, 256, None, alone=False):
        probabilities = meaning.probabilities(answers[0])
        moments.update(where, probabilities)
        scores = [brier(*labelled("bounds_report", draw, y[where])) for draw in probabilities]
        each[first : first + len(scores)] += 0.5 * np.array(scores) * len(where) / len(x)
    return 0.5 * brier(*labelled("bounds_report", moments.mean, y)), each


def margin_risk_of(model: keras.Model, x: np.ndarray, y: np.ndarray, margin: float) -> float:
    """Returns the share of examples on which the mean network's answer leads by at most the margin."""
    with mean_weights(model):
        parts = [ops.convert_to_numpy(model(x[i : i + _BATCH])) for i in range(0, len(x), _BATCH)]
    outputs = np.concatenate(parts).astype("float64")
    if outputs.shape[-1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=-1)
    _, labels = labelled("bounds_report", special.softmax(outputs, axis=-1), y)
    own = np.take_along_axis(outputs, labels[:, None], axis=1)[:, 0]
    np.put_along_axis(outputs, labels[:, None], -np.inf, axis=1)
    return float((own - outputs.max(axis=1) <= margin).mean())
