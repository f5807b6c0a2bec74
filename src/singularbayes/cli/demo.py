"""The command `demo`. Keras is imported when it is called."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console

from singularbayes.checks import require_package
from singularbayes.cli.files import require_writable


def demo(
    *,
    out: Path = Path("runs/demo"),
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**32 - 3))] = 1,
    quick: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train small networks for three stories, and leave one page with what they show.

    Needs no download and a few minutes on two cores.

    Parameters
    ----------
    out
        Folder for report.html.
    seed
        First of three seeds of the data, initial weights and draws; the same seed gives the same numbers.
    quick
        Train for fewer epochs; the page notes it.
    """
    for package in ("matplotlib", "jinja2"):
        require_package(package, "plots", "The demo")
    require_writable(out)
    from singularbayes.demo import run

    console = Console()
    where = [] if out == Path("runs/demo") else ["--out", str(out)]
    command = shlex.join(["singularbayes", "demo", *where, "--seed", str(seed), *(["--quick"] if quick else [])])
    path = run(out, seed, quick, command, console)
    console.print(f"\nThe page: {path}", soft_wrap=True, highlight=False)
    return 0
