"""The predictive distribution of each example, from posterior draws.

Results are reduced as the draws stream past, so their memory does not grow with the number of draws. Entropies are in
nats; `std` is over draws (population form). Quantiles need the draws themselves (`keep_draws=True`).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import special

from singularbayes.likelihoods.noise_families import GAUSSIAN, NoiseFamily

VARIANCES = ("epistemic", "aleatoric", "total")
DETERMINISTIC = "it is deterministic, so draws do not differ"
NO_NOISE = "the likelihood does not specify the noise"


class RunningMoments:
    """Mean and variance of arrays that arrive in chunks (Chan et al. 1979), in float64."""

    def __init__(self, examples: int):
        self.count = np.zeros(examples)
        self.mean = self.squares = np.zeros(0)  # shaped by the first values

    def update(self, where, values: np.ndarray) -> None:
        """Adds `values` (draws, examples, …) to the examples `where`."""
        if not self.mean.size:
            self.mean, self.squares = (np.zeros((len(self.count), *values.shape[2:])) for _ in range(2))
        new = len(values)
        old = self.count[where][(..., *[None] * (self.mean.ndim - 1))]
        mean = values.mean(axis=0)
        shift = mean - self.mean[where]
        self.squares[where] += ((values - mean) ** 2).sum(axis=0) + shift**2 * old * new / (old + new)
        self.mean[where] += shift * new / (old + new)
        self.count[where] += new

    @property
    def variance(self) -> np.ndarray:
        return self.squares / self.count[(..., *[None] * (self.mean.ndim - 1))]


@dataclass(frozen=True, repr=False)
class Predictive:
    """Mean and spread over draws. Examples are the first axis.

    Attributes:
        task: "classification" or "regression".
        mean: average over draws of the class probabilities, or of the predicted value.
        std: standard deviation over draws of the same: the epistemic part alone.
        num_draws: how many draws were taken.
        draws: the draws themselves, (num_draws, examples, …), with `keep_draws=True`.
    """

    task: ClassVar[str]
    mean: np.ndarray
    std: np.ndarray
    num_draws: int
    draws: np.ndarray | None = None

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        """Returns every uncertainty by name, one number per example, or the reason why there is none."""
        raise NotImplementedError

    def quantile(self, q) -> np.ndarray:
        """Returns exact quantiles over the draws: `(*shape of q, examples, …)`."""
        if self.draws is None:
            raise ValueError("quantile needs the draws, and they were not kept; call predict(..., keep_draws=True).")
        return np.quantile(self.draws, q, axis=0)

    @property
    def position_shape(self) -> tuple[int, ...]:
        """The shape of what has one target: (examples,), or (examples, length) of sequences, …"""
        return self.mean.shape[:-1]

    def positions(self, where: np.ndarray | None = None) -> "Predictive":
        """Returns the predictions of every position (token, pixel, label) as an example of its own.

        Args:
            where: True for the positions that are wanted, in `position_shape`.
        """
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        draws = f"{self.num_draws} draw{'s' * (self.num_draws != 1)}"
        means = ", ".join(f"{name} {value:.4g}" for name, value in self._means().items())
        return f"{type(self).__name__}({draws}, mean of shape {self.mean.shape}; on average {means})"

    def _means(self) -> dict[str, float]:
        """Returns what the repr shows, each a mean over examples."""
        return {"std": float(self.std.mean())}


@dataclass(frozen=True, repr=False)
class ClassPredictive(Predictive):
    """Predictions of classes: `mean` and `std` are of probabilities, (examples, classes)."""

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
        draws = _drawn("ClassPredictive.of_draws", draws, axes=3)
        if draws.min() < 0 or not np.allclose(draws.sum(axis=-1), 1, atol=1e-3):
            raise ValueError(
                "ClassPredictive.of_draws needs probabilities that sum to 1 over the last axis; got sums from "
                f"{draws.sum(axis=-1).min():.3g} to {draws.sum(axis=-1).max():.3g}."
            )
        entropy = special.entr(draws).sum(axis=-1).mean(axis=0)
        return cls(draws.mean(axis=0), draws.std(axis=0), len(draws), draws, entropy)

    @property
    def labels(self) -> np.ndarray:
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
        std = np.take_along_axis(self.std, self.labels[..., None], axis=-1)[..., 0]
        return {"entropy": self.entropy, "mi": self.mutual_information, "std": std}

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Returns the central interval over draws of each probability; needs `keep_draws=True`."""
        return _interval_over_draws(self, level)

    def positions(self, where: np.ndarray | None = None) -> "ClassPredictive":
        at = np.ones(self.position_shape, bool) if where is None else where
        return replace(
            self,
            mean=self.mean[at],
            std=self.std[at],
            draws=None if self.draws is None else self.draws[:, at],
            expected_entropy=None if self.expected_entropy is None else self.expected_entropy[at],
        )


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
        return ClassPredictive(mean, std, self.num_draws, draws, self.expected_entropy)

    def label(self, number: int) -> ClassPredictive:
        """Returns the predictions of one label: absent or present."""
        p = self.by_class()
        return replace(
            p,
            mean=p.mean[..., number, :],
            std=p.std[..., number, :],
            draws=None if p.draws is None else p.draws[..., number, :],
            expected_entropy=None if p.expected_entropy is None else p.expected_entropy[..., number],
        )

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        """Returns entropy, mutual information ("mi") and the std over draws, of every label."""
        return self.by_class().uncertainties()

    def positions(self, where: np.ndarray | None = None) -> ClassPredictive:
        return self.by_class().positions(where)

    @property
    def position_shape(self) -> tuple[int, ...]:
        return self.mean.shape

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Returns the central interval over draws of each probability; needs `keep_draws=True`."""
        return _interval_over_draws(self, level)

    def _means(self) -> dict[str, float]:
        return {"entropy": float(self.entropy.mean())}


@dataclass(frozen=True, repr=False)
class ValuePredictive(Predictive):
    """Predictions of regression targets, with the noise around them where the likelihood specifies it.

    Attributes:
        noise: its standard deviation: one number, or one for every value in the shape of `mean`.
        family: how targets are distributed around the mean with the total variance: Gaussian, Student-t, as counts, …
    """

    task: ClassVar[str] = "regression"
    noise: float | np.ndarray | None = None
    family: NoiseFamily = GAUSSIAN

    @classmethod
    def of_draws(
        cls, draws, noise: float | np.ndarray | None = None, family: NoiseFamily = GAUSSIAN
    ) -> "ValuePredictive":
        """Returns the predictions of a method of your own from its drawn predictions (draws, examples, …)."""
        draws = _drawn("ValuePredictive.of_draws", draws, axes=2)
        return cls(draws.mean(axis=0), draws.std(axis=0), len(draws), draws, noise, family)

    def variance(self, kind: str) -> np.ndarray:
        """Returns the "epistemic" variance (of the draws), the "aleatoric" one (of the noise) or their sum, "total"."""
        if kind not in VARIANCES:
            raise ValueError(f"variance needs to be one of {list(VARIANCES)}; got variance={kind!r}.")
        if kind == "epistemic":
            return self.std**2
        if self.noise is None:
            raise ValueError(
                f"The {kind} variance needs the noise, and the likelihood does not specify it. Learn it: put "
                "layers.LearnedNoise() behind the last layer and compile with singularbayes.MeanScaleNLL(). Or compile "
                "with singularbayes.GaussianNLL(scale), pass likelihood=singularbayes.Gaussian(scale) to predict, or "
                'use variance="epistemic", the part that more data would remove. "mse" implies a noise of √½ (0.71) '
                "for one output, Huber one of 1, whatever the targets are; that is used only where it is passed."
            )
        aleatoric = np.broadcast_to(np.square(self.noise), self.std.shape)
        return aleatoric if kind == "aleatoric" else self.std**2 + aleatoric

    def why_no_variance(self, kind: str) -> str | None:
        """Returns why predictions do not have the "epistemic", "aleatoric" or "total" variance; None where they do."""
        if kind == "epistemic":
            return DETERMINISTIC if self.num_draws == 1 else None
        return NO_NOISE if self.noise is None else None

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        """Returns the "epistemic" and the "total" standard deviation; of several outputs the root mean square."""
        return {kind: self.why_no_variance(kind) or self._spread(kind) for kind in ("epistemic", "total")}

    @property
    def position_shape(self) -> tuple[int, ...]:
        return self.mean.shape[:-1] if self.mean.ndim > 1 else self.mean.shape

    def positions(self, where: np.ndarray | None = None) -> "ValuePredictive":
        at = np.ones(self.position_shape, bool) if where is None else where
        return replace(
            self,
            mean=self.mean[at],
            std=self.std[at],
            draws=None if self.draws is None else self.draws[:, at],
            noise=np.broadcast_to(self.noise, self.mean.shape)[at]
            if isinstance(self.noise, np.ndarray)
            else self.noise,
        )

    def _spread(self, kind: str) -> np.ndarray:
        return np.sqrt(self.variance(kind).reshape(len(self), -1).mean(axis=1))

    def _means(self) -> dict[str, float]:
        return super()._means() | ({} if self.noise is None else {"noise": float(np.mean(self.noise))})

    def interval(self, level: float = 0.95, variance: str = "total") -> tuple[np.ndarray, np.ndarray]:
        """Returns the central interval of the "total" variance, where new values lie, or of the "epistemic" one.

        It is mean ∓ z · sd for Gaussian noise and for the epistemic variance; other noise has the quantiles of its
        `family`, and counts have integers. Both ends have the shape of `mean`, (examples, 1) for one output: compare
        them with `y.reshape(mean.shape)`. The epistemic interval is about the mean alone and covers a smaller share of
        new values than `level`.
        """
        _require_level(level)
        family, std = self.family_of(variance), np.sqrt(self.variance(variance))
        lower, upper = (family.quantile(q, self.mean, std) for q in ((1 - level) / 2, (1 + level) / 2))
        return lower, upper

    def family_of(self, kind: str) -> NoiseFamily:
        """Returns the family that a variance belongs to: the epistemic one is about means, which are Gaussian."""
        return GAUSSIAN if kind == "epistemic" else self.family


def _drawn(name: str, draws, axes: int) -> np.ndarray:
    draws = np.asarray(draws, "float64")
    if draws.ndim < axes or not draws.size or not np.isfinite(draws).all():
        shape = "(draws, examples, classes)" if axes == 3 else "(draws, examples, …)"
        raise ValueError(f"{name} needs finite numbers {shape}; got shape {draws.shape}.")
    return draws


def _interval_over_draws(p: Predictive, level: float) -> tuple[np.ndarray, np.ndarray]:
    _require_level(level)
    lower, upper = p.quantile([(1 - level) / 2, (1 + level) / 2])
    return lower, upper


def binary_entropy(p: np.ndarray) -> np.ndarray:
    """Returns −p log p − (1 − p) log(1 − p)."""
    return special.entr(p) + special.entr(1 - p)


def _require_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"interval needs 0 < level < 1; got level={level!r}.")


def require_kind(name: str, p: Predictive, kind: type[Predictive]) -> None:
    if not isinstance(p, kind):
        raise TypeError(f"{name} needs a {kind.__name__}, as predict returns it; got {type(p).__name__}.")
