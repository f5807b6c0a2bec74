"""How a weight is distributed."""

from singularbayes.posteriors import initializers, noise, scope
from singularbayes.posteriors.adapter import Adapter
from singularbayes.posteriors.adaptive_low_rank import AdaptiveLowRank
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.blocks import are_blocks, in_blocks, number_of_pass, require_blocks
from singularbayes.posteriors.centred import Centred
from singularbayes.posteriors.factor import Factor, standardised
from singularbayes.posteriors.families import inverse_softplus
from singularbayes.posteriors.low_rank import LowRank
from singularbayes.posteriors.matrices import LowRankMatrix
from singularbayes.posteriors.moments import entry_correlation
from singularbayes.posteriors.priors import Anchored, Laplace, Normal, Origin, Prior, ScaleMixture, ScalePrior
from singularbayes.posteriors.registry import DEFAULT_RANK, Mixture, get_posterior, recipe
from singularbayes.posteriors.scope import Source
from singularbayes.posteriors.serialization import serialize
from singularbayes.posteriors.shrinkage import ColumnShrinkage
from singularbayes.posteriors.traversal import (
    draw_keys,
    draw_sources,
    find_posteriors,
    find_random_posteriors,
    find_sources,
    flat_layers,
)
from singularbayes.posteriors.variational import Variational
from singularbayes.posteriors.whole_matrix import Deterministic, FullRank, RankOne

__all__ = [
    "DEFAULT_RANK",
    "Adapter",
    "AdaptiveLowRank",
    "Anchored",
    "Centred",
    "ColumnShrinkage",
    "Deterministic",
    "Factor",
    "FullRank",
    "Laplace",
    "LowRank",
    "LowRankMatrix",
    "Mixture",
    "Normal",
    "Origin",
    "Posterior",
    "Prior",
    "RankOne",
    "ScaleMixture",
    "ScalePrior",
    "Source",
    "Variational",
    "are_blocks",
    "draw_keys",
    "draw_sources",
    "entry_correlation",
    "find_posteriors",
    "find_random_posteriors",
    "find_sources",
    "flat_layers",
    "get_posterior",
    "in_blocks",
    "initializers",
    "inverse_softplus",
    "noise",
    "number_of_pass",
    "recipe",
    "require_blocks",
    "scope",
    "serialize",
    "standardised",
]
