"""Posteriors whose KL to a prior is part of the loss: the weight of that KL, and the seeds of draws."""

import warnings
import weakref
from typing import Any

import keras
from keras import ops

from singularbayes.checks import require_not_negative
from singularbayes.posteriors import noise, scope
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.priors import Prior

_UNSET = -1.0  # the KL weight in the variable, before it is set


class KLGuard(keras.metrics.Metric):
    """Refuses to train without a KL weight before any step: Keras resets the metrics of a model first.

    The check in `next_key` alone would come too late on JAX, where an error inside a step loses the model's weights.
    Keras resets metrics before evaluation too, for which it makes no training step.
    """

    def __init__(self, posterior: "RandomPosterior"):
        super().__init__(name="kl_guard")
        self.posterior = weakref.ref(posterior)
        self.models: weakref.WeakSet[keras.Model] = weakref.WeakSet()  # that were called with the posterior inside

    def reset_state(self):
        trained = [model for model in self.models if getattr(model, "train_function", None) is not None]
        posterior = self.posterior()
        if not trained or posterior is None:
            return
        try:
            posterior.check_training([getattr(model, "history", None) for model in self.models])
        except ValueError:
            for model in trained:
                model.train_function = None
            raise

    def update_state(self, *args, **kwargs):
        """Nothing to count."""

    def result(self):
        return {}


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
        self.trained = False  # whether a pass has drawn it for training
        self.trains = False  # whether the last pass was one of training: the loss of any other has no KL
        self._fit: Any = None  # a reference to the history of the `fit` that has set the weight until its end
        self._warned: Any = None  # the history of the last `fit` that was told of the weight of a file
        self._guard = KLGuard(self)

    # -- the KL --------------------------------------------------------------------------------------------------------

    def kl(self):
        """Returns KL(q ‖ p) summed over the weights, in nats, as training uses it; of a mixture the mean."""
        return self._mean_kl(factor.kl() for factor in self.factors)

    def kl_bound(self):
        """Returns a closed-form upper bound of the KL, in nats; the KL itself where that is closed form."""
        return self._mean_kl(factor.kl_bound() for factor in self.factors)

    def _mean_kl(self, kls):
        return sum(kls, ops.zeros(())) / self.components

    def kl_exact(self) -> float:
        """Returns the KL in nats in float64 without random numbers: closed form or quadrature."""
        return sum(factor.kl_exact() for factor in self.factors) / self.components

    def certified_kl(self) -> float:
        """Returns an upper bound of the KL in nats, by formula in float64."""
        return float(sum(factor.kl_upper().sum() for factor in self.factors)) / self.components

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

    def set_kl_weight(self, value: float, fit: keras.callbacks.History | None = None) -> None:
        """Sets the weight of this posterior's KL in the loss; where a `fit` is named, until its end."""
        require_not_negative(f"Posterior {self.path or self.name!r}", kl_weight=value)
        if fit is None or self.kl_weight_from_file:
            self.kl_weight_now, self.kl_weight_from_file = float(value) if fit is None else None, False
        self._fit = None if fit is None else weakref.ref(fit)
        if self.built:
            self.kl_scale.assign(value)

    def end_fit(self) -> None:
        """Gives up the weight that a `fit` has set: it is again what it was, or unset; `kl_scale` then keeps it."""
        self._fit = None
        if self.built and self.kl_weight_now is not None:
            self.kl_scale.assign(self.kl_weight_now)

    def give_components(self, other, numbers):
        super().give_components(other, numbers)
        other.take_kl_weight(self)

    def take_kl_weight(self, other: "RandomPosterior") -> None:
        """Takes the KL weight of another posterior, whether it is set or was."""
        self.kl_scale.assign(float(ops.convert_to_numpy(other.kl_scale)))
        self.kl_weight_now, self.kl_weight_from_file = other.kl_weight_now, other.kl_weight_from_file

    def note_pass(self, training) -> None:
        """Notices a call, and whether it trains; a pass of several calls trains if one of them does."""
        self.trains = scope.trains_in_pass(self, training)
        if isinstance(model := scope.entry_layer(), keras.Model):
            self._guard.models.add(model)

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
        if training:
            self._require_kl_weight()
            self.trained = True
        return self.next_seed()

    def next_seed(self):
        return noise.next_key(self.seed_generator)

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

    def weigh(self, kl):
        """Returns the KL's part of the loss from the KL."""
        # Keras computes the loss once before any callback could set the weight.
        torch = keras.backend.backend() == "torch"
        positive = self.kl_scale.value.clamp(min=0.0) if torch else ops.maximum(self.kl_scale, 0.0)
        return positive * kl

    def check_training(self, fits: list) -> None:
        """Raises where training begins, with the history of one of some fits, and the KL weight is not set."""
        if self._fit is not None and self._fit() not in fits:
            self.end_fit()  # of a `fit` that was interrupted
        self._require_kl_weight()
        new = [fit for fit in fits if fit is not None and fit is not self._warned]
        if self.kl_weight_from_file and self._fit is None and new:
            self._warned = new[0]
            weight = float(ops.convert_to_numpy(self.kl_scale))
            warnings.warn(
                f"Training resumes with the KL weight {weight:.3g} that the file of the model holds. Pass "
                "callbacks=[singularbayes.KLSchedule()] to set it for the data of this fit.",
                stacklevel=2,
            )

    def _require_kl_weight(self):
        if self.trainable and self.kl_weight_now is None and self._fit is None:
            raise ValueError(
                f"The KL weight is not set, so training would ignore the prior (posterior {self.path!r}). Pass "
                "callbacks=[singularbayes.KLSchedule()] to fit, or call "
                "singularbayes.set_kl(model, num_data=len(x)) before a loop of your own."
            )
