"""The randomised predictor, which draws a network for every prediction: its mistakes on given examples, per draw."""

import sys
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import labelled
from singularbayes.likelihoods import Classification, likelihood_of_output
from singularbayes.models import (
    arranged,
    compiled,
    count_examples,
    draw_keys,
    find_sources,
    position_of,
    track,
)
from singularbayes.posteriors import noise
from singularbayes.prediction.sampler import outputs_of_draw, outputs_of_draws

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
    caller: str = "drawn_risks",
) -> np.ndarray:
    """Returns the share of mistakes of each drawn network, (draws,), on examples drawn for it.

    Every draw has its own weights and its own random examples, with replacement. So the numbers are independent, lie in
    [0, 1], and each has the expectation L̂(Q): the mean over all examples and all networks. Few examples per draw serve
    better than all of them: what limits a bound of the mean is the number of draws.

    Args:
        y: labels (examples,), integers from 0.
        examples: how many examples each draw predicts; None is all, once each.
    """
    x = arranged(model, x, caller)
    count = count_examples(model, x)
    position = position_of(model, output, caller)
    meaning = likelihood_of_output(model, position, likelihood, caller)
    if not isinstance(meaning, Classification):
        raise ValueError(f"{caller} needs a classifier, whose predictions are right or wrong; got {meaning!r}.")
    parts, size = _parts(draws)
    keys = draw_keys(seed, parts * size)
    # Independent draws of a mixture are of random components.
    keys[:, 2] = np.random.default_rng([seed, draws, 1]).integers(0, 2**30, len(keys))
    keys = keys.reshape(parts, size, 3)
    rng = np.random.default_rng([seed, draws])
    whole = np.arange(count, dtype="int32")
    data = keras.tree.map_structure(ops.convert_to_tensor, x)
    risks, labels = [], np.zeros(0, int)
    for part in track(keys, parts, "posterior draws") if sys.stderr.isatty() else keys:
        pick = np.tile(whole, (size, 1)) if examples is None else rng.integers(0, count, (size, examples), "int32")
        outputs = compiled(model, outputs_of_draws, noise.as_keys(part), ops.convert_to_tensor(pick), data)
        probabilities = meaning.probabilities(np.asarray(ops.convert_to_numpy(outputs[position or 0])))
        if not np.isfinite(probabilities).all():
            raise ValueError(f"{caller} needs outputs that are finite; got NaN or infinity from {model.name!r}.")
        labels = labels if labels.size else _labels(caller, y, count, probabilities.shape[-1])
        risks.append((probabilities.argmax(axis=-1) != labels[pick]).mean(axis=1))
    return np.concatenate(risks)[:draws]


def _parts(draws: int) -> tuple[int, int]:
    """Returns in how many parts draws are made, and the size of every part, so that one program serves all."""
    parts = -(-draws // _TOGETHER)
    return parts, -(-draws // parts)


def has_other_noise(model: keras.Model, x, draws: int, examples: int, seed: int = 0) -> bool:
    """Returns whether outputs for `x` change where the draw of all posteriors stays: some layer has its own noise.

    One network predicts all examples twice, in the program that `drawn_risks` runs with so many draws, under two states
    of the seed generators that no posterior owns. A generator that the model does not track, or NumPy's, shows only
    outside a program: the network predicts `examples` of them twice, operation by operation.
    """
    x = arranged(model, x)
    count = count_examples(model, x)
    sources: list[Any] = find_sources(model)
    others = {id(v) for v in (*model.weights, *(v for source in sources for v in source.variables))}
    states = [variable for variable in model.variables if id(variable) not in others]  # of other seed generators
    before = [np.array(ops.convert_to_numpy(state)) for state in states]  # copies: torch's arrays share memory
    some = np.random.default_rng(seed).permutation(count)[:examples]
    batch = keras.tree.map_structure(lambda array: ops.convert_to_tensor(array[some]), x)
    key = draw_keys(seed, 1)
    try:
        if _differ(*(outputs_of_draw(model, noise.as_keys(key[0]), batch) for _ in range(2))):
            return True
        keys = np.tile(key, (_parts(draws)[1], 1))
        return bool(states) and _differs_by_state(model, x, count, states, keys, examples)
    finally:
        for state, value in zip(states, before, strict=True):
            state.assign(value)


def _differs_by_state(model, x, count: int, states: list, keys: np.ndarray, examples: int) -> bool:
    data = keras.tree.map_structure(ops.convert_to_tensor, x)
    for start in range(0, count, len(keys) * examples):
        pick = ops.convert_to_tensor(np.resize(np.arange(start, count, dtype="int32"), (len(keys), examples)))
        first = compiled(model, outputs_of_draws, noise.as_keys(keys), pick, data)
        for state in states:
            state.assign(state + 1)
        if _differ(first, compiled(model, outputs_of_draws, noise.as_keys(keys), pick, data)):
            return True
    return False


def _differ(first: list, second: list) -> bool:
    """Returns whether outputs differ by more than single precision explains."""
    for one, other in zip(first, second, strict=True):
        a, b = (ops.convert_to_numpy(output).astype("float64") for output in (one, other))
        if not np.allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(a).max(), equal_nan=True):
            return True
    return False


def _labels(caller: str, y, count: int, classes: int) -> np.ndarray:
    """Returns the labels as integers; raises unless there is one per example, and they fit the classes."""
    certain = np.broadcast_to(np.eye(classes)[0], (count, classes))
    return labelled(caller, certain, y)[1]
