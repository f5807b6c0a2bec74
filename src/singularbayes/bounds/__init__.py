"""Numbers in, numbers out: bounds and certificates that know neither models nor Keras.

A bound is computed in its sound form; `variant="published"` gives the paper's beside it, with its defect named.
"""

from singularbayes.bounds.architecture import ACTIVATIONS, LayerFacts, reasons_outside
from singularbayes.bounds.bound import Bound, Refused
from singularbayes.bounds.catoni import CONSTANTS, catoni, catoni_constant
from singularbayes.bounds.complexity_risk import (
    Strata,
    complexity_risk,
    good_event_failure,
    good_event_risk,
    matrix_failure,
    stratify,
)
from singularbayes.bounds.confidence import betting_mean, binary_kl, kl_inverse, mean_at_most, probability_at_least
from singularbayes.bounds.gauge import Gauge, best_gauge
from singularbayes.bounds.gaussian_complexity import NetworkClass, gaussian_complexity, linear_complexity
from singularbayes.bounds.losses import (
    SOFTMAX_LIPSCHITZ,
    LossConstants,
    learned_bound,
    loss_constants,
    output_variance,
    stochastic_bound,
    truncation_bound,
)
from singularbayes.bounds.pac_bayes import (
    break_even_rank,
    complexity_ratio,
    critical_rank,
    empirical_risk,
    pac_bayes,
    risk_certificate,
)
from singularbayes.bounds.perturbation import (
    GaussianLayer,
    deviation,
    product_norm,
    relative_perturbation,
    sum_budget,
    sum_threshold,
)
from singularbayes.bounds.scaling import ScalingComparison, scaling_comparison
from singularbayes.bounds.small_variance import SmallVariance, budget_probability, margin_risk, small_variance
from singularbayes.bounds.spectral import (
    gaussian_norm,
    norm_probability,
    project_spectral,
    spectral_penalty,
    truncated_kl,
)
from singularbayes.bounds.weight_kl import mixture_kl, normal_kl

__all__ = [
    "ACTIVATIONS",
    "CONSTANTS",
    "SOFTMAX_LIPSCHITZ",
    "Bound",
    "Gauge",
    "GaussianLayer",
    "LayerFacts",
    "LossConstants",
    "NetworkClass",
    "Refused",
    "ScalingComparison",
    "SmallVariance",
    "Strata",
    "best_gauge",
    "betting_mean",
    "binary_kl",
    "break_even_rank",
    "budget_probability",
    "catoni",
    "catoni_constant",
    "complexity_ratio",
    "complexity_risk",
    "critical_rank",
    "deviation",
    "empirical_risk",
    "gaussian_complexity",
    "gaussian_norm",
    "good_event_failure",
    "good_event_risk",
    "kl_inverse",
    "learned_bound",
    "linear_complexity",
    "loss_constants",
    "margin_risk",
    "matrix_failure",
    "mean_at_most",
    "mixture_kl",
    "norm_probability",
    "normal_kl",
    "output_variance",
    "pac_bayes",
    "probability_at_least",
    "product_norm",
    "project_spectral",
    "reasons_outside",
    "relative_perturbation",
    "risk_certificate",
    "scaling_comparison",
    "small_variance",
    "spectral_penalty",
    "stochastic_bound",
    "stratify",
    "sum_budget",
    "sum_threshold",
    "truncated_kl",
    "truncation_bound",
]
