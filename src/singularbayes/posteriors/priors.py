"""Priors over one scalar weight. `kl` is a *sum* over weights, in nats.

KL(q ‖ p) = −H(q) − E_q[log p(w)]: the entropy and, where there is one, the expectation are closed forms of the family.
"""

import math
from abc import ABC, abstractmethod

import keras
import numpy as np
from keras import ops

from singularbayes.bounds import mixture_kl
from singularbayes.checks import require_positive
from singularbayes.posteriors.families import expectation, float64

_register = keras.saving.register_keras_serializable(package="singularbayes")


class Prior(ABC):
    """What a weight is believed to be before the data. A prior is a value: equal arguments, equal priors."""

    by_column = False  # whether it is about whole columns: then arrays are (entries, columns), and a KL is a column's

    @abstractmethod
    def log_density(self, w, xp=ops):
        """Returns log p(w) of every scalar."""

    @abstractmethod
    def kl(self, family, loc, scale, keys=None):
        """Returns KL(q ‖ p) summed over the weights, exact or an unbiased estimate with a key from `keys()`."""

    def kl_bound(self, family, loc, scale):
        """Returns a closed-form upper bound of the summed KL(q ‖ p); the KL itself where that is closed form."""
        return self.kl(family, loc, scale)

    def each_kl(self, family, loc, scale, xp):
        """Returns KL(q ‖ p) of every scalar, or column, where it has a closed form."""
        raise TypeError(f"A closed form of the KL needs another prior; {type(self).__name__} has none.")

    @abstractmethod
    def kl_exact(self, family, loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Returns KL(q ‖ p) of every scalar in float64, without random numbers."""

    def kl_upper(self, family, loc: np.ndarray, scale: np.ndarray, quick: bool = False) -> np.ndarray:
        """Returns an upper bound of KL(q ‖ p) of every scalar in float64, by formula: certificates stand on it.

        Args:
            quick: a looser bound will do where it is quicker.
        """
        raise TypeError(f"A certificate needs a prior whose KL has a bound, kl_upper; {type(self).__name__} has none.")

    @property
    def has_kl_upper(self) -> bool:
        """Whether there is such a bound."""
        return type(self).kl_upper is not Prior.kl_upper

    @abstractmethod
    def get_config(self) -> dict:
        """Returns the constructor's arguments."""

    @classmethod
    def from_config(cls, config: dict):
        return cls(**config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_config().items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash(repr(self))


class ScalePrior(Prior):
    """A prior with a scale alone and a KL in closed form."""

    def __init__(self, scale: float = 1.0):
        require_positive(type(self).__name__, scale=scale)
        self.scale = float(scale)

    @abstractmethod
    def each_kl(self, family, loc, scale, xp):
        """Returns KL(q ‖ p) of every scalar."""

    def kl(self, family, loc, scale, keys=None):
        return ops.sum(self.each_kl(family, loc, scale, ops))

    def kl_exact(self, family, loc, scale):
        return self.each_kl(family, loc.astype("float64"), scale.astype("float64"), float64)

    def kl_upper(self, family, loc, scale, quick=False):
        return self.kl_exact(family, loc, scale)  # a closed form

    def get_config(self):
        return {"scale": self.scale}


@_register
class Normal(ScalePrior):
    """w ~ N(0, scale²)."""

    def log_density(self, w, xp=ops):
        return -0.5 * (w / self.scale) ** 2 - math.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def each_kl(self, family, loc, scale, xp):
        expected = -0.5 * family.mean_square(loc, scale) / self.scale**2
        return math.log(self.scale) + 0.5 * math.log(2 * math.pi) - expected - family.entropy(scale, xp)


@_register
class Laplace(ScalePrior):
    """w ~ Laplace(0, scale): density exp(−|w|/scale) / (2 scale)."""

    def log_density(self, w, xp=ops):
        return -xp.abs(w) / self.scale - math.log(2 * self.scale)

    def each_kl(self, family, loc, scale, xp):
        expected = -family.mean_abs(loc, scale, xp) / self.scale
        return math.log(2 * self.scale) - expected - family.entropy(scale, xp)


@_register
class ScaleMixture(Prior):
    """w ~ π N(0, σ₁²) + (1 − π) N(0, σ₂²), the paper's prior: a wide slab and a narrow spike.

    Its KL has no closed form. `estimate="sampled"` trains on an unbiased estimate (one noise value per weight),
    `estimate="bound"` on the closed-form upper bound −log(π e^(−KL₁) + (1 − π) e^(−KL₂)), which needs no noise and
    still maximises a lower bound of the evidence.

    Args:
        sigma2: standard deviation of the spike. Where the paper prints N(0, e⁻⁶), `sigma2_is_variance=True` reads e⁻⁶
            as the variance instead.
    """

    def __init__(
        self,
        pi: float = 0.5,
        sigma1: float = 1.0,
        sigma2: float = math.exp(-6),
        estimate: str = "sampled",
        sigma2_is_variance: bool = False,
    ):
        require_positive("ScaleMixture", sigma1=sigma1, sigma2=sigma2)
        if not 0 < pi < 1:
            raise ValueError(f"ScaleMixture needs 0 < pi < 1; got pi={pi!r}.")
        if estimate not in ("sampled", "bound"):
            raise ValueError(f"ScaleMixture needs estimate 'sampled' or 'bound'; got estimate={estimate!r}.")
        self.pi, self.sigma1, self.sigma2, self.estimate = float(pi), float(sigma1), float(sigma2), estimate
        self.sigma2_is_variance = sigma2_is_variance
        self._wide, self._narrow = Normal(sigma1), Normal(math.sqrt(sigma2) if sigma2_is_variance else sigma2)
        parts = [(math.log(pi), self._wide), (math.log1p(-pi), self._narrow)]
        self._by_width = sorted(parts, key=lambda part: -part[1].scale)

    def log_density(self, w, xp=ops):
        # log(p + q) = log p + log(1 + q/p), and q/p of the narrow to the wide component only falls from 0 outwards.
        (log_pi, wide), (log_rest, narrow) = self._by_width
        peak = log_rest - log_pi + math.log(wide.scale / narrow.scale)
        ratio = peak - 0.5 * ((w / narrow.scale) ** 2 - (w / wide.scale) ** 2)
        return log_pi + wide.log_density(w, xp) + xp.log(1.0 + xp.exp(ratio))

    def kl(self, family, loc, scale, keys=None):
        if self.estimate == "bound":
            return self.kl_bound(family, loc, scale)
        w = loc + scale * family.noise(tuple(loc.shape), keys())
        return -ops.sum(family.entropy(scale) + self.log_density(w))

    def kl_bound(self, family, loc, scale):
        wide = math.log(self.pi) - self._wide.each_kl(family, loc, scale, ops)
        narrow = math.log1p(-self.pi) - self._narrow.each_kl(family, loc, scale, ops)
        # log(e^wide + e^narrow) in a form that XLA vectorises.
        return -ops.sum(ops.maximum(wide, narrow) + ops.log1p(ops.exp(-ops.abs(wide - narrow))))

    def kl_exact(self, family, loc, scale):
        narrow, wide = sorted((self._narrow.scale, self._wide.scale))  # the spike may be either component
        spike = narrow * np.array([0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 32])
        bends = np.concatenate([-spike, spike, wide * np.array([-2, -1, 1, 2])])
        expected = expectation(lambda w: self.log_density(w, float64), family, loc, scale, bends)
        return -expected - family.entropy(scale.astype("float64"), float64)

    def kl_upper(self, family, loc, scale, quick=False):
        if family.name == "gaussian" and not quick:
            return mixture_kl(loc, scale, self.pi, self._wide.scale, self._narrow.scale)
        parts = ((math.log(self.pi), self._wide), (math.log1p(-self.pi), self._narrow))
        return -np.logaddexp(*(log - prior.kl_exact(family, loc, scale) for log, prior in parts))

    def get_config(self):
        names = ("pi", "sigma1", "sigma2", "estimate", "sigma2_is_variance")
        return {name: getattr(self, name) for name in names}


PRIORS = {"normal": Normal, "laplace": Laplace, "scale_mixture": ScaleMixture}


def get(identifier) -> Prior:
    """Returns a prior from a prior, its name, or its serialised form."""
    if isinstance(identifier, Prior):
        return identifier
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, str) and identifier in PRIORS:
        return PRIORS[identifier]()
    raise ValueError(f"prior needs a Prior or one of {sorted(PRIORS)}; got prior={identifier!r}.")
