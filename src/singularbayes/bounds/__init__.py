"""Numbers in, numbers out: bounds and certificates that know neither models nor Keras."""

from singularbayes.bounds.bound import Bound, Refused
from singularbayes.bounds.catoni import CONSTANTS, catoni, catoni_constant
from singularbayes.bounds.complexity_risk import Strata, complexity_risk, stratify
from singularbayes.bounds.confidence import betting_mean, kl_inverse, mean_at_most, probability_at_least
from singularbayes.bounds.gaussian_complexity import NetworkClass, gaussian_complexity, linear_complexity
from singularbayes.bounds.pac_bayes import empirical_risk, pac_bayes
from singularbayes.bounds.small_variance import (
    GaussianLayer,
    SmallVariance,
    budget_probability,
    deviation,
    product_norm,
    relative_perturbation,
    small_variance,
    sum_threshold,
)
from singularbayes.bounds.weight_kl import mixture_kl, normal_kl

__all__ = [
    "CONSTANTS",
    "Bound",
    "GaussianLayer",
    "NetworkClass",
    "Refused",
    "SmallVariance",
    "Strata",
    "betting_mean",
    "budget_probability",
    "catoni",
    "catoni_constant",
    "complexity_risk",
    "deviation",
    "empirical_risk",
    "gaussian_complexity",
    "kl_inverse",
    "linear_complexity",
    "mean_at_most",
    "mixture_kl",
    "normal_kl",
    "pac_bayes",
    "probability_at_least",
    "product_norm",
    "relative_perturbation",
    "small_variance",
    "stratify",
    "sum_threshold",
]
