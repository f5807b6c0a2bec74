"""A model in, results out: evaluation, comparison, diagnosis, certificates, selective prediction."""

from singularbayes.evaluation.bounds_report import bounds_report
from singularbayes.evaluation.bounds_table import BoundsReport
from singularbayes.metrics.catalogue import find
from singularbayes.evaluation.certificate import certify
from singularbayes.evaluation.comparison import Comparison, compare
from singularbayes.evaluation.diagnosis import Diagnosis, diagnose
from singularbayes.evaluation.evaluate import Evaluation, evaluate
from singularbayes.metrics.measure import Measure
from singularbayes.evaluation.selection import selective
from singularbayes.evaluation.small_variance import small_variance
from singularbayes.evaluation.symptoms import Finding

__all__ = [
    "BoundsReport",
    "Comparison",
    "Diagnosis",
    "Evaluation",
    "Finding",
    "Measure",
    "bounds_report",
    "certify",
    "compare",
    "diagnose",
    "evaluate",
    "find",
    "selective",
    "small_variance",
]
