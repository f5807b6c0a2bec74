"""What would void a certificate: weights that no posterior draws, layers with a memory, repeated examples."""

import math
import sys
import types
from functools import partial

import keras
import numpy as np

from singularbayes.bounds import Refused
from singularbayes.layers import PerComponent
from singularbayes.posteriors import find_random_posteriors, flat_layers
from singularbayes.training import count_repeats, hash_examples

_SHOWN = 4  # paths in an error
_REPEATS = 0.01  # share of examples that may look like an earlier one unless the caller declares them independent
_KNOWN = ("keras", "keras_hub", "singularbayes")  # packages whose layers remember nothing outside their variables
_AXES = 8  # of an array, at most: a shape or a list of axes has no more integers
# What any operation, and any layer, has: its weights are judged as weights.
_BASE = {False: set(vars(keras.Operation())), True: set(vars(keras.layers.Layer()))}


def require_stateless(model: keras.Model) -> None:
    """Raises where predictions depend on earlier ones."""
    for layer in flat_layers(model):
        if getattr(layer, "stateful", False):
            raise Refused(f"certify needs predictions that do not depend on earlier ones; {layer.path} is stateful.")


def no_posteriors(model: keras.Model) -> str:
    """Returns why a deterministic network is refused, and what to do instead."""
    return (
        f"certify needs a model with posteriors; got {model.name!r} with none. Convert it with sb.bayesianize; or "
        "bound its error by mistakes on held-out examples: singularbayes.bounds.mean_at_most(predicted != y, delta)."
    )


def require_drawn(model: keras.Model, frozen: bool) -> tuple[str, ...]:
    """Raises unless every weight that training changed is drawn; returns what is taken on the caller's word."""
    if not find_random_posteriors(model):
        raise Refused(no_posteriors(model))
    learned = [posterior.path for posterior in find_random_posteriors(model) if posterior.learned_rank is not None]
    if learned:
        raise Refused(
            "certify needs ranks that were fixed without the certifying examples; got AdaptiveLowRank, which learned "
            f"its own, in {learned[0]}. Train LowRank with the rank that other examples gave."
        )
    require_stateless(model)
    for layer in flat_layers(model):
        plain = layer.wrapped() if isinstance(layer, PerComponent) else layer
        if isinstance(plain, keras.layers.BatchNormalization) and layer.trainable:
            raise Refused(
                f"certify needs weights that are drawn, or fixed before the certifying examples; {layer.path} took its "
                "statistics from the training examples. Set its trainable = False before `fit`, or leave it out."
            )
    outside = _outside(model)
    trained = [weight for weight in outside if weight.trainable]
    if trained:
        raise Refused(
            "certify needs every trained weight inside a posterior, because the bound is about drawn weights "
            f"only; got {_named(trained)}. Give biases bias_posterior=FullRank(…), or set trainable = False before "
            '`fit` and pass frozen=True. If the model has not seen these examples, pass form="holdout", which '
            "allows plain weights."
        )
    if outside and not frozen:
        raise Refused(
            "certify needs to know that weights outside posteriors were fixed before the certifying examples; got "
            f"{_named(outside)}. Pass frozen=True if they were."
        )
    optimized = (
        {id(weight) for weight in model.optimizer._trainable_variables} if getattr(model, "optimizer", None) else set()
    )
    fitted = [weight for weight in outside if id(weight) in optimized]
    if fitted:
        raise Refused(
            "certify needs weights outside posteriors that were fixed before `fit`; got trainable=False for "
            f"{_named(fitted)}, which the optimizer of {model.name!r} was built to train. Set trainable = False in a "
            "fresh model, before its first `fit`."
        )
    return ("weights outside posteriors fixed without these examples (frozen=True)",) if outside else ()


def own_code(model: keras.Model) -> tuple[str, ...]:
    """Returns what is assumed of code and constants of the user's, in layers and between them, where there are some."""
    tracked = {id(variable) for variable in model.variables}
    code, constants = set(), set()
    for part in _parts(model):
        if not _is_known(type(part)):
            code.add(type(part).__name__)
            continue  # what it holds is its own
        for value in _values(part):
            for leaf in keras.tree.flatten(value):
                if callable(leaf) and not _is_known_call(leaf, part):
                    code.add(getattr(leaf, "__name__", type(leaf).__name__))
            if _is_constant(value, tracked):
                constants.add(part.name)
    words = [f"no memory of these examples in the code of {', '.join(sorted(code))}"] if code else []
    if constants:
        words.append(
            f"the constants in the graph of {model.name!r} chosen without these examples: in {_listed(constants)}"
        )
    return tuple(words)


