"""A rank that is learned in one run against a sweep of ranks, on SST-2.

See `adaptive_rank.py` for the question.

The Transformer and the settings are those of SST-2's `low_rank`, on the budget of its rank ablation; embedding,
projections and feed-forward networks all have the rank, or learn one each. Only whole held-out sentences judge.
"""

from functools import partial

from singularbayes.experiments import methods, sst2, study
from singularbayes.experiments.methods import count_epochs as epochs
from singularbayes.experiments.reviews import QUICK, RANKS, Reviews, Settings

METHODS = methods.sentences(*RANKS, "low_rank_auto")


class _Ranks(Reviews):
    name = "adaptive_rank_sst2"
    methods = METHODS


CHOSEN = dict.fromkeys(METHODS, sst2.CHOSEN[RANKS[0]])
PRESETS = {"chosen": CHOSEN, "quick": QUICK}
PROBLEM = _Ranks(CHOSEN)
run, run_many = partial(study.run, PROBLEM), partial(study.run_many, PROBLEM)

__all__ = ["METHODS", "PRESETS", "PROBLEM", "Settings", "epochs", "run", "run_many"]
