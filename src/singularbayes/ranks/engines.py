"""Where work is done: here, one piece after another, or on the machines of a Ray cluster.

An engine has one verb. `map(function, items)` yields (position, function(item)) as pieces end. Runs of experiments
and sweeps of ranks use it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Tick = Callable[[], None]  # called now and then while others work


class Engine(ABC):
    """Where functions are called."""

    @abstractmethod
    def map(self, function: Callable, items: Sequence[Any], tick: Tick | None = None) -> Iterator[tuple[int, Any]]:
        """Yields the position of an item and what the function gives for it, in the order in which they end."""


class Local(Engine):
    """This process, one item after another.

    >>> list(Local().map(abs, [-1, 2]))
    [(0, 1), (1, 2)]
    """

    def map(self, function, items, tick=None):
        for position, item in enumerate(items):
            yield position, function(item)


@dataclass(frozen=True)
class Where:
    """Which engine, and what each piece of work takes of it.

    Args:
        engine: local, or ray for the machines of a Ray cluster.
        address: HOST:PORT of the cluster's head; if not said, the cluster that this machine belongs to, else a new one
            of this machine alone.
        cpus: cores that Ray sets aside for a run.
        gpus: GPUs that Ray sets aside for a run; 0.5 lets two runs share one.
    """

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    cpus: float = 1
    gpus: float = 0

    def start(self) -> Engine:
        """Returns the engine, connected; raises where that cannot be."""
        if self.engine == "local":
            if self != Where():
                raise ValueError("--address, --cpus and --gpus need --engine ray; got --engine local.")
            return Local()
        from singularbayes.ranks.ray_engine import Ray

        return Ray(self.address, self.cpus, self.gpus)
