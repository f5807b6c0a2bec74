"""Monte Carlo prediction with coherent draws: draw s is the same function of the input for all the data."""

import itertools
from collections import defaultdict
from collections.abc import Iterable

import keras
import numpy as np

from singularbayes.checks import require_integer
from singularbayes.likelihoods import Predictive, RunningMoments, likelihood_of_output, logits_hint
from singularbayes.models import (
    arranged,
    count_examples,
    draw_keys,
    find_sources,
    lengths_of,
    position_of,
    require_any_length,
    require_model,
    track,
)
from singularbayes.prediction.sampler import stream_draws


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
            "gaussian", "mean_scale", "laplace", "student_t", "poisson_log", "poisson", "negative_binomial", or a
            `Likelihood` such as `Gaussian(scale=0.1)`; a dict or list has one for each of several outputs. None reads
            it from the compiled loss (`from_logits=True` there declares logits).
        keep_draws: keep every draw in `Predictive.draws`, which quantiles need; memory then grows with `draws`.
        output: which output of a model with several, by name or position.
        padding: the id that fills up sequences of token ids (examples, length). Examples of like length are then taken
            together and cut to the longest, which saves the work on padding. The model must take any length and ignore
            padding (`mask_zero=True`), else its predictions change.

    >>> import keras, numpy as np, singularbayes as sb
    >>> keras.utils.set_random_seed(0)
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> p = predict(model, np.ones((5, 4)), draws=20, likelihood="categorical_logits")
    >>> p.mean.shape, p.mutual_information.shape
    ((5, 3), (5,))
    """
    require_model("predict", model)
    options = {"likelihood": likelihood, "batch_size": batch_size, "keep_draws": keep_draws}
    return pool([model], 1, x, draws, seed, **options, output=output, padding=padding)


def pool(
    models: Iterable[keras.Model],
    count: int,
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
    """Returns what `count` models predict together: every draw of every model counts the same.

    Each predicts with its share draws / count, rounded up, of the keys of the seed, so one model predicts as `predict`
    does. A model predicts before the next is taken, so `models` may also yield one object with other weights each time.
    """
    require_integer("predict", draws=draws, batch_size=batch_size)
    require_integer("predict", 0, seed=seed)
    models = iter(models)
    model = next(models)
    x = arranged(model, x, "predict")
    examples = count_examples(model, x)
    position = position_of(model, output)
    meaning = likelihood_of_output(model, position, likelihood)
    lengths = None
    if padding is not None:
        lengths = lengths_of(x, padding)
        require_any_length(model)
    share = _draws_each(model, x, draws, count)
    keys = draw_keys(seed, count * share)
    moments: dict[str, RunningMoments] = defaultdict(lambda: RunningMoments(examples))
    kept: list[tuple[int, np.ndarray, np.ndarray]] = []
    members = enumerate(itertools.chain([model], models))
    for place, model in track(members, count, "members") if count > 1 else members:
        if _draws_each(model, x, draws, count) != share:
            raise ValueError(f"predict needs members that are all random or all not; got {model.name!r} among others.")
        if likelihood_of_output(model, position, likelihood) != meaning:
            raise ValueError(
                f"predict needs members whose outputs mean the same; got {model.name!r} with another loss than the "
                "first. Pass likelihood= to specify what all of them mean."
            )
        own = keys[place * share : (place + 1) * share]
        for first, where, outputs in stream_draws(model, x, examples, own, batch_size, lengths, alone=count == 1):
            if not (position < len(outputs) if position is not None else len(outputs) == 1):
                raise ValueError(
                    f"predict needs output= for a model with {len(outputs)} outputs; got output={output!r}."
                )
            chosen = outputs[position or 0]
            _refuse_nan(model, x, where, chosen)
            statistics = meaning.statistics(chosen)
            for name, values in statistics.items():
                moments[name].update(where, values)
            if keep_draws:
                kept.append((place * share + first, where, statistics["prediction"]))
    return meaning.predictive(moments, len(keys), _join(kept, len(keys), examples) if keep_draws else None)


def _draws_each(model, x, draws: int, count: int) -> int:
    """Returns how many draws each of `count` models makes; 1 where nothing is random."""
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    if not any(source.random for source in find_sources(model)):
        return 1
    return -(-draws // count)


def _join(kept, draws, examples) -> np.ndarray:
    result = np.empty((draws, examples, *kept[0][2].shape[2:]))
    for first, where, values in kept:
        result[first : first + len(values), where] = values
    return result


def _refuse_nan(model, x, where: np.ndarray, values: np.ndarray) -> None:
    missing = np.isnan(np.asarray(values, "float32"))
    if not missing.any():
        return
    example = int(where[np.argwhere(missing)[0][1]])
    own = keras.tree.map_structure(lambda array: array[example : example + 1], x)
    # An eager pass over that example raises a better error when a layer knows the cause (a token id out of range).
    model(own, training=False)
    cause = "The weights may have become NaN in training: lower the learning rate, or look at the loss."
    cause += logits_hint(model)
    if any(array.dtype.kind == "f" and np.isinf(array).any() for array in keras.tree.flatten(own)):
        cause = "Its input holds an infinite number."
    raise ValueError(f"predict got NaN from the model for example {example}. {cause}")
