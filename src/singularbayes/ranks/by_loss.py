"""Ranks by what a truncation costs on held-out examples, without any training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np

from singularbayes.checks import aligned, labelled
from singularbayes.convert import MatrixSpectrum, Spectrum, collapse, counterparts, find_slots, spectrum, surgery
from singularbayes.likelihoods import likelihood_of_loss
from singularbayes.metrics.classes import label_nll
from singularbayes.models.data import as_arrays
from singularbayes.models.outputs import loss_of, position_of
from singularbayes.posteriors import find_posteriors
from singularbayes.prediction import ClassPredictive, predict
from singularbayes.ranks.recommendation import Recommendation, by_spectrum
from singularbayes.text_table import text_table

SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)


@dataclass(frozen=True)
class Truncations:
    """The mean loss of a network and of its truncations, and the smallest that is as good.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, kernel_initializer="ones", name="head")])
    >>> model.compile("adam", "mse")
    >>> found = by_loss(model, np.ones((8, 6)), np.full(8, 6.0), shares=(0.9,))
    >>> found.full, found.losses
    (0.0, {0.9: 0.0})
    """

    spectrum: Spectrum
    loss: str
    full: float
    error: float  # the standard error of `full` over examples
    losses: dict[float, float]  # by the share of ‖W‖² that every matrix keeps
    recommendation: Recommendation
    explained: float  # that the recommended ranks keep

    def __str__(self) -> str:
        rows = [(f"{share:.6g}", f"{value:.4g}", f"{value - self.full:+.4g}") for share, value in self.losses.items()]
        tried = text_table(("share of ‖W‖²", self.loss, "more than untouched"), rows)
        most = f"{self.full:.4g} + {self.error:.2g}, its standard error"
        if self.explained in self.losses:
            why = f"The smallest ranks of those tried whose {self.loss} is at most {most}."
        else:
            why = f"None of those tried has a {self.loss} of at most {most}: these are the full ranks."
        return f"{self.recommendation}\n\n{tried}\n{why}"


def by_loss(
    model: keras.Model, x, y, shares: Sequence[float] = SHARES, *, likelihood=None, batch_size: int = 256
) -> Truncations:
    """Returns the smallest ranks at which the cut network is as good on (x, y), by the rule of one standard error.

    Every matrix of the network, at its posterior means where it has posteriors, is cut to the rank that keeps a share
    of its squared norm. Nothing is trained; training at these ranks should do better, so they are ranks to start with.

    Args:
        y: labels from 0, or numbers; the loss is the NLL or the squared error.
        shares: the shares to try.
        likelihood: what the outputs mean, where the compiled loss does not determine it; see `predict`.

    >>> import keras
    >>> keras.utils.set_random_seed(0)
    >>> hidden, head = keras.layers.Dense(5, name="hidden"), keras.layers.Dense(2, name="head")
    >>> model = keras.Sequential([keras.Input((6,)), hidden, head])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> x, y = np.random.default_rng(0).normal(size=(40, 6)), np.arange(40) % 2
    >>> sorted(by_loss(model, x, y, shares=(0.5, 0.99)).losses)
    [0.5, 0.99]
    """
    if not len(shares) or not all(0 < explained <= 1 for explained in shares):
        raise ValueError(f"by_loss needs shares above 0 and at most 1; got shares={list(shares)}.")
    found = spectrum(model)
    likelihood = likelihood or _compiled(model)
    plain = collapse(model, merge=True) if find_posteriors(model) else model
    name, full = _losses(plain, x, y, likelihood, batch_size)
    if len(full) < 2:
        raise ValueError(f"by_loss needs 2 examples or more, for a standard error; got {len(full)}.")
    error = float(full.std(ddof=1) / math.sqrt(len(full)))
    losses, truncation = {}, _Truncation(plain)
    for explained in sorted(shares):
        losses[explained] = float(_losses(truncation.cut(explained), x, y, likelihood, batch_size)[1].mean())
    good = [explained for explained, value in losses.items() if value <= full.mean() + error]
    chosen = min(good, default=1.0)
    return Truncations(found, name, float(full.mean()), error, losses, by_spectrum(model, chosen), chosen)


def _compiled(model: keras.Model):
    """Returns what the outputs mean by the compiled loss; None leaves the error to `predict`."""
    return likelihood_of_loss(loss_of(model, position_of(model, None)))


class _Truncation:
    """A copy of a plain model whose matrices are cut, again and again: one model, so that it is compiled once."""

    def __init__(self, model: keras.Model):
        self.model = surgery.copied(model)
        found = [place.layer for place in surgery.places(self.model) if counterparts.is_convertible(place.layer)]
        slots = [slot for layer in found for slot in find_slots(layer).values()]
        self.parts = [(slot, *np.linalg.svd(slot.read().astype("float64"), full_matrices=False)) for slot in slots]

    def cut(self, explained: float) -> keras.Model:
        """Returns the copy with its matrices cut to the ranks that keep the share; biases are of rank 1."""
        for slot, u, s, vt in self.parts:
            rank = _rank(s, explained)
            slot.write((u[:, :rank] * s[:rank]) @ vt[:rank])
        return self.model


def _rank(values: np.ndarray, explained: float) -> int:
    return MatrixSpectrum("", "", "", (0, 0), values).rank_for(explained)


def _losses(model, x, y, likelihood, batch_size: int) -> tuple[str, np.ndarray]:
    """Returns the name of the loss and its value for every example."""
    p = predict(model, x, draws=1, likelihood=likelihood, batch_size=batch_size)
    if isinstance(p, ClassPredictive):
        probabilities, labels = labelled("by_loss", p.mean, y)
        return "NLL", label_nll(probabilities, labels)
    mean, targets = aligned("by_loss", predictions=p.mean, y=as_arrays(y, "by_loss"))
    return "squared error", ((mean - targets) ** 2).reshape(len(mean), -1).mean(axis=1)
