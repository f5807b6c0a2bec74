"""Ranks on SST-2: a sweep of them on a reduced budget, and one that is learned in a single run.

See `adaptive_rank.py` for the question.

The Transformer and the settings are those of SST-2's `low_rank`, for 8 epochs with 50 draws; embedding, projections,
feed-forward networks and head all have the rank, or learn one each. Only whole held-out sentences judge.

The learned rank has five configurations, as every method of SST-2 has, tried with one seed: three weights of the KL,
the middle one and the smaller one also with a lower bar for columns. They were written down before any was run, when
MNIST had shown that the learned rank kept too few columns there.
"""

from dataclasses import asdict, dataclass, replace

from singularbayes_experiments.methods import methods
from singularbayes_experiments.methods.configurations import Configurations
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.problems import reviews, sst2
from singularbayes_experiments.problems.adaptive_rank import learned
from singularbayes_experiments.problems.reviews import QUICK, Reviews

RANKS = (4, 8, 16, 32, 64)
METHODS = methods.sentences(*(f"low_rank_{rank}" for rank in RANKS), "low_rank_auto")


@dataclass(frozen=True)
class AdaptiveRankReviewSettings(reviews.ReviewSettings):
    """Those of SST-2, and how a rank is learned."""

    max_rank: int = 64
    tolerance: float = 0.01


SWEPT = replace(sst2.TUNED["low_rank"], epochs=8, draws=50)
BARS = {1.0: (0.05, 0.01), 0.3: (0.05, 0.01), 3.0: (0.05,)}
CONFIGURATIONS = Configurations(AdaptiveRankReviewSettings(**asdict(SWEPT)), {"low_rank_auto": learned(BARS)})
# The configuration with the least validation NLL: experiments/results/adaptive_rank_sst2_trials.jsonl.
CHOICE = {"low_rank_auto": "beta 1, tolerance 0.01"}
TUNED = dict.fromkeys(METHODS, SWEPT) | CONFIGURATIONS.tuned(CHOICE)


class _Ranks(Reviews):
    name = "adaptive_rank_sst2"
    methods = METHODS


EXPERIMENT = Experiment(
    summary="Ranks on SST-2: a sweep of them on a reduced budget, and one that is learned in a single run.",
    problem=_Ranks(TUNED),
    presets={
        "chosen": TUNED,
        "quick": dict.fromkeys(METHODS, QUICK) | {"low_rank_auto": AdaptiveRankReviewSettings(**asdict(QUICK))},
    },
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)
