"""The KL weight of `fit`: what every callback that sets it does, and the one that sets it by the epoch."""

import math
import warnings
from abc import abstractmethod
from typing import Any

import keras
from keras import ops

from singularbayes.checks import require_integer
from singularbayes.likelihoods import logits_hint, require_activations
from singularbayes.models.programs import compiled
from singularbayes.posteriors import find_posteriors, find_random_posteriors
from singularbayes.training.elbo import BETA, kl, require_kl_weight, spare_from_decay, steps_of, warn_of_optimizer
from singularbayes.training.every_component import drawing_test_function, prepare_mixtures

_COUNTED = (
    4  # batches by which the number of examples is estimated: where batches are shuffled, one may be the short one
)


class KLWeightCallback(keras.callbacks.Callback):
    """Sets the KL weight epoch by epoch, and logs `nll`, `kl`, `kl_weight` and `val_nll`.

    The number of training examples is that which the first metric of the model has counted. In the first epoch it is
    the number of batches times the size of the first four, and for these, where nothing is known, the weight is 0.

    Args:
        num_data: number of training examples; None reads it in every `fit`.
    """

    def __init__(self, num_data: int | None):
        super().__init__()
        self.num_data: Any = num_data
        self._reads = num_data is None
        self.history: Any = None  # of the `fit` that is under way
        self._known = False  # whether the examples of the `fit` that is under way were counted
        self._epoch = self._batches = 0
        self._ended: int | None = None  # the epoch whose end is dealt with
        self._lost: int | None = None  # the first epoch whose loss was not finite
        self._weight = 0.0  # of the KL, in this epoch
        self._unweighed = 0  # examples of the epoch for which it was 0
        self._kl: float | None = None  # at the end of the last epoch
        self.kl_of: Any = lambda model: compiled(model, kl)

    @abstractmethod
    def weight(self, epoch: int) -> float:
        """Returns the KL weight of an epoch."""

    def know(self, examples: int) -> None:
        """Takes the number of examples of the `fit` that begins from who knows it; nothing is checked then."""
        self._known = True
        if self._reads:
            self.num_data = examples

    def set_model(self, model):
        super().set_model(model)
        prepare_mixtures(model)
        steps_of(model).bring_back(model)
        model._kl_callback, self.history = self, model.history

    def on_train_begin(self, logs=None):
        name, model, steps = type(self).__name__, self.model, self.params.get("steps")
        # Keras gives the model to all callbacks before training begins, so the last one has it.
        if model._kl_callback is not self:
            raise ValueError(
                f"fit needs one callback that sets the KL weight; got {name} and {type(model._kl_callback).__name__}. "
                "Remove one."
            )
        if not find_posteriors(model):
            raise ValueError(
                f"{name} needs a model with a posterior, for example layers.Dense(..., posterior=LowRank(8)); got "
                f"{model.name!r} with none."
            )
        if steps == 0:
            raise ValueError(
                f"fit of {model.name!r} needs at least one example; got data without a batch. Look for a slice or a "
                "filter that leaves nothing of x and y."
            )
        if self._reads and not self._known:
            self._require_countable(steps)
            self.num_data = None
        require_activations(model)
        spare_from_decay(model)
        warn_of_optimizer(model)
        self._ended = self._lost = None
        self._kl = None
        self._set_weight(0)

    def _require_countable(self, steps: int | None) -> None:
        name = type(self).__name__
        if steps is None:
            raise ValueError(
                f"{name} needs num_data, the number of training examples, for data without a length, such as "
                f"generators; got none. Pass it: {name}(num_data=60_000) for 60,000 examples."
            )
        if _has_positions(self.model):
            raise ValueError(
                f"{name} needs num_data where the loss has more than one term per example, as for outputs (examples, "
                f"positions, classes): the number of terms, positions without padding. {self.model.name!r} has such "
                f"outputs, and got no num_data. Pass it, for example {name}(num_data=y.size)."
            )

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._kl = self._measure() if self._kl is None else self._kl
        self._set_weight(epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self._batches = batch + 1
        steps = self.params["steps"]
        if batch and self.num_data is None and batch >= min(_COUNTED, steps - 1):
            seen = self._count_examples()
            self.num_data = round(steps * seen / batch)
            self._set_weight(self._epoch)
            self._unweighed = seen

    def on_test_begin(self, logs=None):
        self._count_epoch()  # before validation resets the metrics
        if self.model.test_function is not None:  # `fit_many` has a program instead
            steps = steps_of(self.model)
            steps.validation = steps.validation or drawing_test_function(self.model)
            steps.test, self.model.test_function = self.model.test_function, steps.validation

    def on_test_end(self, logs=None):
        if self.model.test_function is not None:
            self.model.test_function = steps_of(self.model).test

    def on_epoch_end(self, epoch, logs=None):
        self.end_epoch(epoch, logs)

    def end_epoch(self, epoch: int, logs: dict | None) -> None:
        """Logs an epoch and prunes columns, once; a callback that needs the KL may call it before."""
        if self._ended == epoch:
            return
        self._ended = epoch
        self._count_epoch()
        before, self._kl = self._kl or 0.0, self._measure()
        logs = {} if logs is None else logs
        logs["kl"], logs["kl_weight"] = self._kl, self._weight
        penalties = _penalties(self.model)
        if "loss" in logs:
            weighed = 1 - self._unweighed / self.num_data
            logs["nll"] = logs["loss"] - weighed * self._weight * (before + self._kl) / 2 - penalties
            if self._lost is None and not math.isfinite(logs["loss"]):
                self._lost = epoch
        if "val_loss" in logs:
            logs["val_nll"] = logs["val_loss"] - penalties

    def on_train_end(self, logs=None):
        self._known = False
        for posterior in find_random_posteriors(self.model):
            posterior.end_fit()
        if any(posterior.kl_weight_now is None for posterior in find_random_posteriors(self.model)):
            steps_of(self.model).put_away(self.model)
        self.model._kl_callback = None
        if self._lost is not None:  # Keras trains on
            warnings.warn(
                f"The loss of {self.model.name!r} was NaN or infinite in epoch {self._lost} (counted from 0), and "
                f"its weights are lost. Look for NaN or very large numbers in x and y, or lower the learning rate."
                f"{logits_hint(self.model)}",
                stacklevel=2,
            )

    def _measure(self) -> float:
        return float(ops.convert_to_numpy(self.kl_of(self.model)))

    def _count_examples(self) -> int:
        """Returns how many examples the epoch has had so far; 0 where the first metric of the model counts none."""
        counted = getattr(self.model.metrics[0], "count", 0) if self.model.metrics else 0
        return round(float(ops.convert_to_numpy(counted)))

    def _count_epoch(self) -> None:
        """Checks draws of the first epoch, and compares its number of examples with the one given, or takes it."""
        if self._known or self.model.stop_training:
            return
        self._known, seen = True, self._count_examples()
        random = [posterior for posterior in find_random_posteriors(self.model) if posterior.trainable]
        if random and not any(posterior.trained for posterior in random):
            raise ValueError(
                f"fit of {self.model.name!r} needs draws of its posteriors, and its training step uses their means: "
                "layers are called without training=True, so that Keras's own Dropout would do nothing here either. In "
                "a `call` of your own, take the argument `training` and pass it on: def call(self, x, training=None): "
                "return self.dense(x, training=training). In a `train_step` of your own, call self(x, training=True)."
            )
        if self._reads:
            if not seen:
                raise ValueError(
                    f"{type(self).__name__} needs num_data for {self.model.name!r}, whose train_step does not count "
                    "examples; got none. Pass num_data=len(x)."
                )
            self.num_data = seen
        elif seen and abs(seen - self.num_data) > seen / max(1, self._batches) and not _has_positions(self.model):
            warnings.warn(
                f"{type(self).__name__} has num_data={self.num_data}, but an epoch of this `fit` has {seen} examples, "
                f"so the KL weight is {seen / self.num_data:.3g} times that of the ELBO. Pass num_data={seen}, unless "
                "an epoch is not one pass over the training set, as with `steps_per_epoch`.",
                stacklevel=2,
            )

    def _set_weight(self, epoch: int) -> None:
        self._weight = 0.0 if self.num_data is None else self.weight(epoch)
        self._unweighed = 0
        for posterior in find_random_posteriors(self.model):
            posterior.set_kl_weight(self._weight, self.model.history)


class KLSchedule(KLWeightCallback):
    """Sets the KL weight β / num_data in `fit`, annealed if wanted, and logs `nll`, `kl`, `kl_weight` and `val_nll`.

    The weight is 0 up to epoch `zero_epochs`, rises linearly over the `warmup` epochs from there, and is full from
    epoch `zero_epochs + warmup` on (epochs count from 0): linear over 20 epochs is `warmup=20`; two zero epochs and
    full by epoch 4 is `zero_epochs=2, warmup=2`, which gives 0, 0, 0, ½, 1, 1, …

    `num_data` is counted where it is not given: in the first epoch it is the number of batches times the size of the
    first four (whose own weight is 0), and after it what the epoch had. It has to be given for data without a length,
    where an epoch is not one pass over the data (`.repeat()`, `steps_per_epoch`), and for losses with more than one
    term per example (outputs such as (examples, positions, classes)), where it is the number of terms. A given number
    that is not that of an epoch, for one term per example, is a warning.

    `loss` is what is minimised. `nll` is that without the KL, which is taken for the mean of the KL at the start and at
    the end of the epoch, and without weight regularizers of other layers. Validation draws weights, every component of
    a mixture for every example; `val_loss` has no KL, so callbacks of Keras choose by the likelihood. Under annealing
    stop early with `singularbayes.EarlyStopping`, which waits for the full weight. Any other callback that watches
    `kl` or `nll` has to come after this one.

    When `fit` ends the weight is unset: the next `fit` needs a schedule again, unless `set_kl` set a weight before.

    `fit` then also refuses a loss that takes logits behind a softmax or sigmoid, and one that takes probabilities
    behind a layer without an activation.

    Args:
        num_data: number of different training examples; None counts them.
        beta: 1 is the ELBO; less tempers the prior, as the paper does on some tasks. The default is the one whose
            predictions were best over fourteen data sets (docs, "The tuning protocol").

    >>> import numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.FullRank())])
    >>> model.compile("adam", "mse")
    >>> log = model.fit(np.ones((20, 1)), np.ones(20), 10, epochs=2, verbose=0, callbacks=[KLSchedule(beta=1)])
    >>> log.history["kl_weight"]
    [0.05, 0.05]
    >>> [KLSchedule(100, beta=1, warmup=2, zero_epochs=1).weight(epoch) for epoch in range(4)]
    [0.0, 0.0, 0.005, 0.01]
    """

    def __init__(self, num_data: int | None = None, beta: float = BETA, zero_epochs: int = 0, warmup: int = 0):
        super().__init__(num_data)
        require_kl_weight(1 if num_data is None else num_data, beta)
        require_integer("KLSchedule", 0, zero_epochs=zero_epochs, warmup=warmup)
        self.beta, self.zero_epochs, self.warmup = beta, zero_epochs, warmup

    def weight(self, epoch):
        if self.num_data is None:
            raise ValueError(
                "KLSchedule needs num_data to know its weights before `fit` has counted the examples; got None. Pass "
                "KLSchedule(num_data=len(x))."
            )
        begun = epoch - self.zero_epochs
        risen = 1.0 if begun >= self.warmup else max(0, begun) / max(1, self.warmup)
        return float(self.beta * risen / self.num_data)

    @property
    def full_epoch(self) -> int:
        """The first epoch with the full KL weight."""
        return self.zero_epochs + self.warmup

    def end_epoch(self, epoch, logs):
        ended = self._ended == epoch
        super().end_epoch(epoch, logs)
        if not ended and epoch >= self.full_epoch and self.beta > 0:
            for posterior in find_random_posteriors(self.model):
                posterior.prune_columns()

    def on_train_end(self, logs=None):
        super().on_train_end(logs)
        full, last = self.weight(self.full_epoch), self._weight
        if last < full and self.weight(self._epoch) == full:
            warnings.warn(
                "Training had no KL: it ended with its first steps, by which the number of examples is counted. Pass "
                f"KLSchedule(num_data={self.num_data}).",
                stacklevel=2,
            )
        elif last < full:
            warnings.warn(
                f"Training ended in epoch {self._epoch} (counted from 0), before the KL weight was full: it is "
                f"{last:.3g}, and {full:.3g} from epoch {self.full_epoch} on. Train longer, shorten `warmup`, or pass "
                "`initial_epoch` to a `fit` that resumes.",
                stacklevel=2,
            )


def _has_positions(model: keras.Model) -> bool:
    """Returns whether a model is known to have more than one term of the loss per example."""
    return any(len(output.shape) > 2 for output in getattr(model, "outputs", None) or [])


def _penalties(model: keras.Model) -> float:
    """Returns what the weight regularizers of layers without posteriors add to the loss."""
    random = {id(weight) for posterior in find_random_posteriors(model) for weight in posterior.trainable_variables}
    others = [w for w in model.trainable_variables if w.regularizer is not None and id(w) not in random]
    return float(sum(ops.convert_to_numpy(weight.regularizer(weight)) for weight in others))
