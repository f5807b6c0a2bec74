"""The objective: mean negative log-likelihood per example + β · KL(q ‖ p) / num_data.

The first term is the compiled loss, the second comes from the posteriors through `model.losses`, so plain `fit` and any
loop that adds `model.losses` maximise the ELBO. Here the KL's weight is set, and the two terms are logged apart.
"""

import functools
import inspect
import math
import warnings
from numbers import Integral, Real
from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask

from singularbayes.likelihoods import find_wrong, highest_label, logits_hint, require_heads, wrong_labels
from singularbayes.models import compiled, find_posteriors, forget_compiled
from singularbayes.posteriors import Posterior, SharedState

_KL_METHODS = ("training", "bound", "exact")
_WRONG_LABELS = -math.inf  # what a cross-entropy never is: `nll` of an epoch with labels out of range


def kl(model: keras.layers.Layer, method: str = "training"):
    """Returns KL(q ‖ p) summed over all the weights of `model`, in nats.

    Args:
        method: "training" (what the loss adds: exact, or an unbiased estimate), "bound" (closed-form upper bound) or
            "exact" (float64, by closed form or quadrature; a plain float).
    """
    if method not in _KL_METHODS:
        raise ValueError(f"kl needs method to be one of {_KL_METHODS}; got method={method!r}.")
    name = {"training": "kl", "bound": "kl_bound", "exact": "kl_exact"}[method]
    return sum(getattr(posterior, name)() for posterior in find_posteriors(model))


def _require_schedule(num_data, beta) -> None:
    if isinstance(num_data, bool) or not isinstance(num_data, Real) or not 0 < float(num_data) < math.inf:
        got = f"an array of shape {num_data.shape}: say len(x)" if hasattr(num_data, "shape") else f"{num_data!r}"
        raise ValueError(f"The KL weight needs num_data > 0, the size of the training set; got num_data={got}.")
    if isinstance(beta, bool) or not isinstance(beta, Real) or not 0 <= float(beta) < math.inf:
        raise ValueError(f"The KL weight needs beta >= 0 and finite; got beta={beta!r}.")


def set_kl(model: keras.layers.Layer, num_data: int, beta: float = 1.0) -> None:
    """Says the KL weight β / num_data for every posterior of `model`, for custom loops and `train_on_batch`.

    β = 1 is the ELBO. With β < 1 the loss is no longer a bound of the evidence.
    """
    _require_schedule(num_data, beta)
    share_state(model)
    for posterior in find_posteriors(model):
        posterior.set_kl_weight(float(beta / num_data))
    spare_from_decay(model)


