"""The options of commands that train in many pieces: on which engine, and what each piece takes of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from singularbayes.ranks import Engine


@dataclass(frozen=True)
class EngineOptions:
    """Which engine, and what each piece of work takes of it.

    Args:
        engine: local, or ray for the machines of a Ray cluster.
        address: HOST:PORT of the cluster's head; by default the cluster that this machine belongs to, else a new one
            of this machine alone.
        cpus: cores that Ray sets aside for a run.
        gpus: GPUs that Ray sets aside for a run; 0.5 lets two runs share one.
    """

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    cpus: float = 1
    gpus: float = 0

    def start(self) -> "Engine":
        """Returns the engine, connected; raises where that cannot be."""
        from singularbayes.ranks import Local, Ray

        if self.engine == "ray":
            return Ray(self.address, self.cpus, self.gpus)
        if self != EngineOptions():
            raise ValueError("--address, --cpus and --gpus need --engine ray; got --engine local.")
        return Local()
