"""Predictions made of given draws."""

import numpy as np

from singularbayes.likelihoods import ClassPredictive, RunningMoments, ValuePredictive


def class_predictive(probabilities, keep=True):
    """Returns the predictive that a stream of these draws leaves, (draws, examples, classes)."""
    probabilities = np.asarray(probabilities, "float64")
    moments, entropies = RunningMoments(probabilities.shape[1]), RunningMoments(probabilities.shape[1])
    everything = slice(0, probabilities.shape[1])
    logs = np.log(np.where(probabilities > 0, probabilities, 1))
    moments.update(everything, probabilities)
    entropies.update(everything, -(probabilities * logs).sum(-1))
    draws = probabilities if keep else None
    return ClassPredictive(moments.mean, np.sqrt(moments.variance), len(probabilities), draws, entropies.mean)


def value_predictive(draws, noise=None, keep=True):
    return ValuePredictive(draws.mean(0), draws.std(0), len(draws), draws if keep else None, noise)