class KLSchedule(keras.callbacks.Callback):
    """Says the KL weight β / num_data to `fit`, annealed if wanted, and logs `nll`, `kl`, `kl_weight` and `val_nll`.

    The weight is 0 up to epoch `zero_epochs`, rises linearly over the `warmup` epochs from there, and is full from
    epoch `zero_epochs + warmup` on (epochs count from 0): linear over 20 epochs is `warmup=20`; two zero epochs and
    full by epoch 4 is `zero_epochs=2, warmup=2`, which gives 0, 0, 0, ½, 1, 1, …

    `loss` is what is minimised; `nll` and `val_nll` are the compiled loss alone. Under annealing watch `val_nll` for
    early stopping, and start watching only when the weight is full (`start_from_epoch=zero_epochs + warmup`).

    `fit` then also refuses what would train on nonsense: a loss that takes logits behind a softmax or sigmoid, one that
    takes probabilities behind a layer without an activation, and, after the first step and after every epoch, labels
    out of range. It warns where `num_data` is not the number of examples of an epoch.

    Args:
        num_data: number of training examples.
        beta: 1 is the ELBO; the paper tempers with β < 1 on some tasks.

    >>> [KLSchedule(100, warmup=2, zero_epochs=1).weight(epoch) for epoch in range(4)]
    [0.0, 0.0, 0.005, 0.01]
    """

    def __init__(self, num_data: int, beta: float = 1.0, zero_epochs: int = 0, warmup: int = 0):
        super().__init__()
        _require_schedule(num_data, beta)
        for name, value in {"zero_epochs": zero_epochs, "warmup": warmup}.items():
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
                raise ValueError(f"KLSchedule needs {name} to be a whole number >= 0; got {name}={value!r}.")
        self.num_data, self.beta, self.zero_epochs, self.warmup = num_data, beta, zero_epochs, warmup
        self._epoch = 0
        self._lost: int | None = None  # the first epoch with a loss that is not finite
        self._counted = False  # whether the examples of an epoch of this training were counted

    def weight(self, epoch: int) -> float:
        """Returns the KL weight of an epoch."""
        risen = 1.0 if epoch >= self.zero_epochs + self.warmup else max(0, epoch - self.zero_epochs) / self.warmup
        return float(self.beta * risen / self.num_data)

    @property
    def full_weight(self) -> float:
        """The KL weight after the warm-up, β / num_data."""
        return self.weight(self.zero_epochs + self.warmup)

    def set_model(self, model):
        super().set_model(model)
        share_state(model)
        log_nll(model)
        take_kl_weight(model, self)

    def on_train_begin(self, logs=None):
        if not find_posteriors(self.model):
            raise ValueError(
                f"KLSchedule needs a model with a posterior, for example layers.Dense(..., posterior=LowRank(8)); got "
                f"{self.model.name!r} with none."
            )
        prepare_fit(self.model, self)
        self._lost, self._counted = None, False
        self._say(0)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._say(epoch)

    def on_test_begin(self, logs=None):
        self._check_epoch()  # before validation resets the metrics

    def on_train_end(self, logs=None):
        if self._lost is not None:  # Keras trains on
            warnings.warn(
                f"The loss of {self.model.name!r} was NaN or infinite in epoch {self._lost} (counted from 0), and "
                f"its weights are lost. Look for NaN or very large numbers in x and y, or lower the learning rate."
                f"{logits_hint(self.model)}",
                stacklevel=2,
            )
        full = self.full_weight
        if self.weight(self._epoch) < full:
            warnings.warn(
                f"Training ended in epoch {self._epoch} (counted from 0), before the KL weight was full: it is "
                f"{self.weight(self._epoch):.3g}, and {full:.3g} from epoch {self.zero_epochs + self.warmup} on. Train "
                "longer, shorten `warmup`, or pass `initial_epoch` to a `fit` that goes on.",
                stacklevel=2,
            )

    def on_epoch_end(self, epoch, logs=None):
        self._check_epoch()
        if self.weight(epoch) == self.full_weight > 0:
            for posterior in find_posteriors(self.model):
                posterior.settle()
        if logs is not None:
            logs["kl"] = float(ops.convert_to_numpy(compiled(self.model, kl)))
            logs["kl_weight"] = self.weight(epoch)
            if self._lost is None and not math.isfinite(logs.get("loss", 0.0)):
                self._lost = epoch

    def _check_epoch(self) -> None:
        """Checks the labels and the number of examples of an epoch when its steps are done."""
        require_labels_in_range(self.model)
        if not self._counted and not self.model.stop_training:
            self._counted = True
            self._compare_num_data()

    def _compare_num_data(self) -> None:
        steps, seen = self.params["steps"], count_examples_of_epoch(self.model)
        if steps and seen and abs(seen - self.num_data) > seen / steps:
            warnings.warn(
                f"KLSchedule has num_data={self.num_data}, but an epoch of this `fit` has {seen} examples, so the KL "
                f"weight is {seen / self.num_data:.3g} times that of the ELBO. Pass KLSchedule(num_data={seen}), "
                "unless an epoch is not one pass over the training set.",
                stacklevel=2,
            )

    def _say(self, epoch):
        for posterior in find_posteriors(self.model):
            posterior.set_kl_weight(self.weight(epoch))


class _StoredKLWeight(keras.callbacks.Callback):
    """States a KL weight that came from a file, and logs as `KLSchedule` does, where nothing else sets the weight."""

    def set_model(self, model):
        super().set_model(model)
        take_kl_weight(model, self)  # a schedule among the callbacks takes it after this one
        log_nll(model)

    @property
    def _stored(self) -> list[Posterior]:
        stored = [posterior for posterior in find_posteriors(self.model) if posterior.kl_weight_from_file]
        return stored if self.model._kl_callback is self else []

    def on_train_begin(self, logs=None):
        if not self._stored:
            return
        prepare_fit(self.model, self)
        weight = _kl_weight(self._stored[0])
        warnings.warn(
            f"fit resumes with the KL weight {weight:.3g} that the file of {self.model.name!r} holds. "
            "Pass callbacks=[singularbayes.KLSchedule(num_data=len(x))] to set it for the data of this fit.",
            stacklevel=2,
        )

    def on_epoch_end(self, epoch, logs=None):
        if self._stored and logs is not None:
            require_labels_in_range(self.model)
            logs["kl"] = float(ops.convert_to_numpy(compiled(self.model, kl)))
            logs["kl_weight"] = _kl_weight(self._stored[0])


def log_stored_kl_weight(model: keras.Model) -> None:
    """Makes `fit` of a model that was read from a file state the KL weight of the file and log `nll` and `kl`."""
    if not any(posterior.kl_weight_from_file for posterior in find_posteriors(model)):
        return
    fit = model.fit  # Keras has no other place for a callback that is always there

    @functools.wraps(fit)
    def fit_and_log(*arguments, **options):
        bound = inspect.signature(fit).bind(*arguments, **options)
        callbacks = bound.arguments.get("callbacks")
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            others = [] if callbacks is None else keras.tree.flatten(callbacks)
            bound.arguments["callbacks"] = [_StoredKLWeight(), *others]
        return fit(*bound.args, **bound.kwargs)

    model.fit = fit_and_log


