"""Posteriors by name, and what else may be given where one is expected: a rank, or a serialised one."""

import inspect
from collections.abc import Callable
from functools import partial

from singularbayes.checks import is_integer
from singularbayes.posteriors.adapter import Adapter
from singularbayes.posteriors.adaptive_low_rank import AdaptiveLowRank
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.deterministic import Deterministic
from singularbayes.posteriors.full_rank import FullRank
from singularbayes.posteriors.low_rank import LowRank
from singularbayes.posteriors.rank_one import RankOne
from singularbayes.posteriors.serialization import copy_posterior, serialize

DEFAULT_RANK = 32  # of a name that stands for a low rank; a smaller matrix lowers it


def _mixture(name: str) -> Posterior:
    from singularbayes.posteriors.mixture import Mixture  # which takes names itself

    return Mixture(LowRank(DEFAULT_RANK), name=name)


POSTERIORS: dict[str, Callable[..., Posterior]] = {
    "low_rank": partial(LowRank, DEFAULT_RANK),
    "paper": partial(LowRank.paper, 16),
    "mixture": _mixture,
    "adaptive_low_rank": AdaptiveLowRank,
    "adapter": partial(Adapter, 16),
    "full_rank": FullRank,
    "rank_one": RankOne,
    "deterministic": Deterministic,
}


def get_posterior(identifier, name: str = "posterior", needed_by: str = "posterior") -> Posterior:
    """Returns a fresh posterior, called `name`, from a posterior, a rank for `LowRank`, a name or a serialised form.

    It is always a copy, so one object given to two layers makes two independent posteriors.

    Args:
        needed_by: the argument or class that an error names.

    >>> get_posterior(8), get_posterior("low_rank"), get_posterior("mixture")
    (LowRank(8), LowRank(32), Mixture(LowRank(32), components=4))
    """
    if isinstance(identifier, (Posterior, dict)):
        return copy_posterior(identifier, name)
    if is_integer(identifier):
        return LowRank(identifier, name=name)
    if isinstance(identifier, str) and identifier in POSTERIORS:
        return POSTERIORS[identifier](name=name)
    if isinstance(identifier, type) and issubclass(identifier, Posterior):
        given = f"the class {identifier.__name__}. Make one: {_example(identifier)}"
    else:
        given = repr(identifier)
    raise ValueError(
        f"{needed_by} needs a Posterior such as LowRank({DEFAULT_RANK}), an integer rank >= 1, or one of "
        f"{sorted(POSTERIORS)}; got {given}."
    )


def _example(cls: type[Posterior]) -> str:
    """Returns a call that makes a posterior of a class."""
    parameters = inspect.signature(cls).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    values = [str(DEFAULT_RANK) if name in ("rank", "posterior") else f"{name}=1.0" for name in required]
    return f"{cls.__name__}({', '.join(values)})"


def recipe(posterior, bias_posterior=None) -> dict:
    """Returns the arguments `posterior` and `bias_posterior` serialised; layers make their copies from it."""
    return {
        "posterior": serialize(get_posterior(posterior)),
        "bias_posterior": None if bias_posterior is None else serialize(get_posterior(bias_posterior)),
    }
