"""The demo: three stories, each trained in seconds, on one page. `make demo` runs it.

A story is a module with `Settings`, `QUICK` and `run(trainer, settings) -> Story`. To add one, add it to `STORIES`.
"""

from demo import conversion, digits, regression
from demo.page import Story
from demo.training import Trainer

__all__ = ["STORIES", "Story", "Trainer", "conversion", "digits", "regression"]

STORIES = (regression, digits, conversion)
