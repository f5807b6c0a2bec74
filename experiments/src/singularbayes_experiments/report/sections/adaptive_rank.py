"""A rank that is learned against a sweep of ranks, on MNIST."""

from collections.abc import Sequence
from dataclasses import replace

from singularbayes_experiments.problems.adaptive_rank import verdict
from singularbayes_experiments.report.names import measure
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
    note="The question: is the learned rank within one standard error of the best swept one?",
)


def finding(rows: Sequence[Row]) -> str:
    """Returns the verdict, or what is missing for one."""
    try:
        return str(verdict(record for row in rows for record in row.records))
    except ValueError as error:
        return f"No verdict yet: {error}"


_IMAGES = section(
    "adaptive_rank",
    "A learned rank on MNIST",
    "The network of MNIST with the settings that its tuning runs chose for rank 25; the ranks of the hidden weights "
    "differ. One run starts with 64 columns and learns which it needs. With the very settings of the others it was "
    "not within one standard error of the best rank (0.0576); it got eight configurations of its own then. Not an "
    "experiment of the paper.",
    ("fashion_mnist",),
    in_paper=False,
)
SECTION = replace(_IMAGES, tables=(VALIDATED, *_IMAGES.tables), finding=finding)
