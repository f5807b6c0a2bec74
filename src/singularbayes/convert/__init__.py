"""From a trained Keras model to a Bayesian one, and back."""

from singularbayes.convert import counterparts, surgery
from singularbayes.convert.adapters import load_adapters, save_adapters
from singularbayes.convert.bayesianize import bayesianize
from singularbayes.convert.collapse import collapse
from singularbayes.convert.components import take_components
from singularbayes.convert.freeze_draws import freeze_draws
from singularbayes.convert.layer_matrices import find_slots, find_weights
from singularbayes.convert.plan import Plan, plan
from singularbayes.convert.spectrum import MatrixSpectrum, Spectrum, spectrum

__all__ = [
    "MatrixSpectrum",
    "Plan",
    "Spectrum",
    "bayesianize",
    "collapse",
    "counterparts",
    "find_slots",
    "find_weights",
    "freeze_draws",
    "load_adapters",
    "plan",
    "save_adapters",
    "spectrum",
    "surgery",
    "take_components",
]
