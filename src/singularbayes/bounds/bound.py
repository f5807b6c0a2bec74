"""A bound: its value, its conditions and its defects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from numbers import Integral


class Refused(ValueError):
    """Why no certificate speaks about a model as it is: nothing is wrong with the call.

    >>> str(Refused("layer 1 (Dense) has a bias"))
    'layer 1 (Dense) has a bias'
    """


@dataclass(frozen=True, repr=False)
class Bound:
    """quantity ≤ value (or ≥), with probability at least `confidence`, if the assumptions hold.

    A bound with a named defect is not a certificate: its number may be below the truth.

    Args:
        trivial: the value from which on the bound is vacuous: 1 for a risk, 0 for a probability from below.
        deltas: what may go wrong → its probability; they add up.
        terms: the numbers that the value is made of.
        sentence: the statement in plain words; shown where it is a certificate and not vacuous.

    >>> print(Bound("hold-out", "error", 0.1, deltas={"data": 0.05}, trivial=1.0))
    hold-out: error ≤ 0.1001 with probability ≥ 0.95
      certificate
      δ: data 0.05
    """

    name: str
    quantity: str
    value: float
    side: str = "≤"
    assumptions: tuple[str, ...] = ()
    deltas: Mapping[str, float] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    trivial: float = math.inf
    defect: str | None = None
    sentence: str = ""

    def __post_init__(self):
        if not sum(self.deltas.values()) < 1:
            parts = ", ".join(f"{key} {value:g}" for key, value in self.deltas.items())
            raise ValueError(f"{self.name} needs parts of δ that add to less than 1; got {parts}.")

    @property
    def is_certificate(self) -> bool:
        return self.defect is None

    @property
    def confidence(self) -> float:
        return 1.0 - sum(self.deltas.values())

    @property
    def vacuous(self) -> bool:
        shown = float(self.rounded)  # a risk of at most 100 % states nothing
        return shown >= self.trivial if self.side == "≤" else shown <= self.trivial

    def with_defect(self, defect: str) -> "Bound":
        """Returns the same bound with one more reason why it is not a certificate.

        >>> Bound("PAC-Bayes", "risk", 0.1).with_defect("the prior saw these examples").is_certificate
        False
        """
        return replace(self, defect="; ".join(filter(None, [self.defect, defect])))

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.quantity} {self.side} {self.rounded}"]
        if self.deltas:
            lines[0] += f" with probability ≥ {self.confidence:.4g}"
        if self.sentence and self.is_certificate and not self.vacuous:
            lines.append(f"  {self.sentence}")
        worth = "certificate" if self.is_certificate else f"NOT a certificate: {self.defect}"
        lines.append(f"  {worth}{', vacuous' if self.vacuous else ''}")
        for title, numbers in (("δ", self.deltas), ("terms", self.terms)):
            if numbers:
                lines.append(f"  {title}: " + ", ".join(f"{key} {_shown(value)}" for key, value in numbers.items()))
        if self.assumptions:
            lines.append(f"  assumes: {'; '.join(self.assumptions)}")
        return "\n".join(lines)

    @property
    def rounded(self) -> str:
        """The value in four digits: from above rounded up, from below down, so that what is printed holds too."""
        rounding = ROUND_CEILING if self.side == "≤" else ROUND_FLOOR
        return f"{float(Context(prec=4, rounding=rounding).create_decimal_from_float(float(self.value))):.4g}"

    @property
    def percent(self) -> str:
        """The value in per cent, rounded as `rounded`.

        >>> Bound("PAC-Bayes", "risk", 0.030712).percent
        '3.072 %'
        """
        return f"{float(Decimal(self.rounded) * 100):.4g} %"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, Integral) else f"{value:.4g}"
