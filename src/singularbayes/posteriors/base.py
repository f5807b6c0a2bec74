"""What a posterior is: a distribution over one weight matrix that gives draws, its mean, its KL and its moments."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.checks import is_integer, require_positive
from singularbayes.posteriors import families, noise, priors, scope
from singularbayes.posteriors.factor import Factor
from singularbayes.posteriors.guard import KLGuard
from singularbayes.posteriors.moments import Entry
from singularbayes.posteriors.repr import call_repr
from singularbayes.posteriors.spectral import first_within

_NEVER_SAID = -1.0


class SharedState:
    """One seed generator and one KL weight for a number of posteriors."""

    def __init__(self, kl_scale: float, members: int):
        self.seed_generator = keras.random.SeedGenerator()
        self.kl_scale = keras.Variable(kl_scale, trainable=False, dtype="float32", autocast=False, name="kl_scale")
        self.members = members


class Posterior(scope.Source, keras.layers.Layer):
    """A distribution over one weight matrix W (rows × columns). It never sees an input.

    A layer holds its own copy, builds it with the matrix's shape and asks it for `sample()`. The arguments below are
    those of every posterior with random weights.

    Args:
        prior: a prior or its name: "scale_mixture" (the paper's, default), "normal", "laplace".
        family: "gaussian" or "laplace".
        eta: posterior scales start at η times the scale of the means.
        damping: multiplies the scale that the means start with.
        initializer: the start of the mean of W; a layer fills in its `kernel_initializer`, or He for rectified
            activations and Glorot else. An initializer with a variance is variance-matched, any other is taken as W
            itself and split by SVD.
        rho_initializer: the start of ρ instead of η, for example `keras.initializers.RandomUniform(-5, -4)`.
        rho_lr: learning rate of ρ as a multiple of the optimizer's, under Adam and its kin.
        kl_weight: weight of this posterior's KL in the loss, where it is not said by `KLSchedule` or `set_kl`.
        kl_rows: estimate the KL from this many random rows a step (unbiased), for very tall matrices.
        clip: draws are scaled down to this spectral norm where they exceed it, A and B each, or W. Means, moments and
            the KL are those before clipping; the KL is an upper bound of that of clipped posterior and prior.
        redraws: a draw that exceeds `clip` is made again up to so often before it is scaled down: truncation by
            rejection. It leaves the shape of the posterior within the limit as it is, and its KL is larger than the one
            that is trained; `certify` takes (KL + h(Z))/Z, Z the probability of a draw within.
    """

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
        kl_rows=None,
        clip=None,
        redraws=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        kind = type(self).__name__
        require_positive(kind, eta=eta, damping=damping, rho_lr=rho_lr)
        if kl_weight is not None and not 0 <= kl_weight < float("inf"):
            raise ValueError(f"{kind} needs kl_weight >= 0 and finite; got kl_weight={kl_weight!r}.")
        if kl_rows is not None and not is_integer(kl_rows):
            raise ValueError(f"{kind} needs kl_rows to be an integer >= 1 or None; got kl_rows={kl_rows!r}.")
        if clip is not None:
            require_positive(kind, clip=clip)
        if not is_integer(redraws, 0) or (redraws and clip is None):
            raise ValueError(
                f"{kind} needs redraws to be an integer >= 0, and above 0 only with clip; got redraws={redraws!r} "
                f"and clip={clip!r}."
            )
        self.clip, self.redraws = None if clip is None else float(clip), int(redraws)
        self.prior = priors.get(prior)
        if self.prior.by_column and not (self.has_columns and kl_rows is None):
            raise ValueError(
                f"{self.prior!r} needs a posterior with factors, LowRank or Adapter, and kl_rows=None; got {kind} with "
                f"kl_rows={kl_rows}."
            )
        self.family = families.get(family).name
        self.eta, self.damping, self.rho_lr = float(eta), float(damping), float(rho_lr)
        self.initializer = keras.initializers.get(initializer)
        self.rho_initializer = keras.initializers.get(rho_initializer)
        self.kl_weight = None if kl_weight is None else float(kl_weight)
        self.kl_rows = None if kl_rows is None else int(kl_rows)
        self.default_initializer = None  # set by the layer; the posterior's own goes first
        self.by_rows = False  # set by layers that only ask for rows: then only those rows are drawn
        self.seed_generator = keras.random.SeedGenerator()
        self.state: SharedState | None = None  # what it shares with others, if it does
        self._kl_said = kl_weight is not None
        self.kl_weight_from_file = False  # until it is set here
        self._pending_weight = kl_weight  # what was said before there is a variable for it
        self._guard = KLGuard(self._require_kl_weight)

    kl_scale: Any  # the weight of its KL in the loss, once built
    has_columns = False  # whether it is W = A Bᵀ, so that a prior can be about its columns

    # -- what each posterior says ------------------------------------------------------------------------------------

    @property
    def factors(self) -> list[Factor]:
        """The arrays of random weights."""
        return []

    @property
    def draw_size(self):
        return sum(factor.size for factor in self.factors)

    def check(self, shape, where: str = "") -> None:
        """Raises unless this posterior fits a weight of that shape, which is `where`; makes nothing."""

    @abstractmethod
    def draw(self, key) -> tuple:
        """Returns the arrays of one draw of W."""

    @abstractmethod
    def weight(self, draw: tuple):
        """Returns the matrix that the arrays of a draw stand for."""

    def whole(self, draw: tuple) -> tuple:
        """Returns the arrays of a draw with no rows left to be made later, as `weight` takes them without `by_rows`."""
        return draw

    def matrices(self, scalars) -> list:
        """Returns the matrices in an array of all scalars: A and B, or W; none where there are vectors."""
        return []

    @abstractmethod
    def mean(self):
        """Returns E[W] as a matrix."""

    @abstractmethod
    def local(self, key):
        """Returns the matrix whose `apply` draws outputs per example instead of weights."""

    @abstractmethod
    def variance(self) -> np.ndarray:
        """Returns Var W_ij for every entry, in closed form and float64."""

    @abstractmethod
    def covariance(self, entry: Entry, other: Entry) -> float:
        """Returns Cov(W_ij, W_kl) for `entry` (i, j) and `other` (k, l), in closed form."""

    @abstractmethod
    def center(self, matrix: np.ndarray) -> None:
        """Moves E[W] to `matrix`, or to its best approximation of this posterior's rank; scales stay."""

    def settle(self) -> None:
        """Fixes what training has decided for good. `KLSchedule` calls it after every epoch with the full weight."""

    # -- what all share ----------------------------------------------------------------------------------------------

    def _within_clip(self, draw: Callable[[Any], tuple], key) -> tuple:
        """Returns the arrays that `draw` makes from a key, none with a spectral norm above `clip`."""
        if self.clip is None:
            return draw(key)
        if self.by_rows:
            raise ValueError(f"clip needs whole draws, and {self.path} draws row by row; got clip={self.clip}.")
        keys = [key, *(noise.split(key, self.redraws) if self.redraws else ())]
        return tuple(first_within(tries, self.clip) for tries in zip(*map(draw, keys), strict=True))

    def sample(self, training=False, estimator="shared"):
        """Returns the weight that a forward pass uses now: a fresh draw, unless a scope fixed a draw or the mean."""
        choice = scope.fixed(self)
        if choice is scope.MEAN:
            return self.mean()
        if choice is not None:
            return self.weight(choice)
        if training:
            self._require_kl_weight()
            if estimator == "local":
                if self.clip is not None:
                    raise ValueError(f'clip needs estimator="shared", which draws weights; got "local" in {self.path}.')
                return self.local(self.seed_generator.next())
        return self.weight(self.draw(self.seed_generator.next()))

    def kl(self):
        """Returns KL(q ‖ p) summed over the weights, in nats, as training uses it."""
        return sum((factor.kl() for factor in self.factors), ops.zeros(()))

    def kl_bound(self):
        """Returns a closed-form upper bound of the KL, in nats; the KL itself where that is closed form."""
        return sum((factor.kl_bound() for factor in self.factors), ops.zeros(()))

    def kl_exact(self) -> float:
        """Returns the KL in nats in float64 without random numbers: closed form or quadrature."""
        return sum(factor.kl_exact() for factor in self.factors)

    def set_kl_weight(self, value: float) -> None:
        """Says the weight of this posterior's KL in the loss."""
        if not 0 <= value < float("inf"):
            raise ValueError(f"The KL weight needs to be >= 0 and finite; got {value!r} for {self.path or self.name}.")
        self._kl_said, self.kl_weight_from_file = True, False
        if self.built:
            self.kl_scale.assign(value)
        else:
            self._pending_weight = float(value)

    def join(self, state: "SharedState") -> None:
        """Takes seeds and the KL weight from `state` from now on, instead of variables of its own."""
        variables = self._non_trainable_variables
        place = [variable is self.kl_scale for variable in variables].index(True)
        self._tracker.unlock()
        for own in (self.seed_generator, self.kl_scale):
            self._tracker.untrack(own)
        self.seed_generator, self.kl_scale, self.state = state.seed_generator, state.kl_scale, state
        self._tracker.lock()
        variables.insert(place, variables.pop())  # files hold a layer's variables by their position

    def get_config(self):
        return {
            **super().get_config(),
            "prior": keras.saving.serialize_keras_object(self.prior),
            "family": self.family,
            "eta": self.eta,
            "damping": self.damping,
            "initializer": keras.initializers.serialize(self.initializer) if self.initializer else None,
            "rho_initializer": keras.initializers.serialize(self.rho_initializer) if self.rho_initializer else None,
            "rho_lr": self.rho_lr,
            "kl_weight": self.kl_weight,
            "kl_rows": self.kl_rows,
            "clip": self.clip,
            "redraws": self.redraws,
        }

    def __repr__(self):
        return call_repr(self, Posterior)

    def load_own_variables(self, store):
        super().load_own_variables(store)
        self._kl_said = float(ops.convert_to_numpy(self.kl_scale)) >= 0
        self.kl_weight_from_file = self._kl_said and self.kl_weight is None

    @property
    def _initializer(self):
        return self.initializer or self.default_initializer

    def _build_kl_scale(self):
        self.kl_scale = self.add_weight(
            name="kl_scale",
            shape=(),
            initializer=keras.initializers.Constant(
                _NEVER_SAID if self._pending_weight is None else self._pending_weight
            ),
            trainable=False,
            dtype="float32",
            autocast=False,
        )

    def _factor(self, name, shape, loc, scale) -> Factor:
        if self.rho_initializer is not None:
            # A copy, because a reused initializer repeats itself.
            scale = type(self.rho_initializer).from_config(self.rho_initializer.get_config())
        return Factor(
            self,
            name,
            shape,
            loc=loc,
            scale=scale,
            family=self.family,
            prior=self.prior,
            rho_lr=self.rho_lr,
            weigh=self._weigh,
            kl_rows=self.kl_rows,
        )

    def _weigh(self, kl):
        # Below 0 the weight was never said. Keras asks for the loss once before any callback could say it.
        return ops.maximum(self.kl_scale, 0.0) * kl

    def _require_kl_weight(self):
        if self._kl_said or not self.random or not self.trainable:
            return
        raise ValueError(
            "The loss needs the weight of the KL, and it was never said: without it the prior would be ignored. Got "
            f"none for {self.path}. Pass callbacks=[singularbayes.KLSchedule(num_data=len(x))] "
            "to fit, or call singularbayes.set_kl(model, num_data=len(x)) before `evaluate` or a loop of your own."
        )
