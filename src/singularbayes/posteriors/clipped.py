"""A posterior whose draws are kept within a spectral norm."""

import math
from typing import Any

import keras
from keras import ops

from singularbayes.bounds import Refused, norm_probability, truncated_kl
from singularbayes.checks import require_integer, require_positive
from singularbayes.posteriors import noise, registry, scope
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.factor import Scalars
from singularbayes.posteriors.matrices import DenseMatrix
from singularbayes.posteriors.serialization import serialize

_MARGIN = 1e-6  # so that rounding in single precision does not exceed the limit
_ROUNDING = 1e-5  # a draw is made again a little below the limit, in single precision
# What the posterior inside has, and every posterior with random weights has.
_DELEGATED = {
    *("prior", "family", "matrices", "seed_generator", "state", "join", "ab", "tolerance", "live_columns"),
    *("kl", "kl_bound", "kl_exact", "kl_scale", "kl_weight", "kl_weight_now", "kl_weight_from_file"),
    *("set_kl_weight", "unset_kl_weight", "resume_kl_weight", "take_kl_weight", "note_pass", "training_weights"),
    "num_switched_off",
    *("prune_columns", "take_columns", "switch_noise", "restarted_velocities", "set_penalty"),
}


@keras.saving.register_keras_serializable(package="singularbayes")
class Clipped(Posterior):
    """Draws of another posterior, scaled down to a spectral norm where they exceed it.

    The norms are those of A and B each where these are drawn, else that of W. Means, moments and the KL are those
    before clipping; the KL is an upper bound of that of clipped posterior and prior.

    Args:
        posterior: any with random weights, for example `LowRank(16)`, a rank or a name. Draws row by row
            (`layers.Embedding`) and `estimator="local"` are refused.
        limit: the largest norm.
        redraws: a draw that exceeds the limit is made again up to this many times before it is scaled down: truncation
            by rejection. It leaves the shape of the posterior within the limit as it is, and its KL is larger than the
            one that is trained; `certify` takes (KL + h(Z))/Z, Z the probability of a draw within.

    >>> from singularbayes import LowRank, layers
    >>> layers.Dense(8, posterior=Clipped(LowRank(2), limit=1.0)).posterior
    Clipped(LowRank(2), 1.0)
    """

    def __init__(self, posterior, limit, redraws=0, **kwargs):
        super().__init__(**kwargs)
        require_positive("Clipped", limit=limit)
        require_integer("Clipped", 0, redraws=redraws)
        self.posterior: Any = registry.get_posterior(posterior, "clipped", "Clipped")
        if not self.posterior.random or isinstance(self.posterior, Clipped):
            raise ValueError(f"Clipped needs a posterior with draws that are not clipped yet; got {self.posterior!r}.")
        if self.posterior.components > 1:
            raise ValueError(
                "Clipped needs a posterior of one component; clip the components of a mixture: "
                f"Mixture(Clipped(LowRank(16), limit={limit})). Got {self.posterior!r}."
            )
        self.limit, self.redraws, self.adapts = float(limit), int(redraws), self.posterior.adapts

    def __getattr__(self, name):
        if name in _DELEGATED:
            return getattr(self.posterior, name)
        return scope.keras_getattr(self, name)

    @property
    def frozen_weights(self):
        return self.posterior.frozen_weights

    def default_kernel_initializer(self, activation):
        return self.posterior.default_kernel_initializer(activation)

    def build(self, input_shape):
        if self.by_rows:
            raise ValueError(f"Clipped needs whole draws, and {self.path} draws row by row; got limit={self.limit}.")
        self.posterior.default_initializer = self._initializer
        self.posterior.build(input_shape)

    # -- draws ---------------------------------------------------------------------------------------------------------

    def next_key(self, training):
        return self.posterior.next_key(training)

    def draw(self, key):
        keys = [key, *(noise.split(key, self.redraws) if self.redraws else ())]
        return tuple(first_within(tries, self.limit) for tries in zip(*map(self._draw_free, keys), strict=True))

    def _draw_free(self, key) -> tuple:
        """Returns the matrices of one draw, whatever their norms."""
        draw = self.posterior.draw(key)
        return draw if self.posterior.draws_matrices else (self.posterior.weight(draw).dense(),)

    def weight(self, draw):
        return self.posterior.weight(draw) if self.posterior.draws_matrices else DenseMatrix(*draw)

    @property
    def draw_size(self):
        return self.posterior.draw_size if self.posterior.draws_matrices else math.prod(self.shape)

    def require_local(self, where):
        raise ValueError(f'Clipped needs estimator="shared", which draws weights; got "local" in {where}.')

    def local(self, key):
        self.require_local(self.path)

    # -- as they are before clipping -----------------------------------------------------------------------------------

    def mean(self):
        return self.posterior.mean()

    def variance(self):
        return self.posterior.variance()

    def covariance(self, entry, other):
        return self.posterior.covariance(entry, other)

    def center(self, matrix):
        self.posterior.center(matrix)

    def residual(self, matrix):
        return self.posterior.residual(matrix)

    @property
    def factors(self):
        return self.posterior.factors

    @property
    def fixed_rank(self):
        return self.posterior.fixed_rank

    @property
    def learned_rank(self):
        return self.posterior.learned_rank

    def num_columns(self, shape):
        return self.posterior.num_columns(shape)

    def label(self, *ranks):
        return f"{self.posterior.label(*ranks)} clipped at {self.limit:g}"

    def with_rank(self, rank):
        return type(self).from_config({**self.get_config(), "posterior": serialize(self.posterior.with_rank(rank))})

    def on_base(self, dtype):
        return type(self).from_config({**self.get_config(), "posterior": serialize(self.posterior.on_base(dtype))})

    def factor_moments(self):
        return self.posterior.factor_moments()

    def squared_column_norms(self):
        return self.posterior.squared_column_norms()

    # -- as they are after it ------------------------------------------------------------------------------------------

    @property
    def norm_limit(self):
        return None if self.posterior.why_no_norms() else self.limit

    def why_no_norms(self):
        return "has clipped draws, whose norms and means are not those of the Gaussian"

    def certified_kl(self) -> tuple[float, float]:
        """Returns the same number twice: clipped, (A D, B D⁻¹) does not draw the same W as (A, B)."""
        nats = sum(map(self._redrawn_kl, self.factors)) if self.redraws else self.posterior.certified_kl()[0]
        return nats, nats

    def _redrawn_kl(self, factor: Scalars) -> float:
        """Returns the KL of draws that are made again outside the limit: (KL + h(Z))/Z of each matrix.

        It is that to the clipped prior, and holds for any number of redraws: see bounds.md.
        """
        if factor.prior.by_column:
            raise Refused(
                "certify needs a prior of single weights where draws are made again, so that every matrix has a KL of "
                f"its own; {self.path} has {type(factor.prior).__name__}, which ties A to B. Use redraws=0."
            )
        if not self.posterior.draws_matrices:
            raise Refused(
                "certify needs factors that are matrices where draws are made again; "
                f"{self.path} has a {type(self.posterior).__name__}. Use redraws=0."
            )
        loc, scale, _ = factor.float64_values()
        total = 0.0
        parts = [self.posterior.matrices(values) for values in (loc, scale, factor.kl_upper())]
        for m, s, kl in zip(*parts, strict=True):
            within = norm_probability(m, s, (1 - _ROUNDING) * self.limit)
            if factor.family.name != "gaussian" or within.vacuous:
                raise Refused(
                    "certify needs to know how rarely draws are made again, by the norm of Gaussian factors; "
                    f"{self.path} is of the {factor.family.name} family, with a probability of a norm within "
                    f"limit={self.limit:g} of at least {within.value:g}. Train with a larger limit, or redraws=0."
                )
            total += truncated_kl(float(kl.sum()), within)
        return total

    def get_config(self):
        own = {"posterior": serialize(self.posterior), "limit": self.limit, "redraws": self.redraws}
        return {**super().get_config(), **own}


def spectral_norm(matrix):
    """Returns ‖A‖₂, the largest singular value."""
    return ops.norm(matrix, ord=2, axis=(-2, -1))


def scaled_to_norm(matrix, limit: float):
    """Returns min(1, limit/‖A‖₂) A."""
    norm = ops.maximum(spectral_norm(matrix), 1e-30)
    return ops.minimum(1.0, (1.0 - _MARGIN) * limit / norm) * matrix


def first_within(matrices, limit: float):
    """Returns the first of some matrices whose norm is within the limit; where none is, the last scaled down to it."""
    *earlier, last = matrices
    chosen = scaled_to_norm(last, limit)
    for matrix in reversed(earlier):
        chosen = ops.where(spectral_norm(matrix) <= (1.0 - _MARGIN) * limit, matrix, chosen)
    return chosen
