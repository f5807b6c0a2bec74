"""A prior that shrinks whole columns of A and B: automatic relevance determination of the rank."""

import math

import keras
import numpy as np
from keras import ops
from scipy.special import gammaln

from singularbayes.checks import require_positive
from singularbayes.posteriors import priors
from singularbayes.posteriors.families import float64


@keras.saving.register_keras_serializable(package="singularbayes")
class ColumnShrinkage(priors.Prior):
    """w_ik | τ_k ~ N(0, 1/τ_k) and τ_k ~ Gamma(shape, rate): column k of A and of B have one precision, unknown.

    Each τ_k has the best posterior there is for it, q(τ_k) = Gamma(a, b_k), in closed form. With d entries in a column,
    A's and B's together, and α, β for shape and rate,

        a = α + d/2,    b_k = β + ½ Σ_i E w_ik²,
        KL(q(w) q(τ) ‖ p(w | τ) p(τ)) = Σ_k [a ln b_k − α ln β − ln Γ(a)/Γ(α) + (d/2) ln 2π] − Σ H(q(w_ik)).

    This is what training adds to the loss: with a KL weight of 1 a lower bound of the evidence is maximised over q(w)
    and q(τ). It is an upper bound of KL(q(w) ‖ p(w)), where p(w) is what is left when τ is integrated out, a t
    distribution of every column. No point estimate is made and nothing is trained beside A and B.

    Only the sum b_k sees the size of a column, so one that the data do not need loses its mean, and then its
    noise, at a price of a few nats. (c a_k, b_k/c) is the same W: because the two share τ_k, the KL is least where
    their entries have one mean square (except for α), so that a small one cannot hide behind a large one.

    Args:
        shape: α. It hardly matters: 2α nats for a column that is e times larger.
        rate: β. √(β/α) is the size that a column without use has in the end.

    >>> prior = ColumnShrinkage()
    >>> loc, scale = np.zeros((100, 2)), np.array([[0.01, 1.0]])
    >>> from singularbayes.posteriors import families
    >>> prior.kl_exact(families.get_family("gaussian"), loc, np.broadcast_to(scale, loc.shape))  # nats per column
    array([ 3.4399, 12.5483])
    """

    by_column = True

    def __init__(self, shape: float = 1.0, rate: float = 1e-5):
        require_positive("ColumnShrinkage", shape=shape, rate=rate)
        self.shape, self.rate = float(shape), float(rate)

    def log_density(self, w, xp=ops):
        """Returns log p of every column of w (…, entries, columns), the precisions integrated out."""
        a = self.shape + 0.5 * w.shape[-2]
        return self._constant(w.shape[-2]) - a * xp.log(self.rate + 0.5 * xp.sum(w * w, -2))

    def _constant(self, entries: int) -> float:
        a = self.shape + 0.5 * entries
        known = gammaln(a) - gammaln(self.shape) + self.shape * math.log(self.rate)
        return float(known) - 0.5 * entries * math.log(2 * math.pi)

    def each_kl(self, family, loc, scale, xp):
        """Returns the KL of every column of (…, entries, columns), that of its precision included."""
        entries = loc.shape[-2]
        b = self.rate + 0.5 * xp.sum(family.mean_square(loc, scale), -2)
        entropy = xp.sum(family.entropy(scale, xp), -2)
        return (self.shape + 0.5 * entries) * xp.log(b) - self._constant(entries) - entropy

    def kl(self, family, loc, scale, keys=None):
        return ops.sum(self.each_kl(family, loc, scale, ops))

    def kl_exact(self, family, loc, scale):
        return self.each_kl(family, loc.astype("float64"), scale.astype("float64"), float64)

    def kl_upper(self, family, loc, scale):
        return self.kl_exact(family, loc, scale)  # a closed form, and above the KL to the prior of w alone

    def precisions(self, family, loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Returns E[τ_k] = a/b_k of every column."""
        b = self.rate + 0.5 * family.mean_square(loc, scale).sum(-2)
        return (self.shape + 0.5 * loc.shape[-2]) / b

    def get_config(self):
        return {"shape": self.shape, "rate": self.rate}
