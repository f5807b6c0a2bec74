"""Monte Carlo prediction with coherent draws: draw s is one function for all the data."""

import math
from collections.abc import Iterator

import keras
import numpy as np

from singularbayes.inference import likelihood as likelihoods
from singularbayes.inference.engine import (
    activations,
    device_count,
    draw_bytes,
    draw_keys,
    engine,
    free_bytes,
    outputs,
)
from singularbayes.inference.find import find_posteriors
from singularbayes.inference.inputs import arranged, count_examples
from singularbayes.inference.outputs import loss_of, position_of
from singularbayes.inference.predictive import Predictive
from singularbayes.inference.progress import track
from singularbayes.inference.reducers import REDUCERS

_WEIGHT_BYTES = 256 << 20  # drawn weights held at a time
# Of the largest layer's outputs, over all draws and examples at a time: what stays in the caches of a CPU, and a share
# of an accelerator's memory, which also holds the outputs of other layers.
_CACHED_BYTES = 8 << 20
_ACCELERATOR_SHARE = 1 / 16
_REDUCED_BYTES = 16 << 20  # of the outputs that are reduced at a time, in float64 and some copies of them
_SCRATCH_BYTES = 2 << 30  # a compiled program's own memory, on a CPU
_SCRATCH_SHARE = 1 / 2
_LIKE_LENGTHS = 32  # examples in the smallest batch that is made for its length's sake


def predict(
    model: keras.Model,
    x,
    draws: int = 100,
    seed: int = 0,
    *,
    likelihood=None,
    batch_size: int = 256,
    keep_draws: bool = False,
    output=None,
    padding: int | None = None,
) -> Predictive:
    """Returns what `draws` functions from the posterior predict for `x`.

    Draw s depends on the seed alone: it is the same weights for every batch, whatever the batch size and whichever
    estimator trained the model. Class probabilities, not logits, are averaged.

    Args:
        x: array, or a list or dict of arrays for several inputs.
        likelihood: what the outputs mean: "categorical_logits", "categorical", "bernoulli_logits", "bernoulli",
            "gaussian", "mean_scale", or an object such as `Gaussian(scale=0.1)`. None reads it from the compiled loss
            (`from_logits=True` there declares logits).
        keep_draws: keep every draw in `Predictive.draws`, which quantiles need; memory then grows with `draws`.
        output: which output of a model with several, by name or position.
        padding: the id that fills up sequences of token ids (examples, length). Examples of like length are then taken
            together and cut to the longest, which saves the work on padding. The model must take any length and ignore
            padding (`mask_zero=True`), else its answers change.

    >>> import keras, numpy as np, singularbayes as sb
    >>> keras.utils.set_random_seed(0)
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> p = predict(model, np.ones((5, 4)), draws=20, likelihood="categorical_logits")
    >>> p.mean.shape, p.mutual_information.shape
    ((5, 3), (5,))
    """
    _require_whole("draws", draws)
    _require_whole("batch_size", batch_size)
    _require_whole("seed", seed, least=0)
    x = arranged(model, x)
    examples = count_examples(model, x)
    position = position_of(model, output)
    meaning = likelihoods.get(likelihood, loss_of(model, position), model.name)
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    if not any(posterior.random for posterior in find_posteriors(model)):
        draws = 1  # nothing is random: every draw is the same function
    lengths = None if padding is None else _lengths(model, x, padding)
    reduce = _reducer(meaning, examples)
    kept: list[tuple[int, np.ndarray, np.ndarray]] = []
    for first, where, answers in _stream(model, x, examples, draws, seed, batch_size, lengths):
        if not (position < len(answers) if position is not None else len(answers) == 1):
            raise ValueError(f"predict needs output= for a model with {len(answers)} outputs; got output={output!r}.")
        chosen = answers[position or 0]
        _require_numbers(model, x, where, chosen)
        values = reduce.values(chosen)
        reduce.update(where, values)
        if keep_draws:
            kept.append((first, where, values))
    return reduce.result(draws, _join(kept, draws, examples) if keep_draws else None)


def _lengths(model, x, padding) -> np.ndarray:
    """Returns the number of positions of every example up to its last that is not padding."""
    if not (isinstance(x, np.ndarray) and x.ndim == 2 and np.issubdtype(x.dtype, np.integer)):
        shapes = keras.tree.map_structure(lambda array: (array.shape, str(array.dtype)), x)
        raise ValueError(f"padding needs one input of whole numbers (examples, length); got {shapes}.")
    known = getattr(model, "input_shape", None)
    if known is not None and known[1] is not None:
        raise ValueError(
            f"padding needs a model that takes any length, built with keras.Input((None,)); got input shape {known} in "
            f"{model.name!r}."
        )
    used = x != padding
    return np.where(used.any(axis=1), x.shape[1] - used[:, ::-1].argmax(axis=1), 1)


