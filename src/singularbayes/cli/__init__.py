"""The command line, one file per command. Keras is imported by the commands that need it, not by `--help`."""

from collections.abc import Sequence

try:
    from cyclopts import App
except ImportError as error:
    raise ImportError("The command line needs cyclopts. Type: pip install 'singularbayes[cli]'") from error

import singularbayes
from singularbayes.cli.certify import certify
from singularbayes.cli.convert import convert
from singularbayes.cli.demo import demo
from singularbayes.cli.errors import run_app
from singularbayes.cli.files import require_writable
from singularbayes.cli.rank import EngineOptions, rank
from singularbayes.cli.spectrum import spectrum

__all__ = ["EngineOptions", "main", "require_writable", "run_app"]

app = App(
    name="singularbayes",
    help="Low-rank variational Bayesian neural networks for Keras 3.",
    version=singularbayes.__version__,
    suppress_keyboard_interrupt=False,
)
for command in (demo, convert, spectrum, rank, certify):
    app.command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `singularbayes`."""
    return run_app(app, arguments)
