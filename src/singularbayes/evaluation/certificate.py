"""The certified risk of a trained model on new data, and the file that it can be checked by."""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes import bounds
from singularbayes.bounds import Bound, Refused
from singularbayes.checks import require_choice, require_integer, require_positive, require_share
from singularbayes.evaluation.certificate_conditions import (
    own_code,
    require_bounded_kl,
    require_distinct,
    require_drawn,
    require_unseen,
    seen_by_prior,
)
from singularbayes.evaluation.certificate_forms import (
    Predictor,
    Shares,
    hold_out_bound,
    pac_bayes_bound,
    share_delta,
    stated,
)
from singularbayes.likelihoods import LabelPredictive, likelihood_of_output, why_no_elbo
from singularbayes.models import collected, find_random_posteriors, loss_of, position_of
from singularbayes.prediction import (
    drawn_risks,
    find_bounded_loss,
    fresh_draw_losses,
    has_other_noise,
    paired_risks,
    predict,
)
from singularbayes.training import hashed, remember_examples

DRAWS = 10_000
EXAMPLES = 256  # per draw
FORMS = ("best", "kl", "catoni", "tandem", "holdout")
_VERSIONS = ("singularbayes", "keras", "numpy", "scipy")


@dataclass(frozen=True, repr=False)
class Certificate(Bound):
    """A bound of a model's risk, with what is needed to compute it again.

    Attributes:
        form: "kl", "catoni", "tandem" or "holdout".
        call: the arguments of `certify`, as JSON holds them.
        data: SHA-256 of the certifying examples, in their order; weights: of the model's weights.
        versions: of Python and packages, and the backend.

    >>> import os, tempfile, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=sb.FullRank())])
    >>> x, y = np.random.default_rng(0).normal(size=(100, 2)).astype("float32"), np.zeros(100, int)
    >>> bound = sb.certify(model, x, y, form="holdout", average=5, likelihood="categorical_logits")
    >>> path = os.path.join(tempfile.mkdtemp(), "certificate.json")
    >>> bound.save(path)
    >>> Certificate.load(path).verify(model, x, y) == bound
    True
    """

    form: str = "kl"
    call: Mapping[str, Any] = field(default_factory=dict)
    data: str = ""
    weights: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def save(self, path) -> None:
        """Writes the certificate to a JSON file: the statement, the call, hashes of examples and weights, versions."""
        content = {"statement": repr(self).splitlines(), **{one.name: getattr(self, one.name) for one in fields(self)}}
        text = json.dumps(content, indent=2, ensure_ascii=False, default=_as_json)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path) -> "Certificate":
        """Returns the certificate that `save` wrote. What it claims is checked by `verify`, not by loading."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        names = {one.name for one in fields(cls)}
        if not isinstance(content, dict) or not names <= set(content):
            raise ValueError(f"Certificate.load needs a file that `save` wrote; got {path}, which is none.")
        content = {name: content[name] for name in names}
        return cls(**{**content, "assumptions": tuple(content["assumptions"])})

    def verify(self, model: keras.Model, x, y=None, *, prior_data=None, tolerance: float = 1e-6) -> "Certificate":
        """Returns the certificate, computed again for this model and these examples; raises where it is another.

        Args:
            prior_data: as it was given to `certify`, where that was arrays.
            tolerance: how far the value may be away. Draws are the same on one backend; on another the risk of the
                draws, and with it the value, moves by its Monte Carlo error.
        """
        call = dict(self.call)
        if call.get("prior_data") == "arrays":
            if prior_data is None:
                raise ValueError("verify needs prior_data=, the inputs that `certify` was given; got none.")
            call["prior_data"] = prior_data
        for name in ("likelihood", "loss"):
            call[name] = keras.saving.deserialize_keras_object(call.get(name))
        again = certify(model, x, y, **call)
        differences = [
            f"the {name} are others" for name in ("data", "weights") if getattr(self, name) != getattr(again, name)
        ]
        if not abs(again.value - self.value) <= tolerance:  # a value that is no number too
            differences.append(f"the value is {self.value:.6g}, recomputed {again.value:.6g}")
        skipped = {"value", "data", "weights", "call", "versions"}
        if again.value != self.value:  # other draws, which move the terms and may move what is printed
            skipped |= {"terms"} if again.rounded == self.rounded else {"terms", "sentence"}
        for name in (one.name for one in fields(self) if one.name not in skipped):
            own, new = getattr(self, name), getattr(again, name)
            if own != new:
                differences.append(f"{name}: {own!r}, recomputed {new!r}")
        if differences:
            raise ValueError(
                f"verify needs the model and the examples that were certified; {'; '.join(differences)}. The "
                f"certificate was made with {_shown(self.versions)}, this is {_shown(again.versions)}."
            )
        return again


def certify(
    model: keras.Model,
    x,
    y=None,
    delta: float = 0.05,
    draws: int = DRAWS,
    *,
    form: str = "best",
    average: int | None = None,
    loss=None,
    constant: float | None = None,
    unseen: bool = False,
    prior_data=None,
    frozen: bool = False,
    duplicates: str | None = None,
    tried: int = 1,
    allow_seen: bool = False,
    seed: int = 0,
    likelihood=None,
    output=None,
) -> Certificate:
    """Returns an upper bound of the risk, on new data, of the predictor that draws a network per prediction.

    With `average` it is about the predictor of `sb.predict` instead. The KL is a sum of closed forms or their upper
    bounds in float64; the risk on (x, y) is bounded from `draws` networks, each on random examples of its own, by
    betting. PAC-Bayes holds however the model was trained, also on (x, y), if

    - the prior, the ranks and the architecture were chosen without (x, y); where `tried` candidates were compared on
      them, each pays for all,
    - all weights are drawn: a trained bias without posterior, a normalisation or a deterministic weight is refused,
      and so is a layer with random noise of its own,
    - the examples are independent: where more than one in a hundred is a copy of an earlier one, they are refused.

    What the data and the model cannot show is listed among the assumptions of the result. Where the compiled loss is no
    negative log-likelihood, as a focal loss, the result says that the objective of training was no ELBO.

    Args:
        x: data of every kind that `predict` takes. They are in memory, so all batches of a stream are read first.
        y: labels, integers from 0, or targets; None takes those of batches (x, y).
        draws: more draws make the bound tighter, by about ln(10/(δ/5))/draws; to be chosen before the result is seen.
        form: "kl" (PAC-Bayes-kl), "catoni", "tandem" (of `average`, by pairs of networks) or "holdout"
            (Clopper–Pearson), which needs a model that never saw (x, y). "best" takes the smallest of those that apply,
            which share δ: "holdout" is among them with `unseen=True`.
        average: None certifies the randomised predictor; S the classifier that averages the probabilities of S draws,
            as `sb.predict(draws=S)` does.
        loss: None or "error" is the 0-1 loss; "probability" 1 − p(label); else `BoundedCrossentropy(p_min)`, or
            `BoundedError(limit)` for a regression.
        constant: C of Catoni's bound, fixed without (x, y), as `catoni_constant` does; None pays for a grid.
        unseen: the model was neither trained nor chosen on (x, y); taken on trust.
        prior_data: inputs that the prior was learned on, where `learn_prior` and `centre_prior` have not remembered
            them; "disjoint" if examples that look the same were drawn apart. That is taken on trust, unless more
            of them came back than chance explains.
        frozen: weights outside posteriors, which are not trainable, were fixed before (x, y) were seen.
        duplicates: "independent" if examples that are equal, input and label, were drawn independently, as they are
            where inputs take few values.
        tried: number of models (ranks, priors, settings, seeds) that might have been chosen by their results on
            (x, y), this one included.
        seed: of the draws; fixed before the result is seen.
        allow_seen: compute the number even if the prior saw (x, y); then it is no certificate.
        likelihood, output: what the outputs mean, and which of several; see `predict`.

    >>> import singularbayes as sb
    >>> keras.utils.set_random_seed(0)
    >>> posterior = sb.FullRank(prior=sb.Centred(sb.Normal(0.1)), eta=0.1)
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> x = np.random.default_rng(0).normal(size=(500, 2)).astype("float32")
    >>> bound = certify(model, x, np.zeros(500, int), draws=200, form="kl", likelihood="categorical_logits")
    >>> bound.is_certificate, bound.deltas
    (True, {'data': 0.04, 'Monte Carlo': 0.01})
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"certify needs a Keras model; got {type(model).__name__}.")
    require_share("certify", delta=delta)
    require_integer("certify", draws=draws, tried=tried, **({} if average is None else {"average": average}))
    require_choice("certify", FORMS, form=form)
    if constant is not None:
        require_positive("certify", constant=constant)
    x, y, weight = collected(x, y, caller="certify")
    if y is None:
        raise ValueError("certify needs labels y; got y=None, and no batches (x, y).")
    if weight is not None:
        raise Refused("certify needs examples that count the same; got batches with sample weights.")
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    distinct = require_distinct(x, y, duplicates)
    seen, words = _conditions(model, x, form, unseen, prior_data, frozen)
    if seen and not allow_seen:
        raise Refused(
            f"certify needs examples that the prior has not seen; {seen}. Certify on others, or pass allow_seen=True "
            "for a number that is no certificate."
        )
    if has_other_noise(model, x, draws, EXAMPLES, seed):
        raise Refused(
            f"certify needs outputs that depend on inputs and drawn weights alone; those of {model.name!r} change "
            "between two passes with the same draw, because a layer has random noise of its own at inference. Leave "
            "that layer out, or make it act in training only."
        )
    meaning = likelihood_of_output(model, position_of(model, output, "certify"), likelihood, "certify")
    predictor = Predictor(find_bounded_loss(loss, meaning, "certify"), average, seed)
    forms = _forms(form, predictor, unseen)
    shares = share_delta(forms, delta)
    options = {"likelihood": likelihood, "output": output}
    found = _bounds(model, x, y, forms, predictor, shares, draws, tried, constant, loss, options)
    chosen = min(found, key=lambda one: found[one].value)
    bound = stated(found[chosen], chosen, forms, predictor, shares, len(np.asarray(y)))
    levels = ("the level of the loss fixed without these examples",) if not isinstance(loss, (str, type(None))) else ()
    bound = replace(
        bound, assumptions=(*bound.assumptions, *levels, *own_code(model), *distinct, *words[chosen == "holdout"])
    )
    reason = why_no_elbo(loss_of(model, position_of(model, output, "certify")))
    if reason is not None and chosen != "holdout":
        bound = replace(bound, sentence=f"{bound.sentence} {reason}; the bound holds for any objective.")
    bound = bound.with_defect(seen) if seen else bound
    named = prior_data is not None and not isinstance(prior_data, str)
    call = {
        "delta": delta,
        "draws": draws,
        "form": form,
        "average": average,
        "constant": constant,
        "unseen": unseen,
        "prior_data": "arrays" if named else prior_data,
        "frozen": frozen,
        "duplicates": duplicates,
        "tried": tried,
        "allow_seen": allow_seen,
        "seed": seed,
        "output": output,
        "loss": keras.saving.serialize_keras_object(loss),
        "likelihood": keras.saving.serialize_keras_object(likelihood),
    }
    data = hashlib.sha256(hashed([x, np.asarray(y)]).tobytes()).hexdigest()
    own = {one.name: getattr(bound, one.name) for one in fields(Bound)}
    return Certificate(**own, form=chosen, call=call, data=data, weights=_weights_hash(model), versions=_versions())


