"""What low-rank posteriors are compared with, behind one interface.

A baseline has `fit(x, y, …)`, which returns itself, and `predict(x, draws, seed, …)`, which takes the options of
`singularbayes.predict` and returns the same `Predictive`. `num_trained` counts the trainable parameters,
`num_stored` those that are kept to predict from. `save(folder)` and the class method `load(folder)` keep it.
"""

from singularbayes.baselines.ensembles import DeepEnsemble, LowRankEnsemble, member_seeds
from singularbayes.baselines.mc_dropout import MCDropout
from singularbayes.baselines.snapshots import Snapshots
from singularbayes.baselines.swag import SWAG, SWASchedule, flat_weights

__all__ = [
    "SWAG",
    "DeepEnsemble",
    "LowRankEnsemble",
    "MCDropout",
    "SWASchedule",
    "Snapshots",
    "flat_weights",
    "member_seeds",
]
