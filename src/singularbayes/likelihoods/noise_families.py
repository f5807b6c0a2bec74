"""How targets are distributed around their prediction: Gaussian, Laplace, Student-t, or as counts.

A predictive distribution is a mixture over draws. Here it is the member of the family that has the mixture's mean and
variance, so that no draw needs to be kept; where draws agree it is exact. Arrays have one shape.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import special, stats


class NoiseFamily(ABC):
    """A family of distributions with one member for every mean and standard deviation.

    Attributes:
        discrete: targets are counts.

    >>> from singularbayes.likelihoods import COUNTS, GAUSSIAN
    >>> COUNTS.discrete, GAUSSIAN.discrete
    (True, False)
    """

    discrete = False

    @abstractmethod
    def distribution(self, mean: np.ndarray, std: np.ndarray):
        """Returns the member with that mean and standard deviation, as scipy.stats does (logpdf, cdf, ppf, rvs)."""

    @abstractmethod
    def crps(self, mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the continuous ranked probability score of every target."""

    def nll(self, mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns −log p of every target, in nats."""
        return -self.distribution(mean, std).logpdf(targets)

    def quantile(self, q: float, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        return self.distribution(mean, std).ppf(q)

    def needed_level(self, mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the level of the smallest central interval that contains the target."""
        return np.abs(2 * self.distribution(mean, std).cdf(targets) - 1)

    def add_noise(self, draws: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns one target per drawn mean (draws, …); `noise` is its standard deviation, averaged over draws."""
        return self.distribution(draws, np.broadcast_to(noise, draws.shape)).rvs(random_state=rng, size=draws.shape)


@dataclass(frozen=True)
class GaussianFamily(NoiseFamily):
    """N(mean, std²); a `std` of 0 is a point."""

    def distribution(self, mean, std):
        return stats.norm(mean, std)

    def quantile(self, q, mean, std):
        return mean + stats.norm.ppf(q) * std

    def nll(self, mean, std, targets):
        with np.errstate(over="ignore"):  # infinite where a target is impossible
            return 0.5 * math.log(2 * math.pi) + np.log(std) + 0.5 * ((targets - mean) / std) ** 2

    def crps(self, mean, std, targets):
        import scoringrules  # compiled as it is imported, which takes a second

        known = np.asarray(std) == 0
        spread = scoringrules.crps_normal(targets, mean, np.where(known, 1.0, std))
        return np.where(known, np.abs(targets - mean), spread)

    def needed_level(self, mean, std, targets):
        return special.erf(np.abs(targets - mean) / std / math.sqrt(2))

    def add_noise(self, draws, noise, rng):
        return draws + noise * rng.standard_normal(draws.shape)


@dataclass(frozen=True)
class LaplaceFamily(NoiseFamily):
    """Laplace, whose scale is std/√2."""

    def distribution(self, mean, std):
        return stats.laplace(mean, std / math.sqrt(2))

    def crps(self, mean, std, targets):
        import scoringrules

        return scoringrules.crps_laplace(targets, mean, std / math.sqrt(2))


@dataclass(frozen=True)
class StudentTFamily(NoiseFamily):
    """Student-t with `df` > 2 degrees of freedom, whose scale is std · √((df − 2)/df)."""

    df: float

    def distribution(self, mean, std):
        return stats.t(self.df, mean, std * math.sqrt((self.df - 2) / self.df))

    def crps(self, mean, std, targets):
        import scoringrules

        return scoringrules.crps_t(targets, self.df, mean, std * math.sqrt((self.df - 2) / self.df))


@dataclass(frozen=True)
class CountFamily(NoiseFamily):
    """Negative binomial where the variance is above the mean, else Poisson.

    >>> family = CountFamily()
    >>> mean, std = np.array([4.0, 4.0]), np.array([2.0, 3.0])
    >>> family.quantile(0.975, mean, std), family.nll(mean, std, np.array([4.0, 4.0])).round(3)
    (array([ 8., 11.]), array([1.633, 2.053]))
    """

    discrete = True

    def distribution(self, mean, std):
        return _Counts(np.asarray(mean, "float64"), np.asarray(std, "float64") ** 2)

    def nll(self, mean, std, targets):
        if not ((targets >= 0) & (targets == np.floor(targets))).all():
            raise ValueError(
                "A likelihood of counts needs targets that are integers >= 0; got values from "
                f"{np.min(targets):.3g} to {np.max(targets):.3g}, or some that are not integers."
            )
        return -self.distribution(mean, std).logpmf(targets)

    def crps(self, mean, std, targets):
        return self.distribution(mean, std).crps(targets)

    def needed_level(self, mean, std, targets):
        # y is in [ppf((1 − l)/2), ppf((1 + l)/2)] where F(y) ≥ (1 − l)/2 and F(y − 1) < (1 + l)/2.
        found = self.distribution(mean, std)
        return np.maximum.reduce([1 - 2 * found.cdf(targets), 2 * found.cdf(targets - 1) - 1, np.zeros(found.shape)])

    def add_noise(self, draws, noise, rng):
        # The variance of counts grows with their mean: each draw has its share of the average one.
        share = np.square(noise) / np.maximum(draws.mean(axis=0), 1e-300)
        return _Counts(draws, draws * share).rvs(rng)


class _Counts:
    """The negative binomial (n, p) with n = m²/(v − m), p = m/v; Poisson(m) where v is not above m."""

    def __init__(self, mean: np.ndarray, variance: np.ndarray):
        self.mean, self.variance = (a.astype("float64") for a in np.broadcast_arrays(mean, variance))
        self.shape = self.mean.shape
        self.over = self.variance > self.mean * (1 + 1e-6)
        excess = np.where(self.over, self.variance - self.mean, 1.0)
        self.n = np.where(self.over, np.maximum(self.mean, 1e-300) ** 2 / excess, 1.0)
        self.p = np.where(self.over, self.n / (self.n + self.mean), 0.5)

    def _choose(self, negative_binomial, poisson) -> np.ndarray:
        return np.where(self.over, negative_binomial, poisson)

    def logpmf(self, k):
        return self._choose(stats.nbinom.logpmf(k, self.n, self.p), stats.poisson.logpmf(k, self.mean))

    def cdf(self, k):
        return self._choose(stats.nbinom.cdf(k, self.n, self.p), stats.poisson.cdf(k, self.mean))

    def ppf(self, q):
        return self._choose(stats.nbinom.ppf(q, self.n, self.p), stats.poisson.ppf(q, self.mean))

    def rvs(self, rng: np.random.Generator):
        return rng.poisson(np.where(self.over, rng.gamma(self.n, self.mean / self.n), self.mean)).astype("float64")

    def crps(self, y):
        """E|X − y| − ½ E|X − X′|: the first by partial expectations, E[X; X ≤ y] = m F₊(y − 1)."""
        below = self._choose(stats.nbinom.cdf(y - 1, self.n + 1, self.p), stats.poisson.cdf(y - 1, self.mean))
        return self.mean - y + 2 * (y * self.cdf(y) - self.mean * below) - self._half_difference()

    def _half_difference(self):
        """½ E|X − X′| = 1/2π ∫₀^π (1 − |φ(t)|²)/u dt with u = 1 − cos t.

        |φ|² is (1 + 2vu/n)⁻ⁿ, of Poisson exp(−2mu). Below 1/sd the integrand is constant: it is integrated over log t.
        """
        start = 1e-4 / np.sqrt(np.maximum(self.variance, 1.0))
        length, total = np.log(np.pi / start), 2 * self.variance * start
        for node, weight in zip(*np.polynomial.legendre.leggauss(120), strict=True):
            t = start * np.exp(length * (node + 1) / 2)
            u = 2 * np.sin(t / 2) ** 2
            power = self._choose(self.n * np.log1p(2 * self.variance * u / self.n), 2 * self.mean * u)
            total = total - weight * length / 2 * t * np.expm1(-power) / u
        return total / (2 * np.pi)


GAUSSIAN, LAPLACE, COUNTS = GaussianFamily(), LaplaceFamily(), CountFamily()
