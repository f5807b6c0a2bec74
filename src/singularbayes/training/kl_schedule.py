"""The KL weight of `fit`: a callback that sets it epoch by epoch, and what every such callback does first."""

import math
import warnings
from typing import Any

import keras
from keras import ops

from singularbayes.checks import require_choice, require_integer
from singularbayes.likelihoods import logits_hint, require_activations
from singularbayes.models import compiled, drawing_test_function
from singularbayes.posteriors import find_posteriors, find_random_posteriors
from singularbayes.training.data_size import data_of, read_size, remember_data, require_divisible_batches
from singularbayes.training.elbo import BETA, kl, require_kl_weight, spare_from_decay, warn_of_optimizer
from singularbayes.training.logged_loss import (
    check_first_step,
    count_examples_of_epoch,
    log_nll,
    require_sound_steps,
)
from singularbayes.training.pretraining import switch_noise
from singularbayes.training.repeated_examples import prepare_mixtures

VALIDATIONS = ("mean", "draw")


class KLSchedule(keras.callbacks.Callback):
    """Sets the KL weight β / num_data in `fit`, annealed if wanted, and logs `nll`, `kl`, `kl_weight` and `val_nll`.

    The weight is 0 up to epoch `zero_epochs`, rises linearly over the `warmup` epochs from there, and is full from
    epoch `zero_epochs + warmup` on (epochs count from 0): linear over 20 epochs is `warmup=20`; two zero epochs and
    full by epoch 4 is `zero_epochs=2, warmup=2`, which gives 0, 0, 0, ½, 1, 1, …

    `num_data` is read from the data of the `fit`. Of arrays it is their length without the `validation_split`. Of a
    tf.data.Dataset, DataLoader or PyDataset with a known number of batches, the first epoch takes batches × size of the
    first batch, and the others the number of examples that were counted in the first. It has to be given for
    generators, data without a length or that repeat (`.repeat()`; for a finite one the repeats count as examples), and
    losses with more than one term per example (outputs such as (examples, positions, classes)), where it is the number
    of terms. A given number that is not that of an epoch, for one term per example, is a warning.

    `loss` is what is minimised; `nll` and `val_nll` are the compiled loss alone, and `val_loss` has no KL either, so
    callbacks of Keras choose by the likelihood. Under annealing stop early with `singularbayes.EarlyStopping`, which
    waits for the full weight. Any other callback that watches `kl` or `kl_weight` has to come after this one.

    When `fit` ends the weight is unset: the next `fit` needs a schedule again, unless `set_kl` set a weight before.
    Where it is interrupted that is done when the next `fit` begins; `train_on_batch` until then has the weight.

    With `pretrain_epochs` the first epochs train the means alone, without noise and KL: a deterministic network of the
    same rank. Then its factors are balanced by SVD, which leaves every W, and the variational part starts there with
    the initial scales; `zero_epochs` and `warmup` count from there. An `Anchored` prior needs a choice of its anchor.

    `fit` then also refuses what would train on nonsense: a loss that takes logits behind a softmax or sigmoid, one that
    takes probabilities behind a layer without an activation; after the first step, a `train_step` of your own that
    leaves out the KL or the noise; and, after the first step and after every epoch, labels out of range.

    Args:
        num_data: number of different training examples; None reads it.
        beta: 1 is the ELBO; less tempers the prior, as the paper does on some tasks. The default is the one whose
            predictions were best over fourteen data sets (docs, "The tuning protocol").
        validation: what `validation_data` are scored with: "mean", the posterior mean, or "draw", one draw per batch.
        pretrain_epochs: epochs that train the means without noise first.

    >>> import numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.FullRank())])
    >>> model.compile("adam", "mse")
    >>> log = model.fit(np.ones((20, 1)), np.ones(20), epochs=2, verbose=0, callbacks=[KLSchedule(beta=1)])
    >>> log.history["kl_weight"]
    [0.05, 0.05]
    >>> [KLSchedule(100, beta=1, warmup=2, zero_epochs=1).weight(epoch) for epoch in range(4)]
    [0.0, 0.0, 0.005, 0.01]
    """

    def __init__(
        self,
        num_data: int | None = None,
        beta: float = BETA,
        zero_epochs: int = 0,
        warmup: int = 0,
        *,
        pretrain_epochs: int = 0,
        validation: str = "mean",
    ):
        super().__init__()
        require_kl_weight(1 if num_data is None else num_data, beta)
        require_integer("KLSchedule", 0, zero_epochs=zero_epochs, warmup=warmup, pretrain_epochs=pretrain_epochs)
        require_choice("KLSchedule", VALIDATIONS, validation=validation)
        self.pretrain_epochs = pretrain_epochs
        self.num_data, self.beta, self.zero_epochs, self.warmup = num_data, beta, zero_epochs, warmup
        self._reads_num_data = num_data is None  # from the data of every `fit`
        self._data: Any = None  # of the `fit` that begins
        remember_data(end_interrupted_fit)
        self.validation = validation
        self._steps: tuple | None = None  # of `evaluate`: the model's own, and the one that draws
        self._epoch = 0
        self._lost: int | None = None  # the first epoch whose loss was not finite
        self._counted = False  # whether the examples of an epoch of this training were counted, or need not be
        self._ended: int | None = None  # the epoch whose end is dealt with
        self._weight = 0.0  # of the KL, in this epoch

    def weight(self, epoch: int) -> float:
        """Returns the KL weight of an epoch."""
        if self.num_data is None:
            raise ValueError(
                "KLSchedule needs num_data to know its weights before `fit` has read it from the data; got None. Pass "
                "KLSchedule(num_data=len(x))."
            )
        begun = epoch - self.pretrain_epochs - self.zero_epochs
        risen = 1.0 if begun >= self.warmup else max(0, begun) / max(1, self.warmup)
        return float(self.beta * risen / self.num_data)

    @property
    def full_weight(self) -> float:
        """The KL weight after the warm-up, β / num_data."""
        return self.weight(self.full_epoch)

    @property
    def full_epoch(self) -> int:
        """The first epoch with the full KL weight."""
        return self.pretrain_epochs + self.zero_epochs + self.warmup

    def set_model(self, model):
        super().set_model(model)
        prepare_mixtures(model)
        log_nll(model)
        take_kl_weight(model, self)
        self._data = data_of(model)

    def on_train_begin(self, logs=None):
        if not find_posteriors(self.model):
            raise ValueError(
                f"KLSchedule needs a model with a posterior, for example layers.Dense(..., posterior=LowRank(8)); got "
                f"{self.model.name!r} with none."
            )
        data, self._data = self._data, None
        self._lost, self._counted, self._ended = None, False, None
        require_divisible_batches(data, "Training data")
        if self._reads_num_data:
            size = read_size(data, "KLSchedule")
            self.num_data, self._counted = size.examples, size.exact or not size.an_epoch
        prepare_fit(self.model, self, "KLSchedule" if self._reads_num_data else None)
        self._steps_before = self._count_steps()
        self._set_weight(0)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        if self.pretrain_epochs:
            switch_noise(self.model, on=epoch >= self.pretrain_epochs)
        self._set_weight(epoch)

    def on_test_begin(self, logs=None):
        self._check_epoch()  # before validation resets the metrics
        require_divisible_batches(data_of(self.model), "Validation data")
        if self.validation == "draw" and self.model.test_function is not None:  # `fit_many` has a program instead
            if self._steps is None or self._steps[0] is not self.model.test_function:
                self._steps = self.model.test_function, drawing_test_function(self.model)
            self.model.test_function = self._steps[1]

    def on_test_end(self, logs=None):
        if self._steps is not None and self.model.test_function is self._steps[1]:
            self.model.test_function = self._steps[0]

    def on_train_end(self, logs=None):
        give_up_kl_weight(self.model, self)
        if self.pretrain_epochs:
            switch_noise(self.model, on=True)  # where training ended before
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
                f"{self.weight(self._epoch):.3g}, and {full:.3g} from epoch {self.full_epoch} on. Train "
                "longer, shorten `warmup`, or pass `initial_epoch` to a `fit` that resumes.",
                stacklevel=2,
            )

    def on_epoch_end(self, epoch, logs=None):
        self.end_epoch(epoch, logs)

    def end_epoch(self, epoch: int, logs: dict | None) -> None:
        """Checks an epoch, prunes columns and logs the KL, once; a callback that needs the KL may call it before."""
        if self._ended == epoch:
            return
        self._ended = epoch
        self._check_epoch()
        if self.weight(epoch) == self.full_weight > 0:
            for posterior in find_random_posteriors(self.model):
                posterior.prune_columns()
        if logs is not None:
            logs["kl"] = float(ops.convert_to_numpy(compiled(self.model, kl)))
            logs["kl_weight"] = self._weight
            if self._lost is None and not math.isfinite(logs.get("loss", 0.0)):
                self._lost = epoch

    def _check_epoch(self) -> None:
        """Checks labels, draws and the number of examples of an epoch when its steps are done."""
        require_sound_steps(self.model)
        if not self._counted and not self.model.stop_training:
            self._counted = True
            self._compare_num_data(count_examples_of_epoch(self.model))

    def _compare_num_data(self, seen: int) -> None:
        if self._reads_num_data or self.num_data is None:
            self.num_data = seen or self.num_data
            return
        # A generator does not know its length before its end.
        steps = self.params["steps"] or self._count_steps() - self._steps_before
        if steps and seen and abs(seen - self.num_data) > seen / steps:
            warnings.warn(
                f"KLSchedule has num_data={self.num_data}, but an epoch of this `fit` has {seen} examples, so the KL "
                f"weight is {seen / self.num_data:.3g} times that of the ELBO. Pass KLSchedule(num_data={seen}), "
                "unless an epoch is not one pass over the training set, as with `steps_per_epoch`.",
                stacklevel=2,
            )

    def _count_steps(self) -> int:
        return int(ops.convert_to_numpy(getattr(self.model.optimizer, "iterations", 0)))

    def _set_weight(self, epoch):
        self._weight = self.weight(epoch)
        for posterior in find_random_posteriors(self.model):
            posterior.set_kl_weight(self._weight)


