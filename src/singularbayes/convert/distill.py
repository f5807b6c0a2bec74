"""One plain network that predicts what many draws of a Bayesian one do."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_integer
from singularbayes.convert.collapse import collapse
from singularbayes.likelihoods import (
    GAUSSIAN,
    ClassPredictive,
    DistilledClassesLoss,
    DistilledValuesLoss,
    Predictive,
    ValuePredictive,
    likelihood_of_output,
)
from singularbayes.models import arranged
from singularbayes.prediction import predict

_HIDDEN = 64  # units of the hidden layer of the epistemic part


def distill(
    bayes: keras.Model,
    x,
    *,
    unlabelled=None,
    student: keras.Model | None = None,
    draws: int = 100,
    seed: int = 0,
    likelihood=None,
    epochs: int = 30,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    verbose=0,
) -> keras.Model:
    """Returns a plain Keras network that predicts the mean and the epistemic part of `draws` draws in one pass.

    `predict(student, x)` returns the same kind of object as for `bayes`, without draws: class probabilities and mutual
    information, or means with their epistemic standard deviation (and the teacher's noise, where it is one number). The
    student learns to imitate the teacher only where it is shown inputs: give `unlabelled` ones from where its
    uncertainty matters, such as perturbed or out-of-distribution inputs. Files of it need this package for its loss.

    Args:
        x: inputs, as for `predict`, in memory; no labels are needed.
        unlabelled: further inputs, of the same kind.
        student: a functional or Sequential model with the inputs and outputs of `bayes`, whose layers the result
            uses; None starts at `collapse(bayes, merge=True)`, the posterior means. Their matrices are merged because
            draws differ in directions of the inputs that the mean of a low-rank weight does not pass on.
        draws, seed, likelihood: as for `predict(bayes, …)`.
        learning_rate: of Adam at the start; it falls along a cosine to 0.

    >>> import keras, numpy as np, singularbayes as sb
    >>> bayes = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> bayes.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    >>> student = distill(bayes, x, epochs=1)
    >>> p = sb.predict(student, x)
    >>> p.mean.shape, bool((p.mutual_information >= 0).all())
    ((64, 3), True)
    """
    require_integer("distill", draws=draws, epochs=epochs, batch_size=batch_size)
    base = collapse(bayes, merge=True) if student is None else student
    if len(getattr(base, "outputs", None) or []) != 1:
        raise ValueError(
            f"distill needs a functional or Sequential model with one output; got {base.name!r}. Wrap it: "
            "keras.Model(x, model(x)) with x = keras.Input(...), and pass one of several outputs alone."
        )
    meaning = likelihood_of_output(bayes, None, likelihood, "distill")
    data = arranged(bayes, x, "distill")
    if unlabelled is not None:
        more = arranged(bayes, unlabelled, "distill")
        data = keras.tree.map_structure(lambda one, other: np.concatenate([one, other]), data, more)
    if student is not None:
        some = keras.tree.map_structure(lambda array: array[:8], data)
        _require_like_teacher(student, some, predict(bayes, some, 1, seed, likelihood=meaning), meaning)
    p = predict(bayes, data, draws, seed, likelihood=meaning)
    whole = _student(base, p, meaning)
    loss: Any
    if isinstance(p, ClassPredictive):
        loss = DistilledClassesLoss(p.num_draws)
    else:
        assert isinstance(p, ValuePredictive)
        loss = DistilledValuesLoss(p.num_draws, None if p.noise is None else float(p.noise))
    steps = epochs * math.ceil(len(keras.tree.flatten(data)[0]) / batch_size)
    # A rate that falls to 0: the student ends near its teacher, not in the noise of its last steps.
    whole.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(learning_rate, steps)), loss)
    whole.fit(data, _targets(p), batch_size=batch_size, epochs=epochs, verbose=verbose)
    return whole


def _features(output: keras.KerasTensor) -> keras.KerasTensor:
    """Returns what the last layer with weights takes, seen from the output back through operations without any."""
    tensors = [output]
    while tensors:
        operation, node, _ = tensors.pop(0)._keras_history
        taken = operation._inbound_nodes[node].input_tensors
        if getattr(operation, "weights", None) and len(taken) == 1:
            return taken[0]
        tensors += taken
    raise ValueError(f"distill needs a layer with weights and one input before its output; got none before {output!r}.")


def _require_like_teacher(student: keras.Model, some, p: Predictive, meaning) -> None:
    """Raises where a student has another number of outputs than its teacher, or probabilities for logits."""
    width = 1 if p.mean.ndim == 1 else p.mean.shape[-1]
    outputs = ops.convert_to_numpy(student(some, training=False))
    yes_or_no = isinstance(p, ClassPredictive) and (width, outputs.shape[-1]) == (2, 1)
    if outputs.shape[-1] != width and not yes_or_no:
        raise ValueError(
            f"distill needs a student with {width} outputs, as many as its teacher predicts; got {outputs.shape[-1]} "
            f"from {student.name!r}."
        )
    meaning.statistics(outputs[None])  # which refuses probabilities where logits are needed, and the reverse


def _targets(p: Predictive) -> np.ndarray:
    if isinstance(p, ClassPredictive):
        share = p.mutual_information / np.maximum(p.entropy, 1e-12)
        return np.concatenate([p.mean, np.clip(share, 0.0, 1.0)[..., None]], axis=-1).astype("float32")
    column = (..., None) if p.mean.ndim == 1 else ...
    return np.concatenate([p.mean[column], p.std[column]], axis=-1).astype("float32")


def _student(base: keras.Model, p: Predictive, meaning) -> keras.Model:
    """Returns the base with outputs for the epistemic part beside its own, made from what its last layer takes."""
    output = base.outputs[0]
    features = _features(output)
    if isinstance(p, ClassPredictive):
        logits = output if meaning.from_logits else ops.log(ops.maximum(output, 1e-7))
        if output.shape[-1] == 1:  # the probability of yes
            logits = output if meaning.from_logits else logits - ops.log(ops.maximum(1.0 - output, 1e-7))
            logits = ops.concatenate([ops.zeros_like(logits), logits], axis=-1)
        start = np.mean(_targets(p)[..., -1:])
        outputs, bias = [logits], float(np.log((start + 1e-4) / (1 - start + 1e-4)))
        width = 1
    elif isinstance(p, ValuePredictive) and not isinstance(p.noise, np.ndarray) and p.family == GAUSSIAN:
        outputs, width = [output], output.shape[-1]
        bias = float(np.log(np.expm1(max(float(p.std.mean()), 1e-4))))
    else:
        raise ValueError(
            "distill needs classes that exclude each other, or a regression with Gaussian noise of one scale or "
            f"without noise; got {meaning!r}."
        )
    start_at = keras.initializers.Constant(bias)
    epistemic = keras.layers.Dense(width, bias_initializer=start_at, kernel_initializer="zeros", name="epistemic")
    # Uncertainty is not linear in the features of the mean: it grows to all sides of where they are certain.
    hidden = keras.layers.Dense(_HIDDEN, "silu", name="epistemic_hidden")(features)
    outputs.append(epistemic(hidden))
    inputs = getattr(base, "_inputs_struct", base.inputs[0])
    return keras.Model(inputs, ops.concatenate(outputs, axis=-1), name=f"{base.name}_student")
