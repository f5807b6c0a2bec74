"""What a method puts on the weights of a network, read from the settings of an experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from singularbayes.posteriors import AdaptiveLowRank, Deterministic, FullRank, LowRank, Posterior, RankOne, ScaleMixture

# What experiments need not have among their settings, and what it is then.
UNSAID: dict[str, Any] = {
    "pi": 0.5,
    "eta": 0.1,
    "rho_start": None,  # or (low, high): ρ starts uniform between them, whatever η is
    "damping": 1.0,  # of low-rank means alone
    "rho_lr": 1.0,
    "rank_one_form": "scale",
    "overcomplete": False,
    "bayesian_bias": False,
    "max_rank": 64,  # the columns that a learned rank starts with
    "tolerance": 0.01,  # and the share of signal below which it switches one off
}
# Rank-one and point networks have plain biases.
_RANDOM_BIAS = ("low_rank", "low_rank_laplace", "low_rank_auto", "full_rank")


@dataclass(frozen=True)
class Weights:
    """Given the rank of a weight, its posterior.

    >>> from singularbayes_experiments.problems.images import Settings
    >>> Weights("low_rank", Settings())(25)
    LowRank(25)
    """

    kind: str
    settings: Any

    def __call__(self, rank: int) -> Posterior:
        """Returns the posterior of a weight matrix."""
        options, beyond = self._options(), self._said("overcomplete")
        kinds: dict[str, Callable[[], Posterior]] = {
            "low_rank": lambda: LowRank(rank, overcomplete=beyond, **options),
            "low_rank_laplace": lambda: LowRank(rank, family="laplace", overcomplete=beyond, **options),
            "low_rank_auto": lambda: AdaptiveLowRank(**self._learned(), **_without_prior(options)),
            "full_rank": lambda: FullRank(**options),
            "rank_one": lambda: RankOne(self._said("rank_one_form"), **options),
            "deterministic": Deterministic,
            "point": Deterministic,
        }
        return kinds[self.kind]()

    def bias(self) -> Posterior | None:
        """Returns the posterior of a bias, or None for a plain one.

        A "point" network has weights where a low-rank one has posteriors, biases too, so that one can start at it.
        """
        if not self._said("bayesian_bias") or self.kind not in (*_RANDOM_BIAS, "point"):
            return None
        return Deterministic() if self.kind == "point" else FullRank(**self._options())

    def _learned(self) -> dict[str, Any]:
        return {name: self._said(name) for name in ("max_rank", "tolerance")}

    def _said(self, name: str) -> Any:
        return getattr(self.settings, name, UNSAID[name])

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        prior = ScaleMixture(pi=self._said("pi"), sigma1=settings.sigma1, sigma2=settings.sigma2)
        between = self._said("rho_start")
        return {
            "prior": prior,
            **{name: self._said(name) for name in ("eta", "rho_lr")},
            "damping": self._said("damping") if self.kind.startswith("low_rank") else 1.0,
            "rho_initializer": None if between is None else keras.initializers.RandomUniform(*between),
        }


def ranks_of(settings: Any, weights: int) -> tuple[int, ...]:
    """Returns the ranks that settings name, one a weight; raises where they are more or fewer.

    >>> from singularbayes_experiments.problems.images import Settings
    >>> ranks_of(Settings(), 3)
    (25, 25, 10)
    """
    if len(settings.ranks) != weights:
        raise ValueError(f"ranks needs {weights} numbers, one for each weight; got ranks={settings.ranks}.")
    return settings.ranks


def _without_prior(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a posterior that brings its own prior."""
    return {name: value for name, value in options.items() if name != "prior"}
