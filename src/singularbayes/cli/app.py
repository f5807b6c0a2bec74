"""The command line. Keras is imported by the commands that need it, not by `--help`."""

import sys
from collections.abc import Sequence

from cyclopts import App

import singularbayes
from singularbayes.cli.certify import certify
from singularbayes.cli.convert import convert
from singularbayes.cli.demo import demo
from singularbayes.cli.rank import rank
from singularbayes.cli.spectrum import spectrum

INTERRUPTED = 130  # the exit status that shells give to Ctrl-C

app = App(
    name="singularbayes",
    help="Low-rank variational Bayesian neural networks for Keras 3.",
    version=singularbayes.__version__,
    suppress_keyboard_interrupt=False,
)
for command in (demo, convert, spectrum, rank, certify):
    app.command(command)


def run_app(app: App, arguments: Sequence[str] | None) -> int:
    """Runs a command and returns its exit status; what a user can fix ends in one line."""
    name = app.name[0]
    try:
        return app(arguments, result_action="return_value") or 0
    except KeyboardInterrupt:
        print(f"{name}: stopped.", file=sys.stderr)
        return INTERRUPTED
    except (ImportError, OSError) as error:
        sys.exit(f"{name}: {error}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `singularbayes`."""
    return run_app(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
