"""One experiment a file: `Settings`, `METHODS` and `run(method, seed, settings)`, which returns a `Record`."""

from singularbayes.experiments.record import Record

__all__ = ["Record"]
