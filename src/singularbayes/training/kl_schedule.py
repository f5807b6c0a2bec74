"""The KL weight of `fit`: a callback that sets it epoch by epoch, and what every such callback does first."""

import math
import warnings

import keras
from keras import ops

from singularbayes.checks import require_choice, require_integer
from singularbayes.likelihoods import logits_hint, require_activations
from singularbayes.models import compiled, drawing_test_function, find_posteriors, find_random_posteriors
from singularbayes.training.elbo import kl, require_kl_weight, share_state, spare_from_decay
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

    `loss` is what is minimised; `nll` and `val_nll` are the compiled loss alone. A callback that watches `kl` or
    `kl_weight` has to come after this one in the list. Under annealing watch `val_nll` for
    early stopping, and start watching only when the weight is full (`start_from_epoch=zero_epochs + warmup`).

    With `pretrain_epochs` the first epochs train the means alone, without noise and KL: a deterministic network of the
    same rank. Then its factors are balanced by SVD, which leaves every W, and the variational part starts there with
    the initial scales; `zero_epochs` and `warmup` count from there. Let early stopping watch from
    `pretrain_epochs + zero_epochs + warmup` on, or it may restore weights without noise. An `Anchored` prior needs a
    choice of its anchor.

    `fit` then also refuses what would train on nonsense: a loss that takes logits behind a softmax or sigmoid, one that
    takes probabilities behind a layer without an activation, and, after the first step and after every epoch, labels
    out of range. It warns where `num_data` is not the number of examples of an epoch, unless the loss has more than one
    term per example (outputs such as (examples, positions, classes)): there `num_data` is the number of terms.

    Args:
        num_data: number of training examples.
        beta: 1 is the ELBO; the paper tempers with β < 1 on some tasks.
        validation: what `validation_data` are scored with: "mean", the posterior mean, or "draw", one draw per batch.
        pretrain_epochs: epochs that train the means without noise first.

    >>> [KLSchedule(100, warmup=2, zero_epochs=1).weight(epoch) for epoch in range(4)]
    [0.0, 0.0, 0.005, 0.01]
    """

    def __init__(
        self,
        num_data: int,
        beta: float = 1.0,
        zero_epochs: int = 0,
        warmup: int = 0,
        *,
        pretrain_epochs: int = 0,
        validation: str = "mean",
    ):
        super().__init__()
        require_kl_weight(num_data, beta)
        require_integer("KLSchedule", 0, zero_epochs=zero_epochs, warmup=warmup, pretrain_epochs=pretrain_epochs)
        require_choice("KLSchedule", VALIDATIONS, validation=validation)
        self.pretrain_epochs = pretrain_epochs
        self.num_data, self.beta, self.zero_epochs, self.warmup = num_data, beta, zero_epochs, warmup
        self.validation = validation
        self._steps: tuple | None = None  # of `evaluate`: the model's own, and the one that draws
        self._epoch = 0
        self._lost: int | None = None  # the first epoch whose loss was not finite
        self._counted = False  # whether the examples of an epoch of this training were counted

    def weight(self, epoch: int) -> float:
        """Returns the KL weight of an epoch."""
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
        share_state(model)
        prepare_mixtures(model)
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
        self._steps_before = self._count_steps()
        self._set_weight(0)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        if self.pretrain_epochs:
            switch_noise(self.model, on=epoch >= self.pretrain_epochs)
        self._set_weight(epoch)

    def on_test_begin(self, logs=None):
        self._check_epoch()  # before validation resets the metrics
        if self.validation == "draw" and self.model.test_function is not None:  # `fit_many` has a program instead
            if self._steps is None or self._steps[0] is not self.model.test_function:
                self._steps = self.model.test_function, drawing_test_function(self.model)
            self.model.test_function = self._steps[1]

    def on_test_end(self, logs=None):
        if self._steps is not None and self.model.test_function is self._steps[1]:
            self.model.test_function = self._steps[0]

    def on_train_end(self, logs=None):
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
        self._check_epoch()
        if self.weight(epoch) == self.full_weight > 0:
            for posterior in find_random_posteriors(self.model):
                posterior.prune_columns()
        if logs is not None:
            logs["kl"] = float(ops.convert_to_numpy(compiled(self.model, kl)))
            logs["kl_weight"] = self.weight(epoch)
            if self._lost is None and not math.isfinite(logs.get("loss", 0.0)):
                self._lost = epoch

    def _check_epoch(self) -> None:
        """Checks labels, draws and the number of examples of an epoch when its steps are done."""
        require_sound_steps(self.model)
        if not self._counted and not self.model.stop_training:
            self._counted = True
            self._compare_num_data()

    def _compare_num_data(self) -> None:
        # A generator does not know its length before its end.
        steps = self.params["steps"] or self._count_steps() - self._steps_before
        seen = count_examples_of_epoch(self.model)
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
        for posterior in find_random_posteriors(self.model):
            posterior.set_kl_weight(self.weight(epoch))


def take_kl_weight(model: keras.Model, callback: keras.callbacks.Callback) -> None:
    """Makes a callback the one that sets the KL weight in the `fit` that begins."""
    model._kl_callback = callback


def validates_draws(model: keras.Model) -> bool:
    """Returns whether the `fit` that is under way scores validation data with draws."""
    return getattr(getattr(model, "_kl_callback", None), "validation", "mean") == "draw"


def prepare_fit(model: keras.Model, callback: keras.callbacks.Callback) -> None:
    """Raises where a `fit` would train on nonsense, and makes its first step check labels and draws."""
    # Keras gives the model to all callbacks before training begins, so the last one has it.
    if model._kl_callback is not callback:
        raise ValueError(
            f"fit needs one callback that sets the KL weight; got {type(callback).__name__} and "
            f"{type(model._kl_callback).__name__}. Remove one."
        )
    require_activations(model)
    spare_from_decay(model)
    check_first_step(model)
