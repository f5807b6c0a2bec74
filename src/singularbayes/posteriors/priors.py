"""Priors over one scalar weight. `kl` is a *sum* over weights, in nats.

KL(q ‖ p) = −H(q) − E_q[log p(w)]: the entropy and, where there is one, the expectation are closed forms of the family.
"""

import enum
import math
from abc import ABC, abstractmethod

import keras
import numpy as np
from keras import ops

from singularbayes.bounds import mixture_kl
from singularbayes.checks import require_positive, require_share
from singularbayes.posteriors.families import expectation, float64

_register = keras.saving.register_keras_serializable(package="singularbayes")


class Origin(enum.IntFlag):
    """Where the centres and widths of a prior come from."""

    INITIAL = 0  # a random initialisation
    GIVEN = 1  # an initializer that has values of its own
    LEARNED = 2  # `learn_prior` or `centre_prior`
    START = 4  # weights that the means started at; which examples taught them is unknown


class Prior(ABC):
    """What a weight is believed to be before the data. A prior is a value: equal arguments, equal priors.

    >>> from singularbayes import Normal
    >>> isinstance(Normal(0.3), Prior), Normal(0.3) == Normal(0.3)
    (True, True)
    """

    by_column = False  # whether it is about whole columns: then arrays are (entries, columns), and a KL is a column's
    has_centres = False  # whether every weight has a centre and a width, which are kept beside it
    relative = False  # whether that width is the posterior scale that the weight starts with, and not 1
    anchor: str | None = "random"  # where such centres are when means start at given weights: see `Anchored`
    unit_scale_prior: "ScalePrior | None" = None  # that of u in w = centre + width · u, where it is one of one scale
    spread: float | None = None  # standard deviation of the initial means of W; None is that of the initializer

    @property
    def std(self) -> float | None:
        """The standard deviation of a weight around 0, where that is one number for all weights."""
        return None

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

    def kl_upper(self, family, loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Returns an upper bound of KL(q ‖ p) of every scalar in float64, by formula: certificates stand on it."""
        raise TypeError(f"A certificate needs a prior whose KL has a bound, kl_upper; {type(self).__name__} has none.")

    @property
    def has_kl_upper(self) -> bool:
        """Whether there is such a bound."""
        return type(self).kl_upper is not Prior.kl_upper

    def require_anchor(self, where: str, *possible: str) -> None:  # noqa: B027
        """Raises where means start at given weights and nobody chose what centres are then; `where` is the weight."""

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

    def kl_upper(self, family, loc, scale):
        return self.kl_exact(family, loc, scale)  # a closed form

    def get_config(self):
        return {"scale": self.scale}


@_register
class Normal(ScalePrior):
    """w ~ N(0, scale²).

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.LowRank(4, prior=sb.Normal(0.1)))
    """

    @property
    def std(self):
        return self.scale

    def log_density(self, w, xp=ops):
        return -0.5 * (w / self.scale) ** 2 - math.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def each_kl(self, family, loc, scale, xp):
        expected = -0.5 * family.mean_square(loc, scale) / self.scale**2
        return math.log(self.scale) + 0.5 * math.log(2 * math.pi) - expected - family.entropy(scale, xp)


@_register
class Anchored(ScalePrior):
    """w ~ N(anchor, scale²), the anchor of each weight being its own random initial value.

    Anchored ensembling (Pearce et al. 2020) with variational members: away from the data, the prior pulls each
    network to its own random function, and several networks disagree there. A prior centred at zero pulls all of them
    to the same flat one. So the spread of the anchors is the prior over functions. It has seen no data, and its KL has
    a closed form.

    Args:
        spread: standard deviation with which the entries of W, or of a bias, start, and so of the anchors; None is that
            of the initializer, which leaves biases at 0.
        anchor: what the anchor is where the means start at given weights, at an SVD, a pretrained network or after
            conversion: "random", the initial values from before, or "start", the given weights. Then the prior
            may have seen data, remembers it, and `certify` asks which. None refuses such a start.
        relative: `scale` is a multiple of the posterior scale that the weight starts with. A weight then starts with
            log(scale) + 1/(2 scale²) − ½ nats, whatever its layer: 0 for scale 1, 0.32 for 2.

    >>> import singularbayes as sb
    >>> posterior = sb.LowRank(
    ...     2, prior=sb.Anchored(0.1, spread=0.5), rho_initializer=keras.initializers.Constant(-2.25)
    ... )
    >>> posterior.build((30, 40))
    >>> round(posterior.kl_exact(), 1)  # scales of 0.1: posterior and prior are the same
    0.0
    """

    has_centres = True

    def __init__(
        self, scale: float = 0.1, spread: float | None = None, anchor: str | None = None, relative: bool = False
    ):
        super().__init__(scale)
        if spread is not None:
            require_positive("Anchored", spread=spread)
        if anchor not in (None, "random", "start"):
            raise ValueError(f"Anchored needs anchor to be 'random', 'start' or None; got anchor={anchor!r}.")
        self.spread, self.anchor = None if spread is None else float(spread), anchor
        self.relative = bool(relative)
        self._around = Normal(scale)

    @property
    def unit_scale_prior(self) -> ScalePrior:  # type: ignore[override]
        return self

    def log_density(self, w, xp=ops):
        return self._around.log_density(w, xp)

    def each_kl(self, family, loc, scale, xp):
        return self._around.each_kl(family, loc, scale, xp)

    def require_anchor(self, where, *possible):
        if self.anchor not in possible:
            needs = " or ".join(f"anchor={one!r}" for one in possible)
            raise ValueError(
                f"Anchored needs {needs} where means start at given weights (an SVD, a pretrained network, an "
                f"initializer with values of its own); got anchor={self.anchor!r} in {where}. "
                f"Pass prior=Anchored({self.scale:g}, anchor={possible[-1]!r}): 'random' keeps the anchor at random "
                "initial values, 'start' moves it to the weights, which may have seen the data."
            )

    def get_config(self):
        relative = {"relative": True} if self.relative else {}
        return {"scale": self.scale, "spread": self.spread, "anchor": self.anchor, **relative}


@_register
class Laplace(ScalePrior):
    """w ~ Laplace(0, scale): density exp(−|w|/scale) / (2 scale).

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.LowRank(4, prior=sb.Laplace(0.1)))
    """

    @property
    def std(self):
        return math.sqrt(2) * self.scale

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

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.LowRank(4, prior=sb.ScaleMixture(0.5, 1.0, 0.05)))
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
        require_share("ScaleMixture", pi=pi)
        if estimate not in ("sampled", "bound"):
            raise ValueError(f"ScaleMixture needs estimate 'sampled' or 'bound'; got estimate={estimate!r}.")
        self.pi, self.sigma1, self.sigma2, self.estimate = float(pi), float(sigma1), float(sigma2), estimate
        self.sigma2_is_variance = sigma2_is_variance
        self._wide, self._narrow = Normal(sigma1), Normal(math.sqrt(sigma2) if sigma2_is_variance else sigma2)
        parts = [(math.log(pi), self._wide), (math.log1p(-pi), self._narrow)]
        self._by_width = sorted(parts, key=lambda part: -part[1].scale)

    @property
    def std(self):
        return math.sqrt(self.pi * self._wide.scale**2 + (1 - self.pi) * self._narrow.scale**2)

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

    def kl_upper(self, family, loc, scale):
        if family.name == "gaussian":
            return mixture_kl(loc, scale, self.pi, self._wide.scale, self._narrow.scale)
        parts = ((math.log(self.pi), self._wide), (math.log1p(-self.pi), self._narrow))
        return -np.logaddexp(*(log - prior.kl_exact(family, loc, scale) for log, prior in parts))

    def get_config(self):
        names = ("pi", "sigma1", "sigma2", "estimate", "sigma2_is_variance")
        return {name: getattr(self, name) for name in names}


PRIORS = {"normal": Normal, "laplace": Laplace, "scale_mixture": ScaleMixture, "anchored": Anchored}


def get_prior(identifier) -> Prior:
    """Returns a prior from a prior, its name, or its serialised form."""
    if isinstance(identifier, Prior):
        return identifier
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, str) and identifier in PRIORS:
        return PRIORS[identifier]()
    raise ValueError(f"prior needs a Prior or one of {sorted(PRIORS)}; got prior={identifier!r}.")
