"""One self-contained HTML page from records; Markdown and LaTeX tables beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from singularbayes_experiments.records.files import replace
from singularbayes_experiments.report import against, index, markdown_page
from singularbayes_experiments.report.chapters import Chapter
from singularbayes_experiments.report.layout import environment
from singularbayes_experiments.report.table_latex import PACKAGES, latex

PAGE, MARKDOWN, LATEX = "report.html", "report.md", "report.tex"


@dataclass(frozen=True)
class Head:
    """What stands above the chapters; `command` is what the reader types to make the page again."""

    title: str
    lead: str
    command: str


def results(command: str) -> Head:
    """Returns the head of a page of results."""
    lead = (
        "Every number is made from records, one per run, by the command at the foot of the page. Where the paper has a "
        "number it stands below ours; a mark shows that the printed one cannot be right."
    )
    return Head("Results", lead, command)


def render(made: Sequence[Chapter], head: Head) -> str:
    """Returns the page."""
    names = {"chapters": made, "head": head, "entries": index.make_entries(made), "index": index, "against": against}
    return environment().get_template("page.html.j2").render(names)


def tex(made: Sequence[Chapter]) -> str:
    """Returns all tables for a paper, one after another, below a comment with the packages that they need."""
    tables = (
        latex(table, f"tab:{chapter.section.experiment}-{part.group.preset}-{number}")
        for chapter in made
        for part in chapter.parts
        for number, table in enumerate(part.tables, start=1)
    )
    return "\n".join([f"% {PACKAGES}\n", *tables])


def write(made: Sequence[Chapter], folder: Path, head: Head) -> Path:
    """Writes the page and the tables into a folder and returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / LATEX, tex(made).encode())
    text = markdown_page.render(made, head.title, head.command)
    replace(folder / MARKDOWN, text.encode())
    return replace(folder / PAGE, render(made, head).encode())
