"""One model in, one flat result out: every metric that makes sense, its size and its cost."""

import inspect
import math
import time
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import keras
import numpy as np

from singularbayes.evaluation import scores
from singularbayes.evaluation.targets import (
    ignore_labels,
    named_sets,
    split_test,
    targets_alone,
    targets_of_output,
    weights_of_output,
)
from singularbayes.likelihoods import (
    LabelPredictive,
    by_position,
    drop_unweighted,
    likelihood_of_loss,
    position_weights,
    targets_of,
)
from singularbayes.models import count_stored, count_trained
from singularbayes.models.data import as_arrays
from singularbayes.models.outputs import loss_of, position_of
from singularbayes.prediction import Predictive, predict

TASKS = ("classification", "regression")


@runtime_checkable
class Method(Protocol):
    """What can be evaluated beside Keras models: the baselines, or an object of your own.

    `num_trained` and `num_stored`, where it has them, are its numbers of trainable and of stored parameters.
    """

    def predict(self, x: Any, draws: int, seed: int) -> Predictive:
        """Returns predictions of the examples `x`."""


@dataclass(frozen=True)
class Evaluation:
    """What one method with one seed gave on one test set.

    Attributes:
        metrics: every score by name; NaN where there is none, and then `undefined` has the reason.
        num_trained: trainable parameters; num_stored: stored parameters, which predictions are made from.
        draws: how many posterior draws; examples: how many test examples.
        seconds: wall time of predicting the test examples, compilation included; train_seconds: as it was given.

    >>> run = Evaluation("low-rank", "classification", 0, {"nll": 0.31})
    >>> run.value("nll"), Evaluation(**vars(run)) == run  # `vars` is plain data, which JSON holds
    (0.31, True)
    """

    method: str
    task: str
    seed: int
    metrics: dict[str, float]
    undefined: dict[str, str] = field(default_factory=dict)
    num_trained: int | None = None
    num_stored: int | None = None
    draws: int = 1
    examples: int = 0
    seconds: float | None = None
    train_seconds: float | None = None

    def value(self, name: str) -> float:
        """Returns a metric, or a size or time by the name of its attribute; NaN where it is not known."""
        if name in self.metrics:
            return self.metrics[name]
        if name not in _COSTS:
            raise ValueError(
                f"There is no {name!r} in the evaluation of {self.method!r}; there are {[*_COSTS, *self.metrics]}."
            )
        cost = getattr(self, name)
        return math.nan if cost is None else float(cost)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in list(self.metrics.items())[:4])
        return f"Evaluation({self.method!r}, {self.task}, seed {self.seed}: {shown}, … {len(self.metrics)} metrics)"


_COSTS = ("num_trained", "num_stored", "seconds", "train_seconds")


