"""Posteriors of independent scalars with a prior and a family, whose KL is part of the loss: its weight, and seeds."""

import warnings
import weakref
from typing import Any

import keras
from keras import ops

from singularbayes.checks import require_not_negative, require_positive
from singularbayes.posteriors import families, noise, priors, scope
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.factor import Factor, Rates
from singularbayes.posteriors.priors import Prior

_UNSET = -1.0  # the KL weight in the variable, before it is set


class KLGuard(keras.metrics.Metric):
    """Refuses to train without a KL weight before any step: Keras resets the metrics of a model first.

    The check in `next_key` alone would come too late on JAX, where an error inside a step loses the model's weights.
    Keras resets metrics before evaluation too, for which it makes no training step.
    """

    def __init__(self, posterior: "Variational"):
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


class Variational(Posterior):
    """A posterior q of independent scalars in `factors`, whose KL(q ‖ p) to a prior p is part of the loss.

    The arguments below are those of every posterior with random weights.

    Args:
        prior: a prior or its name: "scale_mixture" (the paper's), "normal", "laplace", "anchored".
        family: "gaussian" or "laplace".
        eta: posterior scales start at η times the scale of the means.
        damping: multiplies the scale that the means start with.
        initializer: the start of the mean of W; a layer fills in its `kernel_initializer`, or He for rectified
            activations and Glorot else. An initializer with a variance is variance-matched, any other is taken as W
            itself and split by SVD.
        rho_initializer: the start of ρ instead of η, for example `keras.initializers.RandomUniform(-5, -4)`.
        rho_lr: learning rate of ρ as a multiple of the optimizer's, under Adam-like optimizers.
        kl_weight: weight of this posterior's KL in the loss, where neither `KLSchedule` nor `set_kl` sets it. Only
            these two keep an optimizer's weight decay from the posterior.
    """

    prior: Prior
    kl_scale: Any  # the KL weight as the loss reads it, once built
    loc_lr = 1.0  # learning rate of the means as a multiple of the optimizer's
    has_columns = False  # whether it is W = A Bᵀ, so that a prior can be about its columns
    eta: Any  # as given: a number, or None for that of the class

    def __init__(
        self,
        prior="scale_mixture",
        family="gaussian",
        eta=0.1,
        damping=1.0,
        initializer=None,
        rho_initializer=None,
        rho_lr=1.0,
        kl_weight=None,
        **kwargs,
    ):
        super().__init__(initializer, **kwargs)
        kind = type(self).__name__
        require_positive(kind, eta=eta, damping=damping, rho_lr=rho_lr)
        self.prior = priors.get_prior(prior)
        if self.prior.by_column and not self.has_columns:
            raise ValueError(f"{self.prior!r} needs a posterior with factors, LowRank or Adapter; got {kind}.")
        self.family = families.get_family(family).name
        self.eta, self.damping, self.rho_lr = float(eta), float(damping), float(rho_lr)
        self.initial_eta = self.eta  # of a random start
        self.rho_initializer = keras.initializers.get(rho_initializer)
        if kl_weight is not None:
            require_not_negative(kind, kl_weight=kl_weight)
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

    @property
    def _initializer(self):
        if self.prior.spread is None:
            return super()._initializer
        if self.initializer is not None:
            raise ValueError(
                f"{type(self).__name__} needs initializer or the spread of its prior, not both; got "
                f"initializer={self.initializer!r} and prior={self.prior!r}."
            )
        return keras.initializers.RandomNormal(stddev=self.prior.spread)

    @property
    def draw_size(self):
        return sum(factor.size for factor in self.factors)

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
        """Weights as Keras lists and counts them: without the KL weight, which is a setting."""
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

    def take_kl_weight(self, other: "Variational") -> None:
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

    def _factor(self, name, shape, loc, scale) -> Factor:
        if self.rho_initializer is not None:
            scale = self.rho_initializer
        return Factor(self, name, shape, loc=loc, scale=scale, rates=Rates(self.loc_lr, self.rho_lr))

    def get_config(self):
        rho_initializer = keras.initializers.serialize(self.rho_initializer) if self.rho_initializer else None
        names = ("family", "eta", "damping", "rho_lr", "kl_weight")
        return {
            **super().get_config(),
            "prior": keras.saving.serialize_keras_object(self.prior),
            "rho_initializer": rho_initializer,
            **{name: getattr(self, name) for name in names},
        }
