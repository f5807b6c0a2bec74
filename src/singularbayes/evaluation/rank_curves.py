"""What a model's bounds would be at other ranks, if every weight cost the KL and every factor had the norm it has now.

Planning figures: a network of another rank has to be trained to be certified.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import keras

from singularbayes.bounds import break_even_rank, complexity_ratio
from singularbayes.posteriors import RandomPosterior, find_random_posteriors


@dataclass(frozen=True)
class Weight:
    """A weight matrix with a posterior, its shape and its rank; None is full."""

    posterior: RandomPosterior
    shape: tuple[int, int]
    rank: int | None

    @cached_property
    def kl(self) -> float:
        """The KL of its parameters in nats, in the best gauge."""
        return self.posterior.certified_kl()[1]

    def at(self, rank: int) -> int:
        """Returns that rank, or the largest that the shape allows."""
        return min(rank, *self.shape)

    def entries(self, rank: int | None) -> int:
        """Returns how many parameters a draw has."""
        rows, columns = self.shape
        return rows * columns if rank is None else self.at(rank) * (rows + columns)


@dataclass(frozen=True)
class RankCurves:
    """Bounds against the rank, not cut at 1.

    Attributes:
        own: the rank of the model, the largest of its weights; None where all of them are full.
        pac_bayes: the square-root bound of the 0-1 risk; empty where the model cannot be certified.
        risk: the 0-1 risk on the examples, with the error of the draws.
        complexity: the explicit bound by Gaussian complexity of the mean predictor's risk, or the published index, or
            nothing.
        covered: whether the theorem behind `complexity` covers the model; else it is the index.
    """

    ranks: tuple[int, ...]
    own: int | None
    pac_bayes: tuple[float, ...] = ()
    risk: float | None = None
    complexity: tuple[float, ...] = ()
    covered: bool = False


def ranked_weights(model: keras.Model) -> list[Weight]:
    """Returns the low-rank weights of a model, or if it has none its full-rank matrices."""
    found = []
    for posterior in find_random_posteriors(model):
        match posterior.factor_moments():
            case [(a, _), (b, _)]:
                found.append(Weight(posterior, (len(a), len(b)), a.shape[1]))
            case [(w, _)] if min(w.shape) > 1:
                found.append(Weight(posterior, w.shape, None))
    low = [weight for weight in found if weight.rank is not None]
    return low or found


def ranks_to_show(weights: Sequence[Weight]) -> tuple[int, ...]:
    """Returns 1, 2, 4, … up to the largest that a weight can have, and the model's own."""
    largest = max(min(weight.shape) for weight in weights)
    own = [weight.rank for weight in weights if weight.rank is not None]
    return tuple(sorted({*(2**k for k in range(largest.bit_length())), largest, *own}))


def own_rank(weights: Sequence[Weight]) -> int | None:
    return max((weight.rank for weight in weights if weight.rank is not None), default=None)


def weight_kl(weights: Sequence[Weight]) -> float:
    """Returns C, the mean KL of one parameter in nats."""
    return sum(weight.kl for weight in weights) / sum(weight.entries(weight.rank) for weight in weights)


def pac_bayes_curve(
    weights: Sequence[Weight], ranks: Sequence[int], risk: float, kl: float, num_data: int, delta: float
) -> tuple[float, ...]:
    """Returns L̂ + √((KL_r + ln(2√N/δ))/(2N)) for every rank, where the KL of the weights grows with their entries.

    Args:
        kl: of the whole model; what the weights have no part in, such as biases, stays.
    """
    rest, each = kl - sum(weight.kl for weight in weights), weight_kl(weights)

    def bound(rank: int) -> float:
        nats = rest + each * sum(weight.entries(rank) for weight in weights)
        return risk + math.sqrt((nats + math.log(2 * math.sqrt(num_data) / delta)) / (2 * num_data))

    return tuple(map(bound, ranks))


def overall_ratio(weights: Sequence[Weight]) -> float:
    """Returns √(Σ r(m + n)/Σ mn) over all weights."""
    return math.sqrt(sum(w.entries(w.rank) for w in weights) / sum(w.entries(None) for w in weights))


def ratio_words(weights: Sequence[Weight]) -> str:
    """Returns what each low-rank weight's complexity term is of a full one's, and below which rank it is less."""
    ratios = [
        f"{w.posterior.path} at rank {w.rank} {complexity_ratio(*w.shape, w.rank):.3g}, below 1 for r < "
        f"{break_even_rank(*w.shape):.4g}"
        for w in weights
        if w.rank is not None
    ]
    return f"√(Σ r(m + n)/Σ mn), if every parameter costs the same KL; {'; '.join(ratios)}"
