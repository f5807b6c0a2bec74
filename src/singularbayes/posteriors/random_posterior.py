"""Posteriors whose KL to a prior is part of the loss: the weight of that KL, and the seeds of draws."""

import sys
from abc import abstractmethod
from collections.abc import Callable
from types import FrameType
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_not_negative
from singularbayes.posteriors import noise, scope
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.priors import Prior
from singularbayes.posteriors.step_watch import note_draw, watched_kl

_UNSET = -1.0  # the KL weight in the variable, before it is set
_TRAINING, _TESTING = ("fit", "train_on_batch"), ("evaluate", "test_on_batch")  # methods of Keras


class KLGuard(keras.metrics.Metric):
    """Refuses to train without a KL weight before any step: `fit` and `train_on_batch` reset the metrics first.

    The check in `next_key` alone would come too late on JAX, where an error inside a step loses the model's weights.
    """

    def __init__(self, check):
        super().__init__(name="kl_guard")
        self.check = check
        self.prepare: Callable[[], None] | None = None  # what else comes before a step

    def reset_state(self):
        if training_begins():
            self.check()
        if self.prepare is not None:
            self.prepare()

    def update_state(self, *args, **kwargs):
        """Nothing to count."""

    def result(self):
        return {}


def training_begins() -> bool:
    """Returns whether it is training that resets the metrics; `evaluate` resets them too, and neither tells them."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name not in (*_TRAINING, *_TESTING):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name in _TRAINING


class RandomPosterior(Posterior):
    """A posterior whose KL(q ‖ p) to a prior p is part of the loss: the weight of that KL, and the seeds of its draws.

    Args:
        initializer: see `Posterior`.
        kl_weight: weight of this posterior's KL in the loss, where neither `KLSchedule` nor `set_kl` sets it.
    """

    prior: Prior
    kl_scale: Any  # the KL weight as the loss reads it, once built

    def __init__(self, initializer=None, kl_weight=None, **kwargs):
        super().__init__(initializer, **kwargs)
        if kl_weight is not None:
            require_not_negative(type(self).__name__, kl_weight=kl_weight)
        self.kl_weight = None if kl_weight is None else float(kl_weight)
        self.seed_generator = keras.random.SeedGenerator()
        # None while it is not set. A compiled step cannot look at a variable's value, so `kl_scale` is a copy of this,
        # which stays when the weight is unset.
        self.kl_weight_now = self.kl_weight
        self.kl_weight_from_file = False  # until it is set here
        self.trains = False  # whether the last pass was one of training: the loss of any other has no KL
        self._guard = KLGuard(self._require_kl_weight)

    # -- the KL --------------------------------------------------------------------------------------------------------

    def matrices(self, scalars) -> list:
        """Returns the matrices in an array of all scalars: A and B, or W; none where there are vectors."""
        return []

    def set_penalty(self, penalty: Callable | None) -> None:
        """Adds penalty(means) of every factor to the loss beside the KL; None adds nothing."""
        for factor in self.factors:
            factor.penalty = penalty

    @abstractmethod
    def kl(self):
        """Returns KL(q ‖ p) summed over the weights, in nats, as training uses it."""

    @abstractmethod
    def kl_bound(self):
        """Returns a closed-form upper bound of the KL, in nats; the KL itself where that is closed form."""

    @abstractmethod
    def kl_exact(self) -> float:
        """Returns the KL in nats in float64 without random numbers: closed form or quadrature."""

    @abstractmethod
    def certified_kl(self) -> float:
        """Returns an upper bound of the KL in nats, by formula in float64."""

    @abstractmethod
    def switch_noise(self, on: bool) -> bool:
        """Switches the noise on or off by a shift of ρ, and returns whether it was otherwise.

        When it comes on, the means are the start of the variational part: factors are balanced, which leaves W.
        """

    @abstractmethod
    def restarted_velocities(self, velocities: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the mean square gradients of `random_weights` that fit the means and scales after `switch_noise`."""

    def prune_columns(self) -> None:
        """Switches off what training no longer uses. `KLSchedule` calls it after every epoch with the full weight."""

    @property
    def weights(self):
        """Weights as Keras lists and counts them: without the KL weight, a setting that posteriors may share."""
        return [weight for weight in super().weights if not self.built or weight is not self.kl_scale]

    @property
    def training_weights(self) -> list:
        """The variables that only training needs: the KL weight, what the prior holds, and which columns are used."""
        parts = [part for factor in self.factors for part in (factor.reference, factor.origin, factor.live)]
        return [self.kl_scale, *(part for part in parts if part is not None)]

    def num_switched_off(self) -> int:
        """Returns how many parameters are in the columns that are not used."""
        return sum(factor.num_switched_off() for factor in self.factors)

    def set_kl_weight(self, value: float) -> None:
        """Sets the weight of this posterior's KL in the loss."""
        require_not_negative(f"Posterior {self.path or self.name!r}", kl_weight=value)
        self.kl_weight_now, self.kl_weight_from_file = float(value), False
        if self.built:
            self.kl_scale.assign(value)

    def unset_kl_weight(self) -> None:
        """Makes further training an error until the weight is set again; `kl_scale` keeps what it was."""
        self.kl_weight_now, self.kl_weight_from_file = None, False

    def take_kl_weight(self, other: "RandomPosterior") -> None:
        """Takes the KL weight of another posterior, whether it is set or was."""
        self.kl_scale.assign(float(ops.convert_to_numpy(other.kl_scale)))
        self.kl_weight_now, self.kl_weight_from_file = other.kl_weight_now, other.kl_weight_from_file

    def note_pass(self, training) -> None:
        """Notices a call, and whether it trains; a pass of several calls trains if one of them does."""
        self.trains = scope.trains_in_pass(self, training)

    def load_own_variables(self, store):
        super().load_own_variables(store)
        if self.built and self.kl_weight_now is not None:
            self.kl_scale.assign(self.kl_weight_now)  # not that of the file

    def resume_kl_weight(self) -> None:
        """Sets the KL weight to the one that came from a file, where it is not set."""
        if not self.built or self.kl_weight_now is not None:
            return
        stored = float(ops.convert_to_numpy(self.kl_scale))
        self.kl_weight_now = stored if stored >= 0 else None
        self.kl_weight_from_file = stored >= 0

    # -- draws ---------------------------------------------------------------------------------------------------------

    def next_key(self, training):
        self._note_draw(training)
        return noise.next_key(self.seed_generator)

    def _note_draw(self, training) -> None:
        if training:
            self._require_kl_weight()
            if self.trainable:
                note_draw(self.path)

    # -- for those that inherit ----------------------------------------------------------------------------------------

    def _build_kl_scale(self):
        self.kl_scale = self.add_weight(
            name="kl_scale",
            shape=(),
            initializer=keras.initializers.Constant(_UNSET if self.kl_weight_now is None else self.kl_weight_now),
            trainable=False,
            dtype="float32",
            autocast=False,
        )

    def _weigh(self, kl):
        # Keras computes the loss once before any callback could set the weight.
        torch = keras.backend.backend() == "torch"
        positive = self.kl_scale.value.clamp(min=0.0) if torch else ops.maximum(self.kl_scale, 0.0)
        return positive * watched_kl(kl, self.path)

    def _require_kl_weight(self):
        if self.trainable and self.kl_weight_now is None:
            raise ValueError(
                f"The KL weight is not set, so training would ignore the prior (posterior {self.path!r}). Pass "
                "callbacks=[singularbayes.KLSchedule()] to fit, or call "
                "singularbayes.set_kl(model, num_data=len(x)) before a loop of your own."
            )
