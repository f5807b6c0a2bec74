"""The compiled loss logged apart from the KL, as `nll`, and labels out of range noticed by it."""

import math

import keras
from keras import ops
from keras.src.backend import get_keras_mask

from singularbayes.likelihoods import find_wrong_labels, highest_label, wrong_labels_error
from singularbayes.models import forget_compiled

_WRONG_LABELS = -math.inf  # what a cross-entropy never is: `nll` of an epoch with labels out of range


def log_nll(model: keras.Model) -> None:
    """Makes `fit` and `evaluate` of a compiled model log the compiled loss alone as `nll`."""
    # Keras logs only the sum of the compiled loss and `model.losses`; only its loss object sees the first alone.
    if model._compile_loss is not None and not isinstance(model._compile_loss, _LoggedLoss):
        model._compile_loss = _LoggedLoss(model._compile_loss)
        forget_compiled(model)


def check_first_step(model: keras.Model) -> None:
    """Makes the first step of a `fit` stop training where its labels are out of range."""
    step = model.train_function
    if step is None or not isinstance(model._compile_loss, _LoggedLoss):
        return

    def first(*arguments):
        model.train_function = step
        result = step(*arguments)
        logs = result[0] if isinstance(result, tuple) else result  # on JAX beside the state
        if float(ops.convert_to_numpy(logs["nll"])) == _WRONG_LABELS:
            model.stop_training = True  # an error now would lose the model's weights on JAX
        return result

    model.train_function = first


def require_labels_in_range(model: keras.Model) -> None:
    """Raises where the metrics of a model have seen labels out of range."""
    loss = model._compile_loss
    if isinstance(loss, _LoggedLoss) and float(ops.convert_to_numpy(loss.nll.result())) == _WRONG_LABELS:
        raise wrong_labels_error(f"fit of {model.name!r}", *loss.highest_labels)


def count_examples_of_epoch(model: keras.Model) -> int:
    """Returns how many examples the metrics of a model have seen since they were reset."""
    loss = model._compile_loss
    return round(float(ops.convert_to_numpy(loss.nll.count))) if isinstance(loss, _LoggedLoss) else 0


class _LoggedLoss:
    """A compiled loss that also keeps its own running mean; in all else the loss it wraps."""

    def __init__(self, loss):
        self.loss = loss
        self.nll = keras.metrics.Mean(name="nll")
        self.highest_labels: set[int | None] = set()  # of the outputs whose labels are checked

    def __call__(self, y_true, y_pred, sample_weight=None):
        value = self.loss(y_true, y_pred, sample_weight)
        # A value that only the metric sees marks wrong labels: a step can raise no error once it is compiled.
        logged = value
        for loss, labels, outputs, weight in self._outputs(y_true, y_pred, sample_weight):
            wrong = find_wrong_labels(loss, labels, outputs.shape, weight, get_keras_mask(outputs))
            if wrong is not None:
                self.highest_labels.add(highest_label(loss, outputs.shape[-1]))
                logged = ops.where(ops.any(wrong), _WRONG_LABELS, logged)
        self.nll.update_state(logged, sample_weight=ops.shape(keras.tree.flatten(y_pred)[0])[0])
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
