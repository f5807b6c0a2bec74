"""Predictions of regression targets: means, the noise around them, and intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from singularbayes.checks import require_share
from singularbayes.likelihoods.noise_families import GAUSSIAN, NoiseFamily
from singularbayes.likelihoods.predictive import DETERMINISTIC, Predictive, drawn_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIANCES = ("epistemic", "aleatoric", "total")
NO_NOISE = "the likelihood does not specify the noise"


@dataclass(frozen=True, repr=False)
class ValuePredictive(Predictive):
    """Predictions of regression targets, with the noise around them where the likelihood specifies it.

    A model with one output predicts (examples,), the shape of targets `y` of one column, so `p.mean - y` is no table of
    differences: `mean`, `std`, `noise`, intervals, and `draws` (draws, examples). Targets (examples, 1) need `y[:, 0]`.

    Attributes:
        noise: its standard deviation: one number, or one for every value in the shape of `mean`.
        family: how targets are distributed around the mean with the total variance: Gaussian, Student-t, as counts, …

    >>> p = ValuePredictive.of_draws(np.array([[1.0], [3.0]]), noise=0.5)  # two draws, one example
    >>> p.mean.tolist(), p.variance("epistemic").tolist(), p.variance("total").tolist()
    ([2.0], [1.0], [1.25])
    """

    task: ClassVar[str] = "regression"
    trailing_axes: ClassVar[int] = 0
    noise: float | np.ndarray | None = None
    family: NoiseFamily = GAUSSIAN

    @classmethod
    def of_draws(
        cls, draws, noise: float | np.ndarray | None = None, family: NoiseFamily = GAUSSIAN
    ) -> "ValuePredictive":
        """Returns the predictions of a method of your own from its drawn predictions (draws, examples, …)."""
        draws = drawn_array("ValuePredictive.of_draws", draws, axes=2)
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
        return self.changed(lambda array: array[..., 0])

    def variance(self, kind: str) -> np.ndarray:
        """Returns the "epistemic" variance (of the draws), the "aleatoric" one (of the noise) or their sum, "total"."""
        if kind not in VARIANCES:
            raise ValueError(f"variance needs to be one of {list(VARIANCES)}; got variance={kind!r}.")
        if kind == "epistemic":
            return self.std**2
        if self.noise is None:
            raise ValueError(
                f"The {kind} variance needs the noise, and the likelihood does not specify it. Learn it: put "
                "layers.LearnedNoise() behind the last layer and compile with singularbayes.MeanScale(). Or compile "
                "with singularbayes.Gaussian(scale), pass likelihood=singularbayes.Gaussian(scale) to predict, or "
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
        require_share("interval", level=level)
        family, std = self.family_of(variance), np.sqrt(self.variance(variance))
        lower, upper = (family.quantile(q, self.mean, std) for q in ((1 - level) / 2, (1 + level) / 2))
        return lower, upper

    def family_of(self, kind: str) -> NoiseFamily:
        """Returns the family that a variance belongs to: the epistemic one is about means, which are Gaussian."""
        return GAUSSIAN if kind == "epistemic" else self.family

    def _columns(self, level: float) -> dict[str, np.ndarray]:
        found = {"mean": self.mean}
        kinds = [kind for kind in ("epistemic", "total") if self.why_no_variance(kind) is None]
        found |= {f"{kind}_std": np.sqrt(self.variance(kind)) for kind in kinds}
        if "total" in kinds:
            found["lower"], found["upper"] = self.interval(level)
        return found
