"""Lipschitz and smoothness constants of losses in their first argument: the paper's table, softmax row corrected."""

from dataclasses import dataclass

from singularbayes.checks import require_choice, require_positive

SOFTMAX_LIPSCHITZ = 0.5  # of p = softmax(z): the largest eigenvalue of diag(p) − p pᵀ, reached at (½, ½, 0, …)


@dataclass(frozen=True)
class LossConstants:
    """|ℓ(z) − ℓ(z′)| ≤ lipschitz ‖z − z′‖ and ‖∇ℓ(z) − ∇ℓ(z′)‖ ≤ smoothness ‖z − z′‖; None where there is none."""

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
