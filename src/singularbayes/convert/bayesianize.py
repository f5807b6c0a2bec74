"""A Bayesian model from any Keras model."""

from collections.abc import Sequence

import keras

from singularbayes.convert import counterparts, surgery
from singularbayes.convert.decisions import BAYESIAN, NO_MATRIX, Decision, Rules, bias_of, decide
from singularbayes.convert.members import Models, make_per_component
from singularbayes.models.progress import track
from singularbayes.models.text import find_backbone
from singularbayes.posteriors import Posterior, initializers


def bayesianize(
    model: Models,
    posterior=None,
    rules: Rules | None = None,
    init: str = "svd",
    unsupported: str = "error",
    *,
    bias_posterior: Posterior | None = None,
    per_head: bool = False,
) -> keras.Model:
    """Returns a copy of a built Keras model in which layers with weight matrices are Bayesian.

    Dense, EinsumDense, Embedding, ReversibleEmbedding, LSTM, GRU, MultiHeadAttention, Conv1D, Conv2D, Conv3D,
    Conv2DTranspose, SeparableConv1D and SeparableConv2D become the layers of the same name of this package, wherever
    they are: in Sequential, functional, subclassed and nested models and in layers that hold layers. Everything else is
    kept with its weights. The model itself is not changed and shares nothing with the copy; a layer that is used twice
    stays one layer. Names, trainable flags, dtype policies, and regularizers of biases and activities survive; a
    regularizer of a kernel gives way to the prior. A compiled model is compiled again with the same arguments, if Keras
    can read them back.

    With one `Adapter` for all, the backbone of a KerasHub model or task is a frozen base: its attention and
    feed-forward matrices get the adapter, its embeddings, biases and normalisations stay as they are, and the head
    beside it is trained as it is, or for every component of a mixture. Rules are exceptions from this. A preprocessor
    stays: `fit`, `evaluate`, `predict` and `sb.predict` of the converted task take texts.

    A `Mixture` starts its first component at the trained weights and the others around them. The models of a deep
    ensemble become one model, whose components start at one of them each: `bayesianize(models, Mixture(LowRank(16)))`.
    Weights of layers between, such as gains and statistics of normalisations, are then kept for every component too
    (`layers.PerComponent`); those that are frozen, and those of matrices that a rule keeps, are one for all components
    of a single model.

    Args:
        model: a Keras model, or a list of models of one architecture.
        posterior: a posterior, a rank for `LowRank`, a name such as "low_rank", or a function that gets a Keras layer
            and returns one of these, or None to keep the layer. A matrix with min(m, n) below the rank lowers it.
        rules: exceptions, {name, pattern or class of a layer: the same as `posterior`}. The first that fits
            a layer, or a layer that holds it, is taken. Patterns are those of a shell, for names or paths:
            "encoder/*_dense".
        init: "svd" starts the means at the trained weights, at a lower rank at the truncated SVD, and takes over the
            biases; "random" starts converted layers as new ones. Posterior scales start at η times the
            variance-matched scale. `LowRank` without an η has 0.1 at trained weights and 10⁻⁴ at random. An `Adapter`,
            and a layer that is frozen, always start at the trained weights.
        unsupported: what to do with layers with weight matrices and no Bayesian counterpart: "error", or "keep" them.
        bias_posterior: a posterior for the biases; None leaves them plain weights.
        per_head: see `layers.MultiHeadAttention`.

    >>> import keras, singularbayes as sb
    >>> trained = keras.Sequential(
    ...     [keras.Input((20,)), keras.layers.Dense(10, "relu"), keras.layers.Dense(2, name="head")]
    ... )
    >>> bayes = bayesianize(trained, sb.LowRank(4), rules={"head": 2})
    >>> [posterior.rank for posterior in sb.find_posteriors(bayes)]
    [4, 2]
    """
    decisions = decide(model, posterior, rules, init, unsupported, per_head)
    first = model[0] if isinstance(model, Sequence) else model
    if unsupported == "error":
        _require_supported([decision for decision in decisions if decision.unsupported])
    if all(decision.reason in (NO_MATRIX, BAYESIAN) for decision in decisions):
        raise ValueError(
            f"bayesianize needs a model with a weight matrix that is not Bayesian yet; got {first.name!r}, which has "
            "none."
        )
    if not any(decision.posteriors for decision in decisions):
        raise ValueError(
            f"bayesianize needs a posterior for at least one layer of {first.name!r}; got posterior={posterior!r} and "
            f"rules={rules!r}, which keep them all. Pass a rank or a posterior, such as LowRank(16)."
        )
    copy = surgery.copied(first)
    in_copy = {place.key: place.layer for place in surgery.places(copy)}
    new = {}
    for decision in track(decisions, len(decisions), "layers"):
        made = _converted(decision, init, bias_posterior, per_head)
        if made is not decision.layer:
            new[id(in_copy[decision.place.key])] = made
    surgery.exchange(copy, new)
    _freeze_base(copy, decisions)
    surgery.compile_like(copy, first)
    return copy


def _converted(decision: Decision, init: str, bias_posterior, per_head: bool) -> keras.layers.Layer:
    """Returns what takes the place of a layer, or the layer itself where that is kept."""
    given = decision.given
    if not decision.posteriors:
        if decision.part == "head":
            given = tuple(map(counterparts.trained_in_float32, given))
        return given[0] if decision.components == 1 else make_per_component(given, decision.components)
    adapts = any(chosen.adapts for chosen in decision.posteriors.values())
    centred = init == "svd" or adapts or decision.frozen
    with initializers.leaving_out("means" if centred else ""):
        bias = bias_of(decision, bias_posterior)
        counterpart = counterparts.make_counterpart(decision.layer, decision.posteriors, bias, per_head)
    if centred:
        counterparts.start_from(counterpart, *given, equal=decision.frozen)
    return counterpart


def _freeze_base(model: keras.Model, decisions: list[Decision]) -> None:
    """Freezes the plain layers of a backbone with adapters, and makes the adapters trainable, whatever it was before.

    Flags of Keras hold for all that a layer has, so a frozen backbone has to be unfrozen first.
    """
    if not any(decision.part == "base" and decision.posteriors for decision in decisions):
        return
    found = {decision.place.key: decision for decision in decisions}
    find_backbone(model).trainable = True
    for place in surgery.places(model, surgery.is_ours):
        decision = found.get(place.key)
        if decision is None or decision.part == "head":
            continue
        if not decision.part and decision.layer.weights:  # a rule chose it: as it was
            place.layer.trainable = decision.layer.trainable
        elif not decision.posteriors:
            place.layer.trainable = False


def _require_supported(decisions: list[Decision]) -> None:
    if decisions:
        named = [f"{type(d.layer).__name__} {d.place.path!r} ({d.reason})" for d in decisions]
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        raise ValueError(
            f"bayesianize needs layers that have a Bayesian counterpart; got {', '.join(named[:3])}{more}. Keep them "
            'as they are with unsupported="keep", or by a rule with None; plan(model, …) shows them all.'
        )