def catoni_constant(
    model: keras.Model,
    x,
    y,
    num_data: int,
    *,
    delta: float = 0.05,
    kl: float = 1.0,
    draws: int = 1000,
    loss=None,
    seed: int = 0,
    likelihood=None,
    output=None,
) -> float:
    """Returns the constant C that suits Catoni's bound, from the prior and examples that will not certify it.

    To be called after `learn_prior`, before training continues: C is the best one for the risk of the prior on (x, y).
    These are remembered with the prior, so that `certify` refuses them. Good ones were not fitted: those by which the
    prior was stopped or chosen, such as its `validation_data`.

    Args:
        num_data: number of examples that will certify.
        kl: KL(Q ‖ P) in nats that further training is expected to cost.
        delta, loss, likelihood, output: as `certify` will have them.

    >>> import singularbayes as sb
    >>> x = np.random.default_rng(0).normal(size=(500, 2)).astype("float32")
    >>> posterior = sb.FullRank(prior=sb.Centred(), kl_weight=0.0)
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> _ = sb.learn_prior(model, x[:200], np.zeros(200), verbose=0)
    >>> constant = catoni_constant(model, x[200:300], np.zeros(100, int), num_data=200, draws=100)
    >>> certify(model, x[300:], np.zeros(200, int), draws=100, form="catoni", constant=constant).is_certificate
    True
    """
    require_integer("catoni_constant", num_data=num_data, draws=draws)
    remember_examples(model, x, "catoni_constant")
    options = {"loss": loss, "likelihood": likelihood, "output": output, "caller": "catoni_constant"}
    risks = drawn_risks(model, x, y, draws, EXAMPLES, seed, **options)
    return bounds.catoni_constant(float(risks.mean()), kl, num_data, 0.8 * delta)


