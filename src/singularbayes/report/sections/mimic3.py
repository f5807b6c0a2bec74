"""MIMIC-III, adults against newborns, beside the paper's table."""

from singularbayes.report.names import NAMES
from singularbayes.report.section import Section
from singularbayes.report.sections.care_columns import (
    PROBABILITIES,
    RANKED,
    UNDER_SHIFT,
    UNSURE,
    drawings,
    finding,
    overview,
)
from singularbayes.report.sections.image_columns import BINNINGS

SECTION = Section(
    "mimic3",
    "Intensive care: MIMIC-III",
    "Death in intensive care from 44 features of the first 48 hours; adults are known, newborns foreign.",
    (
        overview(
            "Adults and newborns",
            "AUROC and NLL on test stays of adults; newborns are told from them by mutual information.",
        ),
        PROBABILITIES,
        UNSURE,
        UNDER_SHIFT,
        BINNINGS,
    ),
    NAMES,
    drawings([("foreign", "test", "newborns")]),
    finding,
    (
        "Runs whose tables are “demo” are of the open demo: 100 patients, of whom 10 test, and no newborns. They show "
        "that the pipeline works, and no more; the full MIMIC-III needs an account at PhysioNet.",
        "Length of stay, one of the paper's features, is not known in the first 48 hours and leaks the outcome. It is "
        "used with the paper's settings alone.",
    ),
    ranked=RANKED,
)
