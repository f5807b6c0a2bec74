"""One experiment a file: `Settings`, `METHODS` and `run(method, seed, settings)`, which returns a `Record`."""

from singularbayes_experiments.records.record import Record

__all__ = ["Record"]
