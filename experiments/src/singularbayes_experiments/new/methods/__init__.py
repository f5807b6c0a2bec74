"""The methods that experiments compare. A new one is a new file here with an `@method`, and lines of YAML."""

from pathlib import Path

from singularbayes_experiments.new.methods.base import (
    METHODS,
    Member,
    Method,
    Settings,
    Trainer,
    Weights,
    find_method,
    load_methods,
    method,
)

__all__ = ["METHODS", "Member", "Method", "Settings", "Trainer", "Weights", "find_method", "method"]

load_methods(str(Path(__file__).parent), __name__)
