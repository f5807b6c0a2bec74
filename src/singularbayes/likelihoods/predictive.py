"""The predictive distribution of each example, from posterior draws.

Results are reduced as the draws stream past, so their memory does not grow with the number of draws. Entropies are in
nats; `std` is over draws (population form). Quantiles are those that `predict(..., quantiles=…)` was given, or any
where the draws themselves were kept (`keep_draws=True`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import special

from singularbayes.checks import require_package
from singularbayes.likelihoods.noise_families import GAUSSIAN, NoiseFamily
from singularbayes.models import as_arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    @classmethod
    def joined(cls, parts: "list[RunningMoments]") -> "RunningMoments":
        """Returns the moments of the examples of all parts, one part after another."""
        whole = cls(0)
        for name in ("count", "mean", "squares"):
            setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
        return whole


@dataclass(frozen=True, repr=False)
class Predictive:
    """Mean and spread over draws. Examples are the first axis.

    Attributes:
        task: "classification" or "regression".
        mean: average over draws of the class probabilities, or of the predicted value.
        std: standard deviation over draws of the same: the epistemic part alone.
        num_draws: how many draws were taken.
        draws: the draws themselves, (num_draws, examples, …), with `keep_draws=True`.
        quantiles: those over draws that `predict(..., quantiles=…)` was given, each in the shape of `mean`.
        targets, weights: those of the data, in the order of the predictions, where the data held them: batches
            (x, y) or (x, y, sample_weight).
    """

    task: ClassVar[str]
    mean: np.ndarray
    std: np.ndarray
    num_draws: int
    draws: np.ndarray | None = None
    quantiles: Mapping[float, np.ndarray] | None = field(default=None, kw_only=True)
    targets: Any = field(default=None, kw_only=True)
    weights: np.ndarray | None = field(default=None, kw_only=True)

    def uncertainties(self) -> dict[str, np.ndarray | str]:
        """Returns every uncertainty by name, one number per example, or the reason why there is none."""
        raise NotImplementedError

    def quantile(self, q) -> np.ndarray:
        """Returns exact quantiles over the draws: `(*shape of q, examples, …)`."""
        if self.draws is not None:
            return np.quantile(self.draws, q, axis=0)
        kept = self.quantiles or {}
        levels = np.ravel(np.asarray(q, "float64"))
        # (1 − 0.95)/2 is not 0.025 to the last bit.
        found = [next((kept[known] for known in kept if abs(known - level) < 1e-9), None) for level in levels]
        if any(values is None for values in found):
            asked = tuple(float(round(level, 6)) for level in levels)
            there = f"there are those of {sorted(kept)}" if kept else "neither they nor the draws were kept"
            raise ValueError(
                f"quantile needs the quantiles {asked}, and {there}; call predict(..., quantiles={asked}), which needs "
                "little memory, or predict(..., keep_draws=True)."
            )
        return np.stack([values for values in found if values is not None]).reshape(np.shape(q) + self.mean.shape)

    def flattened(self) -> Self:
        """Returns one row per prediction: positions, such as tokens and pixels, become examples of their own.

        Class probabilities are (predictions, classes) afterwards, and values (predictions,); compare them with
        `y.reshape(-1)`, or take `targets` where the data held them.

        >>> p = ClassPredictive.of_draws(np.full((3, 5, 7, 2), 0.5))  # 5 sequences of 7 tokens
        >>> p.mean.shape, p.flattened().mean.shape, p.flattened().entropy.shape
        ((5, 7, 2), (35, 2), (35,))
        """
        raise NotImplementedError

    def _flattened(self, tail: tuple[int, ...]) -> Self:
        """Returns the rows of `mean` in the shape (-1, *tail), and all that goes with them."""
        shape = self.mean.shape[: self.mean.ndim - len(tail)]
        parts: dict[str, Any] = {"mean": self.mean.reshape(-1, *tail), "std": self.std.reshape(-1, *tail)}
        if self.draws is not None:
            parts["draws"] = self.draws.reshape(len(self.draws), -1, *tail)
        if self.quantiles is not None:
            parts["quantiles"] = {q: values.reshape(-1, *tail) for q, values in self.quantiles.items()}
        for name in ("targets", "weights"):
            values = getattr(self, name)
            if isinstance(values, np.ndarray) and values.size:
                wide = values if values.size == np.prod(shape) else _repeated(values, shape)
                parts[name] = None if wide is None else wide.reshape(-1)
        return replace(self, **parts)

    def to_dataframe(self, level: float = 0.95):
        """Returns a pandas table with one row per prediction, for files and for people; see `flattened`.

        Of several positions the columns "example" and "position" say which; "target" is there where the data held it.

        Args:
            level: of the interval, columns "lower…" and "upper…", where draws, quantiles or the noise give one.

        >>> p = ClassPredictive.of_draws([[[0.9, 0.1]], [[0.5, 0.5]]])
        >>> p.to_dataframe().round(3).T
                                0
        predicted_label     0.000
        probability         0.700
        probability_0       0.700
        probability_1       0.300
        lower_0             0.510
        upper_0             0.890
        lower_1             0.110
        upper_1             0.490
        entropy             0.611
        mutual_information  0.102
        """
        pandas = require_package("pandas", "", "to_dataframe", project="pandas")
        _require_level(level)
        flat = self.flattened()
        columns: dict[str, np.ndarray] = {}
        if len(flat) != len(self):
            columns["example"] = np.repeat(np.arange(len(self)), len(flat) // len(self))
            columns["position"] = np.tile(np.arange(len(flat) // len(self)), len(self))
        columns |= flat._columns(level)
        if isinstance(flat.targets, np.ndarray) and flat.targets.size == len(flat):
            columns["target"] = flat.targets.reshape(-1)
        return pandas.DataFrame(columns)

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        """Returns what a table shows of flattened predictions."""
        raise NotImplementedError

    @property
    def position_shape(self) -> tuple[int, ...]:
        """The shape of what has one target: (examples,), or (examples, length) of sequences, …"""
        return self.mean.shape[:-1]

    def positions(self, where: np.ndarray | None = None) -> "Predictive":
        """Returns the predictions of every position (token, pixel, label) as an example of its own.

        Args:
            where: True for the positions that are wanted, in `position_shape`. `targets` and `weights` are not kept.
        """
        raise NotImplementedError

    def _quantiles_at(self, at: np.ndarray) -> dict[str, Any]:
        kept = None if self.quantiles is None else {q: values[at] for q, values in self.quantiles.items()}
        return {"quantiles": kept, "targets": None, "weights": None}

    def plot(self, y=None) -> "Figure":
        """Returns a figure: values with intervals of 95 %, or how uncertain classes are; see `figure.savefig`.

        Args:
            y: the targets; None takes those of the data, where they held some.
        """
        require_package("matplotlib", "plots", f"{type(self).__name__}.plot")
        flat = self.flattened()
        if y is not None:
            flat = replace(flat, targets=np.asarray(as_arrays(y, "plot")).reshape(-1))
            if len(flat.targets) != len(flat):
                raise ValueError(f"plot needs one target per prediction, {len(flat)}; got {len(flat.targets)}.")
        return flat._drawn_as()

    def _drawn_as(self) -> "Figure":
        """Returns the figure of flattened predictions."""
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

    def positions(self, where: np.ndarray | None = None) -> "ClassPredictive":
        at = np.ones(self.position_shape, bool) if where is None else where
        return replace(
            self,
            mean=self.mean[at],
            std=self.std[at],
            draws=None if self.draws is None else self.draws[:, at],
            expected_entropy=None if self.expected_entropy is None else self.expected_entropy[at],
            **self._quantiles_at(at),
        )

    def _drawn_as(self) -> "Figure":
        from singularbayes.plots import predicted_classes

        found = self.uncertainties()["mi"]
        name, values = ("entropy", self.entropy) if isinstance(found, str) else ("mutual information", found)
        right = None if self.targets is None else self.predicted_labels == self.targets
        return predicted_classes(self.mean.max(axis=-1), values, f"{name} (nats)", right)

    def flattened(self) -> Self:
        flat = self._flattened(self.mean.shape[-1:])
        entropy = self.expected_entropy
        return flat if entropy is None else replace(flat, expected_entropy=entropy.reshape(-1))

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
        p = self.by_class()
        return replace(
            p,
            mean=p.mean[..., number, :],
            std=p.std[..., number, :],
            draws=None if p.draws is None else p.draws[..., number, :],
            expected_entropy=None if p.expected_entropy is None else p.expected_entropy[..., number],
            targets=None if p.targets is None else np.asarray(p.targets)[..., number],
            weights=p.weights if p.weights is None or p.weights.ndim < self.mean.ndim else p.weights[..., number],
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

    def flattened(self) -> Self:
        flat = self._flattened(self.mean.shape[-1:])
        entropy = self.expected_entropy
        return flat if entropy is None else replace(flat, expected_entropy=entropy.reshape(-1, entropy.shape[-1]))

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for k in range(self.mean.shape[-1]):
            found |= {f"predicted_label_{k}": self.predicted_labels[:, k], f"probability_{k}": self.mean[:, k]}
        return found

    def _means(self) -> dict[str, float]:
        return {"entropy": float(self.entropy.mean())}


@dataclass(frozen=True, repr=False)
class ValuePredictive(Predictive):
    """Predictions of regression targets, with the noise around them where the likelihood specifies it.

    A model with one output predicts (examples,), the shape of targets `y` of one column, so `p.mean - y` is no table of
    differences: `mean`, `std`, `noise`, intervals, and `draws` (draws, examples). Targets (examples, 1) need `y[:, 0]`.

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

    def _drawn_as(self) -> "Figure":
        from singularbayes.plots import predicted_values

        kinds = [kind for kind in ("total", "epistemic") if self.why_no_variance(kind) is None]
        lower, upper = self.interval(0.95, kinds[0]) if kinds else (self.mean, self.mean)
        interval = f"95 %, {kinds[0]} variance" if kinds else "no interval"
        return predicted_values(self.mean, lower, upper, self.targets, interval)

    def in_one_column(self) -> Self:
        """Returns predictions (examples, 1) as (examples,); others as they are."""
        if self.mean.shape[1:] != (1,):
            return self
        draws = None if self.draws is None else self.draws[..., 0]
        noise = (
            np.asarray(self.noise)[..., 0]
            if isinstance(self.noise, np.ndarray) and self.noise.ndim == 2
            else self.noise
        )
        return replace(self, mean=self.mean[:, 0], std=self.std[:, 0], draws=draws, noise=noise)

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
            **self._quantiles_at(at),
        )

    def _spread(self, kind: str) -> np.ndarray:
        return np.sqrt(self.variance(kind).reshape(len(self), -1).mean(axis=1))

    def _means(self) -> dict[str, float]:
        return super()._means() | ({} if self.noise is None else {"noise": float(np.mean(self.noise))})

    def interval(self, level: float = 0.95, variance: str = "total") -> tuple[np.ndarray, np.ndarray]:
        """Returns the central interval of the "total" variance, where new values lie, or of the "epistemic" one.

        It is mean ∓ z · sd for Gaussian noise and for the epistemic variance; other noise has the quantiles of its
        `family`, and counts have integers. Both ends have the shape of `mean`, (examples,) for one output. The
        epistemic interval is about the mean alone and covers a smaller share of new values than `level`.
        """
        _require_level(level)
        family, std = self.family_of(variance), np.sqrt(self.variance(variance))
        lower, upper = (family.quantile(q, self.mean, std) for q in ((1 - level) / 2, (1 + level) / 2))
        return lower, upper

    def family_of(self, kind: str) -> NoiseFamily:
        """Returns the family that a variance belongs to: the epistemic one is about means, which are Gaussian."""
        return GAUSSIAN if kind == "epistemic" else self.family

    def flattened(self) -> Self:
        flat = self._flattened(())
        noise = np.broadcast_to(self.noise, self.mean.shape) if isinstance(self.noise, np.ndarray) else None
        return flat if noise is None else replace(flat, noise=noise.reshape(-1))

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        found = {"mean": self.mean}
        kinds = [kind for kind in ("epistemic", "total") if self.why_no_variance(kind) is None]
        found |= {f"{kind}_std": np.sqrt(self.variance(kind)) for kind in kinds}
        if "total" in kinds:
            found["lower"], found["upper"] = self.interval(level)
        return found


def _has_quantiles(p: Predictive, level: float) -> bool:
    return p.draws is not None or all(
        any(abs(known - q) < 1e-9 for known in p.quantiles or {}) for q in ((1 - level) / 2, (1 + level) / 2)
    )


def _repeated(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns one value per example once for every position; None where values are not one per example."""
    if values.size != shape[0]:
        return None
    return np.broadcast_to(values.reshape(-1, *[1] * (len(shape) - 1)), shape)


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


def targets_of(name: str, p: Predictive, y=None):
    """Returns the targets of predictions as arrays: `y`, or for None those that the data held."""
    if y is None and p.targets is None:
        raise ValueError(f"{name} needs the targets y, and the data of these predictions held none; got y=None.")
    return p.targets if y is None else as_arrays(y, name)
