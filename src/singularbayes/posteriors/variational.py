"""Posteriors of independent scalars with a prior and a family."""

from typing import Any

import keras

from singularbayes.checks import require_positive
from singularbayes.posteriors import families, priors
from singularbayes.posteriors.factor import Factor, Rates
from singularbayes.posteriors.random_posterior import RandomPosterior


class Variational(RandomPosterior):
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
        super().__init__(initializer, kl_weight, **kwargs)
        kind = type(self).__name__
        require_positive(kind, eta=eta, damping=damping, rho_lr=rho_lr)
        self.prior = priors.get_prior(prior)
        if self.prior.by_column and not self.has_columns:
            raise ValueError(f"{self.prior!r} needs a posterior with factors, LowRank or Adapter; got {kind}.")
        self.family = families.get_family(family).name
        self.eta, self.damping, self.rho_lr = float(eta), float(damping), float(rho_lr)
        self.initial_eta = self.eta  # of a random start
        self.rho_initializer = keras.initializers.get(rho_initializer)

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

    # -- for those that inherit ----------------------------------------------------------------------------------------

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
