"""Location-scale families for one scalar weight: w = loc + scale · noise.

A family gives its noise and the few expectations that priors need; a prior does not know which family it meets. The
formulas take the functions they use from `xp`: `keras.ops` in training, `float64` (NumPy) where a number must be exact.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import keras
import numpy as np
from keras import ops
from scipy.special import erf

from singularbayes.posteriors import noise
from singularbayes.posteriors.noise import one_program

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_CHUNK = 1 << 14  # scalars at a time: bounds the memory whatever the size of the network
# The functions that families and priors use, in NumPy: the same formulas in double precision.
float64 = SimpleNamespace(abs=np.abs, erf=erf, exp=np.exp, log=np.log, sum=np.sum)


class Gaussian:
    """w = loc + scale · ε with ε ~ N(0, 1)."""

    name = "gaussian"
    # Where quadrature cuts the integral, in scales around the mean.
    cuts = tuple(range(-10, 11))

    def noise(self, shape, key):
        return noise.normal(shape, key)

    def variance(self, scale):
        return scale * scale

    def entropy(self, scale, xp=ops):
        return xp.log(scale) + 0.5 * math.log(2 * math.pi * math.e)

    def mean_square(self, loc, scale):
        return loc * loc + scale * scale

    def mean_abs(self, loc, scale, xp=ops):
        # The folded normal: σ √(2/π) exp(−μ²/2σ²) + μ erf(μ/σ√2).
        ratio = loc / scale
        return scale * math.sqrt(2 / math.pi) * xp.exp(-0.5 * ratio * ratio) + loc * xp.erf(ratio / math.sqrt(2))

    def log_density(self, w, loc, scale, xp=ops):
        ratio = (w - loc) / scale
        return -0.5 * ratio * ratio - xp.log(scale) - 0.5 * math.log(2 * math.pi)


class Laplace:
    """w = loc + scale · ε with density exp(−|ε|)/2 of ε; its variance is 2 scale²."""

    name = "laplace"
    cuts = (-40, -25, -16, -10, -6, -4, -2, -1, 0, 1, 2, 4, 6, 10, 16, 25, 40)

    def noise(self, shape, key):
        v = noise.uniform(shape, key) - 0.5
        return -ops.sign(v) * ops.log1p(-2.0 * ops.abs(v))

    def variance(self, scale):
        return 2.0 * scale * scale

    def entropy(self, scale, xp=ops):
        return xp.log(scale) + math.log(2 * math.e)

    def mean_square(self, loc, scale):
        return loc * loc + 2.0 * scale * scale

    def mean_abs(self, loc, scale, xp=ops):
        magnitude = xp.abs(loc)
        return magnitude + scale * xp.exp(-magnitude / scale)

    def log_density(self, w, loc, scale, xp=ops):
        return -xp.abs(w - loc) / scale - xp.log(2.0 * scale)


FAMILIES = {family.name: family for family in (Gaussian(), Laplace())}


def get_family(name: str):
    """Returns the family of that name."""
    if name not in FAMILIES:
        raise ValueError(f"family needs to be one of {sorted(FAMILIES)}; got family={name!r}.")
    return FAMILIES[name]


def expectation(
    function: Callable[[np.ndarray], np.ndarray], family, loc: np.ndarray, scale: np.ndarray, bends: np.ndarray
) -> np.ndarray:
    """Returns E[function(w)] for every scalar w ~ family(loc, scale), given the points where `function` bends.

    Deterministic quadrature in float64. The mixture prior's narrow component is a spike of width σ₂ (e⁻⁶ by default)
    that a plain Gauss–Hermite rule steps over. Here each scalar's integral is cut at multiples of the posterior's scale
    around its mean and at the points where the integrand bends, and every piece gets its own Gauss–Legendre rule.
    """
    shape = np.shape(loc)
    loc, scale = (np.broadcast_to(v, shape).ravel().astype("float64") for v in (loc, scale))
    chunks = [slice(i, i + _CHUNK) for i in range(0, len(loc), _CHUNK)]
    values = [_expectation(function, family, loc[chunk], scale[chunk], bends) for chunk in chunks]
    return np.concatenate([*values, []]).reshape(shape)


def _expectation(function, family, loc, scale, bends):
    around = loc[:, None] + scale[:, None] * np.array(family.cuts, "float64")
    cuts = np.concatenate([around, np.tile(bends, (len(loc), 1))], axis=1)
    cuts = np.sort(np.clip(cuts, around[:, :1], around[:, -1:]), axis=1)
    total = np.zeros(len(loc))
    for left, right in zip(cuts.T[:-1], cuts.T[1:], strict=True):
        half = 0.5 * (right - left)
        if half.any():
            w = left[:, None] + half[:, None] * (_NODES + 1)
            density = np.exp(family.log_density(w, loc[:, None], scale[:, None], float64))
            total += half * ((density * function(w)) @ _WEIGHTS)
    return total


@one_program()
def softplus(rho):
    """Returns log(1 + e^ρ), above 0 for ρ > −87. XLA vectorises the form below on a CPU, and not that of `ops`."""
    if keras.backend.backend() != "jax":
        return ops.softplus(rho)  # one operation
    return ops.maximum(rho, 0.0) + ops.log1p(ops.exp(-ops.abs(rho)))


def inverse_softplus(scale: float) -> float:
    """Returns ρ with softplus(ρ) = scale.

    >>> round(inverse_softplus(0.6931471805599453), 9)
    0.0
    """
    return scale + math.log(-math.expm1(-scale))
