"""A rank that is learned against a sweep of ranks, on MNIST."""

from collections.abc import Sequence
from dataclasses import replace

from singularbayes_experiments.problems.adaptive_rank import verdict
from singularbayes_experiments.report.names import measure, rank_in
from singularbayes_experiments.report.rows import Row
from singularbayes_experiments.report.section import Columns
from singularbayes_experiments.report.sections.image_columns import section

VALIDATED = Columns(
    "On validation",
    (
        measure("validation_nll", 4, label="NLL"),
        measure("validation_accuracy", 4, label="accuracy"),
    ),
    sort="validation_nll",
    note="The question is whether the learned rank is within one standard error of the best of the fixed ones.",
)


def finding(rows: Sequence[Row]) -> str:
    """Returns the verdict, or what is missing for one."""
    try:
        found = verdict(record for row in rows for record in row.records)
        return str(replace(found, best=str(rank_in(found.best))))
    except ValueError as error:
        return f"No verdict yet: {error}"


_IMAGES = section(
    "adaptive_rank",
    "A learned rank on MNIST",
    "The network of the MNIST page, with the settings that were tuned there for rank 25, at several fixed ranks of the "
    "hidden weights. One more method starts with rank 64 and learns which columns it needs. With exactly the settings "
    "of the others its validation NLL was not within one standard error of the best rank's (0.0576); it then got eight "
    "configurations of its own. Not an experiment of the paper.",
    ("fashion_mnist",),
    in_paper=False,
)
SECTION = replace(_IMAGES, tables=(VALIDATED, *_IMAGES.tables), finding=finding)
