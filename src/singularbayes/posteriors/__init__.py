"""How a weight is distributed."""

from singularbayes.posteriors import initializers, mean_gradient, noise, scope
from singularbayes.posteriors.adapter import Adapter
from singularbayes.posteriors.adaptive_low_rank import AdaptiveLowRank
from singularbayes.posteriors.assignment import are_blocks, assignment_of_pass, in_blocks, number_of_pass
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.centred import Centred
from singularbayes.posteriors.clipped import Clipped, spectral_norm
from singularbayes.posteriors.deterministic import Deterministic
from singularbayes.posteriors.factor import RHO_SHIFT, Scalars, standardised
from singularbayes.posteriors.families import inverse_softplus
from singularbayes.posteriors.full_rank import FullRank
from singularbayes.posteriors.k_tied import KTied
from singularbayes.posteriors.low_rank import LowRank
from singularbayes.posteriors.matrices import LowRankMatrix
from singularbayes.posteriors.mixture import Mixture
from singularbayes.posteriors.moments import entry_correlation
from singularbayes.posteriors.prior_memory import Origin
from singularbayes.posteriors.priors import Anchored, Laplace, Normal, Prior, ScaleMixture, ScalePrior
from singularbayes.posteriors.rank_one import RankOne
from singularbayes.posteriors.scope import Source
from singularbayes.posteriors.serialization import copy_posterior, serialize
from singularbayes.posteriors.shrinkage import ColumnShrinkage
from singularbayes.posteriors.variational import KLGuard, RandomPosterior, SharedState, Variational

__all__ = [
    "RHO_SHIFT",
    "Adapter",
    "AdaptiveLowRank",
    "Anchored",
    "Centred",
    "Clipped",
    "ColumnShrinkage",
    "Deterministic",
    "FullRank",
    "KLGuard",
    "KTied",
    "Laplace",
    "LowRank",
    "LowRankMatrix",
    "Mixture",
    "Normal",
    "Origin",
    "Posterior",
    "Prior",
    "RandomPosterior",
    "RankOne",
    "Scalars",
    "ScaleMixture",
    "ScalePrior",
    "SharedState",
    "Source",
    "Variational",
    "are_blocks",
    "assignment_of_pass",
    "entry_correlation",
    "get",
    "in_blocks",
    "initializers",
    "inverse_softplus",
    "mean_gradient",
    "noise",
    "number_of_pass",
    "recipe",
    "scope",
    "serialize",
    "spectral_norm",
    "standardised",
]

# Those that need an argument have no name here.
POSTERIORS = {"full_rank": FullRank, "k_tied": KTied, "rank_one": RankOne, "deterministic": Deterministic}


def get(identifier, name: str = "posterior") -> Posterior:
    """Returns a fresh posterior, called `name`, from a posterior, its name or its serialised form.

    It is always a copy, so one object given to two layers makes two independent posteriors.
    """
    if isinstance(identifier, (Posterior, dict)):
        return copy_posterior(identifier, name)
    if isinstance(identifier, str) and identifier in POSTERIORS:
        return POSTERIORS[identifier](name=name)
    if isinstance(identifier, type) and issubclass(identifier, Posterior):
        made = f"{identifier.__name__}({'' if identifier in POSTERIORS.values() else 16})"
        raise ValueError(f"posterior needs a Posterior; got the class {identifier.__name__}. Make one: {made}.")
    raise ValueError(
        f"posterior needs a Posterior such as LowRank(16), or one of {sorted(POSTERIORS)}; got {identifier!r}."
    )


def recipe(posterior, bias_posterior=None) -> dict:
    """Returns the arguments `posterior` and `bias_posterior` serialised; layers make their copies from it."""
    return {
        "posterior": serialize(get(posterior)),
        "bias_posterior": None if bias_posterior is None else serialize(get(bias_posterior)),
    }
