"""The paper's comparison of PAC-Bayes with Gaussian complexity: how the two gaps of one linear layer scale.

With W of shape (d_in, d_out), rank r and ‖W‖₂ ≤ C₁, inputs ‖x‖ ≤ R, an L-Lipschitz loss in [0, 1] and C nats of KL for
every entry of A and B,

    PAC-Bayes            √((C r (d_in + d_out) + ln(2√N/δ))/(2N))
    Gaussian complexity  √(2π) L C₁ R √(r d_out/N) + 3 √(ln(2/δ)/(2N)).

Without the logarithms PAC-Bayes is the smaller where C (d_in + d_out) < 4π L² C₁² R² d_out, whatever rank and N are.
The paper prints √(πL) C₀ C₁² in place of √(2π) L C₁, and so another rule. Planning figures, no certificates: they take
the same KL for every weight.
"""

import math
from dataclasses import dataclass

from singularbayes.checks import require_choice, require_integer, require_positive, require_share


@dataclass(frozen=True)
class ScalingComparison:
    """Both gaps, and the two sides of the rule without logarithms: the smaller side has the smaller gap.

    >>> scaling_comparison((44, 128), 15, weight_kl=1.0, norm=1.0, radius=1.0, num_data=40_000).smaller
    'PAC-Bayes'
    """

    pac_bayes: float
    gaussian_complexity: float
    rule_pac_bayes: float
    rule_gaussian_complexity: float

    @property
    def smaller(self) -> str:
        """The bound with the smaller gap."""
        return "PAC-Bayes" if self.pac_bayes < self.gaussian_complexity else "Gaussian complexity"


def scaling_comparison(
    shape: tuple[int, int],
    rank: int,
    weight_kl: float,
    norm: float,
    radius: float,
    num_data: int,
    *,
    lipschitz: float = 1.0,
    delta: float = 0.05,
    variant: str = "sound",
) -> ScalingComparison:
    """Returns the gaps of one linear layer by PAC-Bayes and by Gaussian complexity.

    Args:
        shape: (d_in, d_out).
        weight_kl: C, the KL of an entry of A or B in nats.
        norm: C₁ with ‖W‖₂ ≤ C₁, fixed without the examples.
        variant: "published" has √(πL) C₀ C₁² with C₀ = 1, which is false; see `gaussian_complexity`.

    >>> found = scaling_comparison((44, 128), 15, weight_kl=1.0, norm=1.0, radius=1.0, num_data=40_000)
    >>> found.smaller, round(found.pac_bayes, 3), round(found.gaussian_complexity, 3)
    ('PAC-Bayes', 0.180, 0.570)
    """
    require_choice("scaling_comparison", ("sound", "published"), variant=variant)
    d_in, d_out = shape
    require_integer("scaling_comparison", d_in=d_in, d_out=d_out, rank=rank, num_data=num_data)
    require_positive("scaling_comparison", weight_kl=weight_kl, norm=norm, radius=radius, lipschitz=lipschitz)
    require_share("scaling_comparison", delta=delta)
    if variant == "published":
        factor = math.sqrt(math.pi * lipschitz) * norm**2
    else:
        factor = math.sqrt(2 * math.pi) * lipschitz * norm
    kl = weight_kl * rank * (d_in + d_out)
    return ScalingComparison(
        math.sqrt((kl + math.log(2 * math.sqrt(num_data) / delta)) / (2 * num_data)),
        factor * radius * math.sqrt(rank * d_out / num_data) + 3 * math.sqrt(math.log(2 / delta) / (2 * num_data)),
        weight_kl * (d_in + d_out),
        2 * (factor * radius) ** 2 * d_out,
    )
