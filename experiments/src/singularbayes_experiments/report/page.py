"""One self-contained HTML page from records; Markdown and LaTeX tables beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from singularbayes_experiments.records.files import replace
from singularbayes_experiments.report import against, index, markdown_page
from singularbayes_experiments.report.chapters import Chapter
from singularbayes_experiments.report.layout import environment
from singularbayes_experiments.report.table_latex import latex

PAGE, MARKDOWN, LATEX = "report.html", "report.md", "report.tex"


@dataclass(frozen=True)
class Head:
    """What stands above the chapters; `command` is what the reader types to make the page again.

    Args:
        indexed: whether the page ends in a list of the paper's tables.
    """

    title: str
    lead: str
    command: str
    indexed: bool = True


def results(command: str) -> Head:
    """Returns the head of a page of results."""
    lead = (
        "Every number is made from records, one a run, by the command at the foot of the page. Where the paper has a "
        "number it stands below ours; a mark says that the printed one cannot be right."
    )
    return Head("Results", lead, command)


def demo(command: str) -> Head:
    """Returns the head of the demo's page."""
    lead = (
        "Two small experiments, trained when this page was made. A weight matrix W = A Bᵀ with random factors A and B "
        "needs far fewer numbers than a matrix of random entries. Here the two are compared, with an ordinary network "
        "beside them. One seed shows what happens, not how much it varies."
    )
    return Head("Does a low-rank Bayesian network know where it has no data?", lead, command, indexed=False)


def render(made: Sequence[Chapter], head: Head) -> str:
    """Returns the page."""
    entries = index.of(made) if head.indexed else []
    names = {"chapters": made, "head": head, "entries": entries, "index": index, "against": against}
    return environment().get_template("page.html.j2").render(names)


def tex(made: Sequence[Chapter]) -> str:
    """Returns all tables for a paper, one after another."""
    return "\n".join(
        latex(table, f"tab:{chapter.section.experiment}-{part.group.preset}-{number}")
        for chapter in made
        for part in chapter.parts
        for number, table in enumerate(part.tables, start=1)
    )


def write(made: Sequence[Chapter], folder: Path, head: Head) -> Path:
    """Writes the page and the tables into a folder and returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / LATEX, tex(made).encode())
    text = markdown_page.render(made, head.title, head.command, indexed=head.indexed)
    replace(folder / MARKDOWN, text.encode())
    return replace(folder / PAGE, render(made, head).encode())