def certified_kl(model: keras.Model) -> tuple[float, float]:
    """Returns an upper bound of KL(Q ‖ P) in nats, by formula in float64, before and after the choice of the gauge.

    Components of mixtures are drawn together in all layers, so Q is a mixture of products. KL is convex in (Q, P), and
    with that the mean over components of sums over layers, which is the sum of the posteriors' own means, is above it.
    """
    found = [posterior.certified_kl() for posterior in find_random_posteriors(model)]
    return sum(before for before, _ in found), sum(after for _, after in found)


def _forms(form: str, predictor: Predictor, unseen: bool) -> tuple[str, ...]:
    """Returns the forms that are compared; raises where none speaks about the predictor."""
    averaged, binary = predictor.average is not None, predictor.loss.binary
    if form == "tandem" and not (averaged and binary):
        raise ValueError(
            "certify needs average= and the 0-1 loss for form='tandem', a bound of the averaged predictor."
        )
    if averaged and not (binary or predictor.loss.linear) and form != "holdout":
        raise Refused(
            f"certify needs form='holdout' for the {predictor.quantity}: PAC-Bayes bounds the mean loss of draws, and "
            "this loss, which is clipped and so not convex, can be larger for their average. Or leave out average=."
        )
    if form != "best":
        return (form,)
    return ("kl", "catoni", *(["tandem"] if averaged and binary else []), *(["holdout"] if unseen else []))


