"""How a model is fitted."""

from singularbayes.training.early_stopping import EarlyStopping
from singularbayes.training.elbo import BETA, kl, load, set_kl
from singularbayes.training.fit_many import fit_many
from singularbayes.training.kl_schedule import KLSchedule
from singularbayes.training.learned_prior import centre_prior, learn_prior
from singularbayes.training.pac_bayes_objective import PACBayesObjective

__all__ = [
    "BETA",
    "EarlyStopping",
    "KLSchedule",
    "PACBayesObjective",
    "centre_prior",
    "fit_many",
    "kl",
    "learn_prior",
    "load",
    "set_kl",
]
