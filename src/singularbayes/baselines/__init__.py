"""What low-rank posteriors are compared with, behind one interface.

A baseline has `fit(x, y, …)`, which returns itself, and `predict(x, draws, seed, …)`, which takes the options of
`singularbayes.predict` and returns the same `Predictive`. `num_trained` counts the trainable parameters, `num_stored`
those that are kept to predict from. `MCDropout` is its model; the others have `save(folder)` and `load(folder)`.
"""

from singularbayes.baselines.ensembles import DeepEnsemble, member_seeds
from singularbayes.baselines.mc_dropout import MCDropout
from singularbayes.baselines.swag import SWAG

__all__ = ["SWAG", "DeepEnsemble", "MCDropout", "member_seeds"]
