"""Keeping spectral norms small in training. What that guarantees differs:

- `SpectralProjection` bounds the *means* of the factors; draws exceed the limit freely,
- `SpectralPenalty` bounds nothing; with `bounds.gaussian_norm` draws are bounded with a probability,
- `truncation` computes what rejection would cost a model, without changing it.

Factors are A and B of W = A Bᵀ each, or W itself where all of it is drawn: ‖W‖₂ ≤ limit² or limit.
"""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes.bounds import Bound, probability_at_least, project_spectral, truncated_kl
from singularbayes.checks import require_at_least, require_integer, require_positive
from singularbayes.models import forget_compiled
from singularbayes.posteriors import (
    RandomPosterior,
    draw_keys,
    draw_sources,
    find_random_posteriors,
    find_sources,
    noise,
)


class SpectralProjection(keras.callbacks.Callback):
    """Scales the means of every factor down to a spectral norm of at most `limit`, after every batch.

    Guarantees ‖E A‖₂ ≤ limit for every factor after each batch that Keras reports, and so at the end of training. With
    `steps_per_execution` above 1 it reports one batch in as many. It bounds no draw.

    >>> callbacks = [SpectralProjection(limit=1.0)]  # of fit, beside a KLSchedule
    """

    def __init__(self, limit: float):
        super().__init__()
        require_positive("SpectralProjection", limit=limit)
        self.limit = limit

    def on_train_begin(self, logs=None):
        _matrix_posteriors("SpectralProjection", self.model)
        self._project()

    def on_train_batch_end(self, batch, logs=None):
        self._project()

    def _project(self):
        for posterior in _matrix_posteriors("SpectralProjection", self.model):
            for factor in posterior.factors:
                parts = posterior.matrices(ops.convert_to_numpy(factor.loc).astype("float64"))
                if any(np.linalg.norm(part, 2) > self.limit for part in parts):
                    limit = (1 - 1e-6) * self.limit  # rounded to single precision it is still within
                    factor.set_loc(np.concatenate([project_spectral(part, limit) for part in parts]))


class SpectralPenalty(keras.callbacks.Callback):
    """Adds weight · Σ max(0, ‖E A‖₂ − limit)² over the factors to the loss, while `fit` runs.

    Guarantees nothing: the norms end where loss and penalty balance. `bounds.gaussian_norm` then bounds draws with
    a probability.

    >>> callbacks = [SpectralPenalty(limit=1.0, weight=0.1)]  # of fit, beside a KLSchedule
    """

    def __init__(self, limit: float, weight: float = 1.0):
        super().__init__()
        require_positive("SpectralPenalty", limit=limit)
        require_at_least("SpectralPenalty", 0, weight=weight)
        self.limit, self.weight = limit, weight

    def set_model(self, model):
        super().set_model(model)
        self._set({id(q): self._penalty(q) for q in _matrix_posteriors("SpectralPenalty", model)})

    def on_train_end(self, logs=None):
        self._set({})

    def _set(self, penalties: dict) -> None:
        for posterior in _matrix_posteriors("SpectralPenalty", self.model):
            posterior.set_penalty(penalties.get(id(posterior)))
        forget_compiled(self.model)  # the penalty is traced into what Keras has compiled

    def _penalty(self, posterior: RandomPosterior):
        def penalty(loc):
            norms = [ops.norm(part, ord=2, axis=(-2, -1)) for part in posterior.matrices(loc)]
            return self.weight * sum(ops.square(ops.maximum(0.0, norm - self.limit)) for norm in norms)

        return penalty


@dataclass(frozen=True)
class Truncation:
    """Draws outside a limit rejected: the share that is kept, from below, and KL(q_kept ‖ p), from above, in nats.

    >>> import singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> found = truncation(model, limit=10.0, kl=5.0, draws=100)
    >>> found.kept.value > 0.9, found.kl > 5.0
    (True, True)
    """

    limit: float
    kept: Bound
    kl: float


def truncation(
    model: keras.Model, limit: float, kl: float, draws: int = 1000, delta: float = 0.01, seed: int = 0
) -> Truncation:
    """Returns what rejecting draws with a factor of norm above `limit` costs.

    Guarantees ‖A‖₂ ≤ limit for every factor of the draws that are kept, almost surely, in posteriors without vectors
    among their factors; biases, weights of rank 1 or with one output are not looked at. Their KL is at most
    (KL + h(Z))/Z with Z the share that is kept, here its Clopper–Pearson lower bound: a certificate that uses this KL
    has to add `delta`.

    Args:
        kl: KL(q ‖ p) of the model before rejection, exact or from above.

    >>> import singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> truncation(model, limit=10.0, kl=5.0, draws=100).kl < 6.0
    True
    """
    require_positive("truncation", limit=limit)
    require_integer("truncation", draws=draws)
    require_integer("truncation", 0, seed=seed)
    kept = 0
    posteriors, sources = _matrix_posteriors("truncation", model), find_sources(model)
    for key in draw_keys(seed, draws):
        drawn = dict(zip(map(id, sources), draw_sources(sources, noise.as_keys(key)), strict=True))
        arrays = [a for posterior in posteriors for a in posterior.drawn_matrices(drawn[id(posterior)])]
        kept += all(np.linalg.norm(ops.convert_to_numpy(a).astype("float64"), 2) <= limit for a in arrays)
    share = probability_at_least(kept, draws, delta, f"factor norms <= {limit:g}")
    return Truncation(limit, share, truncated_kl(kl, share) if share.value > 0 else float("inf"))


def _matrix_posteriors(name: str, model: keras.Model) -> list[RandomPosterior]:
    """Returns the posteriors of a model whose draws are matrices or their factors, biases left out."""
    found = [q for q in find_random_posteriors(model) if q.factors and q.matrices(q.factors[0].loc)]
    chosen = [q for q in found if all(min(part.shape) > 1 for part in q.matrices(q.factors[0].loc))]
    if not chosen:
        raise ValueError(f"{name} needs a model with low-rank or full-rank posteriors, built; got {model.name!r}.")
    return chosen
