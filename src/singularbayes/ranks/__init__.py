"""Which rank: from a trained network's spectrum, from a bound, from a sweep, or learned while training."""

from singularbayes.ranks.prune import Pruned, prune

__all__ = ["Pruned", "prune"]
