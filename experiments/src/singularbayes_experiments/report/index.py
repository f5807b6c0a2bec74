"""Every table of the paper, and where ours stands beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from singularbayes_experiments.report import against
from singularbayes_experiments.report.chapters import Chapter, compared
from singularbayes_experiments.report.detectors import means_little
from singularbayes_experiments.report.published import TABLES, PaperTable
from singularbayes_experiments.report.rows import listed
from singularbayes_experiments.report.section import Section
from singularbayes_experiments.report.tables import COSTS

TITLE = "Tables of the paper"
DESCRIPTION = (
    "Every table of “Singular Bayesian Neural Networks” (Toure and Stephens, 2026), but for its list of theorems, and "
    "where our table with the same measures is. A count says how many of the printed numbers have one of ours beside "
    "them, with the paper's settings or with others. For the mutual information of a deterministic network the paper "
    "prints the chance level; here such a network has none. Where two tables print the same number, the first of this "
    "list is shown beside ours."
)
OVERVIEW = "Our numbers against the paper's"
OVERVIEW_DESCRIPTION = (
    "How many of our numbers are better than the paper's, over the methods and the main measures of an experiment, "
    f"which its page names. {against.RULE} {against.HOW}"
)
HEADS = ("table of the paper", "what", "ours", "remarks")


@dataclass(frozen=True)
class Place:
    """A chapter that has ours: the titles of its tables, and how many of the paper's numbers have one of ours."""

    section: Section
    titles: tuple[str, ...]
    count: int

    def text(self, printed: int) -> str:
        """Returns which tables of the chapter they are."""
        if not self.titles:
            return "its settings"
        return f"{', '.join(self.titles)}, {self.count} of {printed} numbers"


@dataclass(frozen=True)
class Entry:
    """A table of the paper.

    Args:
        places: where ours is among the chapters; elsewhere: what is shown where there is none.
        remark: what is wrong in it, and what else has to be known.
    """

    label: str
    what: str
    printed: int
    places: tuple[Place, ...]
    elsewhere: str
    remark: str


@dataclass(frozen=True)
class Overview:
    """How many numbers of an experiment are better than the paper's, without a clear difference, and worse.

    Args:
        label: where the settings come from.
    """

    section: Section
    label: str
    counts: tuple[int, ...]


def overview(chapters: Sequence[Chapter]) -> list[Overview]:
    """Returns the counts of every experiment and preset that has numbers of the paper."""
    return [
        Overview(chapter.section, part.label, against.counts(part.against))
        for chapter in chapters
        for part in chapter.parts
        if part.against
    ]


def make_entries(chapters: Sequence[Chapter]) -> list[Entry]:
    """Returns an entry for every table of the paper."""
    return [_entry(table, chapters) for table in TABLES]


def _entry(table: PaperTable, chapters: Sequence[Chapter]) -> Entry:
    places = tuple(
        _place(table, chapter)
        for chapter in chapters
        if table.experiment and table.experiment == chapter.section.experiment
    )
    numbers = table.numbers()
    return Entry(
        table.label,
        table.what,
        len(numbers),
        tuple(place for place in places if place.count or not numbers),
        table.page or _missing(table),
        " ".join(filter(None, [*_wrong(table), table.remark, _little(table, chapters)])),
    )


def _little(table: PaperTable, chapters: Sequence[Chapter]) -> str:
    """Returns why its out-of-distribution detection says little of uncertainty, by simple detectors of a chapter."""
    simple = [one for chapter in chapters if chapter.section.experiment == table.experiment for one in chapter.simple]
    return means_little(table.label, simple)


def _missing(table: PaperTable) -> str:
    methods = dict.fromkeys(method for method, _ in table.numbers())
    chosen = f" --methods {','.join(methods)}" if methods else ""
    return f"not run here; the command is: singularbayes-experiments run {table.experiment} --preset paper{chosen}"


def _wrong(table: PaperTable) -> list[str]:
    """Returns which numbers cannot be right, as printed, and why."""
    found: dict[str, list[str]] = {}
    for number in table.numbers().values():
        if number.wrong:
            found.setdefault(number.wrong, []).append(number.printed)
    return [f"Cannot be right: {listed(printed)}. {reason}" for reason, printed in found.items()]


def _place(table: PaperTable, chapter: Chapter) -> Place:
    keys = [key for key in table.numbers() if key in compared(chapter.section)]
    found = {key: titles for key in keys if (titles := list(_titles(key, chapter)))}
    order = [made.title for part in chapter.parts for made in part.tables]
    named = {title for titles in found.values() for title in titles}
    return Place(chapter.section, tuple(title for title in dict.fromkeys(order) if title in named), len(found))


def _titles(key: tuple[str, str], chapter: Chapter) -> Iterable[str]:
    """Yields the titles of the tables that have a number of ours for this method and measure."""
    method, measure = key
    for part in chapter.parts:
        rows = [row for row in part.group.rows if row.method == method and chapter.section.comparable(row)]
        if any(measure in COSTS or row.has_metrics([measure]) for row in rows):
            yield from (made.title for made in part.tables if measure in (m.name for m in made.measures))
