"""W = W₀ + A Bᵀ: a pretrained matrix kept as it is, and a random low-rank part beside it."""

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_choice
from singularbayes.posteriors import initializers
from singularbayes.posteriors.low_rank import Product, checked_rank
from singularbayes.posteriors.matrices import DenseMatrix, SumMatrix
from singularbayes.posteriors.priors import Anchored

BASE_DTYPES = ("float32", "bfloat16", "float16")
_PRIOR = Anchored(3.0, anchor="random", relative=True)


@keras.saving.register_keras_serializable(package="singularbayes")
class Adapter(Product):
    """W = W₀ + A Bᵀ, W₀ frozen, A (rows × rank) and B (columns × rank) random: 2 · rank · (rows + columns) parameters.

    For a pretrained matrix that a truncation to `rank` would spoil. `center(matrix)` makes it W₀ and sets the mean of B
    to 0, so E[W] is the matrix itself and a mean prediction is what it was; the mean of A stays at its start, as in
    LoRA, so that B has a gradient. Without `center`, W₀ is what the layer's initializer gives, and stays that.

    Noise starts in proportion to the weight that the layer's initializer would give. With its variance σ_W², the means
    of A have the scale s = (σ_W²/rank)^¼ (times `damping`) and all posterior scales are η s, so that an entry starts
    with

        Var W_ij = η² s² (‖μ_A,i‖² + rank · η² s²), on average (η² + η⁴) σ_W² for damping 1:

    1.01 % of σ_W² for η = 0.1, whatever the rank: a tenth of a weight, if the pretrained ones are as large as an
    initializer's. For much smaller or larger ones choose η by their size. (`LowRank` starts with 2.01 %:
    there the mean of B is not 0.)

    The default prior is anchored at the initial means, A random and B 0, with 3 times the initial posterior scales. The
    3 was chosen for the β = 0.03 of `KLSchedule()` on validation data, three tasks with 770 to 1,500 texts and MiniLM:
    β / scale² is what matters there, so a third of the scale with a ninth of β is nearly the same training with a KL
    that starts at 0. With 3 it starts at 0.65 nats per scalar, whatever the layer, all of them for scales: the means
    are where the prior has them.

    Args:
        rank: an integer above 0, lowered to min(rows, columns) where a matrix is smaller.
        prior: see `Variational`.
        base_dtype: the type of W₀. A and B are float32. Conversion chooses the type that the pretrained matrix has.
        **kwargs: arguments of every posterior, see `Variational`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(768, posterior=Adapter(16))
    >>> dense.build((None, 768))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 16 · (768 + 768)
    49152
    """

    adapts = True

    def __init__(self, rank, prior=_PRIOR, base_dtype="float32", **kwargs):
        super().__init__(prior=prior, **kwargs)
        require_choice("Adapter", BASE_DTYPES, base_dtype=base_dtype)
        self.rank, self.base_dtype = checked_rank("Adapter", rank), base_dtype

    def num_columns(self, shape):
        return min(self.rank, *shape)

    def build(self, input_shape):
        rows, columns = input_shape
        rank = self.num_columns(input_shape)
        start = initializers.variance_matched(self._initializer, (rows, columns))
        noise = start or initializers.glorot((rows, columns))
        s = noise.factor_std(rank)
        initial = initializers.Given(start.initializer(self.damping * start.std) if start else self._initializer)
        self.w0 = self.add_weight(
            name="w0",
            shape=(rows, columns),
            initializer=initial,
            dtype=self.base_dtype,
            trainable=False,
            autocast=False,
        )
        mean_a = noise.initializer(self.damping * s)

        def loc(_, dtype=None):
            return ops.concatenate(
                [initializers.fresh_copy(mean_a)((rows, rank), dtype), ops.zeros((columns, rank), dtype)]
            )

        self._build_ab((rows, columns), rank, loc, self.eta * s)

    @property
    def frozen_weights(self):
        return [self.w0]

    def _added_to_w0(self, part):
        return SumMatrix(DenseMatrix(self.w0.value), part)

    def on_base(self, dtype):
        return self if dtype == self.base_dtype else type(self).from_config({**self.get_config(), "base_dtype": dtype})

    def _weight(self, arrays, component=None):
        return self._added_to_w0(super()._weight(arrays, component))

    def _mean(self, component=None):
        return self._added_to_w0(super()._mean(component))

    def _center(self, matrix):
        self.w0.assign(matrix)
        loc = np.array(ops.convert_to_numpy(self.ab.loc))
        loc[self.rows :] = 0
        self.ab.set_loc(loc)

    def residual(self, matrix):
        return 0.0

    def factor_moments(self):
        return []  # W₀ is another part of W

    @property
    def fixed_rank(self):
        return self.rank

    def get_config(self):
        own = {name: getattr(self, name) for name in ("rank", "base_dtype")}
        return {**super().get_config(), **own}
