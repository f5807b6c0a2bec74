"""The objective: mean negative log-likelihood per example + β · KL(q ‖ p) / num_data.

The first term is the compiled loss, the second comes from the posteriors through `model.losses`, so plain `fit` and any
loop that adds `model.losses` maximise the ELBO. Here the KL's weight is said, and the two terms are logged apart.
"""

import math
import warnings
from numbers import Integral, Real
from typing import Any

import keras
from keras import ops

from singularbayes.inference.engine import compiled
from singularbayes.inference.find import find_posteriors
from singularbayes.inference.mean import forget_compiled
from singularbayes.posteriors.base import SharedState

_KL_METHODS = ("training", "bound", "exact")


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

    def on_train_begin(self, logs=None):
        if not find_posteriors(self.model):
            raise ValueError(
                f"KLSchedule needs a model with a posterior, for example layers.Dense(..., posterior=LowRank(8)); got "
                f"{self.model.name!r} with none."
            )
        spare_from_decay(self.model)
        self._lost = None
        self._say(0)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._say(epoch)

    def on_train_end(self, logs=None):
        if self._lost is not None:  # Keras trains on
            warnings.warn(
                f"The loss of {self.model.name!r} was NaN or infinite in epoch {self._lost} (counted from 0), and "
                "its weights are lost. Look for NaN or very large numbers in x and y, or lower the learning rate.",
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
        if self.weight(epoch) == self.full_weight > 0:
            for posterior in find_posteriors(self.model):
                posterior.settle()
        if logs is not None:
            logs["kl"] = float(ops.convert_to_numpy(compiled(self.model, kl)))
            logs["kl_weight"] = self.weight(epoch)
            if self._lost is None and not math.isfinite(logs.get("loss", 0.0)):
                self._lost = epoch

    def _say(self, epoch):
        for posterior in find_posteriors(self.model):
            posterior.set_kl_weight(self.weight(epoch))


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

    def __call__(self, y_true, y_pred, sample_weight=None):
        value = self.loss(y_true, y_pred, sample_weight)
        self.nll.update_state(value, sample_weight=ops.shape(keras.tree.flatten(y_pred)[0])[0])
        return value

    @property
    def metrics(self):
        return [*self.loss.metrics, self.nll]

    @property
    def variables(self):
        return [*self.loss.variables, *self.nll.variables]

    def __getattr__(self, name):
        return getattr(self.loss, name)
