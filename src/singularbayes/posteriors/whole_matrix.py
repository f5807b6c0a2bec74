"""Posteriors that hold a whole matrix: every entry random, scaled by random vectors, or without noise."""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import initializers
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.factor import Factor, halves
from singularbayes.posteriors.matrices import DenseMatrix, ScaledMatrix
from singularbayes.posteriors.moments import moments, product_covariance, product_variance
from singularbayes.posteriors.variational import Variational

# W = W₀ ∘ (keep + (s + shift)(r + shift)ᵀ)
_FORMS = {"product": (False, 1.0), "outer": (True, 0.0), "scale": (False, 0.0)}


@keras.saving.register_keras_serializable(package="singularbayes")
class FullRank(Variational):
    """Every entry of W random and independent, mean-field (Blundell et al. 2015): 2 · rows · columns parameters.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=FullRank())
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)
    11264
    """

    w: Factor

    def build(self, input_shape):
        start = initializers.variance_matched(self._initializer, tuple(input_shape))
        std = (start or initializers.glorot(tuple(input_shape))).std
        loc = start.initializer(self.damping * std) if start else self._initializer
        self._build_kl_scale()
        self.w = self._factor("w", input_shape, initializers.mean_initializer(loc, self.prior), self.eta * std)

    @property
    def factors(self):
        return [self.w] if self.built else []

    def _draw(self, key, component=None):
        return (self.w.sample(key, component),)

    def matrices(self, scalars):
        return [scalars]

    def _weight(self, arrays, component=None):
        return DenseMatrix(*arrays)

    def _mean(self, component=None):
        return DenseMatrix(self.of_component(self.w.loc, component))

    def factor_moments(self):
        return [moments(self.w)] if self.components == 1 else []

    def _variance(self):
        return moments(self.w)[1]

    def _covariance(self, entry, other):
        return float(self._variance()[entry]) if tuple(entry) == tuple(other) else 0.0

    def _center(self, matrix):
        self.w.start_at(np.asarray(matrix))


@keras.saving.register_keras_serializable(package="singularbayes")
class RankOne(Variational):
    """W₀ deterministic, s and r random (Dusenberry et al. 2020): rows · columns + 2 (rows + columns) parameters.

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

    def __init__(self, form="product", **kwargs):
        super().__init__(**kwargs)
        if form not in _FORMS:
            raise ValueError(f"RankOne needs form to be one of {sorted(_FORMS)}; got form={form!r}.")
        self.form = form
        self.keep, self.shift = _FORMS[form]

    def build(self, input_shape):
        rows, columns = input_shape
        start = initializers.variance_matched(self._initializer, (rows, columns))
        mean = start.initializer(self.damping * start.std) if start else self._initializer
        self.w0 = self.add_array("w0", (rows, columns), mean)
        centre = keras.initializers.Constant(self._centre)
        self._build_kl_scale()
        self.rows = rows
        self.sr = self._factor("sr", (rows + columns,), centre, self.eta)  # s, then r

    @property
    def _centre(self) -> float:
        return 1.0 if self.form == "scale" else 0.0

    @property
    def factors(self):
        return [self.sr] if self.built else []

    def _draw(self, key, component=None):
        return tuple(halves(self.sr.sample(key, component), self.rows, axis=-1))

    def _weight(self, arrays, component=None):
        s, r = arrays
        w0 = self.of_component(self.w0.value, component)
        return ScaledMatrix(w0, s + self.shift, r + self.shift, self.keep)

    def _mean(self, component=None):
        loc = self.of_component(self.sr.loc, component)
        return self._weight(tuple(halves(loc, self.rows, axis=-1)), component)

    def _columns(self):
        # s + shift and r + shift as the two factors of a rank-one product.
        mean, variance = (v[:, None] for v in moments(self.sr))
        return [(mean[part] + self.shift, variance[part]) for part in (slice(self.rows), slice(self.rows, None))]

    def _variance(self):
        return ops.convert_to_numpy(self.w0).astype("float64") ** 2 * product_variance(*self._columns())

    def _covariance(self, entry, other):
        w0 = ops.convert_to_numpy(self.w0).astype("float64")
        a, b = self._columns()
        return float(w0[entry] * w0[other]) * product_covariance(a, b, entry, other)

    def _center(self, matrix):
        # At its centre every form scales W₀ by exactly 1.
        self.w0.assign(matrix)
        self.sr.set_loc(np.full(self.sr.shape, self._centre))

    def get_config(self):
        return {**super().get_config(), "form": self.form}


@keras.saving.register_keras_serializable(package="singularbayes")
class Deterministic(Posterior):
    """W itself is the parameter: no noise, no KL; so that a deterministic network has the same layers.

    Args:
        frozen: W stays as it starts, as the biases of a pretrained base do; one for all components of a mixture.

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.Deterministic())  # an ordinary weight among Bayesian ones
    """

    random = False

    def __init__(self, initializer=None, frozen=False, components=1, *, name=None, trainable=True, dtype=None):
        super().__init__(initializer, components, name=name, trainable=trainable, dtype=dtype)
        self.frozen = bool(frozen)

    def build(self, input_shape):
        shape, initializer = tuple(input_shape), self._initializer or keras.initializers.GlorotUniform()
        if not self.frozen:
            self.w = self.add_array("w", shape, initializer)
            return
        self.w = self.add_weight(
            name="w", shape=shape, initializer=initializer, trainable=False, dtype="float32", autocast=False
        )

    @property
    def frozen_weights(self):
        return [self.w] if self.frozen else []

    def next_key(self, training):
        return None

    def _draw(self, key, component=None):
        return ()

    def _weight(self, arrays, component=None):
        return self._mean(component)

    def _mean(self, component=None):
        w = ops.convert_to_tensor(self.w)
        return DenseMatrix(w if self.frozen else self.of_component(w, component))

    def _variance(self):
        return np.zeros(self.w.shape)

    def _covariance(self, entry, other):
        return 0.0

    def _center(self, matrix):
        self.w.assign(matrix)

    def get_config(self):
        return {**super().get_config(), "frozen": self.frozen}
