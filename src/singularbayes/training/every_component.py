"""Steps in which every component of a mixture sees every example: the batch is tiled, a block per component.

A training pass of the model gets its inputs K times, one copy behind the other, and gives K blocks of outputs; so does
a pass of validation, where each component is drawn. Targets and weights (class weights are weights by then) are tiled
for the loss and the metrics in the same way, so that the loss is the mean over components of their losses. All else in
a step is Keras's own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask

from singularbayes.posteriors import are_blocks, find_posteriors, find_sources, flat_layers, in_blocks, scope

_VALIDATES: ContextVar[bool] = ContextVar("singularbayes_validates", default=False)


@contextmanager
def drawing_validation(model: keras.Model) -> Iterator[None]:
    """Makes passes outside training draw the weights, of every component for every example, inside a `with` block."""
    token = _VALIDATES.set(True)
    try:
        with scope.drawing(find_sources(model)):
            yield
    finally:
        _VALIDATES.reset(token)


def drawing_test_function(model: keras.Model) -> Callable:
    """Returns a compiled step of `evaluate` that draws the weights, beside the one that the model has."""
    own = model.test_function
    model.make_test_function(force=True)
    step, model.test_function = model.test_function, own

    def drawing_step(*arguments):
        with drawing_validation(model):
            return step(*arguments)

    return drawing_step


def prepare_mixtures(model: keras.Model) -> None:
    """Makes training steps of a model with mixtures repeat examples; refuses what would mix their components."""
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
    numbers = sorted({posterior.components for posterior in mixtures})
    if len(numbers) > 1:
        raise ValueError(f"Mixtures of one model need the same number of components; got {numbers} in {model.name!r}.")
    current = getattr(model, "_repetition", None)
    if current is None or current.components != numbers[0]:
        model._repetition = _Repetition(model, numbers[0], current)


class _Repetition:
    """Wraps the pass, the loss and the metrics of one model.

    Whether outputs are tiled is known when a step is traced: the last pass before them was tiled, or not.
    """

    def __init__(self, model: keras.Model, components: int, old: "_Repetition | None"):
        self.components, self.active = components, False
        names = [name for name in ("call", "compute_loss", "compute_metrics") if hasattr(model, name)]
        self._own: dict[str, Any] = {name: getattr(model, name) for name in names} if old is None else old._own
        for name in names:
            setattr(model, name, getattr(self, name))

    def call(self, *args, **kwargs):
        """Runs the pass; that of training, and of validation, on tiled inputs."""
        self.active = (bool(kwargs.get("training")) or _VALIDATES.get()) and not are_blocks()
        if not self.active:
            return self._own["call"](*args, **kwargs)
        args, kwargs = keras.tree.map_structure(self._tile, (args, kwargs))
        with in_blocks(self.components, _num_examples(args)):
            return self._own["call"](*args, **kwargs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **training):
        """Returns the loss with targets and weights that fit the outputs."""
        return self._own["compute_loss"](x, self._tiled(y), y_pred, self._tiled(sample_weight), **training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Runs the metrics with targets and weights that fit the outputs."""
        return self._own["compute_metrics"](x, self._tiled(y), y_pred, sample_weight=self._tiled(sample_weight))

    def _tiled(self, values):
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
