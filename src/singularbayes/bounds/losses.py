"""Constants of losses, and how much the loss of one linear map z = W x can change when W gets a low rank.

Lipschitz and smoothness constants are those of a loss in its first argument: the paper's table, softmax row corrected.

For an L-Lipschitz loss and ‖x‖ ≤ R, |ℓ(Wx) − ℓ(W′x)| ≤ L R ‖W − W′‖₂. The paper has the Frobenius norm, which is never
smaller: true, and looser. Both are about one map; in a deep network R holds the norms of the other layers as well.
"""

from dataclasses import dataclass

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_at_least, require_choice, require_finite, require_integer, require_positive

SOFTMAX_LIPSCHITZ = 0.5  # of p = softmax(z): the largest eigenvalue of diag(p) − p pᵀ, reached at (½, ½, 0, …)
_ASSUMPTIONS = ("one linear map", "L-Lipschitz loss", "‖x‖ ≤ R")


@dataclass(frozen=True)
class LossConstants:
    """|ℓ(z) − ℓ(z′)| ≤ lipschitz ‖z − z′‖ and ‖∇ℓ(z) − ∇ℓ(z′)‖ ≤ smoothness ‖z − z′‖; None where there is none.

    >>> loss_constants("hinge").lipschitz, loss_constants("softmax_ce").smoothness
    (1.0, 0.5)
    """

    lipschitz: float | None
    smoothness: float | None
    on: str
    in_unit_interval: bool = False


_ANYWHERE = {
    "mae": LossConstants(1.0, None, "one output"),
    "softmax_ce": LossConstants(2**0.5, 0.5, "all logits"),
    "bce_logit": LossConstants(1.0, 0.25, "one logit"),
    "hinge": LossConstants(1.0, None, "one output"),
    "brier_half_on_simplex": LossConstants(2**0.5, 1.0, "probabilities", in_unit_interval=True),
}
# Per bound B of ‖z‖ and ‖y‖; without one they have no Lipschitz constant.
_BOUNDED = {"mse_half_norm_sq": (2.0, 1.0), "mse_no_half": (4.0, 2.0)}
LOSSES = (*_ANYWHERE, *_BOUNDED)


def loss_constants(loss: str, output_bound: float | None = None, variant: str = "sound") -> LossConstants:
    """Returns the constants of a loss.

    The paper puts the Hessian of softmax cross-entropy between 0 and ¼, which is right for one logit; its largest
    eigenvalue is ½.

    Args:
        output_bound: B with ‖z‖ ≤ B and ‖y‖ ≤ B, for squared errors.

    >>> loss_constants("softmax_ce").smoothness, loss_constants("softmax_ce", variant="published").smoothness
    (0.5, 0.25)
    """
    require_choice("loss_constants", LOSSES, loss=loss)
    require_choice("loss_constants", ("sound", "published"), variant=variant)
    if loss in _ANYWHERE:
        found = _ANYWHERE[loss]
        wrong = variant == "published" and loss == "softmax_ce"
        return LossConstants(found.lipschitz, 0.25, found.on) if wrong else found
    factor, smoothness = _BOUNDED[loss]
    if output_bound is None:
        return LossConstants(None, smoothness, "all outputs")
    require_positive("loss_constants", output_bound=output_bound)
    return LossConstants(factor * output_bound, smoothness, f"outputs and targets of norm <= {output_bound:g}")


def truncation_bound(
    singular_values: np.ndarray, rank: int, lipschitz: float, radius: float, variant: str = "sound"
) -> Bound:
    """Returns a bound of the change of loss when W keeps its `rank` largest singular values.

    L R s_{r+1}; "published" L R √(s²_{r+1} + s²_{r+2} + …), which is a certificate too.

    >>> for variant in ("sound", "published"):
    ...     print(round(truncation_bound([4.0, 2.0, 1.0, 0.5], 1, lipschitz=1.0, radius=1.0, variant=variant).value, 3))
    2.0
    2.291
    """
    require_choice("truncation_bound", ("sound", "published"), variant=variant)
    require_integer("truncation_bound", 0, rank=rank)
    require_positive("truncation_bound", lipschitz=lipschitz, radius=radius)
    require_finite("truncation_bound", singular_values=singular_values)
    values = np.sort(np.abs(np.asarray(singular_values, "float64")).ravel())[::-1]
    tail = values[rank:]
    norms = {"spectral": float(tail.max(initial=0.0)), "Frobenius": float(np.linalg.norm(tail))}
    return _loss_bound("Truncation", norms, lipschitz * radius, variant, {})


