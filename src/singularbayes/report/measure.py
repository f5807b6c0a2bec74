"""A number that methods are compared by: what it is called, its unit, and which end is the better one."""

from dataclasses import dataclass

import numpy as np

BETTER = ("higher", "lower")


@dataclass(frozen=True)
class Measure:
    """A measure's name and direction.

    Args:
        name: as readers know it, "NLL".
        better: "higher" or "lower".
        unit: "nats", "%"; empty for a pure number.
        limits: (least, most) of its scale in a radar, the same for all data; None takes those of the data.

    >>> Measure("NLL", "lower", "nats").label, Measure("AUROC", "higher").arrow
    ('NLL (nats), lower is better', '↑')
    """

    name: str
    better: str
    unit: str = ""
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.better not in BETTER:
            raise ValueError(
                f"Measure needs better to be one of {list(BETTER)}; got {self.better!r} for {self.name!r}."
            )
        if self.limits is not None and not (np.isfinite(self.limits).all() and self.limits[0] < self.limits[1]):
            raise ValueError(
                f"Measure needs finite limits (least, most), least < most; got {self.limits!r} for {self.name!r}."
            )

    @property
    def sign(self) -> int:
        """1 where higher is better, −1 where lower is."""
        return 1 if self.better == "higher" else -1

    @property
    def arrow(self) -> str:
        return "↑" if self.better == "higher" else "↓"

    @property
    def label(self) -> str:
        """Name, unit and direction, for an axis."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}, {self.better} is better"
