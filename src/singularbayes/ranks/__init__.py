"""Which rank: by shape, by a trained network's spectrum, by held-out loss, by a sweep, or learned while training."""

from singularbayes.ranks.by_loss import Truncations, by_loss
from singularbayes.ranks.prune import Pruned, prune
from singularbayes.ranks.recommendation import Recommendation, by_shape, by_spectrum
from singularbayes.ranks.search import Budget, Data, sweep
from singularbayes.ranks.trials import Sweep, Trial

__all__ = [
    "Budget",
    "Data",
    "Pruned",
    "Recommendation",
    "Sweep",
    "Trial",
    "Truncations",
    "by_loss",
    "by_shape",
    "by_spectrum",
    "prune",
    "sweep",
]