def _conditions(
    model: keras.Model, x, form: str, unseen: bool, prior_data, frozen: bool
) -> tuple[str | None, dict[bool, tuple[str, ...]]]:
    """Raises where a form does not hold; returns why the prior may know the examples, and what is assumed.

    The latter of PAC-Bayes, False, and of the hold-out bound, True.
    """
    words: dict[bool, tuple[str, ...]] = {}
    seen = None
    if form != "holdout":
        outside = require_drawn(model, frozen)
        require_bounded_kl(model)
        seen, more = seen_by_prior(model, x, prior_data)
        words[False] = (*outside, *more)
    if form == "holdout" or (form == "best" and unseen):
        why, words[True] = require_unseen(model, x, prior_data, f"{form=}" if form == "holdout" else "unseen=True")
        seen = seen or why
    return seen, words


def _bounds(
    model: keras.Model,
    x,
    y,
    forms: tuple[str, ...],
    predictor: Predictor,
    shares: Shares,
    draws: int,
    tried: int,
    constant: float | None,
    loss,
    options: dict,
) -> dict[str, Bound]:
    """Returns the bound of every form."""
    found: dict[str, Bound] = {}
    num_data, seed = len(np.asarray(y)), predictor.seed
    drawn = [form for form in forms if form != "holdout"]
    if drawn:
        nats, risks = certified_kl(model), {}
        if "tandem" in drawn:
            pairs = paired_risks(model, x, y, draws, predictor.average or 1, EXAMPLES, seed, **options)
            risks = {"tandem": pairs[:, 1], "first": pairs[:, 0]}
        else:
            first = "probability" if predictor.average is not None else loss
            risks["first"] = drawn_risks(model, x, y, draws, EXAMPLES, seed, loss=first, caller="certify", **options)
        for form in drawn:
            own = risks["tandem" if form == "tandem" else "first"]
            bound = pac_bayes_bound(form, predictor, shares, own, nats, num_data, tried, constant)
            counted = {"pairs of draws" if "tandem" in drawn else "draws": len(own)}
            found[form] = replace(bound, terms={**bound.terms, **counted})
    if "holdout" in forms:
        if predictor.average is None:
            losses = fresh_draw_losses(model, x, y, seed, loss=loss, **options)
        else:
            p = predict(model, x, draws=predictor.average, seed=seed, **options)
            two = (2,) if isinstance(p, LabelPredictive) else ()  # classes of every label
            predictor.loss.require_single("certify", p.mean.shape + two)
            width = p.mean.shape[-1] if p.mean.ndim > 1 else 1
            losses = predictor.loss.values(p.mean, predictor.loss.targets("certify", y, num_data, width))
        found["holdout"] = hold_out_bound(predictor, shares, losses, tried)
    return found


def _weights_hash(model: keras.Model) -> str:
    """Returns SHA-256 of all weights that predictions depend on."""
    skipped = {id(posterior.kl_scale) for posterior in find_random_posteriors(model)}
    found = hashlib.sha256()
    for weight in model.weights:
        if id(weight) not in skipped:
            found.update(np.ascontiguousarray(ops.convert_to_numpy(weight)).tobytes())
    return found.hexdigest()


def _versions() -> dict[str, str]:
    backend = keras.backend.backend()
    found = {"python": platform.python_version(), "backend": backend}
    for package in (*_VERSIONS, backend):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # run from its source
            found[package] = "unknown"
    return found


def _shown(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _as_json(value):
    """Returns what JSON can hold of a NumPy number, or of a read-only mapping."""
    return value.item() if isinstance(value, np.generic) else dict(value)
