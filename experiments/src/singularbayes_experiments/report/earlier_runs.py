"""What stands above the runs of an experiment that are older than the tuning protocol."""

from collections.abc import Sequence
from dataclasses import dataclass

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import summary
from singularbayes_experiments.report.chapters import Chapter
from singularbayes_experiments.report.remarks import remarks

ABOUT = (
    "Runs that are older than the [tuning protocol](../protocol.md): they do not follow it, and not all of their "
    "configurations were chosen blind ([disclosures](disclosures.md))."
)
FOLDED = "All tables and figures of the earlier runs"
PAIRS = (
    "Row minus column: the mean over the seeds that both have, and its 95 % t interval; better or worse where it "
    "excludes 0. –: the column was not run, or has no AUROC-OOD by this uncertainty, as a deterministic network."
)


@dataclass(frozen=True)
class EarlierRuns:
    """What stands above the tables of the earlier runs of an experiment.

    Args:
        title: where results under the protocol stand above them; about: what they are; remark: what to keep in mind.
        pairs: the lines of the table of paired differences of the tuned settings; none where no two runs pair.
    """

    title: str = "Earlier runs"
    about: str = ABOUT
    remark: str = ""
    pairs: Sequence[str] = ()

    def lines(self, dated: bool = True) -> list[str]:
        """Returns what they are, if it is `dated`, and the remark, as Markdown."""
        return [line for each in (self.about if dated else "", self.remark) if each for line in (each, "")]

    def differences(self) -> list[str]:
        """Returns the table of paired differences with its title and what it shows, as Markdown."""
        return ["**Paired differences**", "", *self.pairs, "", PAIRS, ""] if self.pairs else []


def earlier_runs(
    chapters: Sequence[Chapter], records: Sequence[Record], beside_paper: bool = True
) -> dict[str, EarlierRuns]:
    """Returns what stands above the earlier runs of every experiment.

    Args:
        beside_paper: False leaves out the paper's numbers.
    """
    pairs = {each.data.experiment: summary.differences(each) for each in summary.collect(records)}
    noted = remarks(records, beside_paper)
    found = {}
    for chapter in chapters:
        name, parts = chapter.section.experiment, chapter.parts
        of_paper = chapter.section.in_paper and any(part.group.preset == "paper" for part in parts)
        title = "Earlier runs, and the paper's settings" if of_paper else "Earlier runs"
        about = f"{ABOUT} {with_paper(any(part.against for part in parts))}" if of_paper else ABOUT
        found[name] = EarlierRuns(title, about, noted.get(name, ""), pairs.get(name, ()))
    return found


def with_paper(values: bool) -> str:
    """Returns that runs with the paper's settings are among them, and, with `values`, the paper's numbers."""
    return f"They include more methods, and the paper's settings{' and values' if values else ''}."
