"""Expectations over one scalar weight by deterministic quadrature, in float64.

The mixture prior's narrow component is a spike of width σ₂ (e⁻⁶ by default) that a plain Gauss–Hermite rule steps over.
Here each scalar's integral is cut at multiples of the posterior's scale around its mean and at the points where the
integrand is known to bend, and every piece gets its own Gauss–Legendre rule, so the spike is always resolved.
"""

from collections.abc import Callable

import numpy as np

from singularbayes.posteriors.families import float64

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_CHUNK = 1 << 14  # scalars at a time: bounds the memory whatever the size of the network


def expectation(
    function: Callable[[np.ndarray], np.ndarray], family, loc: np.ndarray, scale: np.ndarray, bends: np.ndarray
) -> np.ndarray:
    """Returns E[function(w)] for every scalar w ~ family(loc, scale), given the points where `function` bends."""
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
