"""Chapters as Markdown: one page of all tables, or a folder with a summary and a page per experiment."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from singularbayes_experiments.records.files import replace
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import against, index, modes_summary, summary
from singularbayes_experiments.report.chapters import NO_NETWORK, Chapter, Part
from singularbayes_experiments.report.earlier_runs import FOLDED, EarlierRuns, earlier_runs
from singularbayes_experiments.report.index import Overview
from singularbayes_experiments.report.modes_section import Comparison
from singularbayes_experiments.report.picture import Panel, Picture
from singularbayes_experiments.report.settings import SettingsTable
from singularbayes_experiments.report.summary_page import DISCLOSED, FIGURE, NOTHING, OwnPage, disclosed, opening
from singularbayes_experiments.report.table_markdown import markdown
from singularbayes_experiments.report.tables import Table
from singularbayes_experiments.report.text import folded

FIRST, PAPER = "index.md", "paper_tables.md"
_ORIGINS = {"paper": "the paper's", "default": "the defaults"}


def render(chapters: Sequence[Chapter], title: str, command: str, beside_paper: bool = True) -> str:
    """Returns one page of all tables, without figures; `command` is what the reader types to make it again."""
    lines = [f"# {title}", "", _made(command), ""]
    titles = [*(chapter.section.title for chapter in chapters), *([index.TITLE] if beside_paper else [])]
    lines += [f"- {_link(title)}" for title in titles] + [""]
    lines += [line for chapter in chapters for line in _chapter(chapter, None)]
    return "\n".join([*lines, *(_index(chapters) if beside_paper else [])])


def write(
    folder: Path,
    chapters: Sequence[Chapter],
    records: Sequence[Record],
    command: str,
    comparison: Comparison = NOTHING,
    more: Mapping[str, OwnPage] | None = None,
    beside_paper: bool = True,
) -> Path:
    """Writes the pages of a folder and their figures, and returns the path of the first; see `pages`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, panel in figures(comparison, more or {}).items():
        replace(folder / name, f"{panel.svg}\n".encode())
    for chapter in chapters:
        for picture in chapter.pictures:
            for name, panel in zip(_files(chapter, picture), picture.panels, strict=True):
                replace(folder / name, f"{panel.svg}\n".encode())
    for name, text in pages(chapters, records, command, comparison, more, beside_paper).items():
        replace(folder / name, text.encode())
    return folder / FIRST


def figures(comparison: Comparison, more: Mapping[str, OwnPage]) -> dict[str, Panel]:
    """Returns the figures of the summary, of the sections of the comparison and of own pages, by file name."""
    found = {FIGURE: comparison.figure} if comparison else {}
    found |= {own.name: own.figure for own in comparison.sections.values() if own.figure}
    return found | {name: panel for own in more.values() for name, panel in own.figures.items()}


def pages(
    chapters: Sequence[Chapter],
    records: Sequence[Record],
    command: str,
    comparison: Comparison = NOTHING,
    more: Mapping[str, OwnPage] | None = None,
    beside_paper: bool = True,
) -> dict[str, str]:
    """Returns the pages of a folder by file name: the summary, the experiments, and the tables of the paper.

    Args:
        comparison: that under the tuning protocol, which the summary and the pages of its data sets begin with.
        more: pages of experiments with records of their own, by file name.
        beside_paper: False leaves out the paper's numbers, and so the page of its tables.
    """
    links = {chapter.section.title: _page(chapter) for chapter in chapters}
    more = more or {}
    found = {FIRST: _summary(chapters, records, command, comparison, more, beside_paper)}
    found |= {name: own.text for name, own in more.items()}
    earlier = earlier_runs(chapters, records, beside_paper)
    for chapter in chapters:
        own = earlier[_name(chapter)]
        title, _, description, *rest = _chapter(chapter, "", level="#", first="chosen", pairs=own.differences())
        lines = [title, "", description, "", *_below_description(chapter, rest, comparison, own)]
        found[_page(chapter)] = "\n".join([*lines, _made(command), ""])
    found[DISCLOSED] = "\n".join([*disclosed(chapters, records, comparison, more), _made(command), ""])
    if beside_paper:
        found[PAPER] = "\n".join([*_index(chapters, links, level="#"), _made(command), ""])
    return found


