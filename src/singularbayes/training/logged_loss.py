"""The compiled loss logged apart from the KL, as `nll`, and labels out of range noticed by it."""

import math

import keras
import numpy as np
from keras import ops
from keras.src.backend import get_keras_mask

from singularbayes.likelihoods import find_wrong_labels, highest_label, wrong_labels_error
from singularbayes.models import forget_compiled
from singularbayes.posteriors import step_watch
from singularbayes.training.repeated_examples import Repetition, repetition_of


def log_nll(model: keras.Model) -> None:
    """Makes `fit` and `evaluate` of a compiled model log the compiled loss alone as `nll`."""
    # Keras logs only the sum of the compiled loss and `model.losses`; only its loss object sees the first alone.
    if model._compile_loss is not None and not isinstance(model._compile_loss, _LoggedLoss):
        model._compile_loss = _LoggedLoss(model._compile_loss)
        forget_compiled(model)
    if isinstance(model._compile_loss, _LoggedLoss):
        model._compile_loss.repetition = repetition_of(model)


def check_first_step(model: keras.Model, one_term_for: str | None = None) -> None:
    """Makes the first step of a `fit` stop training where it is not a step on the ELBO; see `require_sound_steps`.

    Args:
        one_term_for: the callback that counts examples, for which the loss must have one term per example.
    """
    step, loss = model.train_function, model._compile_loss
    if not isinstance(loss, _LoggedLoss):
        return
    loss.one_term_for = one_term_for
    if step is None:
        return

    def first(*arguments):
        model.train_function = step
        try:
            with step_watch.watching() as loss.watch:
                result = step(*arguments)
        except Exception:
            _give_back(model, arguments)
            raise
        if isinstance(result, tuple):  # on JAX the variables have their values only after the epoch
            places = [variable is loss.nll.count for variable in model.metrics_variables]
            count = result[1][-1][places.index(True)]
        else:
            count = loss.nll.count
        if np.isnan(ops.convert_to_numpy(count)) or _wrong_step(model, loss):
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
    """Raises where labels were out of range, or where the first step used means for draws or left the KL out."""
    loss = model._compile_loss
    if not isinstance(loss, _LoggedLoss):
        return
    if np.isnan(ops.convert_to_numpy(loss.nll.count)):
        raise wrong_labels_error(f"fit of {model.name!r}", *loss.highest_labels)
    error = _wrong_step(model, loss)
    loss.watch = step_watch.Watch()
    if error is not None:
        raise error


def _wrong_step(model: keras.Model, loss: "_LoggedLoss") -> ValueError | None:
    if loss.one_term_for and loss.by_position:
        return ValueError(
            f"{loss.one_term_for} needs num_data where the loss has more than one term per example, as for outputs "
            f"(examples, positions, classes): the number of terms, positions without padding. {model.name!r} has such "
            f"outputs, and got no num_data. Pass it, for example {loss.one_term_for}(num_data=y.size)."
        )
    return wrong_step_error(model, loss.watch)


def wrong_step_error(model: keras.Model, watch: step_watch.Watch) -> ValueError | None:
    """Returns the error for a training step that is not one on the ELBO, by what was noticed of it, or None."""
    if watch.at_mean:
        return ValueError(
            f"fit of {model.name!r} needs draws of its posteriors, and its training step uses the mean of "
            f"{watch.at_mean[0]!r}: the layer is called without training=True, so that Keras's own Dropout would do "
            "nothing here either. In a `call` of your own, take the argument `training` and pass it on: def call(self, "
            "x, training=None): return self.dense(x, training=training). In a `train_step` of your own, call "
            "self(x, training=True)."
        )
    if watch.without_kl:
        return ValueError(
            f"fit of {model.name!r} needs the KL in its loss, and the gradient of its training step has nothing of "
            f"the KL of {watch.without_kl[0]!r}. In a `train_step` of your own, let the loss be "
            "self.compute_loss(x, y, y_pred), or add sum(self.losses) to it; on JAX these are the losses that "
            "self.stateless_call(..., return_losses=True) returns."
        )
    if watch.other_batch:
        path, size = watch.other_batch[0]
        return ValueError(
            f"fit of {model.name!r} needs the examples of the batch on the first axis of every layer with a mixture: "
            f"one component trains on all of an example; {path!r} got {size} where the outputs have "
            f"{sorted(watch.outputs)}. Reshape, or concatenate along another axis, so that the first axis stays the "
            "batch."
        )
    return None


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
        self.watch = step_watch.Watch()  # of the first step
        self.one_term_for: str | None = None  # the callback that takes examples for terms of the loss
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
            if isinstance(outputs.shape[0], int):
                self.watch.outputs.add(outputs.shape[0])
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
