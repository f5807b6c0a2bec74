"""MIMIC-III, adults against newborns, beside the paper's table."""

from collections.abc import Sequence

from singularbayes_experiments.problems.mortality import OOD
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import NAMES
from singularbayes_experiments.report.rows import Row
from singularbayes_experiments.report.section import Section
from singularbayes_experiments.report.sections.image_columns import BINNINGS
from singularbayes_experiments.report.sections.mortality_columns import (
    DEPARTURES,
    PROBABILITIES,
    RANKED,
    UNDER_SHIFT,
    UNSURE,
    drawings,
    finding,
    overview,
)


def _of_full_tables(record: Record) -> bool:
    """Returns whether a run is of MIMIC-III itself; the open demo tests ten patients, which shows nothing."""
    return record.settings.get("tables") != "demo"


def _finding(rows: Sequence[Row]) -> str:
    """Returns what is found; of the demo nothing but that it is the demo."""
    if not any(_of_full_tables(row.first) for row in rows):
        return "All runs here are of the open demo, of which ten patients test: their scores say nothing of a method."
    return finding([row for row in rows if _of_full_tables(row.first)])


SECTION = Section(
    "mimic3",
    "MIMIC-III (open demo, ten test patients)",
    "Death in intensive care from 43 features of the first 48 hours, 44 with the paper's settings; adults are "
    "in-distribution, newborns are out-of-distribution.",
    (
        overview(
            "Adults and newborns",
            "AUROC and NLL on test stays of adults; newborns are distinguished from them by mutual information.",
        ),
        PROBABILITIES,
        UNSURE,
        UNDER_SHIFT,
        BINNINGS,
    ),
    NAMES,
    drawings([(OOD, "test", "newborns")]),
    _finding,
    (
        "Runs whose tables are “demo” are of the open demo: 100 patients, of whom 10 test, and no newborns. They show "
        "that the pipeline works, and no more, so that no number of the paper stands beside them; the full MIMIC-III "
        "needs an account at PhysioNet.",
        "Length of stay, one of the paper's features, is not known in the first 48 hours and leaks the outcome. It is "
        "used with the paper's settings alone, which therefore have 44 features; all others have 43.",
        DEPARTURES,
    ),
    ranked=RANKED,
    alike=_of_full_tables,
)
