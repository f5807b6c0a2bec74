"""W = W₀ + A Bᵀ: a pretrained matrix kept as it is, and a random low-rank part beside it."""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import initializers
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.matrices import DenseMatrix, SumMatrix
from singularbayes.posteriors.priors import Anchored
from singularbayes.posteriors.product import Product, checked_rank
from singularbayes.posteriors.variational import Variational

RANDOM_FACTORS = ("both", "a")
_PRIOR = Anchored(2.0, anchor="random", relative=True)


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

    The default prior is anchored at the initial means, A random and B 0, with twice the initial posterior scales, so
    that the KL starts at 0.32 nats for each scalar, before anything was learned. A prior around 0 of a fixed scale
    starts with up to several, most of them for the means of A, which say nothing about W while B is 0.

    With `random_factors="a"` only A, which reads the inputs, is random, and B is a plain weight that starts at 0: the
    form of BLoB (Wang et al. 2024), with rank · (2 rows + columns) parameters. W then starts without noise, the KL is
    that of A alone, and `certify` refuses it: B was trained, and no KL counts it.

    Args:
        rank: an integer above 0, lowered to min(rows, columns) where a matrix is smaller.
        prior: see `Variational`.
        random_factors: "both" or "a".
        **kwargs: arguments of every posterior, see `Variational`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(768, posterior=Adapter(16))
    >>> dense.build((None, 768))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 16 · (768 + 768)
    49152
    """

    adapts = True

    def __init__(self, rank, prior=_PRIOR, random_factors="both", **kwargs):
        super().__init__(prior=prior, **kwargs)
        self.rank, self.random_factors = checked_rank("Adapter", rank), random_factors
        if random_factors not in RANDOM_FACTORS:
            raise ValueError(
                f"Adapter needs random_factors to be one of {RANDOM_FACTORS}; got random_factors={random_factors!r}."
            )

    def num_columns(self, shape):
        return min(self.rank, *shape)

    def build(self, input_shape):
        rows, columns = input_shape
        rank = self.num_columns(input_shape)
        start = initializers.variance_matched(self._initializer, (rows, columns))
        noise = start or initializers.glorot((rows, columns))
        s = noise.factor_std(rank)
        self.w0 = self.add_weight(
            name="w0",
            shape=(rows, columns),
            initializer=initializers.Given(start.initializer(self.damping * start.std) if start else self._initializer),
            trainable=False,
            dtype="float32",
            autocast=False,
        )
        mean_a = noise.initializer(self.damping * s)

        if self.random_factors == "a":
            self._build_ab((rows,), rank, lambda _, dtype=None: mean_a((rows, rank), dtype), self.eta * s)
            self.b = self.add_weight(
                name="b", shape=(columns, rank), initializer="zeros", dtype="float32", autocast=False
            )
            return

        def loc(_, dtype=None):
            return ops.concatenate([mean_a((rows, rank), dtype), ops.zeros((columns, rank), dtype)])

        self._build_ab((rows, columns), rank, loc, self.eta * s)

    @property
    def frozen_weights(self):
        return [self.w0]

    def _added_to_w0(self, part):
        return SumMatrix(DenseMatrix(self.w0.value), part)  # its value now: a mixture gives it one for a while

    def weight(self, draw):
        return self._added_to_w0(super().weight(draw))

    def mean(self):
        return self._added_to_w0(super().mean())

    def local(self, key):
        return self._added_to_w0(super().local(key))

    def center(self, matrix):
        self.w0.assign(matrix)
        if self.b is not None:
            self.b.assign(np.zeros(self.b.shape))
            return
        loc = np.array(ops.convert_to_numpy(self.ab.loc))
        loc[self.rows :] = 0
        self.ab.set_loc(loc)

    def _balance_means(self):
        if self.b is None:
            super()._balance_means()
        else:  # a smaller A with a larger B would have more noise
            Variational._balance_means(self)

    def residual(self, matrix):
        return 0.0

    def factor_moments(self):
        return []  # W₀ is another part of W

    def why_no_norms(self):
        return Posterior.why_no_norms(self)

    @property
    def fixed_rank(self):
        return self.rank

    def get_config(self):
        return {**super().get_config(), "rank": self.rank, "random_factors": self.random_factors}
