"""A model in, results out: evaluation, comparison, selective prediction."""

from singularbayes.assess.catalogue import Measure
from singularbayes.assess.comparison import Comparison, compare
from singularbayes.assess.evaluation import Evaluation, evaluate
from singularbayes.assess.selection import selective

__all__ = [
    "Comparison",
    "Evaluation",
    "Measure",
    "compare",
    "evaluate",
    "selective",
]
