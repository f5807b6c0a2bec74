"""A deterministic W₀ scaled by random input and output factors (Dusenberry et al. 2020)."""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import initializers
from singularbayes.posteriors.factor import halves
from singularbayes.posteriors.matrices import ScaledMatrix
from singularbayes.posteriors.moments import moments, product_covariance, product_variance
from singularbayes.posteriors.variational import Variational

# W = W₀ ∘ (keep + (s + shift)(r + shift)ᵀ)
_FORMS = {"product": (False, 1.0), "outer": (True, 0.0), "scale": (False, 0.0)}


@keras.saving.register_keras_serializable(package="singularbayes")
class RankOne(Variational):
    """W₀ deterministic, s and r random: rows · columns + 2 (rows + columns) parameters.

    Args:
        form: "product": W = W₀ ∘ (1 + s)(1 + r)ᵀ, so x W = ((x ∘ (1 + s)) W₀) ∘ (1 + r). The paper's two other forms:
            "outer": W₀ ∘ (1 + s rᵀ), and "scale": W₀ ∘ s rᵀ, whose means start at 1.
        **kwargs: arguments of every posterior, see `Variational`; scales start at η.

    >>> import numpy as np, singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.RankOne())
    >>> layer.build((None, 3))
    >>> sum(int(np.prod(weight.shape)) for weight in layer.posterior.trainable_weights)  # 3 · 8 + 2 (3 + 8)
    46
    """

    draws_matrices = False

    def __init__(self, form="product", **kwargs):
        super().__init__(**kwargs)
        if form not in _FORMS:
            raise ValueError(f"RankOne needs form to be one of {sorted(_FORMS)}; got form={form!r}.")
        self.form = form
        self.keep, self.shift = _FORMS[form]

    def build(self, input_shape):
        rows, columns = input_shape
        start = initializers.variance_matched(self._initializer, (rows, columns))
        self.w0 = self.add_weight(
            name="w0",
            shape=(rows, columns),
            initializer=initializers.Given(start.initializer(self.damping * start.std) if start else self._initializer),
            dtype="float32",
            autocast=False,
        )
        centre = keras.initializers.Constant(self._centre)
        self._build_kl_scale()
        self.rows = rows
        self.sr = self._factor("sr", (rows + columns,), centre, self.eta)  # s, then r

    @property
    def _centre(self) -> float:
        return 1.0 if self.form == "scale" else 0.0

    @property
    def dense_weight(self):
        return self.w0

    @property
    def factors(self):
        return [self.sr] if self.built else []

    def draw(self, key):
        return tuple(halves(self.sr.sample(key), self.rows))

    def weight(self, draw):
        s, r = draw
        return ScaledMatrix(self.w0.value, s + self.shift, r + self.shift, self.keep)

    def mean(self):
        return self.weight(halves(self.sr.loc, self.rows))

    def _columns(self):
        # s + shift and r + shift as the two factors of a rank-one product.
        mean, variance = (v[:, None] for v in moments(self.sr))
        return [(mean[part] + self.shift, variance[part]) for part in (slice(self.rows), slice(self.rows, None))]

    def variance(self):
        return ops.convert_to_numpy(self.w0).astype("float64") ** 2 * product_variance(*self._columns())

    def covariance(self, entry, other):
        w0 = ops.convert_to_numpy(self.w0).astype("float64")
        a, b = self._columns()
        return float(w0[entry] * w0[other]) * product_covariance(a, b, entry, other)

    def center(self, matrix):
        # At its centre every form scales W₀ by exactly 1.
        self.w0.assign(matrix)
        self.sr.set_loc(np.full(self.sr.shape, self._centre))

    def get_config(self):
        return {**super().get_config(), "form": self.form}
