"""The methods that experiments compare. A new one is a new file here with an `@method`, and lines of YAML."""

import importlib
import pkgutil

from singularbayes_experiments.methods.base import METHODS, Member, Method, Trainer, find_method, method
from singularbayes_experiments.methods.settings import Settings, Weights

__all__ = ["METHODS", "Member", "Method", "Settings", "Trainer", "Weights", "find_method", "method"]

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
