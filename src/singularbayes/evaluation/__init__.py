"""A model in, results out: evaluation, comparison, diagnosis, certificates, selective prediction."""

from singularbayes.evaluation.certify import catoni_constant, certify
from singularbayes.evaluation.comparison import Comparison, compare
from singularbayes.evaluation.diagnosis import Diagnosis, diagnose
from singularbayes.evaluation.evaluate import Evaluation, evaluate
from singularbayes.evaluation.scores import selective
from singularbayes.evaluation.symptoms import Finding

__all__ = [
    "Comparison",
    "Diagnosis",
    "Evaluation",
    "Finding",
    "catoni_constant",
    "certify",
    "compare",
    "diagnose",
    "evaluate",
    "selective",
]
