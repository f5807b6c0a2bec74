"""The command line, one file per command."""

from singularbayes.cli.app import main, run_app

__all__ = ["main", "run_app"]
