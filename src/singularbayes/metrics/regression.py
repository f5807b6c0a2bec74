"""How good predicted numbers are. `r_squared` is better when higher, every other score when lower.

Arrays have one shape: (examples,), (examples, 1) or (examples, outputs). Scores are means over all of it.
`std` is the standard deviation of what is predicted: with the noise (`Predictive.variance("total")`) for targets.
`sample_weight` is how much each example counts; doubling all of them changes nothing.
"""

import math

import numpy as np

from singularbayes.checks import aligned, require_finite, weighted_mean, weights_of


def mean_absolute_error(predictions: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns mean |prediction − target|.

    >>> mean_absolute_error(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    1.0
    """
    p, y = aligned("mean_absolute_error", predictions=predictions, targets=targets)
    return weighted_mean("mean_absolute_error", np.abs(p - y), sample_weight)


def root_mean_square_error(
    predictions: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns √mean (prediction − target)².

    >>> round(root_mean_square_error(np.array([1.0, 2.0]), np.array([1.0, 4.0])), 3)
    1.414
    """
    p, y = aligned("root_mean_square_error", predictions=predictions, targets=targets)
    return math.sqrt(weighted_mean("root_mean_square_error", (p - y) ** 2, sample_weight))


def r_squared(predictions: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the share of the targets' variance that is predicted: 1 is perfect, the targets' own mean gets 0.

    Of several outputs it is the mean over them.

    >>> round(r_squared(np.array([1.0, 2.0]), np.array([1.0, 4.0])), 3)
    0.111
    """
    from sklearn.metrics import r2_score

    p, y = (array.reshape(len(array), -1) for array in aligned("r_squared", predictions=predictions, targets=targets))
    if (y == y[0]).all(axis=0).any():
        raise ValueError(f"r_squared needs targets that differ, in every output; got {len(y)} of one value.")
    return float(r2_score(y, p, sample_weight=weights_of("r_squared", sample_weight, len(y))))


def gaussian_nll_of_each(mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns −log N(target; mean, std²) of every target, in nats. Arrays are not checked.

    >>> gaussian_nll_of_each(np.array([0.8, 1.0]), np.array([0.5, 0.5]), np.ones(2)).round(4).tolist()
    [0.3058, 0.2258]
    """
    return 0.5 * math.log(2 * math.pi) + np.log(std) + 0.5 * ((targets - mean) / std) ** 2


def gaussian_nll(
    mean: np.ndarray, std: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns the mean of −log N(target; mean, std²), in nats.

    >>> round(gaussian_nll(np.array([0.8]), np.array([0.5]), np.array([1.0])), 6)
    0.305791
    """
    m, s, y = predicted("gaussian_nll", mean, std, targets)
    with np.errstate(over="ignore"):  # infinite where a target is impossible
        nll = gaussian_nll_of_each(m, s, y)
    return weighted_mean("gaussian_nll", nll, sample_weight)


def crps_gaussian(
    mean: np.ndarray, std: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns the mean continuous ranked probability score of N(mean, std²), in the units of the targets.

    CRPS = ∫ (F(t) − [target ≤ t])² dt. Where `std` is 0 it is the absolute error.

    >>> round(crps_gaussian(np.zeros(1), np.ones(1), np.zeros(1)), 4)  # (√2 − 1)/√π
    0.2337
    """
    import scoringrules

    m, s, y = aligned("crps_gaussian", mean=mean, std=std, targets=targets)
    if s.min() < 0:
        raise ValueError(f"crps_gaussian needs std >= 0; got {s.min():.3g}.")
    known = s == 0
    crps = np.where(known, np.abs(y - m), scoringrules.crps_normal(y, m, np.where(known, 1.0, s)))
    return weighted_mean("crps_gaussian", crps, sample_weight)


def crps_sample(draws: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the mean continuous ranked probability score of the distribution that the draws come from, fair.

    CRPS = mean |draw − target| − ½ mean |draw − draw′| over all pairs of different draws. So its expectation does not
    depend on the number of draws, and methods with few and with many can be compared (Ferro 2014); where draws agree
    with each other more than with the target by chance it may be negative. One draw is a point: its absolute error.
    Draws of the mean lack the noise: add it first.

    >>> crps_sample(np.array([[0.0], [2.0]]), np.array([1.0])), crps_sample(np.array([[2.0]]), np.array([1.0]))
    (0.0, 1.0)

    Args:
        draws: (draws, examples, …), targets (examples, …).
    """
    import scoringrules

    values = np.asarray(draws, "float64")
    if values.ndim < 2 or not values.size:
        raise ValueError(f"crps_sample needs draws of shape (draws, examples, …), not empty; got {values.shape}.")
    require_finite("crps_sample", draws=values)
    _, y = aligned("crps_sample", **{"the first draw": values[0], "targets": targets})
    values = values.reshape(len(values), *y.shape)
    if len(values) == 1:
        return weighted_mean("crps_sample", np.abs(values[0] - y), sample_weight)
    # By sorted draws, M ln M instead of M² of them: the same number as its estimator "fair".
    crps = scoringrules.crps_ensemble(y, values, m_axis=0, estimator="pwm")
    return weighted_mean("crps_sample", np.reshape(crps, y.shape), sample_weight)


def predicted(name: str, mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """Returns the three in one shape, where every `std` is above 0."""
    values = aligned(name, mean=mean, std=std, targets=targets)
    if values[1].min() <= 0:
        raise ValueError(
            f"{name} needs std > 0; got {values[1].min():.3g}. A prediction without spread has no density: add the "
            'noise (variance="total").'
        )
    return values
