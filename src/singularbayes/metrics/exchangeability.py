"""Whether a stream still looks like its reference: conformal p-values, and a test martingale that bets on small ones.

While reference and stream are exchangeable, the p-values are independent and uniform, and the wealth of a bettor
against them starts at 1 and is a martingale. By Ville's inequality it ever reaches 1/α with probability at most α,
however long one looks (Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from singularbayes.checks import require_finite, require_integer

# Densities on (0, 1) that pay on small p-values: κ p^(κ − 1) on very small ones, of which κ = 1 keeps its wealth until
# the stream changes, and 1 + s (½ − p) where many scores are somewhat higher and few are extreme.
_EXPONENTS = np.array([1.0, 0.6, 0.3, 0.1])
_SLOPES = np.array([1.0, 1.9])
_BETS = len(_EXPONENTS) + len(_SLOPES)
_JUMP = 0.002  # the share of the wealth that is spread again over the bets before each p-value


@dataclass
class ConformalMartingale:
    """The evidence that a stream of scores is higher than exchangeability with its reference allows.

    A score is compared with the reference and with all scores before it, in bins whose limits come from one half of the
    reference; only the other half is counted. So its state does not grow with the stream, and the p-values are exactly
    uniform, not nearly.

    Attributes:
        limits: of the bins, ascending.
        reference: scores of the reference in each bin.
        seed: of the numbers that break ties.
        seen: scores of the stream so far.
        stream: how many of them are in each bin, since the start.
        log_wealth: logarithm of the wealth in each bet.

    >>> rng = np.random.default_rng(0)
    >>> martingale = ConformalMartingale.from_reference(rng.normal(size=1000))
    >>> float(np.exp(martingale.update(rng.normal(size=500))).max()) < 100
    True
    >>> int(np.argmax(martingale.update(rng.normal(2, 1, size=500)) > np.log(100))) < 50
    True
    """

    limits: np.ndarray
    reference: np.ndarray
    seed: int = 0
    seen: int = 0
    stream: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    log_wealth: np.ndarray = field(default_factory=lambda: np.full(_BETS, -np.log(_BETS)))

    def __post_init__(self) -> None:
        if not len(self.stream):
            self.stream = np.zeros_like(self.reference)

    @classmethod
    def from_reference(cls, scores, bins: int = 200, seed: int = 0) -> "ConformalMartingale":
        """Returns a martingale against a reference of at least 20 scores, all finite."""
        require_integer("ConformalMartingale", 2, bins=bins)
        require_integer("ConformalMartingale", 0, seed=seed)
        scores = np.asarray(scores, "float64")
        if scores.ndim != 1 or len(scores) < 20:
            raise ValueError(
                f"ConformalMartingale needs at least 20 scores as its reference; got shape {scores.shape}."
            )
        require_finite("ConformalMartingale", scores=scores)
        order = np.random.default_rng(seed).permutation(len(scores))
        first, second = np.array_split(scores[order], 2)
        limits = np.unique(np.quantile(first, np.arange(1, bins) / bins, method="higher"))
        return cls(limits, np.bincount(np.searchsorted(limits, second, "left"), minlength=len(limits) + 1), seed)

    def update(self, scores) -> np.ndarray:
        """Adds scores in the order in which they came; returns the logarithm of the wealth after each of them."""
        scores = np.atleast_1d(np.asarray(scores, "float64"))
        if not scores.size:
            return np.zeros(0)
        require_finite("ConformalMartingale.update", scores=scores)
        wealth = np.empty(len(scores))
        for i, p in enumerate(self._p_values(scores)):
            self.log_wealth = _after_bets(self.log_wealth, np.array(p))
            wealth[i] = np.logaddexp.reduce(self.log_wealth)
            self.seen += 1
        return wealth

    def _p_values(self, scores: np.ndarray):
        """Yields the share of scores so far that are as high, ties broken at random, and counts each score."""
        counts = self.reference + self.stream
        for place, u in zip(self._places(scores), self._ties(len(scores)), strict=True):
            yield (counts[place + 1 :].sum() + u * (counts[place] + 1)) / (counts.sum() + 1)
            counts[place] += 1
            self.stream[place] += 1

    def _places(self, scores: np.ndarray) -> np.ndarray:
        """Returns the bins of scores."""
        return np.searchsorted(self.limits, scores, "left")

    def _ties(self, number: int) -> np.ndarray:
        """Returns the numbers above 0 that break the next ties: one per score of the stream, whatever the batches."""
        generator = np.random.PCG64(self.seed)
        generator.advance(self.seen)
        return 1 - np.random.Generator(generator).random(number)

    def restarted(self) -> "ConformalMartingale":
        """Returns a martingale with wealth 1 against the same reference, without the stream so far."""
        return ConformalMartingale(self.limits, self.reference, self.seed, self.seen)

    def to_dict(self) -> dict[str, Any]:
        """Returns the state in plain lists and numbers, for JSON."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "ConformalMartingale":
        """Returns the martingale of a state that `to_dict` gave."""
        arrays = {name: np.array(state[name]) for name in ("limits", "reference", "stream", "log_wealth")}
        return cls(**{**state, **arrays})


def _after_bets(log_wealth: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Returns the wealth in each bet, on the last axis, after a p-value: a share is spread again, and each bet pays."""
    total = np.logaddexp.reduce(log_wealth, axis=-1, keepdims=True)
    mixed = np.logaddexp(np.log1p(-_JUMP) + log_wealth, np.log(_JUMP / _BETS) + total)
    powers = np.log(_EXPONENTS) + (_EXPONENTS - 1) * np.log(p[..., None])
    return mixed + np.concatenate([powers, np.log1p(_SLOPES * (0.5 - p[..., None]))], axis=-1)
