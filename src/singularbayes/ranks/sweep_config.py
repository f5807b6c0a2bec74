"""What a sweep is given: data and a budget."""

from dataclasses import asdict, dataclass
from typing import Any

from singularbayes.checks import require_integer


@dataclass(frozen=True)
class Data:
    """What a sweep trains on, what it is judged by, and foreign examples: x, or several by name. No test data."""

    train: tuple[Any, Any]
    validation: tuple[Any, Any]
    ood: Any = None

    @property
    def foreign(self) -> dict[str, Any]:
        if self.ood is None:
            return {}
        return self.ood if isinstance(self.ood, dict) else {"": self.ood}


@dataclass(frozen=True)
class Budget:
    """How many trials, and how much each may cost: fewer epochs and draws than a final training.

    `at_once` trials are chosen together: they know those before them and not each other, so that an engine can spread
    them out. Which trials there are depends on it, and not on the engine.
    """

    trials: int = 20
    epochs: int = 10
    draws: int = 20
    seeds: int = 1
    batch_size: int = 128
    warmup: int = 0  # epochs in which the KL weight rises
    at_once: int = 4

    def __post_init__(self) -> None:
        require_integer("Budget", **{name: value for name, value in asdict(self).items() if name != "warmup"})
        require_integer("Budget", 0, warmup=self.warmup)
        if self.warmup >= self.epochs:
            raise ValueError(f"Budget needs warmup < epochs; got warmup={self.warmup} and epochs={self.epochs}.")

    @property
    def costs(self) -> dict[str, int]:
        """What the scores of a trial depend on."""
        return {name: value for name, value in asdict(self).items() if name not in ("trials", "at_once")}
