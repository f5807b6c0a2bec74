"""Which rank: by shape, by a trained network's spectrum, by a bound, by a sweep, or learned while training."""

from singularbayes.ranks.by_bound import by_bound
from singularbayes.ranks.by_loss import SHARES, Truncations, by_loss
from singularbayes.ranks.engines import Engine, Local, Ray
from singularbayes.ranks.fingerprint import has_noise
from singularbayes.ranks.prune import Pruned, prune
from singularbayes.ranks.recommendation import Recommendation, by_shape, by_spectrum, default_rank
from singularbayes.ranks.search import sweep
from singularbayes.ranks.sweep_config import Budget, Counterpart, Data
from singularbayes.ranks.trials import Sweep, Trial

__all__ = [
    "SHARES",
    "Budget",
    "Counterpart",
    "Data",
    "Engine",
    "Local",
    "Pruned",
    "Ray",
    "Recommendation",
    "Sweep",
    "Trial",
    "Truncations",
    "by_bound",
    "by_loss",
    "by_shape",
    "by_spectrum",
    "default_rank",
    "has_noise",
    "prune",
    "sweep",
]
