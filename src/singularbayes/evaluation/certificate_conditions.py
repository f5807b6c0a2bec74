"""What would void a certificate: weights that no posterior draws, layers with a memory or noise of their own, a prior
that saw the data, repeated examples."""

import math
import sys
import types
from collections.abc import Sequence
from functools import partial, reduce
from operator import or_

import keras
import numpy as np
from scipy.stats import binom

from singularbayes.bounds import Refused
from singularbayes.layers import PerComponent
from singularbayes.models import arranged, count_examples, find_random_posteriors, flat_layers
from singularbayes.posteriors import Origin, Scalars
from singularbayes.training import Seen, count_repeats, hashed, seen_among

_SHOWN = 4  # paths in an error
_CHANCE = 1e-3  # less likely coincidences are not believed
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


def require_unseen(model: keras.Model, x, prior_data, said: str) -> tuple[str | None, tuple[str, ...]]:
    """Returns why a hold-out bound is void, where the model shows it, and what is taken on the caller's word.

    Args:
        said: how the caller declared that the model has not seen the examples.
    """
    if not find_random_posteriors(model):
        raise Refused(f"certify needs a model with posteriors; got {model.name!r} with none.")
    require_stateless(model)
    words = f"the model neither trained, nor tuned, nor chosen on these examples, on the caller's word ({said})"
    hashes = hashed(arranged(model, x))
    found = _remembered(model, hashes)
    if isinstance(prior_data, str):
        why, more = _check_disjoint(found, hashes)
        return why, (words, *more)
    if found is not None and found.count:
        return f"the prior was learned on these examples: {found.count:,} of {found.total:,} that it knows are here", ()
    return None, (words,)


def _remembered(model: keras.Model, hashes: np.ndarray, more: Sequence[np.ndarray] = ()) -> Seen | None:
    """Returns how many of the examples that the prior knows are among those with these hashes; None if it knows none.

    Args:
        more: hashes of examples that the caller has named.
    """
    factors = [factor for q in find_random_posteriors(model) for factor in q.factors if factor.memory is not None]
    remembered = {memory.hashes.tobytes(): memory.hashes for memory in map(Scalars.prior_memory, factors)}
    known = [one for one in (*remembered.values(), *more) if len(one)]
    return max((seen_among(one, hashes) for one in known), key=lambda seen: seen.share, default=None)


def require_drawn(model: keras.Model, frozen: bool) -> tuple[str, ...]:
    """Raises unless every weight that training changed is drawn; returns what is taken on the caller's word."""
    if not find_random_posteriors(model):
        raise Refused(f"certify needs a model with posteriors; got {model.name!r} with none.")
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
            "certify needs every trained weight inside a posterior, because the bound speaks about drawn weights "
            f"only; got {_named(trained)}. Give biases bias_posterior=FullRank(…), or set trainable = False before "
            "`fit` and pass frozen=True."
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
    repeats = count_repeats(hashed([x, y]))
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


def seen_by_prior(model: keras.Model, x, prior_data) -> tuple[str | None, tuple[str, ...]]:
    """Returns why the prior may depend on the examples `x`, or None; and what is taken on the caller's word.

    Args:
        prior_data: inputs that the prior was learned on, where the model does not know; "disjoint" declares that
            examples which look the same were drawn apart. That is believed as far as these look like each other.
    """
    apart = isinstance(prior_data, str)
    if apart and prior_data != "disjoint":
        raise ValueError(f"certify needs prior_data as inputs, 'disjoint' or None; got prior_data={prior_data!r}.")
    factors = [factor for q in find_random_posteriors(model) for factor in q.factors if factor.memory is not None]
    moved = [factor.reference.path for factor in factors if not factor.unchanged()[0]]
    if moved and prior_data is None:
        return (
            f"neither learn_prior nor centre_prior set the centres and widths {moved[0]}, so the examples that they "
            "were learned on are unknown; name them by prior_data=…"
        ), ()
    started = [factor.reference.path for factor in factors if Origin.START in factor.prior_memory().origin]
    if started and prior_data is None:
        return (
            f"the prior is anchored at weights that the means started at ({started[0]}), and the examples that taught "
            "them are unknown; name them by prior_data=…, or pass prior_data='disjoint'"
        ), ()
    hashes = hashed(arranged(model, x))
    named = [] if prior_data is None or apart else [_hashed_prior_data(model, prior_data)]
    found = _remembered(model, hashes, named)
    words = _origins(factors, prior_data)
    if apart:
        why, more = _check_disjoint(found, hashes)
        return why, (*words, *more)
    if found is None or not found.count:
        return None, words
    return (
        f"the prior was learned on these examples: {found.count:,} of {found.total:,} that it knows are here. If they "
        "only look the same and were drawn apart, pass prior_data='disjoint'"
    ), ()


def _hashed_prior_data(model: keras.Model, prior_data) -> np.ndarray:
    arrays = arranged(model, prior_data)
    try:
        count_examples(model, arrays)
    except ValueError as error:  # what the model cannot take would equal no example
        raise ValueError(f"certify needs prior_data that the model can take: {error}") from None
    return hashed(arrays)


def _origins(factors: list, prior_data) -> tuple[str, ...]:
    """Returns what is assumed about where the centres of priors come from."""
    memories = [factor.prior_memory() for factor in factors]
    origins, words = reduce(or_, (memory.origin for memory in memories), Origin.INITIAL), []
    if Origin.GIVEN in origins:
        words.append("the arrays or the code that initialise the prior's centres chosen without these examples")
    if Origin.LEARNED in origins:
        words.append(f"the {max(m.examples for m in memories):,} examples of the prior drawn independently of these")
    if Origin.NAMED in origins:
        words.append("the prior learned on the examples that centre_prior was given (learned_on), and on no others")
    if prior_data is not None and not isinstance(prior_data, str):
        words.append("the prior learned on prior_data, and on no other examples")
    return tuple(words)


def _check_disjoint(found: Seen | None, hashes: np.ndarray) -> tuple[str | None, tuple[str, ...]]:
    """Returns why "disjoint" is not believed, or what is assumed."""
    assumption = "the prior's examples drawn apart from these, on the caller's word (prior_data='disjoint')"
    if found is None:
        return None, (f"{assumption}: the prior remembers none",)
    repeats = f"{found.count} of {found.total} that it remembers are here"
    # Of m + n independent examples m·n pairs lie across and n²/2 among these, and all are equally likely to be equal.
    within, across = count_repeats(hashes), 2 * found.total / (2 * found.total + len(hashes))
    if found.count and binom.sf(found.count - 1, found.count + within, across) < _CHANCE:
        return (
            f"the prior was learned on these examples: {repeats}, and only {within} of these equal an earlier one",
            (),
        )
    return None, (f"{assumption}: {repeats}",)


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