def take_kl_weight(model: keras.Model, callback: keras.callbacks.Callback) -> None:
    """Makes a callback the one that sets the KL weight in the `fit` that begins."""
    other = getattr(model, "_kl_callback", None)  # of this `fit`
    callback.weight_before = _weight_set(model) if other is None else other.weight_before
    model._kl_callback = callback


def give_up_kl_weight(model: keras.Model, callback: keras.callbacks.Callback) -> None:
    """Ends what `take_kl_weight` began, when the `fit` ends: only a weight that was set before it stays set."""
    if model._kl_callback is not callback:
        return
    model._kl_callback = None
    for posterior in find_random_posteriors(model):
        if posterior.kl_weight_from_file:
            continue  # no callback has set another
        if callback.weight_before is None:
            posterior.unset_kl_weight()
        else:
            posterior.set_kl_weight(callback.weight_before)


def end_interrupted_fit(model: keras.Model) -> None:
    """Gives up the KL weight of a `fit` that did not come to its end; before the next `fit`."""
    if getattr(model, "_kl_callback", None) is not None:
        give_up_kl_weight(model, model._kl_callback)


def _weight_set(model: keras.Model) -> float | None:
    """Returns the KL weight that `set_kl` or an argument gave all posteriors of a model; None where there is none."""
    weights = {None if q.kl_weight_from_file else q.kl_weight_now for q in find_random_posteriors(model)}
    return weights.pop() if len(weights) == 1 else None


def validates_draws(model: keras.Model) -> bool:
    """Returns whether the `fit` that is under way scores validation data with draws."""
    return getattr(getattr(model, "_kl_callback", None), "validation", "mean") == "draw"


def prepare_fit(model: keras.Model, callback: keras.callbacks.Callback, one_term_for: str | None = None) -> None:
    """Raises where a `fit` would train on nonsense, and makes its first step check labels, draws and the KL."""
    # Keras gives the model to all callbacks before training begins, so the last one has it.
    if model._kl_callback is not callback:
        raise ValueError(
            f"fit needs one callback that sets the KL weight; got {type(callback).__name__} and "
            f"{type(model._kl_callback).__name__}. Remove one."
        )
    require_activations(model)
    spare_from_decay(model)
    warn_of_optimizer(model)
    check_first_step(model, one_term_for)
