"""Templates → Markdown pages and their figures. A page that the records contradict, or with a gap, is not written.

A template is a page of `docs/results`; sentences are a person's, numbers come from the records.
"""

import re
import tempfile
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from singularbayes_experiments import records
from singularbayes_experiments.report import figures, studies, tables
from singularbayes_experiments.report.results import Numbers

TEMPLATES = Path(__file__).with_name("templates")
DOCS = Path(__file__).parents[4] / "docs"
MOST_WORDS = {"paper_tables": 2500}
MOST_ROWS, MOST_LINES, WORDS = 13, 80, 1200


class FalseClaim(ValueError):
    """The records contradict a sentence of a page."""


def require(condition: object) -> str:
    """Returns "" where a condition holds, so that a template states it beside its sentence."""
    if not condition:
        raise FalseClaim("The records contradict this sentence.")
    return ""


def markdown(table: pd.DataFrame, most: int = MOST_ROWS) -> str:
    """Returns a table in Markdown; numbers are aligned to the right."""
    if len(table) > most:
        raise ValueError(f"A page's table must have {most} rows or fewer; got {len(table)}.")
    lines = [[str(table.index.name or ""), *table.columns], ["---", *["---:"] * len(table.columns)]]
    lines += [[str(index), *map(str, row)] for index, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def words(page: str) -> int:
    """Returns the words and numbers of a page, without the bars of its tables and the addresses of its links.

    >>> words("| a | 0.5 ± 0.1 |\\n|---|---:|\\n[one page](x.md).")
    5
    """
    return sum(bool(re.search(r"\w", token)) for token in re.sub(r"\]\([^)]*\)", "]", page).split())


def environment(numbers: Numbers) -> Environment:
    """Returns the templates with what they may call: the numbers, `tables` and `require`."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals.update(vars(tables) | vars(studies))
    made.globals.update(numbers=numbers, require=require, table=markdown)
    made.globals.update(problem=lambda name, task="": tables.Problem(numbers, name, task))
    return made


def pages() -> list[str]:
    return sorted(path.name.removesuffix(".md.j2") for path in TEMPLATES.glob("*.md.j2"))


def render(page: str, numbers: Numbers) -> str:
    """Returns a page; raises where a claim is false, a number is missing, or the page is too long."""
    text = environment(numbers).get_template(f"{page}.md.j2").render()
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    most = MOST_WORDS.get(page, WORDS)
    if words(text) > most:
        raise ValueError(f"The page {page} must have {most} words or fewer; got {words(text)}.")
    if page == "index" and text.count("\n") > MOST_LINES:
        raise ValueError(f"The summary must have {MOST_LINES} lines or fewer; got {text.count(chr(10))}.")
    return text


def write(results: Path, folder: Path) -> None:
    """Writes all pages and figures into a folder."""
    numbers = Numbers(records.connect(results))
    for page in pages():
        (folder / f"{page}.md").write_text(render(page, numbers), encoding="utf-8")
        figures.draw(page, numbers, folder / f"{page}.svg")


def report(results: Path = records.RESULTS, docs: Path = DOCS, check: bool = False, latex: bool = False) -> list[str]:
    """Writes pages and figures into `docs/results`; returns the names of the files that differ from before.

    Args:
        check: write nothing.
        latex: print the tables of results as LaTeX instead, and return nothing.
    """
    if latex:
        numbers = Numbers(records.connect(results))
        for experiment in tables.COLUMNS:
            own = tables.Problem(numbers, experiment)
            made = studies.uci_results(numbers) if experiment == "uci" else own.results()
            print(made.to_latex(caption=tables.name(experiment)))
        return []
    with tempfile.TemporaryDirectory() as made:
        write(results, Path(made))
        kept, new = ({p.name: p.read_bytes() for p in folder.glob("*")} for folder in (docs / "results", Path(made)))
    changed = sorted(name for name in kept.keys() | new.keys() if kept.get(name) != new.get(name))
    if not check:
        for name in changed:
            (docs / "results" / name).unlink(missing_ok=True)
            if name in new:
                (docs / "results" / name).write_bytes(new[name])
    return changed
