"""Bounds as the paper prints them, where they are not sound: numbers below the truth, each with its defect.

`singularbayes.bounds` has the sound forms. `peeled_complexity` is what the paper's explicit bound should be; its two
constants have no known value, so for more than one layer it is no certificate either.
"""

import math
from dataclasses import replace

import numpy as np

from singularbayes.bounds import Bound, NetworkClass, complexity_risk

_TRANSCRIBED = (
    "Pinto's Theorem 7 mis-transcribed: the first norm is counted twice, the norms of earlier layers are missing, and "
    "its two constants are one; false for every C₀"
)
_UNKNOWN = "Maurer's constants K₁ and K₂ have no known value: with K = 1 the number is an index"
_CONTRACTION = "the constant √(πλ) is false: rescaling outputs and loss leaves the problem as it is and sends √λ Ĝ to 0"
_ONE_SCALE = "one scale, here the mean, stands for unequal ones"


def printed_complexity(network: NetworkClass, input_norm: float, num_data: int, c0: float = 1.0) -> Bound:
    """Returns the paper's explicit bound of Ĝ.

    >>> printed_complexity(NetworkClass(norms=[0.1], ranks=[1], widths=[1, 1]), 3.0, 9).value  # C₁ counted twice
    0.0033
    """
    scaled = [c0 * norm for norm in network.norms]
    layers = [norm * layer for norm, layer in zip(network.norms, _layers(network), strict=True)]
    later = sum(layer * math.prod(scaled[j:]) for j, layer in enumerate(layers[1:], start=2))
    value = input_norm / num_data * (layers[0] * math.prod(scaled) + later)
    return Bound("Gaussian complexity, printed", "Ĝ of the class", value, terms={"C₀": c0}, defect=_TRANSCRIBED)


def peeled_complexity(
    network: NetworkClass, input_norm: float, num_data: int, k1: float = 1.0, k2: float = 1.0
) -> Bound:
    """Returns (‖X‖/N) ∏C_i (K₁^(D−1) √(r₁h₁) + 2 K₂ Σ_{i≥2} K₁^(D−i) √(r_i h_i)): layer by layer, and sound.

    >>> peeled_complexity(NetworkClass(norms=[0.1], ranks=[1], widths=[1, 1]), 3.0, 9).is_certificate
    True
    """
    first, *later = _layers(network)
    peeled = sum(k1 ** (network.depth - i) * layer for i, layer in enumerate(later, start=2))
    value = input_norm / num_data * network.norm * (k1 ** (network.depth - 1) * first + 2 * k2 * peeled)
    defect = _UNKNOWN if network.depth > 1 else None  # of one layer nothing is peeled, and no constant enters
    return Bound("Gaussian complexity, peeled", "Ĝ of the class", value, terms={"K₁": k1, "K₂": k2}, defect=defect)


def printed_risk(risk: float, complexity: Bound, num_data: int, lipschitz: float = 1.0, delta: float = 0.05) -> Bound:
    """Returns the paper's bound of the mean predictor's risk, with √(πλ) in place of √(2π) λ.

    >>> everything = Bound("Ĝ", "all functions into [0, 1]", 1 / math.sqrt(2 * math.pi))
    >>> printed_risk(0.0, everything, 10_000).value  # a function may be 0 on the examples and 1 elsewhere
    0.7478
    """
    sound = complexity_risk(risk, complexity, num_data, lipschitz, delta)
    gap = math.sqrt(math.pi * lipschitz) * complexity.value
    uncapped = risk + gap + sound.terms["slack"]
    terms = {**sound.terms, "gap": gap, "uncapped": uncapped}
    return replace(sound, value=min(1.0, uncapped), terms=terms).with_defect(_CONTRACTION)


def gaussian_norm(loc: np.ndarray, scale: np.ndarray, delta: float = 0.05) -> float:
    """Returns C with ‖A‖₂ ≤ C with probability 1 − δ, for independent A_ij ~ N(loc_ij, scale_ij²).

    C = ‖loc‖₂ + s (√h + √r) + s √(2 ln(1/δ)) with s the *largest* scale (Gordon; Gaussian concentration).

    >>> round(gaussian_norm(np.zeros((100, 5)), np.full((100, 5), 0.1)), 2)
    1.47
    """
    return _norm(loc, float(np.max(scale)), 1 / delta)


def printed_norm(loc: np.ndarray, scale: np.ndarray, delta: float = 0.05) -> Bound:
    """Returns the paper's bound of the norm, which has one scale for all entries: here their mean.

    >>> scale = np.full((100, 5), 1e-9)
    >>> scale[0] = 1.0  # one wild row: its norm alone is about 2.1
    >>> printed_norm(np.zeros((100, 5)), scale).value < 0.2
    True
    """
    unequal = np.min(scale) < np.max(scale)
    value = _norm(loc, float(np.mean(scale)), 2 / delta)
    defect = _ONE_SCALE if unequal else None
    return Bound("Spectral norm, printed", "norm of a factor", value, deltas={"draw": delta}, defect=defect)


def _norm(loc: np.ndarray, scale: float, odds: float) -> float:
    spread = scale * sum(map(math.sqrt, loc.shape))
    return float(np.linalg.norm(loc, 2)) + spread + scale * math.sqrt(2 * math.log(odds))


def _layers(network: NetworkClass) -> list[float]:
    return [math.sqrt(r * h) for r, h in zip(network.true_ranks, network.widths[1:], strict=True)]
