"""A model in, results out: evaluation, comparison, diagnosis, certificates, selective prediction."""

from singularbayes.assess.bounds_report import bounds_report
from singularbayes.assess.bounds_table import BoundsReport
from singularbayes.assess.catalogue import find
from singularbayes.assess.certificate import certify
from singularbayes.assess.comparison import Comparison, compare
from singularbayes.assess.diagnosis import Diagnosis, diagnose
from singularbayes.assess.evaluation import Evaluation, evaluate
from singularbayes.assess.measure import Measure
from singularbayes.assess.selection import selective
from singularbayes.assess.small_variance import small_variance
from singularbayes.assess.symptoms import Finding

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
