"""KL(q ‖ p) of every scalar weight w ~ N(loc, scale²), in nats: exact, or from above and without random numbers.

A certificate breaks when its KL is too small, so estimates from draws have no place here. All weights are independent:
the KL of a network is the sum of these numbers.
"""

import numpy as np
from scipy.special import ndtr

from singularbayes.bounds.require import require_finite, require_positive, require_share

_STEP = 0.25  # of the log-odds between the two components, from one cut to the next
_LAST = 8.0  # log-odds from which on ignoring the narrow component costs at most e⁻⁸
_CHUNK = 1 << 11  # scalars at a time: the arrays stay in the cache


def normal_kl(loc, scale, prior_loc=0.0, prior_scale=1.0) -> np.ndarray:
    """Returns KL(N(loc, scale²) ‖ N(prior_loc, prior_scale²)), exactly.

    It goes to infinity with scale → 0: a posterior that hardly varies is *not* close to its prior.

    >>> float(normal_kl(0.0, 1e-4))
    8.71
    """
    _require("normal_kl", loc, scale)
    require_finite("normal_kl", prior_loc=prior_loc)
    require_positive("normal_kl", prior_scale=prior_scale)
    loc, scale = np.asarray(loc, "float64"), np.asarray(scale, "float64")
    return np.log(prior_scale / scale) + (scale**2 + (loc - prior_loc) ** 2) / (2 * np.square(prior_scale)) - 0.5


def mixture_kl(loc, scale, pi: float = 0.5, sigma1: float = 1.0, sigma2: float = float(np.exp(-6))) -> np.ndarray:
    """Returns an upper bound of KL(N(loc, scale²) ‖ π N(0, σ₁²) + (1 − π) N(0, σ₂²)), less than 0.002 above it.

    For every piece of the line, −log(a + b) ≤ −log(e^E[log a] + e^E[log b]) on average (Jensen), and both expectations
    are moments of a truncated Gaussian, in closed form. One piece gives −log(π e^(−KL₁) + (1 − π) e^(−KL₂)); pieces on
    which the odds of the components hardly change give nearly the KL itself.
    """
    _require("mixture_kl", loc, scale)
    require_share("mixture_kl", pi=pi)
    require_positive("mixture_kl", sigma1=sigma1, sigma2=sigma2)
    loc, scale = np.broadcast_arrays(np.asarray(loc, "float64"), np.asarray(scale, "float64"))
    parts = [(np.log(pi), sigma1), (np.log1p(-pi), sigma2)]
    cuts = _cuts(parts)
    flat = loc.ravel(), scale.ravel()
    chunks = [slice(i, i + _CHUNK) for i in range(0, loc.size, _CHUNK)]
    expected = np.concatenate([_expected_log(parts, cuts, flat[0][chunk], flat[1][chunk]) for chunk in chunks])
    entropy = np.log(scale) + 0.5 * np.log(2 * np.pi * np.e)
    # The KL is at most that to one component, less the log of its weight; rounding of many pieces must not exceed it.
    ceiling = np.min([normal_kl(loc, scale, 0.0, sigma) - log_weight for log_weight, sigma in parts], axis=0)
    return np.minimum(-entropy - expected.reshape(loc.shape), ceiling)


def _cuts(parts) -> np.ndarray:
    """Returns points between which the log-odds of the wide component change by a step, symmetric around 0."""
    (log_narrow, narrow), (log_wide, wide) = sorted(parts, key=lambda part: part[1])
    if narrow == wide:
        return np.array([-np.inf, np.inf])
    start = log_wide - log_narrow + np.log(narrow / wide)
    odds = np.arange(start, max(_LAST, start + 1), _STEP)
    w = np.sqrt(2 * (odds - start) / (narrow**-2.0 - wide**-2.0))
    return np.concatenate([[-np.inf], -w[:0:-1], w, [np.inf]])


def _expected_log(parts, cuts, loc, scale) -> np.ndarray:
    """Returns a lower bound of E[log p(w)] of every scalar."""
    z = (cuts[:, None] - loc) / scale  # (cuts, scalars)
    mass = _interval_mass(z[:-1], z[1:])
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    finite = np.where(np.isfinite(z), z, 0.0)
    first = density[:-1] - density[1:]  # E[z; piece]
    second = mass + finite[:-1] * density[:-1] - finite[1:] * density[1:]  # E[z²; piece]
    square = loc**2 * mass + 2 * loc * scale * first + scale**2 * second  # E[w²; piece]
    inside = mass > 1e-300
    mean_square = np.divide(square, mass, out=np.zeros_like(mass), where=inside)
    # It lies between the squares of its cuts, whatever rounding says of narrow pieces under a wide posterior.
    ends = np.sort(np.stack([cuts[:-1], cuts[1:]]) ** 2, axis=0)[..., None]
    mean_square = np.clip(mean_square, np.where(np.isfinite(ends[0]), ends[0], 0.0), ends[1])
    logs = [log - np.log(s) - 0.5 * np.log(2 * np.pi) - 0.5 * mean_square / s**2 for log, s in parts]
    return np.where(inside, mass * np.logaddexp(*logs), 0.0).sum(axis=0)


def _interval_mass(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns Φ(right) − Φ(left), in the tail where it loses no digits."""
    flip = left > 0
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    return ndtr(right) - ndtr(left)


def _require(name: str, loc, scale) -> None:
    require_finite(name, loc=loc)
    require_positive(name, scale=scale)