def _stream(model, x, examples, draws, seed, batch_size, lengths) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
    """Yields (first draw, examples, outputs): chunks of draws outside, batches inside, so weights are made once."""
    run = engine(model)
    keys = draw_keys(seed, draws)
    if lengths is not None:  # few enough that a batch has like lengths
        batch_size = min(batch_size, max(_LIKE_LENGTHS, math.ceil(examples / 8)))
    chunk, together, batch = _sizes(model, x, examples, draws, batch_size)
    order = np.arange(examples) if lengths is None else np.argsort(-lengths, kind="stable")

    def part(first: int):
        where = order[first : first + batch]
        data = keras.tree.map_structure(lambda array: _padded(array[where], batch), x)
        return where, data if lengths is None else data[:, : _rounded(lengths[where].max(), data.shape[1])]

    weights = run.draw(_padded(keys[:chunk], chunk))
    while run.scratch(weights, part(0)[1], together) > _scratch_limit() and together * batch > 1:
        together, batch = (math.ceil(together / 2), batch) if together > 1 else (1, math.ceil(batch / 2))
        if free_bytes() is not None:
            chunk = together
            weights = run.draw(_padded(keys[:chunk], chunk))
    steps = [(d, e) for d in range(0, draws, chunk) for e in range(0, examples, batch)]
    for d, e in track(steps, len(steps), "posterior draws"):
        if d and e == 0:
            weights = run.draw(_padded(keys[d : d + chunk], chunk))
        where, data = part(e)
        yield d, where, [o[: draws - d, : len(where)] for o in run.run(weights, data, together)]


def _rounded(length: int, longest: int) -> int:
    # Quarters of the full length: at most four programs to compile.
    quarter = math.ceil(longest / 4)
    return min(longest, quarter * math.ceil(length / quarter))


def _sizes(model, x, examples, draws, batch_size) -> tuple[int, int, int]:
    """Returns how many draws have their weights made and are run together, and how many examples, so that they fit."""
    free, devices = free_bytes(), device_count()
    budget = _CACHED_BYTES if free is None else int(free * _ACCELERATOR_SHARE)
    an_example, reduced = max(1, 4 * activations(model, x)), max(1, 32 * outputs(model, x))
    batch = min(batch_size, examples, max(1, budget // an_example))
    # Examples, or where there are too few the draws, are in equal parts for all devices.
    batch = devices * math.ceil(batch / devices) if batch >= devices else batch
    fit = min(draws, _WEIGHT_BYTES // max(1, draw_bytes(model)), _REDUCED_BYTES // (reduced * batch))
    chunk = _share(draws, max(1, fit))
    if batch < devices:
        chunk = devices * math.ceil(chunk / devices)
        return chunk, chunk, batch
    together = _share(chunk, max(1, min(chunk, budget // (an_example * batch))))
    if free is not None:  # a loop inside the program would cost an accelerator more than another call
        return together, together, batch
    return together * math.ceil(chunk / together), together, batch


def _share(total: int, most: int) -> int:
    """Returns the size of the fewest equal parts that are not above `most`."""
    return math.ceil(total / math.ceil(total / most))


def _scratch_limit() -> int:
    free = free_bytes()
    return _SCRATCH_BYTES if free is None else int(free * _SCRATCH_SHARE)


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    # One shape throughout, so that compiled programs are compiled once; the padding is cut off again.
    missing = length - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def _reducer(meaning, examples):
    return REDUCERS[type(meaning)](meaning, examples)


def _join(kept, draws, examples) -> np.ndarray:
    result = np.empty((draws, examples, *kept[0][2].shape[2:]))
    for first, where, values in kept:
        result[first : first + len(values), where] = values
    return result


def _require_whole(name: str, value, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"predict needs {name} to be a whole number >= {least}; got {name}={value!r}.")


def _require_numbers(model, x, where: np.ndarray, values: np.ndarray) -> None:
    missing = np.isnan(np.asarray(values, "float32"))
    if not missing.any():
        return
    example = int(where[np.argwhere(missing)[0][1]])
    # An eager pass over that example says more when a layer knows the cause (a token id out of range).
    model(keras.tree.map_structure(lambda array: array[example : example + 1], x), training=False)
    raise ValueError(
        f"predict got NaN from the model for example {example}. The weights may have become NaN in training: lower the "
        "learning rate, or look at the loss."
    )
