"""The compiled loss logged apart from the KL, as `nll`, and labels out of range noticed by it."""

import math

import keras
import numpy as np
from keras import ops
from keras.src.backend import get_keras_mask

from singularbayes.likelihoods import find_wrong_labels, highest_label, wrong_labels_error
from singularbayes.models import forget_compiled
from singularbayes.posteriors import mean_gradient
from singularbayes.training.repeated_examples import Repetition, repetition_of


def log_nll(model: keras.Model) -> None:
    """Makes `fit` and `evaluate` of a compiled model log the compiled loss alone as `nll`."""
    # Keras logs only the sum of the compiled loss and `model.losses`; only its loss object sees the first alone.
    if model._compile_loss is not None and not isinstance(model._compile_loss, _LoggedLoss):
        model._compile_loss = _LoggedLoss(model._compile_loss)
        forget_compiled(model)
    if isinstance(model._compile_loss, _LoggedLoss):
        model._compile_loss.repetition = repetition_of(model)


def check_first_step(model: keras.Model) -> None:
    """Makes the first step of a `fit` stop training where labels are out of range or posteriors are not drawn."""
    step, loss = model.train_function, model._compile_loss
    if step is None or not isinstance(loss, _LoggedLoss):
        return

    def first(*arguments):
        model.train_function = step
        try:
            with mean_gradient.collected() as loss.trained_at_mean:
                result = step(*arguments)
        except Exception:
            _give_back(model, arguments)
            raise
        if isinstance(result, tuple):  # on JAX the variables have their values only after the epoch
            places = [variable is loss.nll.count for variable in model.metrics_variables]
            count = result[1][-1][places.index(True)]
        else:
            count = loss.nll.count
        if np.isnan(ops.convert_to_numpy(count)) or loss.trained_at_mean:
            model.stop_training = True  # an error now would lose the model's weights on JAX
        return result

    model.train_function = first


def _give_back(model: keras.Model, arguments: tuple) -> None:
    """Gives a model the weights back that Keras has taken on JAX, after a step that could not be compiled."""
    if keras.backend.backend() == "jax":
        names = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
        model._jax_state = dict(zip(names, arguments[0], strict=True))
        model._jax_state_synced = False
        model.jax_state_sync()


def require_sound_steps(model: keras.Model) -> None:
    """Raises where the metrics of a model have seen labels out of range, or its first step used means for draws."""
    loss = model._compile_loss
    if not isinstance(loss, _LoggedLoss):
        return
    if np.isnan(ops.convert_to_numpy(loss.nll.count)):
        raise wrong_labels_error(f"fit of {model.name!r}", *loss.highest_labels)
    if loss.trained_at_mean:
        paths, loss.trained_at_mean = loss.trained_at_mean, []
        raise not_drawn_error(model, paths)


def not_drawn_error(model: keras.Model, paths: list[str]) -> ValueError:
    """Returns the error for a training step that uses the mean of posteriors with these paths."""
    return ValueError(
        f"fit of {model.name!r} needs draws of its posteriors, and its training step uses the mean of {paths[0]!r}: "
        "the layer is called without training=True. In a `call` of your own, take the argument `training` and pass it "
        "on: def call(self, x, training=None): return self.dense(x, training=training). In a `train_step` of your "
        "own, call self(x, training=True)."
    )


def count_examples_of_epoch(model: keras.Model) -> int:
    """Returns how many examples the metrics of a model have seen since they were reset.

    Returns 0 where that is not the number of terms that the loss averages, and where it is not known.
    """
    loss = model._compile_loss
    counted = isinstance(loss, _LoggedLoss) and not loss.by_position
    return round(float(ops.convert_to_numpy(loss.nll.count))) if counted else 0


class _LoggedLoss:
    """A compiled loss that also keeps its own running mean; in all else the loss it wraps."""

    def __init__(self, loss):
        self.loss = loss
        self.nll = keras.metrics.Mean(name="nll")
        self.highest_labels: set[int | None] = set()  # of the outputs whose labels are checked
        self.repetition: Repetition | None = None  # of examples, where all components of a mixture train on each
        self.trained_at_mean: list[str] = []  # posteriors whose mean the first step trained
        self.by_position = False  # whether a loss has more than one term per example

    def __call__(self, y_true, y_pred, sample_weight=None):
        repeats = 1
        if self.repetition is not None and self.repetition.active:
            y_true, sample_weight = self.repetition.tiled(y_true), self.repetition.tiled(sample_weight)
            repeats = self.repetition.components
        value = self.loss(y_true, y_pred, sample_weight)
        # A count that is NaN marks wrong labels, and `nll` is NaN: a step can raise no error once it is compiled.
        count = ops.shape(keras.tree.flatten(y_pred)[0])[0] // repeats
        for loss, labels, outputs, weight in self._outputs(y_true, y_pred, sample_weight):
            self.by_position = self.by_position or len(outputs.shape) > 2
            wrong = find_wrong_labels(loss, labels, outputs.shape, weight, get_keras_mask(outputs))
            if wrong is not None:
                self.highest_labels.add(highest_label(loss, outputs.shape[-1]))
                count = ops.where(ops.any(wrong), math.nan, count)
        self.nll.update_state(value, sample_weight=count)
        return value

    def _outputs(self, y_true, y_pred, sample_weight):
        """Yields the loss, targets, predictions and weights of every output that has a loss."""
        if isinstance(y_true, dict) and isinstance(y_pred, (list, tuple)):
            y_true = [y_true[name] for name in self.loss.output_names]
        paths = [path for path, _ in keras.tree.flatten_with_path(y_pred)]
        parts = [keras.tree.flatten(part) for part in (y_true, y_pred, sample_weight)]
        for place, (path, loss, *_) in enumerate(self.loss._flat_losses):
            # There may be targets only for outputs with a loss, and one weight for all.
            yield loss, *(part[paths.index(path) if len(part) == len(paths) else place % len(part)] for part in parts)

    @property
    def metrics(self):
        return [*self.loss.metrics, self.nll]

    @property
    def variables(self):
        return [*self.loss.variables, *self.nll.variables]

    def __getattr__(self, name):
        return getattr(self.loss, name)
