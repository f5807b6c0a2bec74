"""What a method puts on the weights of a network, read from the settings of an experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from singularbayes.posteriors import AdaptiveLowRank, Deterministic, FullRank, LowRank, Posterior, RankOne, ScaleMixture
from singularbayes_experiments.methods.settings import TrainingSettings

# Rank-one and deterministic networks have plain biases.
_RANDOM_BIAS = ("low_rank", "low_rank_laplace", "low_rank_auto", "full_rank")


@dataclass(frozen=True)
class Weights:
    """Given the rank of a weight, its posterior.

    >>> from singularbayes_experiments.problems.images import ImageSettings
    >>> posterior = Weights("low_rank", ImageSettings())(25)
    >>> posterior.rank, posterior.start, posterior.eta
    (25, 'independent', 0.1)
    """

    kind: str
    settings: TrainingSettings

    def __call__(self, rank: int) -> Posterior:
        """Returns the posterior of a weight matrix."""
        options, beyond = self._options(), self.settings.overcomplete
        learned = {"max_rank": self.settings.max_rank, "tolerance": self.settings.tolerance}
        kinds: dict[str, Callable[[], Posterior]] = {
            "low_rank": lambda: LowRank.paper(rank, overcomplete=beyond, **options),
            "low_rank_laplace": lambda: LowRank.paper(rank, family="laplace", overcomplete=beyond, **options),
            "low_rank_auto": lambda: AdaptiveLowRank(**learned, **_without_prior(options)),
            "full_rank": lambda: FullRank(**options),
            "rank_one": lambda: RankOne(self.settings.rank_one_form, **options),
            "deterministic": Deterministic,
            "point": Deterministic,
        }
        return kinds[self.kind]()

    def bias(self) -> Posterior | None:
        """Returns the posterior of a bias, or None for a plain one.

        A "point" network has weights where a low-rank one has posteriors, biases too, so that one can start at it.
        """
        if not self.settings.bayesian_bias or self.kind not in (*_RANDOM_BIAS, "point"):
            return None
        return Deterministic() if self.kind == "point" else FullRank(**self._options())

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        prior = ScaleMixture(pi=settings.pi, sigma1=settings.sigma1, sigma2=settings.sigma2)
        between = settings.rho_start
        return {
            "prior": prior,
            "eta": settings.eta,
            "rho_lr": settings.rho_lr,
            "damping": settings.damping if self.kind.startswith("low_rank") else 1.0,
            "rho_initializer": None if between is None else keras.initializers.RandomUniform(*between),
        }


def ranks_of(settings: Any, weights: int) -> tuple[int, ...]:
    """Returns the ranks that settings name, one per weight; raises where they are more or fewer.

    >>> from singularbayes_experiments.problems.images import ImageSettings
    >>> ranks_of(ImageSettings(), 3)
    (25, 25, 10)
    """
    if len(settings.ranks) != weights:
        raise ValueError(f"ranks needs {weights} numbers, one for each weight; got ranks={settings.ranks}.")
    return settings.ranks


def _without_prior(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a posterior that brings its own prior."""
    return {name: value for name, value in options.items() if name != "prior"}
