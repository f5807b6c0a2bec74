"""Predictions of classes, and of labels that do not exclude each other."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from singularbayes.checks import require_share
from singularbayes.likelihoods.predictive import DETERMINISTIC, Predictive, drawn_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class ClassPredictive(Predictive):
    """Predictions of classes: `mean` and `std` are of probabilities, (examples, classes).

    >>> p = ClassPredictive.of_draws(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]))  # two draws, one example
    >>> p.mean.round(2).tolist(), p.predicted_labels.tolist(), p.mutual_information.round(3).tolist()
    ([[0.7, 0.3]], [0], [0.102])
    """

    task: ClassVar[str] = "classification"
    expected_entropy: np.ndarray | None = None

    @classmethod
    def of_draws(cls, draws) -> "ClassPredictive":
        """Returns the predictions of a method of your own from its drawn probabilities (draws, examples, …, classes).

        >>> p = ClassPredictive.of_draws([[[0.9, 0.1]], [[0.5, 0.5]]])
        >>> p.mean, p.std.round(3), p.mutual_information.round(3)
        (array([[0.7, 0.3]]), array([[0.2, 0.2]]), array([0.102]))
        >>> p
        ClassPredictive(2 draws, mean of shape (1, 2); on average entropy 0.6109, mutual information 0.1017)
        """
        draws = drawn_array("ClassPredictive.of_draws", draws, axes=3)
        if draws.min() < 0 or not np.allclose(draws.sum(axis=-1), 1, atol=1e-3):
            raise ValueError(
                "ClassPredictive.of_draws needs probabilities that sum to 1 over the last axis; got sums from "
                f"{draws.sum(axis=-1).min():.3g} to {draws.sum(axis=-1).max():.3g}."
            )
        entropy = special.entr(draws).sum(axis=-1).mean(axis=0)
        return cls(draws.mean(axis=0), draws.std(axis=0), len(draws), draws, entropy)

    @property
    def predicted_labels(self) -> np.ndarray:
        """The most probable class."""
        return self.mean.argmax(axis=-1)

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the averaged probabilities: all uncertainty about the label."""
        return special.entr(self.mean).sum(axis=-1)

    @property
    def mutual_information(self) -> np.ndarray:
        """Entropy of the average less the average entropy: how far the draws disagree."""
        if self.expected_entropy is None:
            raise ValueError(
                "mutual_information needs the entropy of single draws; got none. Make predictions of your own by "
                "ClassPredictive.of_draws."
            )
        return np.maximum(self.entropy - self.expected_entropy, 0.0)

    def _means(self) -> dict[str, float]:
        means = {"entropy": float(self.entropy.mean())}
        if self.expected_entropy is not None:
            means["mutual information"] = float(self.mutual_information.mean())
        return means

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        """Returns entropy, mutual information ("mi"), and the std over draws of the most probable class."""
        if self.num_draws == 1:
            return {"entropy": self.entropy, "mi": DETERMINISTIC, "std": DETERMINISTIC}
        std = np.take_along_axis(self.std, self.predicted_labels[..., None], axis=-1)[..., 0]
        return {"entropy": self.entropy, "mi": self.mutual_information, "std": std}

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Returns the central interval over draws of each probability, exact.

        It needs `predict(..., quantiles=(0.025, 0.975))` for the level 0.95, or `keep_draws=True` for every level.
        """
        return _interval_over_draws(self, level)

    def _drawn_as(self) -> "Figure":
        from singularbayes.plots import predicted_classes

        found = self.uncertainties()["mi"]
        name, values = ("entropy", self.entropy) if isinstance(found, str) else ("mutual information", found)
        right = None if self.targets is None else self.predicted_labels == self.targets
        return predicted_classes(self.mean.max(axis=-1), values, f"{name} (nats)", right)

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        found = {"predicted_label": self.predicted_labels, "probability": self.mean.max(axis=-1)}
        found |= {f"probability_{k}": self.mean[:, k] for k in range(self.mean.shape[-1])}
        if self.num_draws > 1 and _has_quantiles(self, level):
            lower, upper = self.interval(level)
            for k in range(self.mean.shape[-1]):
                found |= {f"lower_{k}": lower[:, k], f"upper_{k}": upper[:, k]}
        found["entropy"] = self.entropy
        uncertainty = self.uncertainties()["mi"]
        return found if isinstance(uncertainty, str) else found | {"mutual_information": uncertainty}


@dataclass(frozen=True, repr=False)
class LabelPredictive(Predictive):
    """Predictions of labels that do not exclude each other: `mean` (examples, labels) is the probability of each.

    Entropies are one per label, in the shape of `mean`.

    >>> p = LabelPredictive(np.array([[0.9, 0.2, 0.5]]), np.zeros((1, 3)), 1)
    >>> p.predicted_labels, p.label(0).mean
    (array([[1, 0, 0]]), array([[0.1, 0.9]]))
    """

    task: ClassVar[str] = "classification"
    expected_entropy: np.ndarray | None = None

    @property
    def predicted_labels(self) -> np.ndarray:
        """1 where a label is more probable than not, else 0."""
        return (self.mean > 0.5).astype(int)

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the averaged probability of every label."""
        return binary_entropy(self.mean)

    @property
    def mutual_information(self) -> np.ndarray:
        """Of every label: how far the draws disagree about it."""
        return self.by_class().mutual_information

    def by_class(self) -> ClassPredictive:
        """Returns the same as predictions of two classes, absent and present, for every label."""
        mean, std = np.stack([1 - self.mean, self.mean], axis=-1), np.stack([self.std, self.std], axis=-1)
        draws = None if self.draws is None else np.stack([1 - self.draws, self.draws], axis=-1)
        data = {"targets": self.targets, "weights": self.weights}
        return ClassPredictive(mean, std, self.num_draws, draws, self.expected_entropy, **data)

    def plot(self, y=None) -> "Figure":
        return self.by_class().plot(y)

    def label(self, number: int) -> ClassPredictive:
        """Returns the predictions of one label: absent or present."""
        entropies = self.mean.ndim  # axes of an entropy; probabilities have one more, of absent and present
        weights = self.weights
        return self.by_class().changed(
            lambda a: a[..., number] if a.ndim == entropies else a[..., number, :],
            targets=None if self.targets is None else np.asarray(self.targets)[..., number],
            weights=weights if weights is None or weights.ndim < self.mean.ndim else weights[..., number],
        )

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        """Returns entropy, mutual information ("mi") and the std over draws, of every label."""
        return self.by_class().uncertainties()

    def positions(self, where: np.ndarray | None = None) -> ClassPredictive:  # type: ignore[override]
        return self.by_class().positions(where)

    @property
    def position_shape(self) -> tuple[int, ...]:
        return self.mean.shape

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Returns the central interval over draws of each probability; needs `keep_draws=True`."""
        return _interval_over_draws(self, level)

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for k in range(self.mean.shape[-1]):
            found |= {f"predicted_label_{k}": self.predicted_labels[:, k], f"probability_{k}": self.mean[:, k]}
        return found

    def _means(self) -> dict[str, float]:
        return {"entropy": float(self.entropy.mean())}


def _has_quantiles(p: Predictive, level: float) -> bool:
    return p.draws is not None or all(
        any(abs(known - q) < 1e-9 for known in p.quantiles or {}) for q in ((1 - level) / 2, (1 + level) / 2)
    )


def _interval_over_draws(p: Predictive, level: float) -> tuple[np.ndarray, np.ndarray]:
    require_share("interval", level=level)
    lower, upper = p.quantile([(1 - level) / 2, (1 + level) / 2])
    return lower, upper


def binary_entropy(p: np.ndarray) -> np.ndarray:
    """Returns −p log p − (1 − p) log(1 − p)."""
    return special.entr(p) + special.entr(1 - p)
