"""A model in, results out: evaluation, comparison, diagnosis, certificates, selective prediction."""

from singularbayes.evaluation import comparison_table
from singularbayes.evaluation.bounds_report import bounds_report
from singularbayes.evaluation.bounds_table import BoundsReport
from singularbayes.evaluation.certificate import Certificate
from singularbayes.evaluation.certify import catoni_constant, certify
from singularbayes.evaluation.comparison import Comparison, compare
from singularbayes.evaluation.comparison_columns import NONE, Cell, Column
from singularbayes.evaluation.diagnosis import Diagnosis, diagnose
from singularbayes.evaluation.evaluate import TASKS, Evaluation, evaluate
from singularbayes.evaluation.feed_forward import activation_name, flat_layers_in_order
from singularbayes.evaluation.memory import Peak
from singularbayes.evaluation.scores import selective
from singularbayes.evaluation.small_variance import small_variance_of_model
from singularbayes.evaluation.symptoms import Finding

__all__ = [
    "NONE",
    "TASKS",
    "BoundsReport",
    "Cell",
    "Certificate",
    "Column",
    "Comparison",
    "Diagnosis",
    "Evaluation",
    "Finding",
    "Peak",
    "activation_name",
    "bounds_report",
    "catoni_constant",
    "certify",
    "compare",
    "comparison_table",
    "diagnose",
    "evaluate",
    "flat_layers_in_order",
    "selective",
    "small_variance_of_model",
]