def learned_bound(
    w: np.ndarray, w_star: np.ndarray, rank: int, lipschitz: float, radius: float, variant: str = "sound"
) -> Bound:
    """Returns a bound of the difference in loss between a learned W of rank r and a full W*.

    L R ‖W − W*‖₂. Its terms split it as the paper does: the learning error ‖W − W*_r‖₂, which better training lowers,
    and the rank bias s_{r+1}(W*), which only a higher rank does. "published" is L R times their sum in Frobenius norm.

    >>> w_star = np.diag([3.0, 1.0])
    >>> learned_bound(np.diag([3.1, 0.0]), w_star, rank=1, lipschitz=1.0, radius=2.0).value
    2.0
    """
    require_choice("learned_bound", ("sound", "published"), variant=variant)
    require_integer("learned_bound", 0, rank=rank)
    require_positive("learned_bound", lipschitz=lipschitz, radius=radius)
    require_finite("learned_bound", w=w, w_star=w_star)
    if np.shape(w) != np.shape(w_star) or np.ndim(w) != 2:
        raise ValueError(f"learned_bound needs two matrices of one shape; got {np.shape(w)} and {np.shape(w_star)}.")
    w, w_star = np.asarray(w, "float64"), np.asarray(w_star, "float64")
    u, s, vt = np.linalg.svd(w_star, full_matrices=False)
    away, tail = w - (u[:, :rank] * s[:rank]) @ vt[:rank], s[rank:]
    if variant == "published":
        parts = {"learning error": float(np.linalg.norm(away)), "rank bias": float(np.linalg.norm(tail))}
    else:
        parts = {"learning error": float(np.linalg.norm(away, 2)), "rank bias": float(tail.max(initial=0.0))}
    norms = {"spectral": float(np.linalg.norm(w - w_star, 2)), "Frobenius": sum(parts.values())}
    return _loss_bound("Learned rank", norms, lipschitz * radius, variant, parts)


def stochastic_bound(
    mean_gap: float,
    variances: tuple[float, float],
    lipschitz: float,
    smoothness: float,
    radius: float,
) -> Bound:
    """Returns a bound of the difference in expected loss between two random matrices.

    |E ℓ(Wx) − E ℓ(W′x)| ≤ L ‖x‖ ‖E W − E W′‖₂ + (β/2)(tr Cov Wx + tr Cov W′x), for a loss that is L-Lipschitz at the
    means and β-smooth.

    Args:
        mean_gap: ‖E W − E W′‖₂; the paper's Frobenius norm is valid and looser.
        variances: the summed variances of the outputs of both, see `output_variance`.

    >>> round(stochastic_bound(0.1, (0.01, 0.02), lipschitz=1.0, smoothness=0.5, radius=2.0).value, 4)
    0.2075
    """
    require_at_least("stochastic_bound", 0, mean_gap=mean_gap, first=variances[0], second=variances[1])
    require_positive("stochastic_bound", lipschitz=lipschitz, smoothness=smoothness, radius=radius)
    parts = {"means": lipschitz * radius * mean_gap, "variances": 0.5 * smoothness * sum(variances)}
    return Bound(
        "Random weights",
        "difference in expected loss",
        sum(parts.values()),
        assumptions=(*_ASSUMPTIONS, "β-smooth loss"),
        terms=parts,
    )


def output_variance(x: np.ndarray, a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Returns the variance of every output of x A Bᵀ, for independent entries of A and B.

    Args:
        x: (inputs,) or (examples, inputs).
        a, b: means and *variances* of A (inputs, rank) and B (outputs, rank).

    >>> one = np.ones((1, 1)), np.full((1, 1), 0.5)  # mean and variance of the one entry of A, and of B
    >>> output_variance(np.ones((1, 1)), one, one)
    array([[1.25]])
    """
    require_finite("output_variance", x=x)
    (mean_a, var_a), (mean_b, var_b) = a, b
    m, v = x @ mean_a, np.square(x) @ var_a  # mean and variance of x A, (…, rank)
    return (m**2 + v) @ var_b.T + v @ np.square(mean_b).T


def _loss_bound(name: str, norms: dict[str, float], factor: float, variant: str, parts: dict[str, float]) -> Bound:
    norm = norms["Frobenius" if variant == "published" else "spectral"]
    return Bound(
        name,
        "change of the loss",
        factor * norm,
        variant=variant,
        assumptions=_ASSUMPTIONS,
        terms={**parts, **norms, "L R": factor},
    )
