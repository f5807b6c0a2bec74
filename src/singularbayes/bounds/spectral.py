"""Spectral norms of random factors: how large they are, and how to keep them small.

What keeping them small guarantees depends on what it is done to:

- projecting the *means* after a step bounds the means alone; draws exceed the limit freely,
- clipping every *draw* bounds the draws almost surely; the KL is then that of clipped prior and posterior, at most
  KL(q ‖ p) by data processing (to the unclipped prior it is infinite),
- rejecting draws outside bounds the draws almost surely; the KL grows to `truncated_kl`, also where only a number of
  draws is rejected and the next is clipped, with clipped prior and posterior,
- a penalty bounds nothing; with `gaussian_norm` the norm holds with a probability.
"""

import math

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_at_least, require_choice, require_finite, require_positive, require_share


def gaussian_norm(loc: np.ndarray, scale: np.ndarray, delta: float = 0.05, variant: str = "sound") -> Bound:
    """Returns C with ‖A‖₂ ≤ C with probability 1 − δ, for independent A_ij ~ N(loc_ij, scale_ij²).

    C = ‖loc‖₂ + s (√h + √r) + s √(2 ln(1/δ)) with s the *largest* scale (Gordon; Gaussian concentration). The paper has
    one scale for all entries; with unequal ones the mean scale, taken for "published", is not valid.

    >>> scale = np.full((100, 5), 1e-9)
    >>> scale[0] = 1.0  # one wild row: its norm alone is about 2.1
    >>> [gaussian_norm(np.zeros((100, 5)), scale, 0.05, variant).value for variant in ("sound", "published")]
    [14.68, 0.15]
    """
    require_choice("gaussian_norm", ("sound", "published"), variant=variant)
    require_finite("gaussian_norm", loc=loc)
    require_positive("gaussian_norm", scale=scale)
    require_share("gaussian_norm", delta=delta)
    loc, scale = np.asarray(loc, "float64"), np.asarray(scale, "float64")
    if loc.ndim != 2 or scale.shape not in ((), loc.shape):
        raise ValueError(f"gaussian_norm needs loc (rows, rank) and scale alike; got {loc.shape} and {scale.shape}.")
    published = variant == "published"
    s = float(scale.mean() if published else scale.max())
    mean = float(np.linalg.norm(loc, 2))
    spread = s * sum(map(math.sqrt, loc.shape))
    tail = s * math.sqrt(2 * math.log((2 if published else 1) / delta))
    defect = "one scale, here the mean, stands for unequal ones" if published and scale.min() < scale.max() else None
    return Bound(
        "Spectral norm",
        "norm of a Gaussian factor",
        mean + spread + tail,
        variant=variant,
        assumptions=("independent Gaussian entries",),
        deltas={"draw": delta},
        terms={"norm of the mean": mean, "spread": spread, "tail": tail, "scale": s},
        defect=defect,
    )


def norm_probability(loc: np.ndarray, scale: np.ndarray, limit: float) -> Bound:
    """Returns a lower bound of P(‖A‖₂ ≤ limit) for a Gaussian factor: `gaussian_norm` solved for its δ.

    1 − exp(−u²/2) with u = (limit − ‖E A‖₂)/s − √h − √r, s the largest scale; 0 where u is not above 0.

    >>> norm_probability(np.zeros((3, 2)), np.full((3, 2), 0.1), limit=0.7).value
    0.9994
    """
    require_positive("norm_probability", limit=limit, scale=scale)
    loc, s = np.asarray(loc, "float64"), float(np.max(scale))
    rows, columns = loc.shape
    u = (limit - float(np.linalg.norm(loc, 2))) / s - math.sqrt(rows) - math.sqrt(columns)
    return Bound(
        "Norm of a Gaussian factor",
        f"probability that a draw has a norm of at most {limit:g}",
        -math.expm1(-(u**2) / 2) if u > 0 else 0.0,
        side="≥",
        assumptions=("independent Gaussian entries",),
        terms={"u": u, "scale": s},
        trivial=0.0,
    )


def project_spectral(matrices: np.ndarray, limit: float) -> np.ndarray:
    """Returns min(1, limit/‖A‖₂) A for each matrix of (…, rows, columns): means or draws.

    >>> project_spectral(np.diag([3.0, 1.0]), 2.0)
    array([[2. , 0. ],
           [0. , 0.66666667]])
    """
    norms = _norms("project_spectral", matrices, limit)[..., None, None]
    return matrices * np.minimum(1.0, np.divide(limit, norms, out=np.ones_like(norms), where=norms > 0))


def spectral_penalty(matrices: np.ndarray, limit: float) -> np.ndarray:
    """Returns max(0, ‖A‖₂ − limit)² of each matrix of (…, rows, columns).

    >>> spectral_penalty(np.diag([3.0, 1.0]), limit=2.0)
    np.float64(1.0)
    """
    return np.maximum(0.0, _norms("spectral_penalty", matrices, limit) - limit) ** 2


def truncated_kl(kl: float, probability: float | Bound) -> float:
    """Returns an upper bound of KL(q_E ‖ p), where q_E is q with the draws outside the event E rejected.

    Also of the KL to the clipped prior, where E is a ball and, after a number of draws outside, the last is clipped.
    (KL(q ‖ p) + h(Z))/Z with Z = q(E) and h the entropy of a coin, in nats. It falls with Z, so a lower bound of Z will
    do: 1 − `good_event_failure`, or `probability_at_least` from draws (its δ then belongs to the certificate).

    >>> truncated_kl(10.0, 1.0), truncated_kl(10.0, 0.5)
    (10.0, 21.386)
    """
    require_at_least("truncated_kl", 0, kl=kl)
    z = probability.value if isinstance(probability, Bound) else probability
    if z != 1:
        require_share("truncated_kl", probability=z)
    entropy = 0.0 if z == 1 else -z * math.log(z) - (1 - z) * math.log1p(-z)
    return (kl + entropy) / z


def _norms(name: str, matrices: np.ndarray, limit: float) -> np.ndarray:
    require_finite(name, matrices=matrices)
    require_positive(name, limit=limit)
    if np.ndim(matrices) < 2:
        raise ValueError(f"{name} needs matrices (…, rows, columns); got shape {np.shape(matrices)}.")
    return np.linalg.norm(matrices, 2, axis=(-2, -1))
