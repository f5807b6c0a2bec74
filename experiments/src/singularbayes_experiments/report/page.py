"""One self-contained HTML page from records; Markdown and LaTeX tables beside it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from singularbayes_experiments.records import files
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import against, index, markdown_page, summary_page
from singularbayes_experiments.report.chapters import Chapter
from singularbayes_experiments.report.earlier_runs import FOLDED, EarlierRuns, earlier_runs
from singularbayes_experiments.report.modes_section import Comparison
from singularbayes_experiments.report.picture import Panel, with_own_ids
from singularbayes_experiments.report.summary import TITLE
from singularbayes_experiments.report.table_latex import PACKAGES, latex
from singularbayes_experiments.report.templates import environment

PAGE, MARKDOWN, LATEX = "report.html", "report.md", "report.tex"


@dataclass(frozen=True)
class Head:
    """What stands above the chapters.

    Args:
        command: what the reader types to make the page again; beside_paper: whether the paper's numbers are there.
    """

    title: str
    lead: str
    command: str
    beside_paper: bool = True


def results(command: str, beside_paper: bool = True) -> Head:
    """Returns the head of a page of results."""
    lead = "Every number is made from records, one per run, by the command at the foot of the page."
    paper = (
        "Where the paper has a value it is the second line of the cell; a mark shows that the printed one cannot be "
        "right."
    )
    return Head("Results", f"{lead} {paper}" if beside_paper else lead, command, beside_paper)


@dataclass(frozen=True)
class Opening:
    """What the page begins with: the summary of the site, in Markdown, and what its pages have beside their chapters.

    Args:
        figures: by the name of the file that the Markdown shows.
        pages: Markdown of whole pages by name; a link to `name.md` becomes one to that part of the page.
        sections: Markdown that the chapter of an experiment begins with; its other parts are folded then.
        earlier: what stands above the runs of a chapter; they are called older than the protocol if it is `dated`.
    """

    summary: str = ""
    figures: Mapping[str, Panel] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, EarlierRuns] = field(default_factory=dict)
    dated: bool = False


def opening(
    made: Sequence[Chapter],
    records: Sequence[Record],
    comparison: Comparison,
    more: Mapping[str, summary_page.OwnPage],
    beside_paper: bool = True,
) -> Opening:
    """Returns the summary that the site has, and pages of experiments with records of their own, and disclosures.

    Without such experiments and the comparison there is what stands above the runs of a chapter alone.
    """
    earlier = earlier_runs(made, records, beside_paper)
    if not (comparison or more):
        return Opening(earlier=earlier)
    text = [f"# {TITLE}", "", *summary_page.opening(records, comparison, more, beside_paper)]
    pages = {name.removesuffix(".md"): own.text for name, own in more.items()}
    disclosed = summary_page.disclosed(made, records, comparison, more)
    pages[summary_page.DISCLOSED.removesuffix(".md")] = "\n".join(disclosed)
    figures = {
        name: replace(panel, svg=with_own_ids(panel.svg, Path(name).stem))
        for name, panel in markdown_page.figures(comparison, more).items()
    }
    sections = {name: own.text for name, own in comparison.sections.items()}
    return Opening("\n".join(text), figures, pages, sections, earlier, dated=bool(comparison))


def html(text: str, known: Sequence[str], figures: Mapping[str, Panel] | None = None) -> str:
    """Returns Markdown as HTML: links to known pages lead to their part of the page, others are plain text.

    >>> html("[a](mnist.md), [b](../protocol.md), [c](#rounds)", ["mnist"])
    '<p><a href="#mnist">a</a>, b, c</p>\\n'
    """

    def linked(match: re.Match) -> str:
        words, name = match[1], match[2].removesuffix(".md")
        return f"[{words}](#{name})" if name in known else words

    def shown(match: re.Match) -> str:
        panel = (figures or {})[match[1]]
        words = escape(panel.alt, quote=True)
        return f'<figure><div class="panel" role="img" aria-label="{words}">{panel.svg}</div></figure>'

    text = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#]+\.md|)(?:#[^)]*)?\)", linked, text)
    made = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    return re.sub(r'<p><img src="([^"]*)"[^>]*/?></p>', shown, made)


def render(made: Sequence[Chapter], head: Head, opening: Opening | None = None) -> str:
    """Returns the page."""
    opening = opening or Opening()
    known = [*(chapter.section.experiment for chapter in made), *opening.pages]
    names: dict[str, Any] = {
        "opening": html(opening.summary, known, opening.figures),
        "pages": {name: html(text, known, opening.figures) for name, text in opening.pages.items()},
        "sections": {name: html(text, known, opening.figures) for name, text in opening.sections.items()},
        "titles": {name: text.splitlines()[0].removeprefix("# ") for name, text in opening.pages.items()},
    }
    names["earlier"] = {
        name: {
            "title": own.title,
            "words": html("\n".join(own.lines(opening.dated)), known),
            "pairs": html("\n".join(own.differences()), known),
        }
        for name, own in opening.earlier.items()
    }
    names |= {"chapters": made, "head": head, "index": index, "against": against, "folded": FOLDED}
    names["entries"] = index.make_entries(made) if head.beside_paper else []
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


def write(made: Sequence[Chapter], folder: Path, head: Head, opening: Opening | None = None) -> Path:
    """Writes the page and the tables into a folder and returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    files.replace(folder / LATEX, tex(made).encode())
    text = markdown_page.render(made, head.title, head.command, head.beside_paper)
    files.replace(folder / MARKDOWN, text.encode())
    return files.replace(folder / PAGE, render(made, head, opening).encode())
