"""One array of independent variational weights."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import families, fused, initializers, noise, priors
from singularbayes.posteriors.families import inverse_softplus, softplus
from singularbayes.posteriors.noise import one_program
from singularbayes.posteriors.prior_memory import WORDS, Origin, PriorMemory, checksum

RHO_SHIFT = 30.0  # by which ρ is lower while noise is off: scales are 1e-13 of what they were
_OFF = -20.0  # the mean ρ below which noise is off; scales of 2e-9 are nobody's choice


def halves(x, at: int, axis: int = 0):
    """Returns the entries before `at` along an axis, and the others."""
    if keras.backend.backend() == "torch":
        return x.tensor_split([at], dim=axis)  # Keras's split needs data, which torch has not while shapes are sought
    return ops.split(x, [at], axis=axis)


def _reshaped(x, shape: tuple[int, ...]):
    """Returns an array in another shape; on torch without what Keras does around it."""
    if keras.backend.backend() == "torch":
        return ops.convert_to_tensor(x).reshape(shape)
    return ops.reshape(x, shape)


def standardised(loc, scale, reference):
    """Returns (loc − centre)/width and scale/width, which a prior with centres looks at; else both as they are."""
    if reference is None:
        return loc, scale
    centre, width = reference[0], reference[1]
    return (loc - centre) / width, scale / width


class Scalars(ABC):
    """Independent scalars w ~ family(loc, scale) of one array, however loc and scale are stored.

    The KL is a regularizer of the one variable `values`: Keras adds it to the loss once, however often the layer is
    called. It is 0 unless the pass trains, so that the loss of validation data is the compiled one.

    Args:
        layer: the Keras layer that owns the variable.
        initializer: gives the variable's start from its shape and type.
        stored: shape of the variable.
        weigh: gives the KL's part of the loss from the KL.
        kl_rows: estimate the KL from this many random rows; None takes all rows.
    """

    def __init__(self, layer, name, shape, *, stored, initializer, family, prior, rates, weigh, kl_rows=None):
        self.shape, self.rates, self.kl_rows = tuple(shape), rates, kl_rows
        self.family, self.prior = families.get_family(family), priors.get_prior(prior)
        self.size = math.prod(self.shape)
        self.penalty: Any = None  # of the means, added to the loss beside the KL
        self.kl_of_draw: Any = None  # the KLs of a joint draw and the number of this one, until the loss has it
        self.live: Any = None  # 1 for the columns that are used and 0 for the others; None: all are
        self._next_key = lambda: noise.next_key(layer.seed_generator)
        self.values = layer.add_weight(
            name=name,
            shape=stored,
            initializer=initializers.Given(initializer),
            regularizer=lambda _: self._regularizer(weigh) if layer.trains else ops.zeros(()),
            dtype="float32",
            autocast=False,
        )
        self.reference: Any = self._add_reference(layer, name) if self.prior.has_centres else None
        self.memory: Any = None if self.reference is None else self._add_memory(layer, name)

    def _regularizer(self, weigh):
        kl = weigh(self._kl_of_step())
        return kl if self.penalty is None else kl + self.penalty(self.loc)

    def _kl_of_step(self):
        """Returns the KL with the noise of the draw that this step has made, where that was a joint one."""
        kls, self.kl_of_draw = self.kl_of_draw, None
        found = kls[0].get(kls[1], self.values.value) if kls is not None else None
        return self.kl() if found is None else found

    @property
    def has_joint_kl(self) -> bool:
        """Whether draw and KL are formulas that `fused.gaussian_arrays` has."""
        plain = self.reference is None and self.live is None and (self.kl_rows or self.shape[0]) >= self.shape[0]
        return plain and self.family.name == "gaussian" and fused.has_kl_formula(self.prior)

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

    def _add_memory(self, layer, name):
        """Returns what the prior remembers, see `PriorMemory`; at first only what it was built from."""
        given = any(map(initializers.has_values_of_its_own, (layer._initializer, layer.rho_initializer)))
        if initializers.has_values_of_its_own(layer._initializer) and not layer.adapts:  # there it is W₀ alone
            self.prior.require_anchor(self.values.path, "start")
        words = PriorMemory(Origin.GIVEN if given else Origin.INITIAL).words()

        def start(_, dtype=None):
            return ops.concatenate([self._checksums(), ops.convert_to_tensor(words, dtype)])

        return layer.add_weight(
            name=f"{name}_prior_memory",
            shape=(WORDS,),
            initializer=initializers.Given(start),
            trainable=False,
            dtype="int32",
            autocast=False,
        )

    def _checksums(self):
        return ops.stack([checksum(self.reference.value), checksum(self.values.value)])

    @abstractmethod
    def _flat(self):
        """Returns loc and scale of all scalars, (size,): loops over one long axis vectorise, over short rows not."""

    @abstractmethod
    def _rows(self, ids):
        """Returns loc and scale of some rows."""

    @abstractmethod
    def _range(self, start: int, stop: int):
        """Returns loc and scale of the rows `start` … `stop` − 1."""

    @property
    @abstractmethod
    def loc(self):
        """The means."""

    @property
    @abstractmethod
    def scale(self):
        """The scales, above 0."""

    @property
    @abstractmethod
    def rho(self):
        """ρ of all scales, however they are tied."""

    @abstractmethod
    def set_loc(self, loc) -> None:
        """Moves the means to `loc` and leaves the scales."""

    @abstractmethod
    def shift_rho(self, by: float) -> None:
        """Adds a number to every ρ."""

    def noise_is_off(self) -> bool:
        """Whether ρ is shifted so far down that draws are the mean."""
        return float(ops.convert_to_numpy(self.rho).mean()) < _OFF

    def restarted_velocity(self, velocity: np.ndarray) -> np.ndarray:
        """Returns the mean square gradient of `values` for new means and scales from that of the means before.

        That of all means is that of each, because balancing has turned them; ∂L/∂v = ∂L/∂w · rates.loc and
        ∂L/∂u = ∂L/∂w · ε · sigmoid(ρ) · rates.rho with E[ε²] = 1 give that of u. Zeros would make Adam's
        first hundred steps up to 6 times as large.
        """
        square = velocity.reshape(-1)[: self.size].mean()
        slope = self.rates.rho / self.rates.loc / (1 + np.exp(-ops.convert_to_numpy(self.rho).reshape(-1)))
        fitted = np.concatenate([np.full(self.size, square), square * slope**2])
        return fitted.reshape(velocity.shape).astype("float32")

    @property
    def variance(self):
        return self.family.variance(self.scale)

    def sample(self, key, *examples):
        """Returns the draw that `key` names, or as many independent ones as `examples` gives, on leading axes."""
        loc, scale = self._flat()
        w = loc + scale * self.family.noise((*examples, self.size), key)
        return ops.reshape(w, (*examples, *self.shape))

    def sample_rows(self, key, ids):
        """Returns the rows `ids` of the draw that `key` names, without making the others."""
        loc, scale = self._rows(ids)
        return loc + scale * self._row_noise(key, ids)

    def sample_range(self, key, start: int, stop: int):
        """Returns the rows `start` … `stop` − 1 of the same draw."""
        loc, scale = self._range(start, stop)
        return loc + scale * self._row_noise(key, ops.arange(start, stop))

    def _row_noise(self, key, ids):
        return self.family.quantile(noise.uniform_rows(key, ids, self.shape[-1]))

    def kl(self):
        """Returns KL(q ‖ p) over all scalars as training uses it: exact, bounded or estimated without bias."""
        if self.prior.by_column:
            return ops.sum(self._used(self.prior.each_kl(self.family, self.loc, self.scale, ops)))
        if self.kl_rows is None or self.kl_rows >= self.shape[0]:
            return self._whole_kl()
        # Rows drawn with replacement, each weighed by rows / kl_rows: unbiased.
        ids = noise.integers((self.kl_rows,), self.shape[0], self._next_key())
        reference = None if self.reference is None else ops.take(self.reference, ids, axis=1)
        loc, scale = self._rows(ids)
        loc, scale = standardised(loc, scale, reference)
        return self.shape[0] / self.kl_rows * self.prior.kl(self.family, loc, scale, self._next_key)

    def _whole_kl(self):
        """Returns the KL of all rows."""
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

    def set_prior(self, centre: np.ndarray, width: np.ndarray, memory: PriorMemory) -> None:
        """Gives a prior with centres these centres and widths, and the memory of what they were learned on."""
        self.reference.assign(np.stack([centre, np.broadcast_to(width, self.shape)]).astype("float32"))
        self.memory.assign(np.concatenate([ops.convert_to_numpy(self._checksums()), memory.words()]))

    def start_at(self, loc: np.ndarray) -> None:
        """Moves the means to given weights, and with them the centres of a prior whose anchor is the start."""
        self.prior.require_anchor(self.values.path, "random", "start")
        self.set_loc(loc)
        if self.reference is not None and self.prior.anchor == "start":
            memory = self.prior_memory()
            width = ops.convert_to_numpy(self.reference)[1] if self.prior.relative else np.array(1.0)
            self.set_prior(loc, width, replace(memory, origin=memory.origin | Origin.START))

    def prior_memory(self) -> PriorMemory:
        """Returns what a prior with centres remembers."""
        return PriorMemory.from_words(ops.convert_to_numpy(self.memory)[2:])

    def unchanged(self) -> tuple[bool, bool]:
        """Returns whether a prior with centres, and the posterior, are as they were when the memory was written."""
        prior, posterior = ops.convert_to_numpy(self._checksums()) == ops.convert_to_numpy(self.memory)[:2]
        return bool(prior), bool(posterior)


class Factor(Scalars):
    """Every scalar has a loc and a scale = softplus(ρ) of its own.

    `values` stacks v and u, with loc = rates.loc · v and ρ = rates.rho · u.

    Args:
        loc: initializer of the means; scale: where the scales start (a number, or an initializer of ρ).
        **kwargs: arguments of `Scalars`.
    """

    def __init__(self, layer, name, shape, *, loc, scale, rates, **kwargs):
        shape = tuple(shape)

        def initializer(_, dtype=None):
            start = loc(shape, dtype)
            if callable(scale):
                return ops.stack([start / rates.loc, scale(shape, dtype) / rates.rho])
            return _above_constant(start, inverse_softplus(scale), rates)

        super().__init__(layer, name, shape, stored=(2, *shape), initializer=initializer, rates=rates, **kwargs)

    def _parameters(self, values):
        """Returns loc and scale from stacked values: all of them, or those of some rows."""
        return fused.loc_and_scale(values, self.rates)

    def _stacked(self):
        return _reshaped(self.values, (2, self.size))

    def _flat(self):
        return self._parameters(self._stacked())

    def sample(self, key, *examples):
        if examples:
            return super().sample(key, *examples)
        return _reshaped(fused.draw(self.family, self._stacked(), self.rates, key), self.shape)

    def _whole_kl(self):
        if self.reference is not None:
            return super()._whole_kl()
        return fused.kl(self.prior, self.family, self._stacked(), self.rates, self._next_key)

    def _rows(self, ids):
        return self._parameters(ops.take(self.values, ids, axis=1))

    def _range(self, start, stop):
        return self._parameters(self.values[:, start:stop])

    @property
    def loc(self):
        return _loc(ops.convert_to_tensor(self.values), self.rates)

    @property
    def rho(self):
        return _rho(ops.convert_to_tensor(self.values), self.rates)

    @property
    def scale(self):
        return softplus(self.rho)

    def set(self, loc: np.ndarray, scale: np.ndarray) -> None:
        """Moves means and scales; softplus of no number is 0."""
        scale = np.maximum(scale, 1e-30)
        rho = scale + np.log(-np.expm1(-scale))
        self.values.assign(np.stack([loc / self.rates.loc, rho / self.rates.rho]).astype("float32"))

    def set_loc(self, loc) -> None:
        values = np.array(ops.convert_to_numpy(self.values))  # in NumPy: JAX would compile it for every shape
        values[0] = ops.convert_to_numpy(loc) / self.rates.loc
        self.values.assign(values)

    def shift_rho(self, by) -> None:
        self.values.assign(ops.stack([self.values[0], self.values[1] + by / self.rates.rho]))


@one_program(1, 2)
def _above_constant(loc, rho: float, rates: fused.Rates):
    return ops.stack([loc / rates.loc, rho * ops.ones_like(loc) / rates.rho])


@one_program(1)
def _loc(values, rates: fused.Rates):
    return rates.loc * values[0]


@one_program(1)
def _rho(values, rates: fused.Rates):
    return rates.rho * values[1]
