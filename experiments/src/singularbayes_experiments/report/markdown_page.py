"""Chapters as a Markdown page: the tables of all presets, and figures as files beside it."""

from collections.abc import Sequence
from pathlib import Path

from singularbayes_experiments.records.files import replace
from singularbayes_experiments.report import against, index
from singularbayes_experiments.report.chapters import Chapter, Part
from singularbayes_experiments.report.index import Overview
from singularbayes_experiments.report.picture import Picture
from singularbayes_experiments.report.settings import SettingsTable
from singularbayes_experiments.report.table_markdown import markdown


def render(chapters: Sequence[Chapter], title: str, command: str, figures: str | None = None) -> str:
    """Returns the page.

    Args:
        command: what the reader types to make it again.
        figures: the folder of the figures as links name it; None leaves figures out.
    """
    lines = [f"# {title}", "", f"Made from records by `{command}`; every number stands there, one line a run.", ""]
    titles = [*(chapter.section.title for chapter in chapters), index.TITLE]
    lines += [f"- {_link(title)}" for title in titles] + [""]
    lines += [line for chapter in chapters for line in _chapter(chapter, figures)]
    return "\n".join([*lines, *_index(chapters)])


def write(path: Path, chapters: Sequence[Chapter], title: str, command: str) -> Path:
    """Writes the page, its figures into the folder of its name, and returns its path."""
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for chapter in chapters:
        for picture in chapter.pictures:
            for name, panel in zip(_files(chapter, picture), picture.panels, strict=True):
                replace(folder / name, f"{panel.svg}\n".encode())
    return replace(path, render(chapters, title, command, folder.name).encode())


def _chapter(chapter: Chapter, figures: str | None) -> list[str]:
    section = chapter.section
    lines = [f"## {section.title}", "", section.description, ""]
    if chapter.finding:
        lines += [f"**{chapter.drawn}.** {chapter.finding}", ""]
    for part in chapter.parts:
        body = _part(part, "paper" if section.in_paper else "default")
        if part.group.preset == "trial" and len(chapter.parts) > 1:
            head = f"{part.label} ({len(part.group.records)} runs)"
            lines += ["<details>", f"<summary>{head}</summary>", "", *body, "</details>", ""]
        else:
            lines += [f"### {part.label}", "", *body]
    if figures is not None:
        for picture in chapter.pictures:
            files = zip(_files(chapter, picture), picture.panels, strict=True)
            lines += [*(f"![{panel.alt}]({figures}/{name})" for name, panel in files), "", picture.caption, ""]
        lines += [f"Figures left out. {' '.join(chapter.left_out)}", ""] if chapter.left_out else []
    return [*lines, *(line for note in section.notes for line in (note, ""))]


def _part(part: Part, origin: str) -> list[str]:
    lines = [markdown(table) for table in part.tables]
    if part.against:
        lines += _against(part)
    if part.settings.departures:
        lines += [_departures(part.settings, origin), ""]
    if part.settings.lines:
        lines += _differing(part.settings, origin)
    return [*lines, "```", *part.commands, "```", "", part.made_with, ""]


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


def _index(chapters: Sequence[Chapter]) -> list[str]:
    heads = index.HEADS
    lines = [f"## {index.TITLE}", "", index.DESCRIPTION, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for entry in index.make_entries(chapters):
        places = [f"{_link(place.section.title)}: {place.text(entry.printed)}" for place in entry.places]
        lines.append(f"| {entry.label} | {entry.what} | {'<br>'.join(places) or entry.elsewhere} | {entry.remark} |")
    return [*lines, "", *_overview(index.overview(chapters))]


def _overview(found: Sequence[Overview]) -> list[str]:
    """Returns the table that counts, for every experiment, what is better than the paper's and what is worse."""
    if not found:
        return []
    lines = [f"### {index.OVERVIEW}", "", index.OVERVIEW_DESCRIPTION, ""]
    lines += [f"| experiment | settings | {' | '.join(against.HEADS)} |", "|---|---|---:|---:|---:|"]
    for each in found:
        cells = [_link(each.section.title), each.label, *map(str, each.counts)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _link(title: str) -> str:
    return f"[{title}](#{_anchor(title)})"


def _files(chapter: Chapter, picture: Picture) -> list[str]:
    stem = f"{chapter.section.experiment}-{picture.name}"
    if len(picture.panels) == 1:
        return [f"{stem}.svg"]
    return [f"{stem}-{i}.svg" for i in range(1, len(picture.panels) + 1)]


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
