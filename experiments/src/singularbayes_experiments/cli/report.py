"""The command `report`. Keras and matplotlib are imported when it is called."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from singularbayes.checks import require_package
from singularbayes_experiments.cli.run import PROGRAM


def report(
    runs: Path = Path("runs"),
    /,
    *,
    out: Path | None = None,
    markdown: Path | None = None,
    latex: Annotated[bool, Parameter(negative="")] = False,
    no_paper: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Make a page of results from records: every experiment's tables beside the paper's, figures and settings.

    Leaves report.html, which needs nothing beside it, and the tables as report.md and report.tex.

    Parameters
    ----------
    runs
        A folder of runs, or a file of records.
    out
        Folder for the page; `report` in the folder of runs by default.
    markdown
        Write only Markdown pages into this folder: a summary, a page per experiment, and their figures.
    latex
        Print only the tables, as LaTeX (booktabs), and write nothing.
    no_paper
        Leave out the published numbers of the paper and the differences from them, for a comparison of your own.
    """
    for package in ("matplotlib", "jinja2"):
        require_package(package, "plots", "The report")
    from singularbayes_experiments.report import chapters, cifar10, markdown_page, modes_section, page, read_records

    target = (["--markdown", str(markdown)] if markdown else []) + (["--out", str(out)] if out else [])
    target += ["--no-paper"] if no_paper else []
    command = shlex.join([PROGRAM, "report", *([] if runs == Path("runs") else [str(runs)]), *target])
    records = read_records.read(runs)
    made = chapters.make_chapters(records, beside_paper=not no_paper)
    if latex:
        print(page.tex(made))
        return 0
    comparison, more = modes_section.compare(runs, records), cifar10.own_page(runs)
    if markdown is not None:
        path = markdown_page.write(markdown, made, records, command, comparison, more, not no_paper)
    else:
        folder = out or (runs if runs.is_dir() else runs.parent) / "report"
        opening = page.opening(made, records, comparison, more, not no_paper)
        path = page.write(made, folder, page.results(command, not no_paper), opening)
    beside = f"; its tables: {page.MARKDOWN} and {page.LATEX} beside it" if markdown is None else ""
    Console().print(f"The page: {path}{beside}", soft_wrap=True, highlight=False)
    return 0
