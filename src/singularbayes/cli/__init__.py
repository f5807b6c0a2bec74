"""The command line, one file per command."""

from singularbayes.cli.app import main, run_app
from singularbayes.cli.files import one_line, require_writable

__all__ = [
    "main",
    "one_line",
    "require_writable",
    "run_app",
]
