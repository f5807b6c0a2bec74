"""Whether labels are in the range of a cross-entropy.

On JAX and partly on torch a label out of range has the loss 0, so training continues without it, or on classes that
are off by one.
"""

import keras
import numpy as np
from keras import ops

from singularbayes.likelihoods.compiled import highest_label
from singularbayes.models.outputs import loss_of, names_of


def find_wrong_labels(loss, labels, outputs_shape, weight=None, mask=None):
    """Returns for every example, or for every position, whether its label is out of range and counts in the loss.

    Returns None where the targets of the loss are not labels.

    Args:
        labels: a tensor (examples, …), or with a last axis of size 1.
        outputs_shape: the shape (examples, …, classes) of the outputs.
        weight: the sample weights; those with weight 0 do not count.
        mask: of the outputs, True where they count.
    """
    highest = highest_label(loss, outputs_shape[-1])
    if highest is None:
        return None
    labels = ops.cast(labels, "float32")  # a comparison with a class above 255 would overflow uint8
    wrong = ops.logical_not(ops.logical_and(labels >= 0, labels <= highest))  # NaN is wrong
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy) and loss.ignore_class is not None:
        wrong = ops.logical_and(wrong, labels != loss.ignore_class)
    if len(wrong.shape) == len(outputs_shape):
        wrong = ops.any(wrong, axis=-1)
    for counts in (weight, mask):
        if counts is not None:
            counts = ops.cast(counts, "bool")
            if len(counts.shape) > len(wrong.shape):
                counts = ops.any(counts, axis=-1)
            for _ in range(len(wrong.shape) - len(counts.shape)):
                counts = ops.expand_dims(counts, -1)
            wrong = ops.logical_and(wrong, counts)
    return wrong


def require_labels(name: str, model: keras.Model, y, weight=None) -> None:
    """Raises where labels in memory do not fit the compiled loss and the width of the model's outputs."""
    outputs = getattr(model, "outputs", None)
    if outputs is None:
        return  # a subclass of Model, whose outputs only a call shows; `KLSchedule` checks them in training
    targets = [y.get(key) for key in names_of(model)] if isinstance(y, dict) else keras.tree.flatten(y)
    for position, (labels, output) in enumerate(zip(targets, outputs, strict=False)):
        loss = loss_of(model, position)
        wrong = None if labels is None else find_wrong_labels(loss, labels, output.shape, weight)
        if wrong is not None and (rows := ops.convert_to_numpy(wrong)).any():
            found = np.asarray(labels)[rows]
            raise wrong_labels_error(f"{name}: {model.name!r}", highest_label(loss, output.shape[-1]), found=found)


def wrong_labels_error(where: str, *highest: int | None, found: np.ndarray | None = None) -> ValueError:
    """Returns the error of labels out of range; `highest` are the highest labels of the outputs."""
    got = "others in the training or validation data"
    if found is not None:
        got = f"{found.min():g} to {found.max():g} among {len(found)} out of range"
    limits = " or ".join(map(str, highest))
    classes = "give the last layer a unit for every class"
    if 1 in highest:
        classes = (
            f"take (y + 1) / 2 of labels -1 and 1; for more classes, {classes} and compile with "
            "SparseCategoricalCrossentropy"
        )
    return ValueError(
        f"{where} needs labels from 0 to {limits}; got {got}. Look at y.min() and y.max(): subtract 1 from labels that "
        f"count from 1, or {classes}."
    )
