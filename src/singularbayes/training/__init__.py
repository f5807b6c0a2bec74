"""How a model is fitted."""

from singularbayes.training.elbo import KLSchedule, kl, set_kl
from singularbayes.training.fit_many import fit_many
from singularbayes.training.learned_prior import centre_prior, learn_prior
from singularbayes.training.loading import load
from singularbayes.training.pac_bayes_objective import PACBayesObjective
from singularbayes.training.spectral_limits import SpectralPenalty, SpectralProjection, Truncation, truncation

__all__ = [
    "KLSchedule",
    "PACBayesObjective",
    "SpectralPenalty",
    "SpectralProjection",
    "Truncation",
    "centre_prior",
    "fit_many",
    "kl",
    "learn_prior",
    "load",
    "set_kl",
    "truncation",
]