def _below_description(
    chapter: Chapter, lines: Sequence[str], comparison: Comparison, earlier: EarlierRuns
) -> list[str]:
    """Returns the results of an experiment under the protocol, and the lines of its earlier runs, folded then."""
    newer = comparison.sections.get(_name(chapter))
    if newer is None:
        return [*earlier.lines(dated=bool(comparison)), *lines]
    return [newer.text, f"## {earlier.title}", "", *earlier.lines(), *folded(FOLDED, lines)]


def _summary(
    chapters: Sequence[Chapter],
    records: Sequence[Record],
    command: str,
    comparison: Comparison,
    more: Mapping[str, OwnPage],
    beside_paper: bool,
) -> str:
    lines = [f"# {summary.TITLE}", "", *opening(records, comparison, more, beside_paper), "## Pages", ""]
    order = [modes_summary.page_of(each.data) for each in comparison.scores]
    first = sorted((each for each in chapters if _page(each) in order), key=lambda each: order.index(_page(each)))
    others = [each for each in chapters if each not in first]
    own_pages = [f"- [{own.text.splitlines()[0].removeprefix('# ')}]({name})" for name, own in more.items()]
    lines += [*map(_item, first), *own_pages, *map(_item, others)]
    paper = f"- [{index.TITLE}]({PAPER}): every table and figure of the paper, and where ours stand"
    lines += [paper, ""] if beside_paper else [""]
    return "\n".join([*lines, _made(command), ""])


def _item(chapter: Chapter) -> str:
    return f"- [{chapter.section.title}]({_page(chapter)})"


def _made(command: str) -> str:
    return f"Made by `{command}` from the records in that folder, one per run."


def _name(chapter: Chapter) -> str:
    return chapter.section.experiment


def _page(chapter: Chapter) -> str:
    return f"{_name(chapter)}.md"


def _chapter(
    chapter: Chapter, figures: str | None, level: str = "##", first: str = "", pairs: Sequence[str] = ()
) -> list[str]:
    """Returns the lines of an experiment.

    Args:
        figures: the folder of the figures as links name it; None leaves figures out.
        level: of its heading; first: the preset that is shown on top, the others folded, and all but its main tables.
        pairs: the table of paired differences of that preset.
    """
    section = chapter.section
    lines = [f"{level} {section.title}", "", section.description, ""]
    if chapter.finding:
        lines += [f"**{chapter.drawn}.** {chapter.finding}", ""]
    parts = sorted(chapter.parts, key=lambda part: part.group.preset != first)
    folds = any(part.group.preset == first for part in parts)
    for part in parts:
        origin = "paper" if section.in_paper else "default"
        body = _part(part, origin, folds and part.group.preset == first)
        if pairs and part.group.preset == first:
            body = [*pairs, *body]
        other = folds and part.group.preset != first
        if other or (part.group.preset == "trial" and len(chapter.parts) > 1):
            head = f"{part.label} ({len(part.group.records)} runs)"
            lines += folded(head, body)
        else:
            lines += [f"{level}# {part.label}", "", *body]
    if figures is not None:
        folder = f"{figures}/" if figures else ""
        for picture in chapter.pictures:
            files = zip(_files(chapter, picture), picture.panels, strict=True)
            lines += [*(f"![{panel.alt}]({folder}{name})" for name, panel in files), "", picture.caption, ""]
        lines += [f"Figures left out. {' '.join(chapter.left_out)}", ""] if chapter.left_out else []
    return [*lines, *(line for note in section.notes for line in (note, ""))]


def _part(part: Part, origin: str, folds: bool = False) -> list[str]:
    """Returns the lines of a preset; where it folds, the first two tables and those with simple detectors stay open."""
    shown = [table for i, table in enumerate(part.tables) if not folds or i < 2 or _simple(table)]
    others = [table for table in part.tables if table not in shown]
    lines = [markdown(table) for table in shown]
    if others:
        head = f"More tables: {'; '.join(table.title for table in others)}"
        lines += folded(head, [markdown(table) for table in others])
    if part.against:
        lines += _against(part)
    if part.settings.departures:
        lines += [_departures(part.settings, origin), ""]
    if part.settings.lines:
        lines += _differing(part.settings, origin)
    return [*lines, "```", *part.commands, "```", "", part.made_with, ""]


