"""The randomised predictor: for every answer one network is drawn. Its mistakes on given examples, draw by draw."""

import sys

import keras
import numpy as np
from keras import ops

from singularbayes.inference import likelihood as likelihoods
from singularbayes.inference.engine import answers, compiled, draw_keys
from singularbayes.inference.head import meaning_of
from singularbayes.inference.inputs import arranged, count_examples
from singularbayes.inference.outputs import position_of
from singularbayes.inference.progress import track
from singularbayes.metrics.checks import labelled
from singularbayes.posteriors import noise

_TOGETHER = 100  # draws in one program


def drawn_risks(
    model: keras.Model,
    x,
    y,
    draws: int,
    examples: int | None = 256,
    seed: int = 0,
    *,
    likelihood=None,
    output=None,
    asked: str = "drawn_risks",
) -> np.ndarray:
    """Returns the share of mistakes of each drawn network, (draws,), on examples drawn for it.

    Every draw has its own weights and its own random examples, with replacement. So the numbers are independent, lie in
    [0, 1], and each has the expectation L̂(Q): the mean over all examples and all networks. Few examples a draw serve
    better than all of them: what limits a bound of the mean is the number of draws.

    Args:
        y: labels (examples,), whole numbers from 0.
        examples: how many examples a draw answers; None is all, once each.
    """
    x = arranged(model, x)
    count = count_examples(model, x)
    position = position_of(model, output, asked)
    meaning = meaning_of(model, position, likelihood, asked)
    if not isinstance(meaning, (likelihoods.Categorical, likelihoods.Bernoulli)):
        raise ValueError(f"{asked} needs a classifier, whose answers are right or wrong; got {meaning!r}.")
    parts = -(-draws // _TOGETHER)
    size = -(-draws // parts)  # of every part, so that one program serves all
    keys = draw_keys(seed, parts * size).reshape(parts, size, 2)
    rng = np.random.default_rng([seed, draws])
    whole = np.arange(count, dtype="int32")
    data = keras.tree.map_structure(ops.convert_to_tensor, x)
    risks, labels = [], np.zeros(0, int)
    for part in track(keys, parts, "posterior draws") if sys.stderr.isatty() else keys:
        pick = np.tile(whole, (size, 1)) if examples is None else rng.integers(0, count, (size, examples), "int32")
        outputs = compiled(model, answers, noise.as_keys(part), ops.convert_to_tensor(pick), data)
        probabilities = meaning.probabilities(np.asarray(ops.convert_to_numpy(outputs[position or 0])))
        if not np.isfinite(probabilities).all():
            raise ValueError(f"{asked} needs outputs that are finite; got NaN or infinity from {model.name!r}.")
        labels = labels if labels.size else _labels(asked, y, count, probabilities.shape[-1])
        risks.append((probabilities.argmax(axis=-1) != labels[pick]).mean(axis=1))
    return np.concatenate(risks)[:draws]


def _labels(asked: str, y, count: int, classes: int) -> np.ndarray:
    """Returns the labels as whole numbers; raises unless there is one an example, and they fit the classes."""
    certain = np.broadcast_to(np.eye(classes)[0], (count, classes))
    return labelled(asked, certain, y)[1]
