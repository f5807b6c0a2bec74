"""The summary of results in Markdown: one sentence, one table, one figure, losses, detection; and all disclosures.

It opens the folder of pages and the page in one file alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import (
    disclosures,
    modes_disclosures,
    modes_figure,
    modes_sentences,
    modes_summary,
    summary,
)
from singularbayes_experiments.report.chapters import Chapter
from singularbayes_experiments.report.detectors import Means, main_pairs, other_pairs, paper_pairs
from singularbayes_experiments.report.earlier_runs import ABOUT, with_paper
from singularbayes_experiments.report.modes_section import Comparison
from singularbayes_experiments.report.picture import Panel
from singularbayes_experiments.report.text import folded

NOTHING = Comparison()
DISCLOSED, FIGURE = "disclosures.md", "summary.svg"


@dataclass(frozen=True)
class OwnPage:
    """The page of an experiment with records of its own.

    Args:
        text: begins with a title; losses and remark: lines of the summary; disclosed: a title and its disclosures.
        detection: a sentence for the summary's part on out-of-distribution inputs; cut: one on what was not run.
        figures: by the name of the file that the text shows.
    """

    text: str
    losses: Sequence[str] = ()
    remark: str = ""
    disclosed: tuple[str, Sequence[str]] = ("", ())
    detection: str = ""
    cut: str = ""
    figures: Mapping[str, Panel] = field(default_factory=dict)


_CELLS = (
    "Each cell: NLL (nats, lower is better), AUROC-OOD (higher is better) where there are out-of-distribution data, "
    "and stored parameters. ± is the standard error over seeds; in intensive care a seed is the mean over five shifts. "
    "Bold: the best, where the paired 95 % intervals of its differences to all others exclude zero. –: not run."
)
_PROTOCOL = (
    "Settings by the [tuning protocol](../protocol.md), committed before the run. Behind each name: all methods, "
    "chosen settings, detectors without a posterior."
)
_ALL_DISCLOSURES = f"[All disclosures]({DISCLOSED}): what had been seen when, what diverged, what was left out."
_DETECTING = {name: modes_summary.METHODS[name] for name in ("deep_ensemble", "full_rank", *modes_summary.OURS)}


def opening(
    records: Sequence[Record],
    comparison: Comparison,
    more: Mapping[str, OwnPage] | None = None,
    beside_paper: bool = True,
) -> list[str]:
    """Returns the summary below its title: one sentence, one table, one figure, losses, detection and disclosures."""
    scores, more = summary.collect(records), more or {}
    beside = [f"- {own.remark}" for own in more.values() if own.remark]
    lost = [line for own in more.values() for line in own.losses]
    if not comparison:
        return [*_opening_of_earlier(scores, beside, lost), "## Disclosures", "", _ALL_DISCLOSURES, ""]
    modes = comparison.scores
    small = [each for each in modes if each.data.experiment in modes_summary.UCI]
    lines = [modes_sentences.sentence(modes), "", modes_sentences.KEY, ""]
    lines += [*modes_summary.table([each for each in modes if each not in small], records), ""]
    lines += folded(f"The same on {len(small)} small tables (UCI)", [*modes_summary.table(small), ""]) if small else []
    lines += [*modes_sentences.meaning(modes), f"- {_PROTOCOL}", ""]
    lines += [f"![{comparison.figure.alt}]({FIGURE})", "", modes_figure.CAPTION, ""]
    lines += [*modes_sentences.headline(modes, records), *beside, ""]
    lines += ["## Where it loses", "", "Where a paired 95 % interval excludes 0:", "", *modes_summary.losses(modes), ""]
    older = modes_disclosures.beside_older_runs(modes, records)
    means = [older, *lost]
    lines += ["By their means:", "", *filter(None, means), ""] if any(means) else []
    kept = Means(records)
    detection = [main_pairs(kept, modes, _DETECTING), *([paper_pairs(kept)] if beside_paper else []), other_pairs(kept)]
    detection += [own.detection for own in more.values()]
    lines += ["## Out-of-distribution detection", "", *(line for each in detection if each for line in (each, ""))]
    lines += ["## Disclosures", "", *(f"- {line}" for line in _disclosures(comparison, records)[:2]), ""]
    lines[-1:-1] = [f"- {own.cut}" for own in more.values() if own.cut]
    lines += [_ALL_DISCLOSURES, ""]
    lines += ["## More", ""]
    lines += [line for title, own in modes_sentences.details(modes).items() for line in folded(title, [*own, ""])]
    below = [f"{ABOUT} {with_paper(values=beside_paper)}", "", summary.headline(scores), ""]
    below += _table_of_earlier(scores, "**Where low rank loses in earlier runs**") if scores else []
    return [*lines, *folded("Earlier runs, older than the protocol", below)]


def _opening_of_earlier(scores: Sequence[summary.Scores], beside: Sequence[str], lost: Sequence[str]) -> list[str]:
    """Returns the table of earlier runs and where low rank loses in it.

    Args:
        beside: remarks of experiments with records of their own; lost: where they lose.
    """
    where = "## Where it loses"
    lines = [
        summary.headline(scores),
        "",
        *(_table_of_earlier(scores, where) if scores else [where, ""] if lost else []),
    ]
    lines += [*lost, ""] if lost else []
    return [*lines, *beside, ""] if beside else lines


def _table_of_earlier(scores: Sequence[summary.Scores], where: str) -> list[str]:
    lost = summary.losses(scores) or ["Nowhere beyond a paired 95 % interval."]
    return [*summary.table(scores), "", _CELLS, "", where, "", *lost, ""]


def _disclosures(comparison: Comparison, records: Sequence[Record]) -> list[str]:
    return modes_disclosures.disclosures(comparison.scores, comparison.before, comparison.final, records)


def disclosed(
    chapters: Sequence[Chapter],
    records: Sequence[Record] = (),
    comparison: Comparison = NOTHING,
    more: Mapping[str, OwnPage] | None = None,
) -> list[str]:
    """Returns the lines of the page of disclosures."""
    lead = (
        "What a sceptic should know about the results: which scores had been seen when settings were written, what "
        "diverged, what was left out."
    )
    lines = ["# Disclosures", "", lead, ""]
    if comparison:
        lines += ["## Under the tuning protocol", "", *(f"- {line}" for line in _disclosures(comparison, records)), ""]
    own = {title: notes for title, notes in (page.disclosed for page in (more or {}).values()) if title}
    lines += _disclosed_of(own | disclosures.SECTIONS if comparison else own)
    lines += ["## Earlier runs", "", *(line for each in summary.DISCLOSURES for line in (each, ""))]
    return [*lines, *_disclosed_of({chapter.section.title: chapter.section.notes for chapter in chapters}, "###")]


def _disclosed_of(sections: Mapping[str, Sequence[str]], level: str = "##") -> list[str]:
    return [
        line
        for title, notes in sections.items()
        if notes
        for line in (f"{level} {title}", "", *(f"- {note}" for note in notes), "")
    ]