def _simple(table: Table) -> bool:
    """Whether a table has rows of detectors without an uncertainty, which the reader must not miss."""
    return NO_NETWORK in table.note


def _against(part: Part) -> list[str]:
    """Returns the table of what is better than the paper's and what is worse."""
    lines = [f"**{against.TITLE}**", "", f"| method | {' | '.join(against.HEADS)} |", "|---|---|---|---|"]
    lines += [f"| {' | '.join([each.name, *each.cells])} |" for each in part.against]
    return [*lines, "", against.RULE, ""]


def _departures(settings: SettingsTable, origin: str) -> str:
    """Returns all settings that are not the paper's: those that all methods share with their values."""
    shared = {each.name: f"{each.name} {each.text(origin)}" for each in settings.shared if each.paper}
    own = [name for name in settings.departures if name not in shared]
    parts = [", ".join(shared.values())] if shared else []
    parts += [f"and, in some rows, {', '.join(own)}"] if own and shared else [", ".join(own)] if own else []
    rows = " in some rows" if own and not shared else ""
    return f"Settings that differ from {_ORIGINS[origin]}{rows}: {'; '.join(parts)}."


def _differing(settings: SettingsTable, origin: str) -> list[str]:
    """Returns the table of the settings that differ between methods, with the paper's values where they are others."""
    lines = [f"| settings | {' | '.join(settings.heads)} |", f"|---|{'---:|' * len(settings.heads)}"]
    lines += [f"| {' | '.join([name, *(each.text(origin) for each in own)])} |" for name, own in settings.lines]
    return [*lines, ""]


def _index(chapters: Sequence[Chapter], pages: Mapping[str, str] | None = None, level: str = "##") -> list[str]:
    heads = index.HEADS
    first = "" if pages is None else f"For our results alone begin with [{summary.TITLE}]({FIRST}). "
    lines = [
        f"{level} {index.TITLE}",
        "",
        f"{first}{index.DESCRIPTION}",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
    ]
    for entry in index.make_entries(chapters):
        places = [f"{_link(place.section.title, pages)}: {place.text(entry.printed)}" for place in entry.places]
        cells = [entry.label, entry.what, "<br>".join(places) or entry.elsewhere, entry.remark]
        lines.append(f"| {' | '.join(cells if pages is None else map(_with_links, cells))} |")
    return [*lines, "", *_overview(index.overview(chapters), pages, level)]


def _overview(found: Sequence[Overview], pages: Mapping[str, str] | None, level: str) -> list[str]:
    """Returns the table that counts, for every experiment, what is better than the paper's and what is worse."""
    if not found:
        return []
    lines = [f"{level}# {index.OVERVIEW}", "", index.OVERVIEW_DESCRIPTION, ""]
    lines += [f"| experiment | settings | {' | '.join(against.HEADS)} |", "|---|---|---:|---:|---:|"]
    for each in found:
        cells = [_link(each.section.title, pages), each.label, *map(str, each.counts)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _with_links(text: str) -> str:
    """Returns a text of a page of results with links to the other pages of the documentation that it names.

    >>> _with_links("docs/bounds.md, Loss approximation: what a low rank costs")
    '[Loss approximation: what a low rank costs](../bounds.md#loss-approximation-what-a-low-rank-costs)'
    >>> _with_links("see docs/intensive_care.md")
    'see [intensive_care](../intensive_care.md)'
    """
    section = re.fullmatch(r"docs/(\w+\.md), (.+)", text)
    if section:
        return f"[{section[2]}](../{section[1]}#{_anchor(section[2])})"
    text = re.sub(r"(singularbayes-experiments run .+)", r"`\1`", text)
    return re.sub(r"\bdocs/(\w+)\.md", r"[\1](../\1.md)", text)


def _link(title: str, pages: Mapping[str, str] | None = None) -> str:
    return f"[{title}](#{_anchor(title)})" if pages is None else f"[{title}]({pages[title]})"


def _files(chapter: Chapter, picture: Picture) -> list[str]:
    stem = f"{chapter.section.experiment}-{picture.name}"
    if len(picture.panels) == 1:
        return [f"{stem}.svg"]
    return [f"{stem}-{i}.svg" for i in range(1, len(picture.panels) + 1)]


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