def evaluate(
    method: "keras.Model | Method | Predictive",
    test,
    ood=None,
    task: str | None = None,
    *,
    name: str | None = None,
    seed: int = 0,
    draws: int = 100,
    train_seconds: float | None = None,
    sample_weight=None,
    **options,
) -> Evaluation:
    """Returns every metric of a method on test examples, with its size and time.

    All evaluations of one task with the same out-of-distribution sets have the same metrics. One that has no value for
    a method, as the mutual information of a deterministic network, is NaN. Regression has every score of a spread
    twice, for the epistemic and for the total variance.

    Args:
        method: a Keras model, Bayesian or plain; an object with `predict(x, draws, seed)`; or a `Predictive`.
        test: (x, y) or (x, y, sample_weight), with data of every kind that `predict` takes; or batches of them, such as
            tf.data, a DataLoader, a PyDataset or a generator. For a `Predictive` y alone, or None for its own
            `targets`. Of a model with several outputs y may be a dict or list of the targets of all of them; `output=`
            picks one. Of outputs per token, pixel or label every position is a prediction of its own; padding that
            the model masks does not count, nor do labels of the loss's `ignore_class`.
        ood: out-of-distribution examples: x, or a dict of several sets by name; for a `Predictive` their predictions.
            Metrics of named sets are called "name/metric".
        task: "classification" or "regression"; None reads it from the predictions. Where the compiled loss does not
            specify a likelihood, "regression" takes the outputs for means.
        name: what tables call it; else the model's name or the class of the method.
        seed: of the draws, and the number of the run: `compare` pairs runs of the same seed.
        sample_weight: how much each test example counts, (examples,), or each position of it, (examples, …); a mask
            leaves positions out. Out-of-distribution examples count the same.
        **options: those of `predict`; `keep_draws=True` adds the scores that need every draw: interquartile ranges and
            the CRPS of samples.

    >>> import singularbayes as sb
    >>> p = sb.ClassPredictive(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]), np.zeros((3, 2)), 1)
    >>> result = evaluate(p, np.array([0, 1, 1]), name="mine")
    >>> result
    Evaluation('mine', classification, seed 0: accuracy 0.6667, auroc 1, nll 0.7419, brier 0.54, … 26 metrics)
    >>> result.undefined["mean_mi"]
    'it is deterministic, so draws do not differ'
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"evaluate needs task to be one of {list(TASKS)} or None; got task={task!r}.")
    predictions_of = _predictor(method, task, draws, seed, options)
    x, y, weight = (method, targets_alone(method, test), None) if isinstance(method, Predictive) else split_test(test)
    if weight is not None and sample_weight is not None:
        raise ValueError("evaluate needs sample_weight once; got it in test and by name.")
    weight = weight if sample_weight is None else sample_weight
    y = None if y is None else as_arrays(y, "evaluate")
    ood_sets = named_sets(ood)
    for examples in ood_sets.values():
        if isinstance(x, Predictive) != isinstance(examples, Predictive):
            raise TypeError(
                f"evaluate needs a Predictive in ood where it evaluates one, and only there; got {examples}."
            )
    start = time.perf_counter()
    p = predictions_of(x)
    seconds = time.perf_counter() - start
    found_task = _task_of(p, task)
    y = targets_of_output(method, targets_of("evaluate", p, y), options.get("output"))
    weight = weights_of_output(method, weight, options.get("output"))
    weight = position_weights(p, ignore_labels(method, y, p, weight, options.get("output")))
    each, targets, weights = by_position("evaluate", p, y, weight)
    found = (
        scores.class_scores(each, targets, weights)
        if found_task == "classification"
        else scores.regression_scores(each, targets, np.random.default_rng(seed), weights)
    )
    if isinstance(p, LabelPredictive):
        found |= scores.label_scores(p, y, weight)
    for name_of_set, examples in ood_sets.items():
        outside = predictions_of(examples)
        _task_of(outside, found_task)
        prefix = f"{name_of_set}/" if name_of_set else ""
        beyond = drop_unweighted(outside)
        found |= {f"{prefix}{key}": score for key, score in scores.ood_detection_scores(each, beyond).items()}
    trained, stored = _counts(method)
    return Evaluation(
        method=name or (method.name if isinstance(method, keras.Model) else type(method).__name__),
        task=found_task,
        seed=seed,
        metrics={key: math.nan if isinstance(score, str) else score for key, score in found.items()},
        undefined={key: score for key, score in found.items() if isinstance(score, str)},
        num_trained=trained,
        num_stored=stored,
        draws=p.num_draws,
        examples=len(p),
        seconds=None if isinstance(method, Predictive) else seconds,
        train_seconds=train_seconds,
    )


def _predictor(method, task, draws, seed, options):
    """Returns what turns examples into predictions."""
    if isinstance(method, Predictive):
        if options:
            raise ValueError(f"evaluate needs no options of predict for a Predictive; got {sorted(options)}.")
        return lambda p: p
    if isinstance(method, keras.Model):
        if task == "regression" and "likelihood" not in options:
            position = position_of(method, options.get("output"))
            if likelihood_of_loss(loss_of(method, position)) is None:
                options = {**options, "likelihood": "gaussian"}
        return lambda x: predict(method, x, draws, seed, **options)
    if not isinstance(method, Method):
        raise TypeError(
            "evaluate needs a Keras model, an object with predict(x, draws, seed), or a Predictive; got "
            f"{type(method).__name__}."
        )
    try:
        inspect.signature(method.predict).bind_partial("x", draws, seed)
    except TypeError as error:
        raise TypeError(
            f"evaluate needs predict(x, draws, seed) that returns a Predictive; got {type(method).__name__}.predict"
            f"{inspect.signature(method.predict)}. Give its predictions as a ClassPredictive or a ValuePredictive."
        ) from error
    return lambda x: method.predict(x, draws, seed, **options)


def _task_of(p: Predictive, task: str | None) -> str:
    if not isinstance(p, Predictive):
        raise TypeError(f"evaluate needs predict to return a Predictive; got {type(p).__name__}.")
    if task not in (None, p.task):
        raise ValueError(f"evaluate needs predictions of task={task!r}; got those of {p.task}.")
    return p.task


def _counts(method) -> tuple[int | None, int | None]:
    """Returns the numbers of trainable and of stored parameters."""
    if isinstance(method, keras.Model):
        return count_trained(method), count_stored(method)
    return getattr(method, "num_trained", None), getattr(method, "num_stored", None)
