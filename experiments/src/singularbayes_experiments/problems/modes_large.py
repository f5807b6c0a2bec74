"""Text, air, intensive care and convolutions in the comparison of modes: data, networks, and the noise of forecasts."""

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from singularbayes import layers, metrics
from singularbayes.likelihoods import GaussianNLL
from singularbayes.posteriors import Centred, Deterministic, FullRank, LowRank, Normal, Posterior, Prior, ScaleMixture
from singularbayes.prediction import ValuePredictive
from singularbayes_experiments.methods import protocol, value_scores
from singularbayes_experiments.methods.network_fit import Bucket
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import beijing, cnn, forecast, icu, reviews, text
from singularbayes_experiments.problems.icu import ICUSettings
from singularbayes_experiments.problems.modes import ModesSet

WIDTHS = (20, 48)  # pieces of the texts of a batch
TEXT_PARTS = 8  # of an epoch of text, in which the rate falls
PERTURBED_TEXTS = 500
_LONG = 20  # pieces of training texts that are perturbed: as whole sentences have, which validate
_FIRST_WORD = 999  # of the vocabulary: what stands before are marks and letters
_REVIEWS = reviews.ReviewSettings()
_TINY_REVIEWS = replace(_REVIEWS, width=16, blocks=1, heads=2, feed_forward=16)
_FORECAST = forecast.ForecastSettings(noise="grows")
_IMAGES = cnn.CNNSettings()
_TINY_IMAGES = replace(_IMAGES, filters=(4, 4), units=(8,), ranks=(2, 2, 2, 2))


class Parts(NamedTuple):
    """What trains and what is predicted: inputs with targets, or inputs alone, by name."""

    train: tuple[np.ndarray, np.ndarray]
    evaluation_parts: dict[str, tuple[np.ndarray, ...]]


def parts_of(one: ModesSet, tuning: bool) -> Parts:
    """Returns the rows that train, and validation rows with perturbed inputs, or test rows with OOD inputs."""
    return {"text": _text, "air": _air, "icu": _care, "cnn": _images}[one.family](one, tuning)


def _text(one: ModesSet, tuning: bool) -> Parts:
    problem = reviews.Reviews({})
    x, y = problem.trained(_REVIEWS)
    if tuning:
        held = problem.held_out(_REVIEWS)
        return Parts((x, y), {"validation": held, "perturbed": (perturbed_texts(x),)})
    *_, dev, news = reviews.encoded(_REVIEWS.length)
    return Parts((x, y), {"test": dev, "ag_news": (news,)})


