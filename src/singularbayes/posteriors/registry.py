"""Posteriors by name, or by a rank or in serialised form, and mixtures of them."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from singularbayes.checks import is_integer, require_integer
from singularbayes.posteriors.adapter import Adapter
from singularbayes.posteriors.adaptive_low_rank import AdaptiveLowRank
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.low_rank import LowRank
from singularbayes.posteriors.serialization import copy_posterior, serialize
from singularbayes.posteriors.whole_matrix import Deterministic, FullRank, RankOne

DEFAULT_RANK = 32  # of a name that stands for a low rank; a smaller matrix lowers it


POSTERIORS: dict[str, Callable[..., Posterior]] = {
    "low_rank": partial(LowRank, DEFAULT_RANK),
    "paper": partial(LowRank.paper, 16),
    "mixture": lambda name: Mixture(LowRank(DEFAULT_RANK), name=name),
    "adaptive_low_rank": AdaptiveLowRank,
    "adapter": partial(Adapter, 16),
    "full_rank": FullRank,
    "rank_one": RankOne,
    "deterministic": Deterministic,
}


def Mixture(posterior, components: int | None = None, *, name: str | None = None) -> Any:
    """Returns an equal mixture of `components` of a posterior, with parameters, starts and noise of their own.

    It is the posterior itself with an axis in front of all its arrays. In training every example is there once for each
    component, in all layers of a model, and every plain weight of a layer, such as its bias, exists once per component:
    K networks in one model. The KL is the mean of the components' KLs, an upper bound of the KL of the mixture (it is
    convex). Draw s of `predict` is of component s mod K in every layer, and the number of draws is rounded up to a
    multiple of K, so that components count the same. Outside training a forward pass uses the mean of the first
    component: an average over modes would not be a network.

    Args:
        posterior: any with random weights, for example `LowRank(16)`, a rank for `LowRank`, or a name: "low_rank".
        components: K, an integer above 0; by default 4, and in the conversion of an ensemble as many as it has members.

    >>> from singularbayes import LowRank, layers
    >>> dense = layers.Dense(8, posterior=Mixture(LowRank(2), components=4))
    >>> dense.build((None, 5))
    >>> dense.posterior, [tuple(w.shape) for w in dense.trainable_weights]
    (Mixture(LowRank(2), components=4), [(4, 8), (4, 2, 13, 2)])
    """
    if components is not None:
        require_integer("Mixture", components=components)
    inside: Any = get_posterior(posterior, name or "component", "Mixture")
    if not inside.random or inside.components != 1:
        raise ValueError(f"Mixture needs a posterior with random weights that is not a mixture; got {inside!r}.")
    config = {**inside.get_config(), "components": components}
    if name is None:
        del config["name"]
    return type(inside).from_config(config)


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
