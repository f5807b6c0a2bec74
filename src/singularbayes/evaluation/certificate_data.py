"""What a model may know of the examples that certify it: those its prior was learned on, and the caller's word."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

import keras
import numpy as np
from scipy.stats import binom

from singularbayes.bounds import Refused
from singularbayes.evaluation.certificate_conditions import (
    no_posteriors,
    require_bounded_kl,
    require_drawn,
    require_stateless,
)
from singularbayes.models import arranged, count_examples
from singularbayes.posteriors import Factor, Origin, find_random_posteriors
from singularbayes.training import Seen, count_repeats, hash_examples, seen_among

_CHANCE = 1e-3  # less likely coincidences are not believed


def require_conditions(
    model: keras.Model, x, form: str, unseen: bool, prior_data, frozen: bool
) -> tuple[str | None, dict[str, tuple[str, ...]]]:
    """Raises where a form does not hold; returns why the prior may know the examples, and what is assumed.

    The latter for each kind of bound that applies, "pac_bayes" and "holdout".
    """
    words: dict[str, tuple[str, ...]] = {}
    seen = None
    if form != "holdout":
        outside = require_drawn(model, frozen)
        require_bounded_kl(model)
        seen, more = seen_by_prior(model, x, prior_data)
        words["pac_bayes"] = (*outside, *more)
    if form == "holdout" or (form == "best" and unseen):
        why, words["holdout"] = require_unseen(model, x, prior_data, f"{form=}" if form == "holdout" else "unseen=True")
        seen = seen or why
    return seen, words


def require_unseen(model: keras.Model, x, prior_data, declared: str) -> tuple[str | None, tuple[str, ...]]:
    """Returns why a hold-out bound is void, where the model shows it, and what is taken on the caller's word.

    Args:
        declared: how the caller declared that the model has not seen the examples.
    """
    if not find_random_posteriors(model):
        raise Refused(no_posteriors(model))
    require_stateless(model)
    words = f"the model neither trained, nor tuned, nor chosen on these examples, on the caller's word ({declared})"
    hashes = hash_examples(arranged(model, x))
    found = _remembered(model, hashes)
    if isinstance(prior_data, str):
        why, more = _check_disjoint(found, hashes)
        return why, (words, *more)
    if found is not None and found.count:
        return f"the prior was learned on these examples: {found.count:,} of {found.total:,} that it knows are here", ()
    return None, (words,)


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
    hashes = hash_examples(arranged(model, x))
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
    return hash_examples(arrays)


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


def _remembered(model: keras.Model, hashes: np.ndarray, more: Sequence[np.ndarray] = ()) -> Seen | None:
    """Returns how many of the examples that the prior knows are among those with these hashes; None if it knows none.

    Args:
        more: hashes of examples that the caller has named.
    """
    factors = [factor for q in find_random_posteriors(model) for factor in q.factors if factor.memory is not None]
    remembered = {memory.hashes.tobytes(): memory.hashes for memory in map(Factor.prior_memory, factors)}
    known = [one for one in (*remembered.values(), *more) if len(one)]
    return max((seen_among(one, hashes) for one in known), key=lambda seen: seen.share, default=None)
