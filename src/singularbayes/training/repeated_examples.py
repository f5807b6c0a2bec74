"""Steps in which every component of a mixture trains on every example: the batch is tiled, a block per component.

A training pass of the model gets its inputs K times, one copy behind the other, and gives K blocks of outputs. Targets
and weights (class weights are weights by then) are tiled for the loss and the metrics in the same way, so that the loss
is the mean over components of their losses. All else in a step is Keras's own.
"""

from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask

from singularbayes.models import forget_compiled
from singularbayes.posteriors import are_blocks, find_posteriors, flat_layers, in_blocks


def prepare_mixtures(model: keras.Model) -> None:
    """Refuses what would mix components in training, and makes steps repeat examples where a mixture asks for it."""
    mixtures = [posterior for posterior in find_posteriors(model) if posterior.components > 1]
    if not mixtures:
        return
    norms = [layer for layer in flat_layers(model) if isinstance(layer, keras.layers.BatchNormalization)]
    trained = [layer.name for layer in norms if layer.trainable]
    if trained:
        raise ValueError(
            f"A mixture needs layers that treat every example alone; got BatchNormalization {trained}, whose "
            "statistics are of examples of all components together. Use layers.PerComponent(BatchNormalization(), "
            f"components={mixtures[0].components}), LayerNormalization, or set layer.trainable = False before compile."
        )
    repeated = [posterior for posterior in mixtures if posterior.repeats]
    if not repeated:
        return
    numbers = sorted({posterior.components for posterior in mixtures})
    if len(numbers) > 1:
        raise ValueError(
            f'Mixtures with examples="repeat" need the same number of components in all layers; got {numbers} in '
            f"{model.name!r}."
        )
    current = getattr(model, "_repetition", None)
    if current is None or current.components != numbers[0]:
        model._repetition = Repetition(model, numbers[0])
        forget_compiled(model)


def repetition_of(model: keras.Model) -> "Repetition | None":
    """Returns how the steps of a model repeat examples, or None."""
    return getattr(model, "_repetition", None)


class Repetition:
    """Wraps the pass and the metrics of one model; its loss asks for `tiled` targets.

    Whether outputs are tiled is known when a step is traced: the last pass before them was one of training, or not.
    """

    def __init__(self, model: keras.Model, components: int):
        self.components, self.active = components, False
        old = getattr(model, "_repetition", None)
        metrics = getattr(model, "compute_metrics", None)  # a layer has none
        self._call: Any
        self._metrics: Any
        self._call, self._metrics = (old._call, old._metrics) if old else (model.call, metrics)
        model.call = self.call
        if metrics is not None:
            model.compute_metrics = self.compute_metrics

    def call(self, *args, **kwargs):
        """Runs the pass; that of training on tiled inputs."""
        self.active = bool(kwargs.get("training")) and not are_blocks()
        if not self.active:
            return self._call(*args, **kwargs)
        args, kwargs = keras.tree.map_structure(self._tile, (args, kwargs))
        with in_blocks(self.components, _num_examples(args)):
            return self._call(*args, **kwargs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Runs the metrics with targets and weights that fit the outputs."""
        return self._metrics(x, self.tiled(y), y_pred, sample_weight=self.tiled(sample_weight))

    def tiled(self, values):
        """Returns targets or weights as often as the outputs have their examples."""
        return keras.tree.map_structure(self._tile, values) if self.active else values

    def _tile(self, x):
        if not hasattr(x, "shape") or not len(x.shape):
            return x
        tiled, mask = ops.concatenate([x] * self.components), get_keras_mask(x)
        if mask is not None:
            set_keras_mask(tiled, ops.concatenate([mask] * self.components))
        return tiled


def _num_examples(args) -> int | None:
    """Returns the length of the first axis of the first input; None where it is not known."""
    shapes = [x.shape for x in keras.tree.flatten(args) if hasattr(x, "shape") and len(x.shape)]
    return shapes[0][0] if shapes and isinstance(shapes[0][0], int) else None
