"""How uncertain predictions are, and whether more so outside the domain. Logarithms are natural.

`draws` are what single draws of the weights predict, draws first: (draws, examples, classes) of probabilities that sum
to 1, or (draws, examples, …) of values. `inside` and `outside` are
one number per example, in and out of distribution.
"""

import math

import numpy as np
from scipy import special

from singularbayes.checks import class_probabilities, one_per_example, require_finite

_ROUNDING = 1e-12  # nats; what identical draws may differ by


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns −Σ_c p_c log p_c of every example, from 0 to log(classes): all uncertainty about the label.

    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(3).tolist()
    [0.693, 0.0]
    """
    return special.entr(class_probabilities("entropy", probabilities)).sum(axis=-1)


def mutual_information(draws: np.ndarray) -> np.ndarray:
    """Returns H(mean p) − mean H(p) of every example: how far the draws disagree, from 0 to log(min(draws, classes)).

    >>> mutual_information(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))  # log 2
    array([0.693147])
    """
    p = class_probabilities("mutual_information", draws, "draws, examples, classes")
    total, expected = special.entr(p.mean(axis=0)).sum(axis=-1), special.entr(p).sum(axis=-1).mean(axis=0)
    return np.maximum(total - expected, 0.0)


def predictive_std(draws: np.ndarray) -> np.ndarray:
    """Returns, of every example, the standard deviation over draws of the probability of the predicted class.

    The predicted class is that of the mean over draws. With two classes it is the standard deviation of p(class 1).

    >>> predictive_std(np.array([[[0.9, 0.1]], [[0.5, 0.5]]])).round(2).tolist()
    [0.2]
    """
    p = class_probabilities("predictive_std", draws, "draws, examples, classes")
    predicted = p.mean(axis=0).argmax(axis=-1)
    return np.take_along_axis(p.std(axis=0), predicted[:, None], axis=-1)[:, 0]


def mi_ratio(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns mean outside / mean inside of the mutual information; NaN for a deterministic model, which has none.

    A mean below 1e-12 nats is rounding and counts as 0.

    >>> mi_ratio(np.array([0.1, 0.3]), np.array([0.4, 0.8]))
    3.0
    """
    inner, outer = _uncertainties("mi_ratio", inside, outside)
    within, beyond = (mean if mean > _ROUNDING else 0.0 for mean in (float(inner.mean()), float(outer.mean())))
    return _ratio(within, beyond)


def epistemic_iqr(draws: np.ndarray) -> np.ndarray:
    """Returns the distance from the 25 % to the 75 % quantile over draws, `(examples, …)`.

    >>> epistemic_iqr(np.arange(5.0)[:, None]).tolist()
    [2.0]
    """
    values = np.asarray(draws, "float64")
    if values.ndim < 2 or not values.size:
        raise ValueError(f"epistemic_iqr needs draws of shape (draws, examples, …), not empty; got {values.shape}.")
    require_finite("epistemic_iqr", draws=values)
    lower, upper = np.quantile(values, [0.25, 0.75], axis=0)
    return upper - lower


def iqr_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Returns the median of `epistemic_iqr` inside the domain and outside, and their ratio.

    The ratio is NaN for a deterministic model, whose widths are 0.

    >>> iqr_scores(np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0]))
    {'iqr_inside': 2.0, 'iqr_outside': 4.0, 'iqr_ratio': 2.0}
    """
    within, beyond = (float(np.median(widths)) for widths in _uncertainties("iqr_scores", inside, outside))
    return {"iqr_inside": within, "iqr_outside": beyond, "iqr_ratio": _ratio(within, beyond)}


def _uncertainties(name: str, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (inner,), (outer,) = one_per_example(name, inside=inside), one_per_example(name, outside=outside)
    least = min(inner.min(), outer.min())
    if least < 0:
        raise ValueError(f"{name} needs uncertainties that are not negative; got {least:.3g}.")
    return inner, outer


def _ratio(within: float, beyond: float) -> float:
    if within == 0:
        return math.nan if beyond == 0 else math.inf
    return beyond / within
