"""One array of independent variational weights, those of all components of a mixture."""

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


@one_program(1, 2)
def loc_and_scale(values, rates: Rates, axis: int = 0):
    """Returns loc and scale from values that are stacked along an axis."""
    # The gradient of a split is one concatenation; that of two slices is two padded arrays and their sum.
    v, u = ops.split(values, 2, axis=axis)
    return rates.loc * ops.squeeze(v, axis), softplus(rates.rho * ops.squeeze(u, axis))


def halves(x, at: int, axis: int = 0):
    """Returns the entries before `at` along an axis, and the others."""
    if keras.backend.backend() == "torch":
        return x.tensor_split([at], dim=axis)  # Keras's split needs data, which torch has not while shapes are sought
    return ops.split(x, [at], axis=axis)


def standardised(loc, scale, reference):
    """Returns (loc − centre)/width and scale/width, which a prior with centres looks at; else both as they are."""
    if reference is None:
        return loc, scale
    centre, width = reference
    return (loc - centre) / width, scale / width


class Factor:
    """Independent scalars w ~ family(loc, scale) of one array, with scale = softplus(ρ).

    The variable `values` stacks v and u, with loc = rates.loc · v and ρ = rates.rho · u; it is (2, …) for one component
    and (components, 2, …) for several. The KL is its regularizer: Keras adds it to the loss once, however often the
    layer is called. It is 0 unless the pass trains, so that the loss of validation data is the compiled one.

    Args:
        owner: the posterior that owns the variable.
        shape: of the array of one component.
        loc: gives the start of the means of one component; scale: where the scales start (a number, or an initializer
            of ρ).
    """

    def __init__(self, owner, name, shape, *, loc, scale, rates):
        self.components, self.rates = owner.components, rates
        self.family, self.prior = families.get_family(owner.family), priors.get_prior(owner.prior)
        self.one = tuple(shape)  # component's shape
        self.size = math.prod(self.one)
        self.shape = owner.stack(self.one)
        self.axis = len(self.shape) - len(self.one)  # along which values are stacked
        self.live: Any = None  # 1 for the columns that are used and 0 for the others; None: all are
        self._next_key = lambda: noise.next_key(owner.seed_generator)

        def start(_, dtype=None):
            mean = initializers.fresh_copy(loc)(self.one, dtype)
            if callable(scale):
                return ops.stack([mean / rates.loc, initializers.fresh_copy(scale)(self.one, dtype) / rates.rho])
            return _above_constant(mean, inverse_softplus(scale), rates)

        def regularizer(_):
            return owner.weigh(self.kl() / self.components) if owner.trains else ops.zeros(())

        self.values = owner.add_array(name, (2, *self.one), start, regularizer=regularizer)
        self.reference: Any = None
        self.origin: Any = None
        if self.prior.has_centres:
            self._add_centres(owner, name)

    def _add_centres(self, owner, name) -> None:
        """Makes the centres and widths of a prior, initial means, and 1 or initial scales, and where they come from."""
        own_values = map(initializers.has_values_of_its_own, (owner._initializer, owner.rho_initializer))
        if initializers.has_values_of_its_own(owner._initializer) and not owner.adapts:  # there it is W₀ alone
            self.prior.require_anchor(self.values.path, "start")

        def start(_, dtype=None):
            width = ops.cast(self.scale, dtype) if self.prior.relative else ops.ones(self.shape, dtype)
            return ops.stack([ops.cast(self.loc, dtype), width], axis=self.axis)

        frozen = {"trainable": False, "autocast": False}
        self.reference = owner.add_weight(
            name=f"{name}_prior",
            shape=self.values.shape,
            initializer=initializers.Given(start),
            dtype="float32",
            **frozen,
        )
        origin = keras.initializers.Constant(int(Origin.GIVEN if any(own_values) else Origin.INITIAL))
        self.origin = owner.add_weight(
            name=f"{name}_prior_origin", shape=(), initializer=origin, dtype="int32", **frozen
        )

    # -- means and scales ----------------------------------------------------------------------------------------------

    def _flat(self, component=None):
        """Returns loc and scale, (…, size): loops over one long axis vectorise, over short rows not."""
        values, lead = self.values.value, self.shape[: self.axis]
        if component is not None and lead:
            values, lead = ops.take(values, component, axis=0), ()
        return loc_and_scale(ops.reshape(values, (*lead, 2, self.size)), self.rates, len(lead))

    @property
    def loc(self):
        """The means."""
        return _loc(ops.convert_to_tensor(self.values), self.rates, self.axis)

    @property
    def rho(self):
        """ρ of all scales."""
        return _rho(ops.convert_to_tensor(self.values), self.rates, self.axis)

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
        stacked = np.stack([loc / self.rates.loc, rho / self.rates.rho], axis=self.axis)
        self.values.assign(stacked.astype("float32"))

    def set_loc(self, loc) -> None:
        """Moves the means to `loc` and leaves the scales."""
        values = np.array(ops.convert_to_numpy(self.values))  # in NumPy: JAX would compile it for every shape
        np.moveaxis(values, self.axis, 0)[0] = ops.convert_to_numpy(loc) / self.rates.loc
        self.values.assign(values)

    def sample(self, key, component=None):
        """Returns the draw that `key` names, of all components or of one."""
        loc, scale = self._flat(component)
        drawn = loc + scale * self.family.noise(tuple(loc.shape), key)
        return ops.reshape(drawn, self.shape if component is None else self.one)

    # -- the KL: of all components together ----------------------------------------------------------------------------

    def kl(self):
        """Returns KL(q ‖ p) over all scalars as training uses it: exact, bounded or estimated without bias."""
        if self.prior.by_column:
            return ops.sum(self._used(self.prior.each_kl(self.family, self.loc, self.scale, ops)))
        return self.prior.kl(self.family, *self._standardised(), self._next_key)

    def kl_bound(self):
        """Returns the closed-form upper bound of the KL (the KL itself where the prior has one)."""
        if self.prior.by_column:
            return self.kl()
        return self.prior.kl_bound(self.family, *self._standardised())

    def _standardised(self) -> tuple[Any, Any]:
        """Returns loc and scale, (…, size), as a prior with centres sees them."""
        loc, scale = self._flat()
        if self.reference is None:
            return loc, scale
        flat = ops.reshape(self.reference, (*self.shape[: self.axis], 2, self.size))
        return standardised(loc, scale, (flat[..., 0, :], flat[..., 1, :]))

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
        off = math.prod(self.live.shape) - int(ops.convert_to_numpy(self.live).sum())
        return off * math.prod(self.values.shape) // math.prod(self.live.shape)

    def float64_values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Returns means, scales and, for a prior with centres, its centres and widths stacked in front; in float64."""
        loc, scale = (ops.convert_to_numpy(v).astype("float64") for v in (self.loc, self.scale))
        if self.reference is None:
            return loc, scale, None
        return loc, scale, np.moveaxis(ops.convert_to_numpy(self.reference).astype("float64"), self.axis, 0)

    # -- a prior with centres ------------------------------------------------------------------------------------------

    def set_prior(self, centre: np.ndarray, width: np.ndarray, origin: Origin) -> None:
        """Gives a prior with centres these centres and widths, and adds where they come from."""
        stacked = np.stack([centre, np.broadcast_to(width, self.shape)], axis=self.axis)
        self.reference.assign(stacked.astype("float32"))
        self.origin.assign(int(self.prior_origin() | origin))

    def start_at(self, loc: np.ndarray) -> None:
        """Moves the means to given weights, and with them the centres of a prior whose anchor is the start."""
        self.prior.require_anchor(self.values.path, "random", "start")
        self.set_loc(loc)
        if self.reference is not None and self.prior.anchor == "start":
            _, _, reference = self.float64_values()
            assert reference is not None
            self.set_prior(loc, reference[1] if self.prior.relative else np.array(1.0), Origin.START)

    def prior_origin(self) -> Origin:
        """Returns where the centres of the prior come from, where it has some."""
        return Origin.INITIAL if self.origin is None else Origin(int(ops.convert_to_numpy(self.origin)))


@one_program(1, 2)
def _above_constant(loc, rho: float, rates: Rates):
    return ops.stack([loc / rates.loc, rho * ops.ones_like(loc) / rates.rho])


@one_program(1, 2)
def _loc(values, rates: Rates, axis: int):
    return rates.loc * (values[0] if axis == 0 else values[:, 0])


@one_program(1, 2)
def _rho(values, rates: Rates, axis: int):
    return rates.rho * (values[1] if axis == 0 else values[:, 1])
