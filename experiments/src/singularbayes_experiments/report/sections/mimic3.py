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
        return "All runs here use the open demo with its ten test patients: their scores say nothing about a method."
    return finding([row for row in rows if _of_full_tables(row.first)])


SECTION = Section(
    "mimic3",
    "MIMIC-III (open demo, ten test patients)",
    "Death in intensive care from 43 features of the first 48 hours (44 with the paper's settings); adults are "
    "in-distribution, newborns out-of-distribution. MIMIC-III itself needs credentialed access. The open demo of 100 "
    "patients has no newborns, so runs on it have no detection scores; intensive care on PhysioNet 2012, with one kind "
    "of care held out, stands in for them.",
    (
        overview(
            "Adults and newborns",
            "AUROC and NLL on test stays of adults. Where there are newborns, they are detected by mutual information.",
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
        "Runs on the open demo (100 patients, of whom 10 are test patients, and no newborns) show that the pipeline "
        "works, and no more; so no value of the paper is shown beside them. The full MIMIC-III needs an account at "
        "PhysioNet.",
        "Length of stay, one of the paper's features, is not known in the first 48 hours and leaks the outcome. It is "
        "used with the paper's settings alone, which therefore have 44 features; all others have 43.",
        DEPARTURES,
    ),
    ranked=RANKED,
    alike=_of_full_tables,
)
