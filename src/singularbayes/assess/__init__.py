"""A model in, results out: evaluation, comparison, diagnosis, selective prediction."""

from singularbayes.assess.catalogue import find
from singularbayes.assess.comparison import Comparison, compare
from singularbayes.assess.diagnosis import Diagnosis, diagnose
from singularbayes.assess.evaluation import Evaluation, evaluate
from singularbayes.assess.measure import Measure
from singularbayes.assess.selection import selective
from singularbayes.assess.symptoms import Finding

__all__ = [
    "Comparison",
    "Diagnosis",
    "Evaluation",
    "Finding",
    "Measure",
    "compare",
    "diagnose",
    "evaluate",
    "find",
    "selective",
]