def perturbed_texts(ids: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns long training texts with other pieces: of half of them those of other texts, of half any words.

    The marks at both ends and the number of pieces stay.
    """
    rng = np.random.default_rng(seed)
    found = ids[(ids != text.PADDING).sum(axis=1) >= _LONG][:PERTURBED_TEXTS].copy()
    last = (found != text.PADDING).sum(axis=1) - 1
    places = np.arange(found.shape[1])[None]
    inside = (places > 0) & (places < last[:, None])
    mixed, random_words = inside.copy(), inside.copy()
    mixed[len(found) // 2 :], random_words[: len(found) // 2] = False, False
    found[mixed] = rng.permutation(found[inside])[: mixed.sum()]
    found[random_words] = rng.integers(_FIRST_WORD, _REVIEWS.vocabulary, random_words.sum())
    return found


def buckets(x: np.ndarray) -> list[Bucket]:
    """Returns the rows of token ids by length: a batch of short texts needs no long inputs."""
    lengths = (x != text.PADDING).sum(axis=1)
    short = lengths <= WIDTHS[0]
    return [Bucket(width, np.flatnonzero(rows)) for width, rows in zip(WIDTHS, (short, ~short), strict=True)]


def _air(one: ModesSet, tuning: bool) -> Parts:
    split = forecast.windows(_FORECAST.windows, _FORECAST.hours)
    train, held, test = ((part.x, part.y[:, None]) for part in (split.train, split.validation, split.test))
    if tuning:
        return Parts(train, {"validation": held, "perturbed": (protocol.perturbed(train[0][:2000]),)})
    ood = forecast.ood_windows(_FORECAST.windows, _FORECAST.hours, _FORECAST.every)
    return Parts(train, {"validation": held, "test": test, "guangzhou": (ood[forecast.MAIN],)})


def _care(one: ModesSet, tuning: bool) -> Parts:
    sets = icu.split(_shift(one), "range")
    if tuning:
        return Parts(sets.train, {"validation": sets.validation, "perturbed": (protocol.perturbed(sets.train[0]),)})
    assert sets.ood is not None
    return Parts(sets.train, {"test": sets.test, "held_out_care": (sets.ood[0],)})


def _images(one: ModesSet, tuning: bool) -> Parts:
    problem: Any = cnn.EXPERIMENT.problem
    train, held = problem.split(_IMAGES)
    if tuning:
        return Parts(train, {"validation": held, "perturbed": (protocol.perturbed(train[0][:2000]),)})
    test, ood = problem.testing(_IMAGES)
    return Parts(train, {"test": test} | {name: (inputs,) for name, inputs in ood.items()})


def _shift(one: ModesSet) -> icu.Shift:
    return one.name.removeprefix("icu_")  # type: ignore[return-value]


# -- networks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CentredWeights(Weights):
    """Posteriors whose prior is centred, of unit width, and plain biases."""

    prior: Prior = field(default_factory=lambda: Normal(1.0))

    def __call__(self, rank: int) -> Posterior:
        prior = Centred(self.prior)
        if self.kind == "deterministic":
            return Deterministic()
        return FullRank(prior=prior) if self.kind == "full_rank" else LowRank.paper(rank, prior=prior)

    def bias(self) -> None:
        return None


def network(one: ModesSet, kind: str) -> keras.Model:
    """Returns a network that is not compiled, of the experiment whose data set it is."""
    if one.family == "text":
        settings = _TINY_REVIEWS if one.tiny else _REVIEWS
        prior = ScaleMixture(sigma1=1.0, sigma2=math.exp(-3))
        return reviews.network(CentredWeights(kind, settings, prior), settings)
    if one.family == "air":
        return forecast.Forecast(beijing.PAPER).network(CentredWeights(kind, _FORECAST), _FORECAST)
    if one.family == "cnn":
        images = _TINY_IMAGES if one.tiny else _IMAGES
        return cnn.network(CentredWeights(kind, images), images, PatchConv2D)
    care = ICUSettings(shift=_shift(one))
    model = icu.ICUProblem().network(CentredWeights(kind, care), care)
    return keras.Model(model.inputs, TwoLogits()(model.outputs[0]))


class PatchConv2D(layers.Conv2D):
    """A convolution of stride 1 that keeps the size of images, as a matrix product.

    Of many networks at once that is one product of stacks; their convolutions would be one of as many groups, which
    accelerators are slow at.
    """

    def _by_filters(self, inputs, filters):
        rows, columns = self.kernel_size
        height, width = inputs.shape[1:3]
        padding = [(0, 0), *(((size - 1) // 2, size // 2) for size in self.kernel_size), (0, 0)]
        padded = ops.pad(inputs, padding)
        places = [padded[:, i : i + height, j : j + width] for i in range(rows) for j in range(columns)]
        return ops.matmul(ops.concatenate(places, axis=-1), filters)


class TwoLogits(keras.layers.Layer):
    """z → (0, z): the logit of one class as logits of two."""

    def call(self, inputs):
        return ops.concatenate([ops.zeros_like(inputs), inputs], axis=-1)


def loss(one: ModesSet) -> keras.losses.Loss:
    if one.task == "forecast":
        return GaussianNLL()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def uses(one: ModesSet) -> list[int]:
    """Returns how often one example meets each weight: words are looked up, hours and places of an image repeat."""
    if one.family == "text":
        blocks = (_TINY_REVIEWS if one.tiny else _REVIEWS).blocks
        return [0] + [1] * (6 * blocks + 1)  # of one token: six matrices a block and the head
    if one.family == "air":
        return [_FORECAST.hours] * 4 + [1]
    return [28 * 28, 14 * 14, 1, 1] if one.family == "cnn" else [1] * 3


# -- forecasts ---------------------------------------------------------------------------------------------------------


@functools.cache
def _windows():
    return forecast.windows(_FORECAST.windows, _FORECAST.hours)


def forecasts(p: np.ndarray) -> ValuePredictive:
    """Returns the predictions of all draws (draws, windows, 2) in µg/m³, without noise."""
    found = ValuePredictive(p[..., 0].mean(axis=0), p[..., 0].std(axis=0), len(p), noise=0.0)
    scaling = _windows().scaling
    return value_scores.in_units(found, scaling.target_mean, scaling.target_std)


def with_fitted_noise(
    p: dict[str, ValuePredictive], inputs: dict[str, np.ndarray], y: np.ndarray
) -> dict[str, ValuePredictive]:
    """Returns predictions with the noise whose weights are best on the validation windows, of targets `y`."""
    scaling = _windows().scaling
    kinds = {name: forecast.noise_kinds(part, inputs[name], scaling, _FORECAST) for name, part in p.items()}
    weights = value_scores.noise_weights(p["validation"], y, kinds["validation"])
    return {name: value_scores.with_noise(part, kinds[name] @ weights) for name, part in p.items()}


def in_units(y: np.ndarray) -> np.ndarray:
    """Returns scaled targets in µg/m³."""
    scaling = _windows().scaling
    return scaling.target_mean + scaling.target_std * y[:, 0].astype("float64")


def forecast_unit() -> float:
    """Returns the standard deviation of the targets before they were scaled, in µg/m³."""
    return float(_windows().scaling.target_std)


def forecast_scores(p: ValuePredictive, y: np.ndarray) -> dict[str, float]:
    """Returns errors, NLL, and coverage and width of 95 % intervals of the total variance."""
    lower, upper = p.interval(0.95, variance="total")
    return value_scores.quality(p, y) | {
        "coverage": metrics.interval_coverage(lower, upper, y),
        "width": metrics.interval_width(lower, upper),
    }
