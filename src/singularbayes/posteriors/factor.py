"""One array of independent variational weights."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import families, initializers, noise, priors
from singularbayes.posteriors.families import inverse_softplus, softplus
from singularbayes.posteriors.noise import one_program
from singularbayes.posteriors.priors import Origin


class Rates(NamedTuple):
    """Learning rates of means and of ρ as multiples of the optimizer's.

    Adam's step does not depend on the gradient's scale, so storing loc / rates.loc trains loc at that rate.
    """

    loc: float = 1.0
    rho: float = 1.0


@one_program(1)
def loc_and_scale(values, rates: Rates):
    """Returns loc and scale from stacked values of any shape (2, …)."""
    # The gradient of a split is one concatenation; that of two slices is two padded arrays and their sum.
    v, u = ops.split(values, 2, axis=0)
    return rates.loc * ops.squeeze(v, 0), softplus(rates.rho * ops.squeeze(u, 0))


def halves(x, at: int, axis: int = 0):
    """Returns the entries before `at` along an axis, and the others."""
    if keras.backend.backend() == "torch":
        return x.tensor_split([at], dim=axis)  # Keras's split needs data, which torch has not while shapes are sought
    return ops.split(x, [at], axis=axis)


def standardised(loc, scale, reference):
    """Returns (loc − centre)/width and scale/width, which a prior with centres looks at; else both as they are."""
    if reference is None:
        return loc, scale
    centre, width = reference[0], reference[1]
    return (loc - centre) / width, scale / width


class Factor:
    """Independent scalars w ~ family(loc, scale) of one array, with scale = softplus(ρ).

    The variable `values` stacks v and u, with loc = rates.loc · v and ρ = rates.rho · u. The KL is its regularizer:
    Keras adds it to the loss once, however often the layer is called. It is 0 unless the pass trains, so that the loss
    of validation data is the compiled one.

    Args:
        layer: the Keras layer that owns the variable.
        loc: initializer of the means; scale: where the scales start (a number, or an initializer of ρ).
        weigh: gives the KL's part of the loss from the KL.
    """

    def __init__(self, layer, name, shape, *, loc, scale, family, prior, rates, weigh):
        self.shape, self.rates = tuple(shape), rates
        self.family, self.prior = families.get_family(family), priors.get_prior(prior)
        self.size = math.prod(self.shape)
        self.live: Any = None  # 1 for the columns that are used and 0 for the others; None: all are
        self._next_key = lambda: noise.next_key(layer.seed_generator)

        def initializer(_, dtype=None):
            start = loc(self.shape, dtype)
            if callable(scale):
                return ops.stack([start / rates.loc, scale(self.shape, dtype) / rates.rho])
            return _above_constant(start, inverse_softplus(scale), rates)

        self.values = layer.add_weight(
            name=name,
            shape=(2, *self.shape),
            initializer=initializers.Given(initializer),
            regularizer=lambda _: self._regularizer(weigh) if layer.trains else ops.zeros(()),
            dtype="float32",
            autocast=False,
        )
        self.reference: Any = self._add_reference(layer, name) if self.prior.has_centres else None
        self.origin: Any = None if self.reference is None else self._add_origin(layer, name)  # of the centres

    def _regularizer(self, weigh):
        kl = weigh(self.kl())
        return kl

    def _add_reference(self, layer, name):
        """Returns centres and widths of a prior that has them, stacked: initial means, and 1 or initial scales."""

        def start(_, dtype=None):
            width = ops.cast(self.scale, dtype) if self.prior.relative else ops.ones(self.shape, dtype)
            return ops.stack([ops.cast(self.loc, dtype), width])

        return layer.add_weight(
            name=f"{name}_prior",
            shape=(2, *self.shape),
            initializer=initializers.Given(start),
            trainable=False,
            dtype="float32",
            autocast=False,
        )

    def _add_origin(self, layer, name):
        """Returns where centres and widths come from, an integer variable: what saves or copies them keeps it."""
        given = any(map(initializers.has_values_of_its_own, (layer._initializer, layer.rho_initializer)))
        if initializers.has_values_of_its_own(layer._initializer) and not layer.adapts:  # there it is W₀ alone
            self.prior.require_anchor(self.values.path, "start")
        return layer.add_weight(
            name=f"{name}_prior_origin",
            shape=(),
            initializer=keras.initializers.Constant(Origin.GIVEN if given else Origin.INITIAL),
            trainable=False,
            dtype="int32",
            autocast=False,
        )

    # -- means and scales ----------------------------------------------------------------------------------------------

    def _flat(self):
        """Returns loc and scale of all scalars, (size,): loops over one long axis vectorise, over short rows not."""
        return loc_and_scale(ops.reshape(self.values, (2, self.size)), self.rates)

    @property
    def loc(self):
        """The means."""
        return _loc(ops.convert_to_tensor(self.values), self.rates)

    @property
    def rho(self):
        """ρ of all scales."""
        return _rho(ops.convert_to_tensor(self.values), self.rates)

    @property
    def scale(self):
        """The scales, above 0."""
        return softplus(self.rho)

    @property
    def variance(self):
        return self.family.variance(self.scale)

    def set(self, loc: np.ndarray, scale: np.ndarray) -> None:
        """Moves means and scales; softplus of no number is 0."""
        scale = np.maximum(scale, 1e-30)
        rho = scale + np.log(-np.expm1(-scale))
        self.values.assign(np.stack([loc / self.rates.loc, rho / self.rates.rho]).astype("float32"))

    def set_loc(self, loc) -> None:
        """Moves the means to `loc` and leaves the scales."""
        values = np.array(ops.convert_to_numpy(self.values))  # in NumPy: JAX would compile it for every shape
        values[0] = ops.convert_to_numpy(loc) / self.rates.loc
        self.values.assign(values)

    def sample(self, key):
        """Returns the draw that `key` names."""
        loc, scale = self._flat()
        return ops.reshape(loc + scale * self.family.noise((self.size,), key), self.shape)

    # -- the KL --------------------------------------------------------------------------------------------------------

    def kl(self):
        """Returns KL(q ‖ p) over all scalars as training uses it: exact, bounded or estimated without bias."""
        if self.prior.by_column:
            return ops.sum(self._used(self.prior.each_kl(self.family, self.loc, self.scale, ops)))
        reference = None if self.reference is None else ops.reshape(self.reference, (2, self.size))
        loc, scale = self._flat()
        loc, scale = standardised(loc, scale, reference)
        return self.prior.kl(self.family, loc, scale, self._next_key)

    def kl_bound(self):
        """Returns the closed-form upper bound of the KL (the KL itself where the prior has one)."""
        if self.prior.by_column:
            return self.kl()
        return self.prior.kl_bound(self.family, *standardised(self.loc, self.scale, self.reference))

    def kl_exact(self) -> float:
        """Returns the KL in float64 without random numbers: closed form or quadrature."""
        loc, scale, reference = self.float64_values()
        each = self.prior.kl_exact(self.family, *standardised(loc, scale, reference))
        return float((each if self.live is None else each * ops.convert_to_numpy(self.live)).sum())

    def kl_upper(self) -> np.ndarray:
        """Returns an upper bound of the KL of every scalar, or column, in float64, by formula."""
        return self.prior.kl_upper(self.family, *standardised(*self.float64_values()))

    def _used(self, columns):
        """Returns values of the columns, 0 for those that are not used."""
        return columns if self.live is None else columns * self.live

    def num_switched_off(self) -> int:
        """Returns how many parameters are in the columns that are not used."""
        if self.live is None:
            return 0
        columns = self.live.shape[0] - int(ops.convert_to_numpy(self.live).sum())
        return columns * math.prod(self.values.shape) // self.live.shape[0]

    def float64_values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Returns means, scales and, for a prior with centres, its centres and widths stacked; in float64."""
        loc, scale = (ops.convert_to_numpy(v).astype("float64") for v in (self.loc, self.scale))
        return loc, scale, None if self.reference is None else ops.convert_to_numpy(self.reference).astype("float64")

    # -- a prior with centres ------------------------------------------------------------------------------------------

    def set_prior(self, centre: np.ndarray, width: np.ndarray, origin: Origin) -> None:
        """Gives a prior with centres these centres and widths, and adds where they come from."""
        self.reference.assign(np.stack([centre, np.broadcast_to(width, self.shape)]).astype("float32"))
        self.origin.assign(int(self.prior_origin() | origin))

    def start_at(self, loc: np.ndarray) -> None:
        """Moves the means to given weights, and with them the centres of a prior whose anchor is the start."""
        self.prior.require_anchor(self.values.path, "random", "start")
        self.set_loc(loc)
        if self.reference is not None and self.prior.anchor == "start":
            width = ops.convert_to_numpy(self.reference)[1] if self.prior.relative else np.array(1.0)
            self.set_prior(loc, width, Origin.START)

    def prior_origin(self) -> Origin:
        """Returns where the centres of the prior come from, where it has some."""
        return Origin.INITIAL if self.origin is None else Origin(int(ops.convert_to_numpy(self.origin)))


@one_program(1, 2)
def _above_constant(loc, rho: float, rates: Rates):
    return ops.stack([loc / rates.loc, rho * ops.ones_like(loc) / rates.rho])


@one_program(1)
def _loc(values, rates: Rates):
    return rates.loc * values[0]


@one_program(1)
def _rho(values, rates: Rates):
    return rates.rho * values[1]
