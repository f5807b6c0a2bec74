"""One self-contained HTML page from a folder of records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from singularbayes.experiments.files import replace
from singularbayes.experiments.record import Record, read
from singularbayes.report import figures, sentences, style, tables

PAGE = "report.html"


def of(records: Sequence[Record], experiment: str) -> list[Record]:
    """Returns the records of one experiment."""
    found = [record for record in records if record.experiment == experiment]
    if not found:
        raise ValueError(f"The page needs records of {experiment!r}; got {sorted({r.experiment for r in records})}.")
    return found


def render(records: Sequence[Record], command: str) -> str:
    """Returns the page; `command` is what the reader types to make it again."""
    toy, digits = of(records, "toy"), of(records, "digits")
    environment = Environment(
        loader=PackageLoader("singularbayes", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    shown = next((r for r in digits if r.method == "low_rank"), digits[0])
    most, least = figures.thumbnails(shown)
    return environment.get_template("page.html.j2").render(
        command=command,
        first=toy[0],
        toy=toy[0].settings,
        toy_sentence=sentences.toy(toy),
        toy_panels=figures.toy(toy),
        toy_table=tables.toy(toy),
        digits=digits[0].settings,
        digits_sentence=sentences.digits(digits),
        digits_panels=figures.digits(digits),
        digits_table=tables.digits(digits),
        shown=sentences.NAMES[shown.method],
        shown_by=sentences.score(shown)[0],
        most=most,
        least=least,
        departures=departures(toy),
        settings={"Toy regression": text(toy[0].settings), "Digits": text(digits[0].settings)},
        seconds=sum(record.seconds for record in records),
        colours={name.lower(): getattr(style, name) for name in ("BLUE", "SKY", "VERMILION", "INK", "PALE")},
    )


def departures(records: Sequence[Record]) -> list[tuple[str, str, str]]:
    """Returns (setting, here, in the paper) for what differs from the paper."""
    return [(words(name), show(records[0].settings[name]), show(paper)) for name, paper in records[0].paper.items()]


def text(settings: dict[str, Any]) -> dict[str, str]:
    """Returns settings as words and numbers for readers."""
    return {words(name): show(value) for name, value in settings.items()}


def words(name: str) -> str:
    return name.replace("_", " ")


def show(value: Any) -> str:
    """Returns a setting as text.

    >>> show([-0.1, 0.6]), show(0.0024787521766), show(True)
    ('-0.1 to 0.6', '0.00248', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        between = ", " if all(isinstance(item, int) for item in value) else " to "
        return between.join(show(item) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def write(folder: Path, command: str) -> Path:
    """Writes the page of the records in `folder` beside them and returns its path."""
    return replace(folder / PAGE, render(read(folder), command).encode())
