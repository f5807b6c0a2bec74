"""The paper's table of loss constants, its softmax row corrected: Lipschitz and smoothness in the first argument."""

from dataclasses import dataclass

from singularbayes.checks import require_choice, require_positive


@dataclass(frozen=True)
class LossConstants:
    """|ℓ(z) − ℓ(z′)| ≤ lipschitz ‖z − z′‖ and ‖∇ℓ(z) − ∇ℓ(z′)‖ ≤ smoothness ‖z − z′‖; None where there is none."""

    lipschitz: float | None
    smoothness: float | None
    on: str


_ANYWHERE = {
    "mae": LossConstants(1.0, None, "one output"),
    "softmax_ce": LossConstants(2**0.5, 0.5, "all logits"),
    "bce_logit": LossConstants(1.0, 0.25, "one logit"),
    "hinge": LossConstants(1.0, None, "one output"),
    "brier_half_on_simplex": LossConstants(2**0.5, 1.0, "probabilities"),
}
# Per bound B of ‖z‖ and ‖y‖; without one they have no Lipschitz constant.
_BOUNDED = {"mse_half_norm_sq": (2.0, 1.0), "mse_no_half": (4.0, 2.0)}
LOSSES = (*_ANYWHERE, *_BOUNDED)
PRINTED_SOFTMAX_SMOOTHNESS = 0.25  # right for one logit; the largest eigenvalue of diag(p) − p pᵀ is ½


def loss_constants(loss: str, output_bound: float | None = None) -> LossConstants:
    """Returns the constants of a loss.

    Args:
        output_bound: B with ‖z‖ ≤ B and ‖y‖ ≤ B, for squared errors.

    >>> loss_constants("softmax_ce").smoothness, loss_constants("mse_no_half", 3.0).lipschitz
    (0.5, 12.0)
    """
    require_choice("loss_constants", LOSSES, loss=loss)
    if loss in _ANYWHERE:
        return _ANYWHERE[loss]
    factor, smoothness = _BOUNDED[loss]
    if output_bound is None:
        return LossConstants(None, smoothness, "all outputs")
    require_positive("loss_constants", output_bound=output_bound)
    return LossConstants(factor * output_bound, smoothness, f"outputs and targets of norm <= {output_bound:g}")
