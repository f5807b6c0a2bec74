"""What `singularbayes` exports; `__init__.py` imports each name when it is first used."""

from . import baselines as baselines
from . import bounds as bounds
from . import convert as convert
from . import estimators as estimators
from . import evaluation as evaluation
from . import layers as layers
from . import likelihoods as likelihoods
from . import metrics as metrics
from . import models as models
from . import plots as plots
from . import posteriors as posteriors
from . import prediction as prediction
from . import ranks as ranks
from . import training as training
from .baselines import SWAG as SWAG
from .baselines import DeepEnsemble as DeepEnsemble
from .baselines import MCDropout as MCDropout
from .convert import bayesianize as bayesianize
from .convert import collapse as collapse
from .convert import freeze_draws as freeze_draws
from .convert import load_adapters as load_adapters
from .convert import plan as plan
from .convert import save_adapters as save_adapters
from .convert import spectrum as spectrum
from .convert import take_components as take_components
from .evaluation import catoni_constant as catoni_constant
from .evaluation import certify as certify
from .evaluation import compare as compare
from .evaluation import diagnose as diagnose
from .evaluation import evaluate as evaluate
from .evaluation import selective as selective
from .likelihoods import Bernoulli as Bernoulli
from .likelihoods import BoundedCrossentropy as BoundedCrossentropy
from .likelihoods import BoundedError as BoundedError
from .likelihoods import Categorical as Categorical
from .likelihoods import Gaussian as Gaussian
from .likelihoods import LabelPredictive as LabelPredictive
from .likelihoods import LaplaceNoise as LaplaceNoise
from .likelihoods import MeanScale as MeanScale
from .likelihoods import NegativeBinomial as NegativeBinomial
from .likelihoods import Poisson as Poisson
from .likelihoods import StudentTNoise as StudentTNoise
from .metrics import ood_scores as ood_scores
from .models import draw_weights as draw_weights
from .models import fixed_draw as fixed_draw
from .posteriors import Adapter as Adapter
from .posteriors import AdaptiveLowRank as AdaptiveLowRank
from .posteriors import Anchored as Anchored
from .posteriors import Centred as Centred
from .posteriors import ColumnShrinkage as ColumnShrinkage
from .posteriors import Deterministic as Deterministic
from .posteriors import FullRank as FullRank
from .posteriors import Laplace as Laplace
from .posteriors import LowRank as LowRank
from .posteriors import Mixture as Mixture
from .posteriors import Normal as Normal
from .posteriors import RankOne as RankOne
from .posteriors import ScaleMixture as ScaleMixture
from .posteriors import find_posteriors as find_posteriors
from .prediction import ClassPredictive as ClassPredictive
from .prediction import Monitor as Monitor
from .prediction import ValuePredictive as ValuePredictive
from .prediction import conformal_intervals as conformal_intervals
from .prediction import conformal_sets as conformal_sets
from .prediction import predict as predict
from .prediction import predict_batches as predict_batches
from .prediction import recalibrate as recalibrate
from .training import EarlyStopping as EarlyStopping
from .training import KLSchedule as KLSchedule
from .training import PACBayesObjective as PACBayesObjective
from .training import centre_prior as centre_prior
from .training import fit_many as fit_many
from .training import kl as kl
from .training import learn_prior as learn_prior
from .training import load as load
from .training import set_kl as set_kl

__version__: str

__all__ = [
    "SWAG",
    "Adapter",
    "AdaptiveLowRank",
    "Anchored",
    "Bernoulli",
    "BoundedCrossentropy",
    "BoundedError",
    "Categorical",
    "Centred",
    "ClassPredictive",
    "ColumnShrinkage",
    "DeepEnsemble",
    "Deterministic",
    "EarlyStopping",
    "FullRank",
    "Gaussian",
    "KLSchedule",
    "LabelPredictive",
    "Laplace",
    "LaplaceNoise",
    "LowRank",
    "MCDropout",
    "MeanScale",
    "Mixture",
    "Monitor",
    "NegativeBinomial",
    "Normal",
    "PACBayesObjective",
    "Poisson",
    "RankOne",
    "ScaleMixture",
    "StudentTNoise",
    "ValuePredictive",
    "baselines",
    "bayesianize",
    "bounds",
    "catoni_constant",
    "centre_prior",
    "certify",
    "collapse",
    "compare",
    "conformal_intervals",
    "conformal_sets",
    "convert",
    "diagnose",
    "draw_weights",
    "estimators",
    "evaluate",
    "evaluation",
    "find_posteriors",
    "fit_many",
    "fixed_draw",
    "freeze_draws",
    "kl",
    "layers",
    "learn_prior",
    "likelihoods",
    "load",
    "load_adapters",
    "metrics",
    "models",
    "ood_scores",
    "plan",
    "plots",
    "posteriors",
    "predict",
    "predict_batches",
    "prediction",
    "ranks",
    "recalibrate",
    "save_adapters",
    "selective",
    "set_kl",
    "spectrum",
    "take_components",
    "training",
]
