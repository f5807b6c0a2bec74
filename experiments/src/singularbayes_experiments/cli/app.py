"""The command line of the experiments. Keras is imported by the commands that train, not by `--help`."""

import sys
from collections.abc import Sequence

from cyclopts import App

import singularbayes
from singularbayes.cli import run_app
from singularbayes_experiments.cli import run
from singularbayes_experiments.new.cli import data, pack, report

app = App(
    name=run.PROGRAM,
    help="The experiments of the paper and those beyond it.",
    version=singularbayes.__version__,
    suppress_keyboard_interrupt=False,
)
app.command(run.run)
app.command(run.list_experiments, name="list")
app.command(run.merge)
app.command(data)
app.command(pack)
app.command(report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `singularbayes-experiments`."""
    return run_app(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