def _parts(model: keras.Model) -> list:
    """Returns every layer, and every operation between layers of functional models."""
    parts = [part for layer in flat_layers(model) for part in (layer, *getattr(layer, "operations", ()))]
    return list({id(part): part for part in parts}.values())


def _values(part) -> list:
    """Returns what a layer or an operation computes with beside its inputs: its attributes and its other arguments."""
    base = _BASE[isinstance(part, keras.layers.Layer)]
    if isinstance(part, keras.Model):  # the rest belongs to training
        held = [value for name, value in vars(part).items() if name == "call"]
    else:
        own = type(part).__module__.startswith("singularbayes")  # what it keeps in private it has made itself
        held = [value for name, value in vars(part).items() if name not in base and not (own and name[0] == "_")]
    arguments = [node.arguments for node in part._inbound_nodes]
    held += [value for given in arguments for value in (*given.args, *given.kwargs.values())]
    return [each for value in held for each in _opened(value)]


def _opened(value) -> list:
    """Returns the function and the arguments of a partial; another value as it is."""
    if not isinstance(value, partial):
        return [value]
    return [each for one in (value.func, *value.args, *value.keywords.values()) for each in _opened(one)]


def _is_known_call(code, part) -> bool:
    if isinstance(code, types.MethodType):
        return code.__self__ is part and getattr(type(part), code.__name__, None) is code.__func__
    return _is_known(code if isinstance(code, (type, types.FunctionType)) else type(code))


def _is_known(code) -> bool:
    """Whether a class or a function is the one of that name in its module: any other may claim a module and a name."""
    found = sys.modules.get(code.__module__) if code.__module__.partition(".")[0] in _KNOWN else None
    for name in code.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is code


def _is_constant(value, tracked: set[int]) -> bool:
    """Whether a value is an array of more than one element, or a list of more numbers than a shape has."""
    leaves = [leaf for leaf in keras.tree.flatten(value) if id(leaf) not in tracked]
    arrays = [leaf for leaf in leaves if hasattr(leaf, "__array__") and not isinstance(leaf, keras.KerasTensor)]
    floats = [leaf for leaf in leaves if type(leaf) is float]
    integers = [leaf for leaf in leaves if type(leaf) is int]
    return sum(math.prod(np.shape(array)) for array in arrays) + len(floats) > 1 or len(integers) > _AXES


def require_distinct(x, y, duplicates: str | None) -> tuple[str, ...]:
    """Raises if more than one example in a hundred is a copy of an earlier one; returns what is assumed.

    Copies carry no new information, so N would be too large. Equal examples may also have been drawn independently, as
    rows of few bits are: the data cannot show it, so the caller declares it. A hundredth moves a bound little, and is
    only stated.
    """
    if duplicates not in (None, "independent"):
        raise ValueError(f"certify needs duplicates='independent' or None; got duplicates={duplicates!r}.")
    y, count = np.asarray(y), len(keras.tree.flatten(x)[0])
    if y.dtype.kind not in "biuf":
        return ()  # no labels; `drawn_risks` raises the error
    if len(y) != count:
        raise ValueError(f"certify needs one label per example; got {len(y)} labels for {count} examples.")
    repeats = count_repeats(hash_examples([x, y]))
    if not repeats:
        return ()
    copies = f"{repeats:,} of these {count:,} examples equal to an earlier one"
    if repeats > _REPEATS * count and duplicates is None:
        raise Refused(
            f"certify needs examples that were drawn independently; got {copies}, input and label. Certify on one copy "
            "of each, or pass duplicates='independent' if equal examples were drawn independently, as they are where "
            "inputs take few values."
        )
    return (f"{copies} and drawn independently nevertheless",)


def require_bounded_kl(model: keras.Model) -> None:
    """Raises unless the KL to every prior has an upper bound by formula."""
    for posterior in find_random_posteriors(model):
        if not posterior.prior.has_kl_upper:
            raise Refused(
                f"certify needs priors whose KL has a bound, kl_upper; {posterior.prior!r} of {posterior.path} has "
                "none, and an estimate may be too small."
            )


def _outside(model: keras.Model) -> list:
    """Returns the weights that predictions depend on and no posterior draws."""
    posteriors = find_random_posteriors(model)
    inside = {id(weight) for q in posteriors for weight in (*q.random_weights, *q.training_weights)}
    return [weight for weight in model.weights if id(weight) not in inside]


def _named(weights: list) -> str:
    return _listed([weight.path for weight in weights])


def _listed(names) -> str:
    more = len(names) - _SHOWN
    return ", ".join(sorted(names)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
