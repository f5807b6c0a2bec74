"""A model in, results out: evaluation, comparison, diagnosis, certificates, selective prediction."""

from singularbayes.evaluation.certify import catoni_constant, certify
from singularbayes.evaluation.comparison import Cell, Column, Comparison, Difference, compare
from singularbayes.evaluation.diagnosis import Diagnosis, diagnose
from singularbayes.evaluation.evaluate import TASKS, Evaluation, evaluate
from singularbayes.evaluation.scores import selective
from singularbayes.evaluation.symptoms import Finding

__all__ = [
    "TASKS",
    "Cell",
    "Column",
    "Comparison",
    "Diagnosis",
    "Difference",
    "Evaluation",
    "Finding",
    "catoni_constant",
    "certify",
    "compare",
    "diagnose",
    "evaluate",
    "selective",
]
