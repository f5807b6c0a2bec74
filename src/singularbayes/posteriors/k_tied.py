"""Independent entries of W whose scales are a product of k-column factors (Swiatkowski et al. 2020)."""

import math

import keras
from keras import ops

from singularbayes.posteriors import initializers
from singularbayes.posteriors.factor import Scalars, halves
from singularbayes.posteriors.families import softplus
from singularbayes.posteriors.full_rank import Entrywise
from singularbayes.posteriors.fused import Rates
from singularbayes.posteriors.product import checked_rank


class TiedScalars(Scalars):
    """Scalars with means of their own and scales U Vᵀ, where U (rows × k) and V (columns × k) are softplus(ρ).

    One flat variable holds the means, then u above v, with ρ = rates.rho · u;
    it has rows · columns + k (rows + columns) values.

    Args:
        loc: initializer of the means; rho: gives the start of ρ, (rows + columns, k).
        **kwargs: arguments of `Scalars`.
    """

    def __init__(self, layer, name, shape, k, *, loc, rho, rates, **kwargs):
        rows, columns = self._sizes = tuple(shape)
        self.k = k

        def initializer(_, dtype=None):
            start = rho((rows + columns, k), dtype) / rates.rho
            return ops.concatenate([ops.reshape(loc((rows, columns), dtype), (-1,)), ops.reshape(start, (-1,))])

        stored = (rows * columns + k * (rows + columns),)
        super().__init__(layer, name, shape, stored=stored, initializer=initializer, rates=rates, **kwargs)

    def _parts(self):
        """Returns the means (size,), U and V."""
        loc, tied = halves(ops.convert_to_tensor(self.values), self.size)
        u, v = halves(softplus(self.rates.rho * ops.reshape(tied, (-1, self.k))), self._sizes[0])
        return loc, u, v

    def _flat(self):
        loc, u, v = self._parts()
        return loc, ops.reshape(ops.matmul(u, ops.transpose(v)), (-1,))

    def _rows(self, ids):
        loc, u, v = self._parts()
        loc = ops.take(ops.reshape(loc, self.shape), ids, axis=0)
        return loc, ops.matmul(ops.take(u, ids, axis=0), ops.transpose(v))

    def _range(self, start, stop):
        loc, u, v = self._parts()
        return ops.reshape(loc, self.shape)[start:stop], ops.matmul(u[start:stop], ops.transpose(v))

    @property
    def loc(self):
        return ops.reshape(self.values[: self.size], self.shape)

    @property
    def rho(self):
        return self.rates.rho * ops.reshape(self.values[self.size :], (-1, self.k))

    @property
    def scale(self):
        _, u, v = self._parts()
        return ops.matmul(u, ops.transpose(v))

    def shift_rho(self, by) -> None:
        loc, u = halves(ops.convert_to_tensor(self.values), self.size)
        self.values.assign(ops.concatenate([loc, u + by / self.rates.rho]))

    def set_loc(self, loc) -> None:
        loc = ops.reshape(ops.convert_to_tensor(loc, "float32"), (-1,))
        self.values.assign(ops.concatenate([loc, self.values[self.size :]]))


@keras.saving.register_keras_serializable(package="singularbayes")
class KTied(Entrywise):
    """Every entry of W random and independent, with scales σ_ij = Σ_k u_ik v_jk: the k-tied Normal.

    A mean of every entry and k (rows + columns) more for all scales: rows · columns + k (rows + columns) parameters,
    about half of `FullRank`. Where `LowRank` restricts W itself, this restricts only its spread; entries do not covary.

    All scales start at η times the scale of the means, exactly. The shares u_ik of the k terms start at random, because
    equal columns have equal gradients and would stay one.

    Args:
        k: an integer above 0; the authors use 2, and more than min(rows, columns) adds nothing.
        **kwargs: arguments of every posterior, see `Variational`; `rho_initializer` is of the ρ of u and v.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=KTied(2))
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 44 · 128 + 2 (44 + 128)
    5976
    """

    def __init__(self, k=2, **kwargs):
        super().__init__(**kwargs)
        self.k = checked_rank("KTied", k, "k")

    def build(self, input_shape):
        rows, columns = input_shape
        start = initializers.variance_matched(self._initializer, (rows, columns))
        std = (start or initializers.glorot((rows, columns))).std
        self._build_kl_scale()
        self.w = TiedScalars(
            self,
            "w",
            (rows, columns),
            self.k,
            loc=start.initializer(self.damping * std) if start else self._initializer,
            rho=initializers.fresh_copy(self.rho_initializer) or self._tied_start(rows, columns, self.eta * std),
            family=self.family,
            prior=self.prior,
            rates=Rates(rho=self.rho_lr),
            weigh=self._weigh,
            kl_rows=self.kl_rows,
        )

    def _tied_start(self, rows, columns, scale):
        """Returns an initializer of ρ with U Vᵀ = scale everywhere: u_i = √(k scale) times shares that sum to 1."""
        shares = keras.initializers.RandomNormal(stddev=1.0)
        v = math.sqrt(scale / self.k)

        def rho(_, dtype=None):
            share = ops.exp(shares((rows, self.k), dtype))
            share = share / ops.sum(share, axis=1, keepdims=True)
            uv = ops.concatenate([self.k * v * share, ops.full((columns, self.k), v, dtype)])
            return uv + ops.log(-ops.expm1(-uv))  # softplus back

        return rho

    def get_config(self):
        return {**super().get_config(), "k": self.k}
