"""What is wrong with a model, in plain sentences, and what to try."""

from dataclasses import dataclass, replace

import keras
import numpy as np

from singularbayes.checks import aligned, labelled
from singularbayes.evaluation import symptoms
from singularbayes.evaluation.symptoms import Case, Finding
from singularbayes.evaluation.targets import ignore_labels
from singularbayes.likelihoods import by_position, drop_unweighted, likelihood_of_output, position_weights
from singularbayes.models.data import as_arrays, collected, is_stream, one_example
from singularbayes.models.outputs import loss_of, position_of
from singularbayes.posteriors import find_random_posteriors, find_sources
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive, predict

_FIRST = (symptoms.weights_not_finite, symptoms.kl_weight)
_THEN = (
    symptoms.no_posterior,
    symptoms.collapsed,
    symptoms.dead_columns,
    symptoms.kl_dominates,
    symptoms.no_noise,
    symptoms.no_elbo,
)
_WITH_TARGETS = (symptoms.no_better_than_a_constant, symptoms.overconfident)
_OF_MIXTURES = (symptoms.uneven_components,)  # with targets
_OF_HISTORY = (symptoms.unstable_training,)  # of a model that this process has trained


@dataclass(frozen=True)
class Diagnosis:
    """Findings, the worst first. `len` counts them, `in` finds one by name; the repr also lists what was checked.

    Of a model with mixtures it has a line for every component: its KL, and the NLL or squared error of it alone.

    >>> finding = Finding("no_noise", "notice", "The loss has no noise.", "Use MeanScale.")
    >>> found = Diagnosis("net", (finding,), ("noise",))
    >>> "no_noise" in found, len(found)
    (True, 1)
    """

    model: str
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    components: tuple[str, ...] = ()  # of mixtures: a line for each, with its KL and its loss

    def __len__(self) -> int:
        return len(self.findings)

    def __contains__(self, name: str) -> bool:
        return any(finding.name == name for finding in self.findings)

    def __repr__(self) -> str:
        count = f"{len(self)} finding{'s' if len(self) > 1 else ''}" if self.findings else "nothing found"
        lines = [f"Diagnosis of {self.model!r}: {count}. Checked: {', '.join(map(_words, self.checked))}."]
        if self.not_checked:
            lines.append(f"Not checked: {', '.join(map(_words, self.not_checked))}.")
        for finding in self.findings:
            lines += [f"  {finding.severity}: {finding.sentence}", f"    Try: {finding.suggestion}"]
        lines += [f"  {line}" for line in self.components]
        return "\n".join(lines)


def diagnose(
    model: keras.Model, x, y=None, *, sample_weight=None, draws: int = 50, seed: int = 0, **options
) -> Diagnosis:
    """Returns what is wrong with a trained model on examples `x`, best ones that it was not trained on.

    Thresholds are rules of thumb; each sentence has the figure that it rests on.

    Args:
        x: data of every kind that `predict` takes; of batches (x, y) the targets are taken too.
        y: labels or targets; without them it is not checked whether predictions are overconfident or no better than
            a constant.
        sample_weight: examples, or positions of them (tokens, pixels), of weight 0 are left out, and so is padding that
            the model masks. Other weights are not used.
        **options: those of `predict`.

    >>> import singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(2, posterior=sb.LowRank(2))], name="net")
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> diagnose(model, np.ones((5, 4))).findings[0].name
    'kl_weight'
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"diagnose needs a Keras model; got {type(model).__name__}. Of an ensemble, diagnose each of its models."
        )
    if is_stream(x):
        x, y, sample_weight = collected(x, y, sample_weight, "diagnose")
    if not model.built:
        model(one_example(x, "diagnose"), training=False)  # makes its weights
    posteriors = find_random_posteriors(model)
    bare = Case(model, posteriors)
    trained_here = getattr(model, "history", None) is not None  # Keras keeps it until the model is saved
    first, unknown = ((*_FIRST, *_OF_HISTORY), ()) if trained_here else (_FIRST, _OF_HISTORY)
    findings = [finding for check in first for finding in check(bare)]
    if any(finding.name == "weights_not_finite" for finding in findings):
        return _diagnosis(model, findings, first, (*unknown, *_THEN, *_WITH_TARGETS))
    numbers = {source.components for source in find_sources(model)} - {1}
    components = numbers.pop() if len(numbers) == 1 else 1
    kept = {"keep_draws": True} if components > 1 else {}
    p = predict(model, x, draws, seed, **{**options, **kept})
    position = position_of(model, options.get("output"))
    loss = loss_of(model, position)
    likelihood = likelihood_of_output(model, position, options.get("likelihood"), "diagnose")
    targets = None
    if y is None:
        p = drop_unweighted(p, sample_weight)
    else:
        y = as_arrays(y, "diagnose")
        counted = ignore_labels(model, y, p, sample_weight, options.get("output"))
        p, targets, _ = by_position("diagnose", p, y, position_weights(p, counted))
        targets = _targets(p, targets)
    assert isinstance(p, (ClassPredictive, ValuePredictive))
    case = Case(
        model, posteriors, p, targets, learned_noise=likelihood.predicts_noise, loss=loss, components=components
    )
    with_targets = (*_WITH_TARGETS, *(_OF_MIXTURES if components > 1 else ()))
    checks = (*_THEN, *(() if y is None else with_targets))
    findings += [finding for check in checks for finding in check(case)]
    found = _diagnosis(model, findings, (*first, *checks), (*unknown, *(with_targets if y is None else ())))
    return replace(found, components=symptoms.component_lines(case))


def _targets(p: Predictive, y) -> np.ndarray:
    """Returns labels (examples,), or targets in the shape of the means."""
    if p.task == "classification":
        return labelled("diagnose", p.mean, y)[1]
    _, targets = aligned("diagnose", mean=p.mean, targets=y)
    return targets.reshape(p.mean.shape)


def _diagnosis(model, findings, checked, left_out) -> Diagnosis:
    ordered = sorted(findings, key=lambda finding: symptoms.SEVERITIES.index(finding.severity))
    names = [tuple(check.__name__ for check in checks) for checks in (checked, left_out)]
    return Diagnosis(model.name, tuple(ordered), *names)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("kl", "KL")
