"""How commands end: what a user can fix is one line, in the words of the command line."""

import sys
from collections.abc import Sequence

from cyclopts import App

INTERRUPTED = 130  # the exit status that shells give to Ctrl-C

# What errors and plans call an argument in Python, and what it is called on the command line.
_IN_SHELL = {
    "Import the package that defines it (or pass custom_objects)": "Name the package that defines it by --import",
    'unsupported="keep"': "--unsupported keep",
    ", or by a rule with None; plan(model, …) shows them all": "; the plan shows them all",
    "frozen=True": "--frozen",
    'form="holdout"': "--form holdout",
    "allow_seen=True": "--allow-seen",
    "prior_data='disjoint'": "--prior-data disjoint",
    "prior_data=…": "--prior-data",
    "duplicates='independent'": "--duplicates independent",
    "Ray needs cpus": "--engine ray needs --cpus",
    "Ray needs gpus": "--engine ray needs --gpus",
    "Ray needs address='HOST:PORT'": "--engine ray needs --address HOST:PORT",
    "Ray needs": "--engine ray needs",
    "got cpus=": "got --cpus ",
    "got gpus=": "got --gpus ",
    "got address=": "got --address ",
}


def run_app(app: App, arguments: Sequence[str] | None) -> int:
    """Runs a command and returns its exit status; an error that a user can fix ends in one line."""
    name = app.name[0]
    try:
        return app(arguments, result_action="return_value") or 0
    except KeyboardInterrupt:
        print(f"{name}: stopped.", file=sys.stderr)
        return INTERRUPTED
    except (ImportError, OSError, TypeError, ValueError) as error:
        sys.exit(f"{name}: {in_shell(' '.join(str(error).split()))}")


def in_shell(text: str) -> str:
    """Returns a text with the arguments of Python as options of the command line."""
    for python, shell in _IN_SHELL.items():
        text = text.replace(python, shell)
    return text
