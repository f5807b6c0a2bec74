"""A rank that is learned against a sweep of ranks, on MNIST."""

from dataclasses import replace

from singularbayes.assess.measure import Measure
from singularbayes.report.section import Columns
from singularbayes.report.sections.image_columns import section

VALIDATED = Columns(
    "On validation",
    (Measure("validation_nll", "lower", label="NLL", decimals=4), Measure("validation_accuracy", "higher", decimals=4)),
    sort="validation_nll",
    note="The question: is the learned rank within one standard error of the best swept one?",
)
_IMAGES = section(
    "adaptive_rank",
    "A learned rank on MNIST",
    "The network of MNIST with the settings that its trials chose; only the ranks of the hidden weights differ. One "
    "run starts with 64 columns and learns which it needs. Not an experiment of the paper.",
    ("fashion_mnist",),
    in_paper=False,
)
SECTION = replace(_IMAGES, tables=(VALIDATED, *_IMAGES.tables))
