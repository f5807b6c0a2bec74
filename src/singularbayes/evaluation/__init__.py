"""A model in, results out: evaluation, comparison, diagnosis, certificates, selective prediction."""

from singularbayes.evaluation.bounds_report import bounds_report
from singularbayes.evaluation.bounds_table import BoundsReport
from singularbayes.evaluation.certificate import certify
from singularbayes.evaluation.comparison import Comparison, compare
from singularbayes.evaluation.diagnosis import Diagnosis, diagnose
from singularbayes.evaluation.evaluate import Evaluation, evaluate
from singularbayes.evaluation.selection import selective
from singularbayes.evaluation.small_variance import small_variance
from singularbayes.evaluation.symptoms import Finding

__all__ = [
    "BoundsReport",
    "Comparison",
    "Diagnosis",
    "Evaluation",
    "Finding",
    "bounds_report",
    "certify",
    "compare",
    "diagnose",
    "evaluate",
    "selective",
    "small_variance",
]