def _kl_weight(posterior: Posterior) -> float:
    return float(ops.convert_to_numpy(posterior.kl_scale))


def take_kl_weight(model: keras.Model, callback: keras.callbacks.Callback) -> None:
    """Makes a callback the one that sets the KL weight in the `fit` that begins."""
    model._kl_callback = callback


def prepare_fit(model: keras.Model, callback: keras.callbacks.Callback) -> None:
    """Raises where a `fit` would train on nonsense, and makes its first step check the labels."""
    # Keras gives the model to all callbacks before training begins, so the last one has it.
    if model._kl_callback is not callback:
        raise ValueError(
            f"fit needs one callback that sets the KL weight; got {type(callback).__name__} and "
            f"{type(model._kl_callback).__name__}. Remove one."
        )
    require_heads(model)
    spare_from_decay(model)
    if isinstance(model._compile_loss, _LoggedLoss) and model.train_function is not None:
        _check_first_step(model)


def _check_first_step(model: keras.Model) -> None:
    step = model.train_function

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
        raise wrong_labels(f"fit of {model.name!r}", *loss.highest_labels)


def count_examples_of_epoch(model: keras.Model) -> int:
    """Returns how many examples the metrics of a model have seen since they were reset."""
    loss = model._compile_loss
    return round(float(ops.convert_to_numpy(loss.nll.count))) if isinstance(loss, _LoggedLoss) else 0


def share_state(model: keras.layers.Layer) -> None:
    """Gives all posteriors of a model one seed generator and one KL weight, on JAX.

    A step there takes every variable in and gives it out again, and each costs it as much as a small operation.
    """
    posteriors = [posterior for posterior in find_posteriors(model) if posterior.random]
    if keras.backend.backend() != "jax" or not posteriors or not all(posterior.built for posterior in posteriors):
        return
    first, *others = {posterior.state for posterior in posteriors}
    if not others and len(posteriors) == (first.members if first else 1):
        return  # they share one already, and with nobody else
    state = SharedState(float(ops.convert_to_numpy(posteriors[0].kl_scale)), len(posteriors))
    for posterior in posteriors:
        posterior.join(state)


def log_nll(model: keras.Model) -> None:
    """Makes `fit` and `evaluate` of a compiled model log the compiled loss alone as `nll`."""
    # Keras logs only the sum of the compiled loss and `model.losses`; only its loss object sees the first alone.
    if model._compile_loss is not None and not isinstance(model._compile_loss, _LoggedLoss):
        model._compile_loss = _LoggedLoss(model._compile_loss)
        forget_compiled(model)


def spare_from_decay(model: keras.Model) -> None:
    """Keeps an optimizer's weight decay from the posteriors: it would pull ρ to 0 and be a second prior."""
    optimizer: Any = getattr(model, "optimizer", None)
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):  # Keras adds one under mixed_float16
        optimizer = optimizer.inner_optimizer
    if not getattr(optimizer, "weight_decay", None):
        return
    posteriors = [posterior for posterior in find_posteriors(model) if posterior.random]
    if not all(posterior.built for posterior in posteriors):
        raise ValueError(
            f"The weight decay of {type(optimizer).__name__} has to spare the posteriors, and those of {model.name!r} "
            "are not built yet. Call the model on a batch before `fit`, or give it a keras.Input."
        )
    variables = [factor.values for posterior in posteriors for factor in posterior.factors]
    # `exclude_from_weight_decay` refuses once the optimizer is built, and Keras builds it before any callback.
    spared = {*getattr(optimizer, "_exclude_from_weight_decay", ()), *map(optimizer._var_key, variables)}
    optimizer._exclude_from_weight_decay, optimizer._exclude_from_weight_decay_cache = spared, {}


class _LoggedLoss:
    """A compiled loss that also keeps its own running mean; in all else the loss it wraps."""

    def __init__(self, loss):
        self.loss = loss
        self.nll = keras.metrics.Mean(name="nll")
        self.highest_labels: set[int | None] = set()  # of the outputs whose labels are checked

    def __call__(self, y_true, y_pred, sample_weight=None):
        value = self.loss(y_true, y_pred, sample_weight)
        # A number that only the metric sees says that labels are wrong: a step can raise no error once it is compiled.
        logged = value
        for loss, labels, outputs, weight in self._outputs(y_true, y_pred, sample_weight):
            wrong = find_wrong(loss, labels, outputs.shape, weight, get_keras_mask(outputs))
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
