"""The predictive distribution of each example, from posterior draws.

Results are reduced as the draws stream past, so their memory does not grow with the number of draws. Entropies are in
nats; `std` is over draws (population form). Quantiles are those that `predict(..., quantiles=…)` was given, or any
where the draws themselves were kept (`keep_draws=True`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from singularbayes.checks import require_package, require_share
from singularbayes.models.data import as_arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DETERMINISTIC = "it is deterministic, so draws do not differ"


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

    >>> from singularbayes.likelihoods import ClassPredictive
    >>> p = ClassPredictive(np.array([[0.9, 0.1]]), np.zeros((1, 2)), num_draws=1)
    >>> p.task, p.mean, p.std
    ('classification', array([[0.9, 0.1]]), array([[0., 0.]]))
    """

    task: ClassVar[str]
    trailing_axes: ClassVar[int] = 1  # of a prediction: its classes, or labels
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
            needed = tuple(float(round(level, 6)) for level in levels)
            there = f"there are those of {sorted(kept)}" if kept else "neither they nor the draws were kept"
            raise ValueError(
                f"quantile needs the quantiles {needed}, and {there}; call predict(..., quantiles={needed}), which "
                "needs little memory, or predict(..., keep_draws=True)."
            )
        return np.stack([values for values in found if values is not None]).reshape(np.shape(q) + self.mean.shape)

    def changed(self, function: Callable[[np.ndarray], np.ndarray], **others) -> Self:
        """Returns the predictions with a function applied to all arrays alike, such as a choice of rows.

        Args:
            others: new `targets` and `weights`, which stay otherwise.
        """
        parts: dict[str, Any] = {name: function(getattr(self, name)) for name in ("mean", "std")}
        for name in ("expected_entropy", "noise"):  # of classes, and of values
            array = getattr(self, name, None)
            if isinstance(array, np.ndarray):
                parts[name] = function(np.broadcast_to(array, self.mean.shape) if name == "noise" else array)
        if self.draws is not None:
            parts["draws"] = np.stack([function(draw) for draw in self.draws])
        if self.quantiles is not None:
            parts["quantiles"] = {q: function(values) for q, values in self.quantiles.items()}
        return replace(self, **parts, **others)

    def flattened(self) -> Self:
        """Returns one row per prediction: positions, such as tokens and pixels, become examples of their own.

        Class probabilities are (predictions, classes) afterwards, and values (predictions,); compare them with
        `y.reshape(-1)`, or take `targets` where the data held them.

        >>> from singularbayes import ClassPredictive
        >>> p = ClassPredictive.of_draws(np.full((3, 5, 7, 2), 0.5))  # 5 sequences of 7 tokens
        >>> p.mean.shape, p.flattened().mean.shape, p.flattened().entropy.shape
        ((5, 7, 2), (35, 2), (35,))
        """
        axes = self.mean.ndim - self.trailing_axes
        found: dict[str, Any] = {}
        for name in ("targets", "weights"):
            values = getattr(self, name)
            if isinstance(values, np.ndarray) and values.size:
                shape = self.mean.shape[:axes]
                wide = values if values.size == np.prod(shape) else _repeated(values, shape)
                values = None if wide is None else wide.reshape(-1)
            found[name] = values
        return self.changed(lambda array: array.reshape(-1, *array.shape[axes:]), **found)

    def to_dataframe(self, level: float = 0.95):
        """Returns a pandas table with one row per prediction, for files and for people; see `flattened`.

        Of several positions the columns "example" and "position" name them; "target" is there where the data held it.

        Args:
            level: of the interval, columns "lower…" and "upper…", where draws, quantiles or the noise give one.

        >>> from singularbayes import ClassPredictive
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
        require_share("to_dataframe", level=level)
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

    def positions(self, where: np.ndarray | None = None) -> Self:
        """Returns the predictions of every position (token, pixel, label) as an example of its own.

        Args:
            where: True for the positions that are wanted, in `position_shape`. `targets` and `weights` are not kept.
        """
        at = np.ones(self.position_shape, bool) if where is None else where
        return self.changed(lambda array: array[at], targets=None, weights=None)

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


def _repeated(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns one value per example once for every position; None where values are not one per example."""
    if values.size != shape[0]:
        return None
    return np.broadcast_to(values.reshape(-1, *[1] * (len(shape) - 1)), shape)


def drawn_array(name: str, draws, axes: int) -> np.ndarray:
    draws = np.asarray(draws, "float64")
    if draws.ndim < axes or not draws.size or not np.isfinite(draws).all():
        shape = "(draws, examples, classes)" if axes == 3 else "(draws, examples, …)"
        raise ValueError(f"{name} needs finite numbers {shape}; got shape {draws.shape}.")
    return draws


def require_kind(name: str, p: Predictive, kind: type[Predictive]) -> None:
    """Raises unless `p` is a prediction of this kind; `name` is the function that needs it."""
    if not isinstance(p, kind):
        raise TypeError(f"{name} needs a {kind.__name__}, as predict returns it; got {type(p).__name__}.")


def targets_of(name: str, p: Predictive, y=None):
    """Returns the targets of predictions as arrays: `y`, or for None those that the data held."""
    if y is None and p.targets is None:
        raise ValueError(f"{name} needs the targets y, and the data of these predictions held none; got y=None.")
    return p.targets if y is None else as_arrays(y, name)
