"""Which rank: by shape, by a trained network's spectrum, by a bound, by a sweep, or learned while training."""

from singularbayes.ranks.by_bound import by_bound
from singularbayes.ranks.by_energy import by_energy, by_shape, default_rank
from singularbayes.ranks.by_loss import ENERGIES, Truncations, by_loss
from singularbayes.ranks.engines import Engine, Local, Where
from singularbayes.ranks.fingerprint import says_noise
from singularbayes.ranks.prune import Pruned, prune
from singularbayes.ranks.recommendation import Recommendation
from singularbayes.ranks.search import sweep
from singularbayes.ranks.sweep_config import Budget, Data
from singularbayes.ranks.trials import Sweep, Trial
from singularbayes.ranks.twin import Twin

__all__ = [
    "ENERGIES",
    "Budget",
    "Data",
    "Engine",
    "Local",
    "Pruned",
    "Recommendation",
    "Sweep",
    "Trial",
    "Truncations",
    "Twin",
    "Where",
    "by_bound",
    "by_energy",
    "by_loss",
    "by_shape",
    "default_rank",
    "prune",
    "says_noise",
    "sweep",
]
