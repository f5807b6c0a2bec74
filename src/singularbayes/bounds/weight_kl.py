"""KL(q ‖ p) of every scalar weight w ~ N(loc, scale²), in nats: exact, or from above and without random numbers.

A certificate breaks when its KL is too small, so estimates from draws have no place here. All weights are independent:
the KL of a network is the sum of these numbers.
"""

import numpy as np
from scipy.special import ndtr

from singularbayes.checks import require_finite, require_positive, require_share

_STEP = 0.25  # of the log-odds between the two components, from one cut to the next
_LAST = 8.0  # log-odds from which on ignoring the narrow component costs at most e⁻⁸
_EPS = float(np.finfo("float64").eps)
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
    which the odds of the components hardly change give nearly the KL itself. What float64 may lose is added.

    >>> mixture_kl(0.0, 0.1).round(3)
    np.float64(2.217)
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
    summed = -entropy - expected.reshape(loc.shape) + 4 * _EPS * (np.abs(entropy) + 2)
    # The KL is at most that to one component, less the log of its weight; rounding of many pieces must not exceed it.
    ceiling = [_component_kl(loc, scale, sigma) - log_weight * (1 + 4 * _EPS) for log_weight, sigma in parts]
    return np.minimum(summed, np.min(ceiling, axis=0))


def _component_kl(loc, scale, sigma: float) -> np.ndarray:
    """Returns KL(N(loc, scale²) ‖ N(0, σ²)), rounded up."""
    lost = np.abs(np.log(sigma / scale)) + (scale**2 + loc**2) / (2 * sigma**2) + 1
    return normal_kl(loc, scale, 0.0, sigma) + 8 * _EPS * lost


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
    """Returns a lower bound of E[log p(w)] of every scalar, rounding included."""
    z = (cuts[:, None] - loc) / scale  # (cuts, scalars)
    mass, top = _interval_mass(z[:-1], z[1:])
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    finite = np.where(np.isfinite(z), z, 0.0)
    first = density[:-1] - density[1:]  # E[z; piece]
    second = mass + finite[:-1] * density[:-1] - finite[1:] * density[1:]  # E[z²; piece]
    square = loc**2 * mass + 2 * loc * scale * first + scale**2 * second  # E[w²; piece]
    # Of a narrow piece under a wide posterior little is left of these terms: what they lose is not small beside it.
    at_cuts = (1 + np.abs(finite)) ** 3 * density  # above |z| · density, and above what z, rounded, moves it by
    lost = 8 * _EPS * (top + at_cuts[:-1] + at_cuts[1:])
    inside = mass > 1e-300
    mean_square = np.divide(square + (np.abs(loc) + scale) ** 2 * lost, mass, out=np.zeros_like(mass), where=inside)
    # It lies between the squares of its cuts, whatever the rounding.
    ends = np.sort(np.stack([cuts[:-1], cuts[1:]]) ** 2, axis=0)[..., None]
    mean_square = np.clip(mean_square, np.where(np.isfinite(ends[0]), ends[0], 0.0), ends[1])
    logs = [log - np.log(s) - 0.5 * np.log(2 * np.pi) - 0.5 * mean_square / s**2 for log, s in parts]
    value = np.logaddexp(*logs)
    size = np.abs(value) + sum(abs(log) + abs(np.log(s)) + 1 for log, s in parts)
    rounding = (lost + (len(cuts) + 16) * _EPS * mass) * size  # of the mass, of the logs, and of their sum
    return np.where(inside, mass * value - rounding, 0.0).sum(axis=0)


def _interval_mass(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns Φ(right) − Φ(left), in the tail where it loses few digits, and the larger of the two Φ."""
    flip = left > 0
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    top = ndtr(right)
    return top - ndtr(left), top


def _require(name: str, loc, scale) -> None:
    require_finite(name, loc=loc)
    require_positive(name, scale=scale)
