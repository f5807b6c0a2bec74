"""Monte Carlo prediction with coherent draws: draw s is the same function of the input for all the data.

The data are read once, in blocks that fit memory. Every block begins with the same draws, made again from their keys.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from singularbayes.checks import require_integer
from singularbayes.likelihoods import Likelihood, Predictive, RunningMoments, likelihood_of_output, logits_hint
from singularbayes.models.data import Block, blocks
from singularbayes.models.inputs import count_examples, in_order, require_model
from singularbayes.models.outputs import output_mask, position_of
from singularbayes.models.text import tokenized
from singularbayes.posteriors import draw_keys, find_sources
from singularbayes.prediction.sampler import budget, output_size, stream_draws


def predict(
    model: keras.Model,
    x,
    draws: int = 100,
    seed: int = 0,
    *,
    likelihood=None,
    batch_size: int = 256,
    keep_draws: bool = False,
    quantiles: Sequence[float] | float = (),
    output=None,
) -> Predictive:
    """Returns what `draws` functions from the posterior predict for `x`.

    On one backend draw s depends on the seed alone: it is the same weights for every batch, whatever the batch size,
    the kind of data and the estimator that trained the model. Class probabilities, not logits, are averaged.

    Args:
        x: a NumPy array, a list of rows, a pandas or polars table, a SciPy sparse matrix or a tensor; a list or dict of
            them for several inputs; or batches of them: tf.data, a torch DataLoader, a PyDataset, or a generator that
            ends. Batches are x, (x, y) or (x, y, sample_weight), and then `Predictive.targets` and `.weights` hold the
            others in the same order. Batches are read once, a few at a time, so data may be larger than memory;
            `predict_batches` also gives results a few at a time. A list of texts, where the model has a preprocessor.
        likelihood: what the outputs mean: "categorical_logits", "categorical", "bernoulli_logits", "bernoulli",
            "gaussian", "mean_scale", "laplace", "student_t", "poisson_log", "poisson", "negative_binomial", or a
            `Likelihood` such as `Gaussian(scale=0.1)`; a dict or list has one for each of several outputs. None reads
            it from the compiled loss (`from_logits=True` there declares logits).
        keep_draws: keep every draw in `Predictive.draws`; memory then grows with `draws`.
        quantiles: those over draws that `Predictive.quantile` and the intervals of classes need, such as (0.025, 0.975)
            for intervals of 95 %. They are exact, and draws are kept for a few examples at a time only.
        output: which output of a model with several, by name or position.

    >>> import keras, numpy as np, singularbayes as sb
    >>> keras.utils.set_random_seed(0)
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> p = predict(model, np.ones((5, 4)), draws=20, quantiles=(0.025, 0.975))
    >>> p.mean.shape, p.mutual_information.shape, p.interval(0.95)[0].shape
    ((5, 3), (5,), (5, 3))
    >>> batches = (np.ones((size, 4)) for size in (2, 3))
    >>> bool((predict(model, batches, draws=20).mean == p.mean).all())
    True
    """
    require_model("predict", model)
    options = {"likelihood": likelihood, "batch_size": batch_size, "keep_draws": keep_draws, "quantiles": quantiles}
    return pool(lambda: [model], 1, x, draws, seed, **options, output=output)


def predict_batches(model: keras.Model, x, draws: int = 100, seed: int = 0, **options) -> Iterator[Predictive]:
    """Yields what `predict` returns, for some examples after another: neither data nor results need fit memory.

    The numbers are those of `predict`, in the same order; `options` are its options.

    Args:
        model: a Keras model; `x`, `draws`, `seed`: as in `predict`.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.FullRank())])
    >>> batches = (np.full((1000, 1), i) for i in range(20))
    >>> sum(len(p) for p in predict_batches(model, batches, draws=5, likelihood="gaussian"))
    20000
    """
    require_model("predict_batches", model)
    job = _Job(lambda: [model], 1, draws, seed, split_arrays=True, **options)
    return (job.predictive([part]) for part in job.parts(x))


def pool(
    models: Callable[[], Iterable[keras.Model]], count: int, x, draws: int = 100, seed: int = 0, **options
) -> Predictive:
    """Returns what `count` models predict together: every draw of every model counts the same.

    Each predicts with its share draws / count, rounded up, of the keys of the seed, so one model predicts as `predict`
    does; `options` are those of `predict`.

    Args:
        models: returns the models, the same ones for every block of the data. A model predicts a block before the next
            is taken, so it may also yield one object with other weights each time.
    """
    job = _Job(models, count, draws, seed, **options)
    return job.predictive(list(job.parts(x)))


@dataclass(frozen=True)
class _Part:
    """What is known of a block of examples when all draws have passed."""

    moments: dict[str, RunningMoments]
    draws: np.ndarray | None
    quantiles: np.ndarray | None
    data: Block


class _Job:
    """A prediction of some models, for one block of examples after another."""

    def __init__(
        self,
        models: Callable[[], Iterable[keras.Model]],
        count: int,
        draws: int,
        seed: int,
        *,
        likelihood: Likelihood | str | None = None,
        batch_size: int = 256,
        keep_draws: bool = False,
        quantiles: Sequence[float] | float = (),
        output=None,
        split_arrays: bool = False,
    ):
        require_integer("predict", draws=draws, batch_size=batch_size)
        require_integer("predict", 0, seed=seed)
        self.levels = np.unique(np.asarray(quantiles, "float64"))
        if self.levels.size and not (self.levels.min() >= 0 and self.levels.max() <= 1):
            raise ValueError(f"predict needs quantiles from 0 to 1; got quantiles={quantiles!r}.")
        self.models, self.count, self.draws, self.seed = models, count, draws, seed
        self.likelihood, self.batch_size, self.keep_draws = likelihood, batch_size, keep_draws
        self.output, self.split_arrays = output, split_arrays
        self.first = next(iter(models()))
        self.position = position_of(self.first, output)
        self.meaning = likelihood_of_output(self.first, self.position, likelihood)
        self.keys = np.zeros((0, 2), int)  # known with the first examples, which may have to build the model

    def parts(self, x) -> Iterator[_Part]:
        """Yields the blocks of the data after all draws; the last may be smaller."""
        found = blocks(
            tokenized(self.first, x, caller="predict")[0],
            rows=self._rows,
            split_arrays=self.split_arrays or self.levels.size > 0,
            caller="predict",
        )
        for block in found:
            yield self._part(replace(block, x=in_order(self.first, block.x, "predict")))

    def _rows(self, x) -> int:
        """Returns how many examples are read and predicted together: batches, as many as fit memory."""
        inputs = sum(array.nbytes / max(1, len(array)) for array in keras.tree.flatten(x))
        numbers = 8 + (self.draws if self.keep_draws or self.levels.size else 0)  # of moments, and of kept draws
        fitting = budget() // 4 // int(inputs + 8 * numbers * max(1, output_size(self.first, x)))
        return self.batch_size * max(1, fitting // self.batch_size)

    def _part(self, block: Block) -> _Part:
        x, examples = block.x, count_examples(self.first, block.x, "predict", block.first)
        moments: dict[str, RunningMoments] = defaultdict(lambda: RunningMoments(examples))
        kept: list[tuple[int, slice, np.ndarray]] = []
        for first, where, outputs in self._outputs(x):
            _refuse_nan(self.first, x, where, outputs, block.first)
            statistics = self.meaning.statistics(outputs)
            for name, values in statistics.items():
                moments[name].update(where, values)
            if self.keep_draws or self.levels.size:
                kept.append((first, where, statistics["prediction"]))
        draws = _join(kept, len(self.keys), examples) if kept else None
        quantiles = None
        if self.levels.size:
            whole = self.meaning.predictive(moments, len(self.keys), draws)
            assert whole.draws is not None
            quantiles = np.quantile(whole.draws, self.levels, axis=0)
        weight = _times_mask(block.weight, output_mask(self.first, x, self.position, self.batch_size))
        return _Part(moments, draws if self.keep_draws else None, quantiles, replace(block, x=None, weight=weight))

    def _outputs(self, x) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yields (first draw, examples, outputs) of all models."""
        share = _draws_each(self.first, x, self.draws, self.count)
        self.keys = draw_keys(self.seed, self.count * share)
        for place, model in enumerate(self.models()):
            self._require_alike(model, x, share)
            own = self.keys[place * share : (place + 1) * share]
            for first, where, outputs in stream_draws(model, x, own, self.batch_size):
                known = self.position < len(outputs) if self.position is not None else len(outputs) == 1
                if not known:
                    raise ValueError(
                        f"predict needs output= for a model with {len(outputs)} outputs; got output={self.output!r}."
                    )
                yield place * share + first, where, outputs[self.position or 0]

    def _require_alike(self, model: keras.Model, x, share: int) -> None:
        if _draws_each(model, x, self.draws, self.count) != share:
            raise ValueError(f"predict needs members that are all random or all not; got {model.name!r} among others.")
        if likelihood_of_output(model, self.position, self.likelihood) != self.meaning:
            raise ValueError(
                f"predict needs members whose outputs mean the same; got {model.name!r} with another loss than the "
                "first. Pass likelihood= to specify what all of them mean."
            )

    def predictive(self, parts: list[_Part]) -> Predictive:
        """Returns the predictions of the examples of all parts."""
        _require_one_shape(parts)
        moments = {name: RunningMoments.joined([part.moments[name] for part in parts]) for name in parts[0].moments}
        draws = np.concatenate([part.draws for part in parts], axis=1) if self.keep_draws else None
        p = self.meaning.predictive(moments, len(self.keys), draws)
        more: dict[str, Any] = {
            "targets": _stacked([part.data.y for part in parts]),
            "weights": _stacked([part.data.weight for part in parts]),
        }
        if self.levels.size:
            found = np.concatenate([part.quantiles for part in parts], axis=1)
            more["quantiles"] = dict(zip(self.levels.tolist(), found, strict=True))
        more = {name: value for name, value in more.items() if value is not None}
        return replace(p, **more) if more else p


