"""A number that methods are compared by: what it is called, its unit, and which end is the better one."""

from dataclasses import KW_ONLY, dataclass

BETTER = ("higher", "lower")


@dataclass(frozen=True)
class Measure:
    """A measure's name and direction; tables and figures take the same ones.

    Args:
        name: as an evaluation calls it, "nll".
        better: "higher", "lower", the value that is best, or None where neither is.
        unit: "nats", "%"; empty for a pure number.
        label: as readers know it, "NLL"; else its name.
        whole: it is a count.
        scale: tables and figures show it divided by this.
        decimals: that tables show after dividing; None shows as many as the largest mean needs.
        ranked: tables mark the best. Time and memory are not ranked: they hold what is compiled, and
            the whole process, so that order and chance can decide.

    >>> Measure("nll", "lower", "nats", label="NLL").axis, Measure("AUROC", "higher").arrow
    ('NLL (nats), lower is better', '↑')
    """

    name: str
    better: str | float | None = None
    unit: str = ""
    _: KW_ONLY
    label: str = ""
    whole: bool = False
    scale: float = 1.0
    decimals: int | None = None
    ranked: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.better, str) and self.better not in BETTER:
            raise ValueError(
                f"Measure needs better to be one of {list(BETTER)}, the best value or None; got {self.better!r} for "
                f"{self.name!r}."
            )
        object.__setattr__(self, "label", self.label or self.name)

    @property
    def has_direction(self) -> bool:
        """Whether higher or lower is better; else there is a best value, or none."""
        return self.better in BETTER

    @property
    def sign(self) -> int:
        """1 where higher is better, −1 where lower is."""
        if not self.has_direction:
            raise ValueError(
                f"A figure needs measures of which higher or lower is better; got better={self.better!r} of "
                f"{self.name!r}."
            )
        return 1 if self.better == "higher" else -1

    @property
    def arrow(self) -> str:
        """↑, ↓, → with the best value, or nothing."""
        if self.better is None:
            return ""
        return {"higher": "↑", "lower": "↓"}.get(str(self.better), f"→ {self.better}")

    @property
    def axis(self) -> str:
        """Label, unit and direction, for an axis."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.label}{unit}, {self.better} is better"

    def loss(self, value: float) -> float | None:
        """Returns a number that is lower for better values; None where neither is better."""
        if self.better is None:
            return None
        if not isinstance(self.better, str):
            return abs(value - self.better)
        return -self.sign * value
