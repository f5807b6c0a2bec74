"""Chapters as Markdown: one page of all tables, or a folder with a summary and a page per experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from singularbayes_experiments.records.files import replace
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import (
    against,
    disclosures,
    index,
    modes_figure,
    modes_sentences,
    modes_summary,
    summary,
)
from singularbayes_experiments.report.chapters import NO_NETWORK, Chapter, Part
from singularbayes_experiments.report.index import Overview
from singularbayes_experiments.report.picture import Panel, Picture
from singularbayes_experiments.report.remarks import remarks
from singularbayes_experiments.report.settings import SettingsTable
from singularbayes_experiments.report.table_markdown import markdown
from singularbayes_experiments.report.tables import Table

FIRST, PAPER, DISCLOSED, FIGURE = "index.md", "paper_tables.md", "disclosures.md", "summary.svg"


@dataclass(frozen=True)
class OwnPage:
    """The page of an experiment with records of its own.

    Args:
        text: begins with a title; losses and remark: lines of the summary; disclosed: a title and its disclosures.
        figures: by the name of the file that the text shows.
    """

    text: str
    losses: Sequence[str] = ()
    remark: str = ""
    disclosed: tuple[str, Sequence[str]] = ("", ())
    figures: Mapping[str, Panel] = field(default_factory=dict)


_CELLS = (
    "Each cell: NLL (nats, lower is better), AUROC-OOD (higher is better) where there are out-of-distribution data, "
    "and stored parameters. ± is the standard error over seeds, in intensive care over seeds and shifts. Bold: the "
    "best, where the paired 95 % intervals of its differences to all others exclude zero."
)
_BY_ENTROPY = (
    "AUROC-OOD is by mutual information, on Beijing by the epistemic deviation; of the deterministic network, which "
    "has neither, by entropy or the total deviation: (H)."
)
_COSTS = "An SVD-initialised mixture needs the trained ensemble first: its cost, below, includes it."


_PAIRS = (
    "Row less column, the mean over the seeds that both have and its 95 % t interval; a word where that excludes zero. "
    "A deterministic network has no AUROC-OOD of this kind."
)
_NO_NETWORK = (
    "The last column is the best detector of the same data that needs no network: an AUROC-OOD means little where it "
    "is as high."
)
_PROTOCOL = (
    "Settings by the [tuning protocol](../protocol.md), committed before the run; [all twelve "
    "methods](../mixture_results.md)."
)
_EARLIER = (
    "These runs are older than the protocol: other configurations, three to five seeds (25 runs in intensive care), "
    "and not all of them blind, see below."
)


def render(chapters: Sequence[Chapter], title: str, command: str) -> str:
    """Returns one page of all tables, without figures; `command` is what the reader types to make it again."""
    lines = [f"# {title}", "", _made(command), ""]
    titles = [*(chapter.section.title for chapter in chapters), index.TITLE]
    lines += [f"- {_link(title)}" for title in titles] + [""]
    lines += [line for chapter in chapters for line in _chapter(chapter, None)]
    return "\n".join([*lines, *_index(chapters)])


def write(
    folder: Path,
    chapters: Sequence[Chapter],
    records: Sequence[Record],
    command: str,
    modes: Sequence[summary.Scores] = (),
    more: Mapping[str, OwnPage] | None = None,
) -> Path:
    """Writes the pages of a folder and their figures, and returns the path of the first; see `pages`."""
    folder.mkdir(parents=True, exist_ok=True)
    if modes:
        replace(folder / FIGURE, f"{modes_figure.figure(modes).svg}\n".encode())
    for own in (more or {}).values():
        for name, panel in own.figures.items():
            replace(folder / name, f"{panel.svg}\n".encode())
    for chapter in chapters:
        for picture in chapter.pictures:
            for name, panel in zip(_files(chapter, picture), picture.panels, strict=True):
                replace(folder / name, f"{panel.svg}\n".encode())
    for name, text in pages(chapters, records, command, modes, more).items():
        replace(folder / name, text.encode())
    return folder / FIRST


def pages(
    chapters: Sequence[Chapter],
    records: Sequence[Record],
    command: str,
    modes: Sequence[summary.Scores] = (),
    more: Mapping[str, OwnPage] | None = None,
) -> dict[str, str]:
    """Returns the pages of a folder by file name: the summary, the experiments, and the tables of the paper.

    Args:
        modes: the comparison under the tuning protocol, which the summary begins with.
        more: pages of experiments with records of their own, by file name.
    """
    links = {chapter.section.title: _page(chapter) for chapter in chapters}
    more = more or {}
    found = {FIRST: _summary(chapters, records, command, modes, more)} | {name: own.text for name, own in more.items()}
    paired = {each.data.experiment: summary.differences(each) for each in summary.collect(records)}
    newer = modes_summary.pointers(modes, records)
    for chapter in chapters:
        name = _name(chapter)
        title, _, description, *rest = _chapter(chapter, "", level="#", first="chosen", pairs=paired.get(name, ()))
        pointer = newer.get(name, modes_summary.OLDER if modes else "")
        lines = [title, "", description, *(["", pointer] if pointer else []), *rest]
        found[_page(chapter)] = "\n".join([*lines, _made(command), ""])
    found[DISCLOSED] = "\n".join([*disclosed(chapters, records, modes, more), _made(command), ""])
    found[PAPER] = "\n".join([*_index(chapters, links, level="#"), _made(command), ""])
    return found


def _summary(
    chapters: Sequence[Chapter],
    records: Sequence[Record],
    command: str,
    modes: Sequence[summary.Scores],
    more: Mapping[str, OwnPage],
) -> str:
    lines = [f"# {summary.TITLE}", "", *opening(records, modes, more), "## Pages", ""]
    lines += [f"- [{chapter.section.title}]({_page(chapter)})" for chapter in chapters]
    lines += [f"- [{own.text.splitlines()[0].removeprefix('# ')}]({name})" for name, own in more.items()]
    lines += [f"- [{index.TITLE}]({PAPER}): every table and figure of the paper, and where ours stand", ""]
    return "\n".join([*lines, _made(command), ""])


def opening(
    records: Sequence[Record], modes: Sequence[summary.Scores], more: Mapping[str, OwnPage] | None = None
) -> list[str]:
    """Returns the summary below its title: one sentence, one table, one figure, losses, and what to keep in mind."""
    scores, more = summary.collect(records), more or {}
    lines, lost = [], summary.losses(scores)
    if modes:
        lines += [modes_sentences.sentence(modes), "", *modes_summary.table(modes, records), ""]
        lines += [modes_sentences.meaning(modes), "", f"{_CELLS} {_BY_ENTROPY} {_NO_NETWORK} {_COSTS} {_PROTOCOL}", ""]
        lines += [f"![{modes_figure.figure(modes).alt}]({FIGURE})", "", modes_figure.CAPTION, ""]
        lines += [*modes_sentences.headline(modes), *(f"- {own.remark}" for own in more.values() if own.remark), ""]
        lines += ["## Where it loses", "", *modes_summary.losses(modes)]
        lines += [*(line for own in more.values() for line in own.losses), ""]
        lines += ["## Earlier runs", "", f"{_EARLIER} {_only_earlier(scores, modes)}".rstrip(), ""]
        lines += ['<details markdown="1">', "<summary>Their table, and where low rank loses in it</summary>", ""]
    lines += [summary.headline(scores), ""]
    if scores:
        lines += [*summary.table(scores), "", _CELLS, ""]
        where = "**Where low rank loses in earlier runs**" if modes else "## Where it loses"
        lines += [where, "", *(lost or ["Nowhere beyond a paired 95 % interval."]), ""]
    lines += ["</details>", ""] if modes else []
    not_blind = f"**Disclosures.** Not everything was blind: [what was known when]({DISCLOSED}), data set by data set."
    kept_in_mind = [*remarks(records), *([not_blind] if scores else ())]
    lines += ["## Keep in mind", "", *(line for each in kept_in_mind for line in (each, ""))] if kept_in_mind else []
    return lines


def _only_earlier(scores: Sequence[summary.Scores], modes: Sequence[summary.Scores]) -> str:
    """Returns which data sets the comparison under the protocol does not have."""
    newer = {each.data.experiment for each in modes}
    only = [each.data.title for each in scores if each.data.experiment not in newer]
    return f"The newer comparison does not have these: {'; '.join(only)}." if only else ""


def disclosed(
    chapters: Sequence[Chapter],
    records: Sequence[Record] = (),
    modes: Sequence[summary.Scores] = (),
    more: Mapping[str, OwnPage] | None = None,
) -> list[str]:
    """Returns the lines of the page of disclosures."""
    lead = (
        "What a sceptic should know about the results: which scores had been seen when settings were written, what "
        "diverged, what was left out."
    )
    first = modes_sentences.disclosures(modes, records) if modes else []
    every = (lead, *first, *summary.DISCLOSURES)
    lines = ["# Disclosures", "", *(line for each in every for line in (each, ""))]
    sections: dict[str, Sequence[str]] = {chapter.section.title: chapter.section.notes for chapter in chapters}
    sections |= dict(own.disclosed for own in (more or {}).values()) | disclosures.SECTIONS
    for title, notes in sections.items():
        lines += [f"## {title}", "", *(f"- {note}" for note in notes), ""] if notes else []
    return lines


def _made(command: str) -> str:
    return f"Made from records by `{command}`; every number stands there, one line per run."


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
            body = ["**Paired differences**", "", *pairs, "", _PAIRS, "", *body]
        other = folds and part.group.preset != first
        if other or (part.group.preset == "trial" and len(chapter.parts) > 1):
            head = f"{part.label} ({len(part.group.records)} runs)"
            lines += ['<details markdown="1">', f"<summary>{head}</summary>", "", *body, "</details>", ""]
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
        lines += ['<details markdown="1">', f"<summary>{head}</summary>", ""]
        lines += [*(markdown(table) for table in others), "</details>", ""]
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
    parts = [*([", ".join(shared.values())] if shared else []), *([f"by method {', '.join(own)}"] if own else [])]
    return f"Not the {origin}'s: {'; '.join(parts)}."


def _differing(settings: SettingsTable, origin: str) -> list[str]:
    """Returns the table of the settings that differ between methods, with the paper's values where they are others."""
    lines = [f"| settings | {' | '.join(settings.heads)} |", f"|---|{'---:|' * len(settings.heads)}"]
    lines += [f"| {' | '.join([name, *(each.text(origin) for each in own)])} |" for name, own in settings.lines]
    return [*lines, ""]


def _index(chapters: Sequence[Chapter], pages: Mapping[str, str] | None = None, level: str = "##") -> list[str]:
    heads = index.HEADS
    lines = [f"{level} {index.TITLE}", "", index.DESCRIPTION, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for entry in index.make_entries(chapters):
        places = [f"{_link(place.section.title, pages)}: {place.text(entry.printed)}" for place in entry.places]
        lines.append(f"| {entry.label} | {entry.what} | {'<br>'.join(places) or entry.elsewhere} | {entry.remark} |")
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