def _times_mask(weight, mask: np.ndarray | None):
    """Returns the weights of the data with 0 for positions, such as padding, that the model masks in its outputs."""
    if mask is None or mask.all():
        return weight
    if weight is None:
        return mask.astype("float64")
    given = np.asarray(weight, "float64")
    return given.reshape(given.shape + (1,) * (mask.ndim - given.ndim)) * mask


def _stacked(parts: list):
    """Returns the targets or weights of all parts; None where the data have none."""
    if parts[0] is None or len(parts) == 1:
        return parts[0]
    return keras.tree.map_structure(lambda *arrays: np.concatenate(arrays), *parts)


def _require_one_shape(parts: list[_Part]) -> None:
    shapes = dict.fromkeys(part.moments["prediction"].mean.shape[1:] for part in parts)
    if len(shapes) > 1:
        raise ValueError(
            f"predict needs outputs of one shape for all examples; got {', '.join(map(str, shapes))} after the axis of "
            "the examples. Take predict_batches, which gives those of one shape at a time."
        )


def _draws_each(model, x, draws: int, count: int) -> int:
    """Returns how many draws each of `count` models makes, a multiple of its components; 1 where nothing is random."""
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    sources = find_sources(model)
    if not any(source.random for source in sources):
        return 1
    components = math.lcm(*(source.components for source in sources))
    return components * -(-draws // (count * components))


def _join(kept, draws, examples) -> np.ndarray:
    result = np.empty((draws, examples, *kept[0][2].shape[2:]))
    for first, where, values in kept:
        result[first : first + len(values), where] = values
    return result


def _refuse_nan(model, x, where: slice, values: np.ndarray, before: int) -> None:
    missing = np.isnan(np.asarray(values, "float32"))
    if not missing.any():
        return
    example = where.start + int(np.argwhere(missing)[0][1])
    own = keras.tree.map_structure(lambda array: array[example : example + 1], x)
    # An eager pass over that example raises a better error when a layer knows the cause (a token id out of range).
    model(own, training=False)
    cause = "The weights may have become NaN in training: lower the learning rate, or look at the loss."
    cause += logits_hint(model)
    if any(array.dtype.kind == "f" and np.isinf(array).any() for array in keras.tree.flatten(own)):
        cause = "Its input holds an infinite number."
    raise ValueError(f"predict got NaN from the model for example {before + example}. {cause}")
