"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

import keras
import numpy as np

from singularbayes.checks import require_choice, require_positive
from singularbayes.posteriors.priors import Normal
from singularbayes.posteriors.product import Product, checked_rank

STARTS = ("orthogonal", "independent")
_PRIOR = Normal(0.3)  # chosen with the start, η and β: docs/protocol.md
_ETA_AT_RANDOM, _ETA_AT_WEIGHTS = 1e-4, 0.1
_LOC_LR = 0.4


@keras.saving.register_keras_serializable(package="singularbayes")
class LowRank(Product):
    """W = A Bᵀ with A (rows × rank) and B (columns × rank) random: every draw has rank ≤ `rank`.

    It holds 2 · rank · (rows + columns) parameters; applying it costs as much per example.

    Args:
        rank: an integer above 0, lowered to min(rows, columns) where a matrix is smaller: `effective_rank`.
            `AdaptiveLowRank` learns it.
        overcomplete: take the rank as it is, also above min(rows, columns).
        prior: see `Variational`; N(0, 0.3²) by default.
        eta: posterior scales start at η times the scale of the means. None is 10⁻⁴ for means that start at random: the
            KL opens narrow scales sooner than wide ones let the means learn. And it is 0.1 where the means start at
            trained weights (`center`, `bayesianize`), because a short training leaves scales as they are.
        start: how the means start. "orthogonal": A and B with orthogonal columns of one length, and W with the variance
            of the layer's `kernel_initializer`, by default Glorot's as in Keras. "independent": entries of A and B
            independent, by default with He's variance before a rectified activation, as in the paper.
        loc_lr: learning rate of the means as a multiple of the optimizer's; of SGD's it multiplies by the square. Both
            factors move, and their norms grow in training, so that a step moves W = A Bᵀ two to five times as far as
            one of the same rate moves a dense W: at 0.4 training is stable at the rates at which it is for
            `keras.layers.Dense` (docs, "Training").
        **kwargs: further arguments of every posterior, see `Variational`.

    All defaults but `loc_lr` won over fourteen data sets (docs, "The tuning protocol"). `LowRank.paper(16)` has the
    paper's; the ELBO's weight of the KL is `KLSchedule(beta=1)`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=LowRank(15))
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 15 · (44 + 128)
    5160
    """

    def __init__(self, rank, overcomplete=False, prior=_PRIOR, eta=None, start="orthogonal", loc_lr=_LOC_LR, **kwargs):
        super().__init__(prior=prior, eta=_ETA_AT_RANDOM if eta is None else eta, **kwargs)
        require_choice("LowRank", STARTS, start=start)
        require_positive("LowRank", loc_lr=loc_lr)
        self.loc_lr = float(loc_lr)
        self.rank, self.overcomplete, self.start = checked_rank("LowRank", rank), overcomplete, start
        if eta is None:
            self.eta = None

    @classmethod
    def paper(cls, rank, **kwargs):
        """Returns one with the paper's settings: scale-mixture prior, η = 0.1, independent entries with He's variance.

        >>> LowRank.paper(16).prior.sigma1, LowRank.paper(16).eta
        (1.0, 0.1)
        """
        return cls(rank, **{"prior": "scale_mixture", "eta": 0.1, "start": "independent", "loc_lr": 1.0, **kwargs})

    def center(self, matrix):
        super().center(matrix)
        if self.eta is None and self.rho_initializer is None and not self.prior.relative:
            loc, scale, _ = self.ab.float64_values()
            self.ab.set(loc, np.full_like(scale, _ETA_AT_WEIGHTS * self.factor_std))

    def default_kernel_initializer(self, activation):
        return super().default_kernel_initializer(activation if self.start == "independent" else None)

    @property
    def fixed_rank(self):
        return self.rank

    def num_columns(self, shape):
        return self.rank if self.overcomplete else min(self.rank, *shape)

    def build(self, input_shape):
        self._build_product(tuple(input_shape), self.num_columns(input_shape))

    def get_config(self):
        own = {name: getattr(self, name) for name in ("rank", "overcomplete", "start", "loc_lr")}
        return {**super().get_config(), **own}
