"""The checks of a diagnosis. Each takes a case and yields what it finds: a sentence with figures, and what to try."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.likelihoods import why_no_elbo
from singularbayes.metrics.classes import accuracy, label_nll, negative_log_likelihood
from singularbayes.posteriors import Variational
from singularbayes.prediction import ClassPredictive, ValuePredictive

SEVERITIES = ("error", "warning", "notice")

_NARROW = 0.05  # posterior sd as a share of the prior's
_AGREED = 0.01  # disagreement of draws as a share of all uncertainty
_DEAD = 1e-4  # squared norm of a column as a share of the largest's
_SURE = 3.0  # standard errors
_GAP = 0.02  # of confidence over accuracy, or of coverage under its level
_APART = 0.1  # of a constant prediction's loss, by which the best and the worst component differ
_ROSE = (0.1, 0.2)  # of the fall of the training loss, and of its lowest, by which it rises again
_EPOCHS = 5  # the fewest that show a rise


@dataclass(frozen=True)
class Finding:
    """One problem. An "error" makes results invalid; a "warning" makes them doubtful; a "notice" informs.

    >>> Finding("no_noise", "notice", "The loss has no noise.", "Use MeanScale.").severity
    'notice'
    """

    name: str
    severity: str
    sentence: str
    suggestion: str


@dataclass(frozen=True)
class Case:
    """A model, its random posteriors, what it predicts, and the labels or targets where they are given.

    Attributes:
        learned_noise: the model predicts the noise, so that training changes it.
        loss: the compiled loss of the output.
        components: of the mixtures; then `p` has the draws, of one component after another.
    """

    model: keras.Model
    posteriors: list[Variational] = field(default_factory=list)
    p: ClassPredictive | ValuePredictive | None = None
    y: np.ndarray | None = None
    learned_noise: bool = False
    loss: Any = None
    components: int = 1


def weights_not_finite(case: Case) -> Iterator[Finding]:
    """NaN or infinity in a weight."""
    wrong = [w.path for w in case.model.weights if not np.isfinite(ops.convert_to_numpy(w).astype("float32")).all()]
    if wrong:
        yield Finding(
            "weights_not_finite",
            "error",
            f"{len(wrong)} of {len(case.model.weights)} weights hold NaN or infinity, first {wrong[0]}.",
            "a lower learning rate, clipnorm=1.0 in the optimizer, and a look at the inputs; then train again.",
        )


def kl_weight(case: Case) -> Iterator[Finding]:
    """A KL weight that was never set, so that nothing trained the posterior, or of 0, which ignores the prior."""
    trained = [q for q in case.posteriors if q.trainable]
    weights = [float(ops.convert_to_numpy(q.kl_scale)) for q in trained]
    unset = sum(weight < 0 for weight in weights)  # never set: what `fit` used stays here
    if unset:
        yield Finding(
            "kl_weight",
            "error",
            f"The KL weight is not set for {unset} of {len(weights)} posteriors, so `fit` refuses to train them.",
            "callbacks=[sb.KLSchedule()] in fit, or sb.set_kl(model, num_data=len(x)).",
        )
    elif weights and max(weights) == 0:
        yield Finding(
            "kl_weight",
            "warning",
            "The KL weight is 0: the prior is ignored, and nothing keeps the posterior wide.",
            "a beta above 0, or training past zero_epochs and warmup.",
        )


def no_posterior(case: Case) -> Iterator[Finding]:
    """A deterministic model."""
    if not case.posteriors:
        yield Finding(
            "no_posterior",
            "notice",
            "The model has no random posterior: it is deterministic, and mutual information is 0.",
            "layers from sb.layers with posterior=LowRank(...), or sb.bayesianize(model, LowRank(16)).",
        )


def collapsed(case: Case) -> Iterator[Finding]:
    """Scales so narrow that draws are nearly the same function, from their start or by training."""
    shares = [_shares_of_prior(factor) for q in case.posteriors for factor in q.factors]
    widths = np.concatenate([np.zeros(0), *shares])
    if not widths.size:
        return
    width, (amount, share) = float(np.median(widths)), _disagreement(case.p)
    if width < _NARROW and share < _AGREED:
        several = case.components > 1
        yield Finding(
            "collapsed",
            "notice" if several else "warning",
            f"Posterior scales are narrow: the median is at {100 * width:.2g} % of the prior's, and {amount}, "
            f"{100 * share:.2g} % of all uncertainty.{' All components agree.' if several else ''}",
            _AGREEING_COMPONENTS if several else _NARROW_SCALES,
        )


_NARROW_SCALES = (
    'posterior="mixture", whose components disagree. Or wider scales: LowRank starts at eta=0.0001 (0.1 after a '
    "conversion), so set eta=0.03 or more, or rho_lr=4, and train longer; or raise beta."
)
_AGREEING_COMPONENTS = (
    "examples unlike the training data: where data are plenty components should agree, and elsewhere not. If they "
    "agree there too: wider scales, such as Mixture(LowRank(32, eta=0.03), 4), a larger beta, or "
    "prior=sb.Anchored(0.1, spread=1)."
)


def dead_columns(case: Case) -> Iterator[Finding]:
    """Columns of A and B that carry nothing."""
    every = [(q, q.for_components(lambda part: part.squared_column_norms())) for q in case.posteriors]
    for q, k, norms in [(q, k, norms) for q, parts in every for k, norms in enumerate(parts)]:
        if norms is None:
            continue
        _, squares = norms
        where = q.path if q.components == 1 else f"component {k} of {q.path}"
        alive = int((squares > _DEAD * squares.max()).sum())
        if alive < len(squares):
            yield Finding(
                "dead_columns",
                "notice",
                f"{len(squares) - alive} of {len(squares)} columns of {where} have less than {100 * _DEAD:g} % of the "
                "squared norm of the largest.",
                f"rank {max(1, alive)} there, which does the same with fewer parameters; or a lower beta, if they died "
                "early.",
            )


def uneven_components(case: Case) -> Iterator[Finding]:
    """Components of the mixtures whose losses are far apart.

    One standard error is asked for, not three: components that fluctuate differ by few, confidently wrong predictions.
    """
    assert case.y is not None
    if case.components == 1:
        return
    each = component_losses(case)
    best, worst = (int(choose([losses.mean() for losses in each])) for choose in (np.argmin, np.argmax))
    gap = each[worst] - each[best]
    mean, error = float(gap.mean()), float(gap.std() / math.sqrt(len(gap)))
    if mean > max(error, _APART * _constant_loss(case)):
        yield Finding(
            "uneven_components",
            "warning",
            f"Components differ widely: the {_loss_name(case)} of component {worst} alone is {each[worst].mean():.3g}, "
            f"that of component {best} {each[best].mean():.3g} (a difference of {mean:.2g} ± {error:.1g}).",
            f"a lower learning rate, or one that decays to 0, such as {_DECAY}: at a constant high rate the last steps "
            "decide what a component is; longer training, if all still improve.",
        )


def unstable_training(case: Case) -> Iterator[Finding]:
    """A training loss that rises again in the second half of the last `fit`.

    The loss is taken with the KL weight of the end. The NLL alone may rise although training is well: noise that opens
    costs likelihood and saves KL.
    """
    log = {name: np.asarray(values, "float64") for name, values in case.model.history.history.items()}
    nll = loss = log.get("loss", np.zeros(0))
    if {"nll", "kl", "kl_weight"} <= log.keys():  # a callback of the user's may log one of these names
        nll, loss = log["nll"], log["nll"] + log["kl_weight"][-1] * log["kl"]
    if len(loss) < _EPOCHS or not np.isfinite(loss).all():
        return
    window = np.ones(max(1, len(loss) // 10))  # epochs of small data scatter
    nll, loss = (np.convolve(values, window / window.size, "valid") for values in (nll, loss))
    lowest, later = np.minimum.accumulate(loss), np.arange(len(loss)) >= len(loss) / 2
    highest = int(np.argmax(np.where(later, loss - lowest, -np.inf)))
    rise, before = float(loss[highest] - lowest[highest]), int(np.argmin(loss[: highest + 1]))
    fall, lowest_of_all = float(loss[0] - loss.min()), abs(float(loss.min()))
    if rise > max(_ROSE[0] * fall, _ROSE[1] * lowest_of_all):
        yield Finding(
            "unstable_training",
            "warning",
            f"The training loss rose again by {rise:.3g}: the NLL was {nll[before]:.3g} at epoch {before}, and "
            f"{nll[highest]:.3g} at epoch {highest} (means of {window.size}).",
            f"a lower learning rate, or one that decays to 0, such as {_DECAY}; sb.EarlyStopping() restores the "
            "weights of the best epoch.",
        )


_DECAY = "keras.optimizers.schedules.CosineDecay(0.01, steps)"


def component_losses(case: Case) -> list[np.ndarray]:
    """Returns −log p(label), or the squared error, of every example, by one component after another alone."""
    assert case.p is not None and case.p.draws is not None and case.y is not None
    means = [case.p.draws[k :: case.components].mean(axis=0) for k in range(case.components)]  # as `predict` draws them
    if isinstance(case.p, ClassPredictive):
        return [label_nll(mean, case.y) for mean in means]
    return [((mean - case.y) ** 2).reshape(len(mean), -1).mean(axis=1) for mean in means]


def _constant_loss(case: Case) -> float:
    """Returns the loss of the best prediction that is the same for all examples."""
    assert case.y is not None
    return _label_entropy(case.y) if isinstance(case.p, ClassPredictive) else float(case.y.var(axis=0).mean())


def _loss_name(case: Case) -> str:
    return "NLL" if isinstance(case.p, ClassPredictive) else "mean squared error"


def component_lines(case: Case) -> tuple[str, ...]:
    """Returns one line for every component of the mixtures: its KL, and with targets its loss alone."""
    if case.components == 1:
        return ()
    mixtures = [q for q in case.posteriors if q.components > 1]
    each = [q.for_components(lambda part: float(ops.convert_to_numpy(part.kl_bound()))) for q in mixtures]
    losses = None if case.y is None else component_losses(case)
    return tuple(
        f"component {k}: KL {nats:.4g} nats" + (f", {_loss_name(case)} {losses[k].mean():.3g}" if losses else "")
        for k, nats in enumerate(np.sum(each, axis=0))
    )


def kl_dominates(case: Case) -> Iterator[Finding]:
    """A KL term that even a perfect fit could not pay for; it does harm where predictions are poor as well."""
    if not case.posteriors:
        return
    weights = [max(0.0, float(ops.convert_to_numpy(q.kl_scale))) for q in case.posteriors]
    term = sum(w * float(ops.convert_to_numpy(q.kl_bound())) for w, q in zip(weights, case.posteriors, strict=True))
    most = _most_to_gain(case)
    if most is not None and term > most:
        poor = case.y is not None and list(no_better_than_a_constant(case))
        yield Finding(
            "kl_dominates",
            "warning" if poor else "notice",
            f"The KL dominates the loss: it adds {term:.3g} nats per example, and the best fit there could be saves "
            f"{most:.3g} over a constant prediction. Training stopped far from the optimum of this loss.",
            "a lower beta, a smaller rank or more data; longer training, if predictions stay good meanwhile.",
        )


def no_noise(case: Case) -> Iterator[Finding]:
    """Regression whose loss does not specify the noise."""
    if isinstance(case.p, ValuePredictive) and case.p.noise is None and case.posteriors:
        yield Finding(
            "no_noise",
            "notice",
            "The loss does not specify the noise, so there is no total variance; and a squared error weighs the KL as "
            "if the noise had a standard deviation of 0.71.",
            "sb.MeanScale() with layers.LearnedNoise() or a head of two; sb.Gaussian(scale) for known noise.",
        )


def no_elbo(case: Case) -> Iterator[Finding]:
    """A loss that is not a likelihood."""
    reason = why_no_elbo(case.loss) if case.posteriors else None
    if reason is not None:
        yield Finding(
            "no_elbo",
            "notice",
            f"{reason}: the weights are drawn from what minimises it beside the KL, not from an approximate posterior.",
            "a loss that is a negative log-likelihood, such as a cross-entropy, for a posterior; else judge the "
            "uncertainty by held-out data alone.",
        )


def no_better_than_a_constant(case: Case) -> Iterator[Finding]:
    """Predictions that ignore the inputs."""
    assert case.y is not None
    if isinstance(case.p, ClassPredictive):
        own = negative_log_likelihood(case.p.mean, case.y)
        chance = float((case.p.predicted_labels == case.y).mean()) <= np.bincount(case.y).max() / len(case.y)
    else:
        assert case.p is not None
        own, chance = float(((case.p.mean - case.y) ** 2).mean()), True
    constant, what = _constant_loss(case), _loss_name(case)
    if constant > 0 and own >= 0.98 * constant and chance:
        yield Finding(
            "no_better_than_a_constant",
            "warning",
            f"Predictions are no better than one constant prediction: {what} {own:.3g} against {constant:.3g}.",
            "a lower beta or warmup in KLSchedule, longer training, another learning rate; then more units or rank. "
            "Class weights in fit shift probabilities: leave them out and move the threshold.",
        )


def overconfident(case: Case) -> Iterator[Finding]:
    """Confidence above accuracy, or intervals that miss too often, beyond chance."""
    p, y = case.p, case.y
    assert y is not None
    if isinstance(p, ClassPredictive):
        confidence = p.mean.max(axis=-1)
        stated, found = float(confidence.mean()), accuracy(p.mean, y)
        # Were confidence right, each prediction would be right with that probability.
        error = math.sqrt(max(float((confidence * (1 - confidence)).sum()), 0.25)) / len(y)
        evidence = f"mean confidence is {stated:.3f}, accuracy {found:.3f}"
    elif isinstance(p, ValuePredictive) and p.noise is not None:
        lower, upper = p.interval(0.95)
        stated, found = 0.95, float(((lower <= y) & (y <= upper)).mean())
        error = math.sqrt(0.95 * 0.05 / len(y))
        evidence = f"95 % intervals of the total variance contain {100 * found:.1f} % of the targets"
    else:
        return
    if stated - found > max(_GAP, _SURE * error):
        yield Finding(
            "overconfident",
            "warning",
            f"Predictions are overconfident on these {len(y)} examples: {evidence}.",
            "sb.recalibrate(p, y) on held-out data; or raise beta, train for fewer epochs, use more data.",
        )


def _shares_of_prior(factor) -> np.ndarray:
    """Returns the posterior's standard deviations as shares of the prior's; none where that is unknown."""
    prior = factor.prior.std
    return np.zeros(0) if prior is None else np.sqrt(ops.convert_to_numpy(factor.variance)).ravel() / prior


def _disagreement(p) -> tuple[str, float]:
    """Returns how far draws disagree, in words, and as a share of all uncertainty."""
    if isinstance(p, ClassPredictive):
        information, entropy = float(p.mutual_information.mean()), float(p.entropy.mean())
        return f"mutual information is near zero, {information:.2g} nats", information / max(entropy, 1e-12)
    epistemic = math.sqrt(float(p.variance("epistemic").mean()))
    # Without noise, the spread of the predictions over examples is all there is to compare with.
    whole = math.sqrt(float(p.variance("total").mean())) if p.noise is not None else float(p.mean.std())
    return f"the epistemic standard deviation is near zero, {epistemic:.2g}", epistemic / max(whole, 1e-12)


def _most_to_gain(case: Case) -> float | None:
    """Returns by how many nats per example a perfect fit beats a constant prediction; None where it cannot be known."""
    if isinstance(case.p, ClassPredictive):
        return math.log(case.p.mean.shape[-1]) if case.y is None else _label_entropy(case.y)
    # A perfect fit lets learned noise go to 0, and gains without end.
    if case.y is None or case.p is None or case.p.noise is None or case.learned_noise:
        return None
    # log sd(y)/noise for every output: that of N(y; mean, noise²) with a perfect mean minus that of N(y; ȳ, sd²).
    spread, noise = case.y.var(axis=0), case.p.variance("aleatoric").mean(axis=0)
    return float(np.maximum(0.5 * np.log(np.maximum(spread, 1e-300) / noise), 0.0).sum())


def _label_entropy(labels: np.ndarray) -> float:
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())
