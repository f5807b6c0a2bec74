"""What is kept of draws as they stream past, one reducer for each kind of likelihood.

`values` makes what one draw says out of a model's outputs, `update` adds it for some examples, `result` is the
`Predictive` of all.
"""

import numpy as np
from scipy import special

from singularbayes.likelihoods import likelihood
from singularbayes.prediction.predictive import ClassPredictive, RunningMoments, ValuePredictive


class Classes:
    """Probabilities, and their entropy draw by draw."""

    def __init__(self, meaning, examples):
        self.meaning = meaning
        self.moments, self.entropies = RunningMoments(examples), RunningMoments(examples)

    def values(self, outputs):
        return self.meaning.probabilities(outputs)

    def update(self, where, values):
        self.moments.update(where, values)
        self.entropies.update(where, special.entr(values).sum(axis=-1))

    def result(self, draws, kept):
        std = np.sqrt(self.moments.variance)
        return ClassPredictive(self.moments.mean, std, draws, kept, self.entropies.mean)


class Values:
    """Numbers, with the noise that the likelihood says."""

    def __init__(self, meaning, examples):
        self.noise = meaning.scale
        self.moments = RunningMoments(examples)

    def values(self, outputs):
        return np.asarray(outputs, "float64")

    def update(self, where, values):
        self.moments.update(where, values)

    def result(self, draws, kept):
        return ValuePredictive(self.moments.mean, np.sqrt(self.moments.variance), draws, kept, self.noise)


class Pairs:
    """Means with noise that every draw says itself: the aleatoric variance is the mean of theirs."""

    def __init__(self, meaning, examples):
        self.meaning = meaning
        self.moments, self.noise = RunningMoments(examples), RunningMoments(examples)

    def values(self, outputs):
        return np.concatenate(self.meaning.mean_and_scale(outputs), axis=-1)

    def update(self, where, values):
        mean, scale = np.split(values, 2, axis=-1)
        self.moments.update(where, mean)
        self.noise.update(where, scale**2)

    def result(self, draws, kept):
        means = None if kept is None else np.split(kept, 2, axis=-1)[0]
        std, noise = np.sqrt(self.moments.variance), np.sqrt(self.noise.mean)
        return ValuePredictive(self.moments.mean, std, draws, means, noise)


REDUCERS = {
    likelihood.Categorical: Classes,
    likelihood.Bernoulli: Classes,
    likelihood.Gaussian: Values,
    likelihood.MeanScale: Pairs,
}
