"""What each number of an evaluation is called, and which end is the better one; and which settings no other beats."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from singularbayes.checks import require_finite

BETTER = ("higher", "lower")


@dataclass(frozen=True)
class Measure:
    """A measure's name and direction; tables and figures take the same ones.

    Args:
        name: as an evaluation calls it, "nll".
        better: "higher", "lower", the value that is best, or None where neither is.
        unit: "nats", "%"; empty for a pure number.
        label: as readers know it, "NLL"; else its name.
        whole: it is a count.
        scale: tables and figures show it divided by this.
        decimals: that tables show after dividing; None shows as many as the largest mean needs.
        ranked: tables mark the best. Time and memory are not ranked: they hold what is compiled, and
            the whole process, so that order and chance can decide.

    >>> Measure("nll", "lower", "nats", label="NLL").axis, Measure("AUROC", "higher").arrow
    ('NLL (nats), lower is better', '↑')
    """

    name: str
    better: str | float | None = None
    unit: str = ""
    _: KW_ONLY
    label: str = ""
    whole: bool = False
    scale: float = 1.0
    decimals: int | None = None
    ranked: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.better, str) and self.better not in BETTER:
            raise ValueError(
                f"Measure needs better to be one of {list(BETTER)}, the best value or None; got {self.better!r} for "
                f"{self.name!r}."
            )
        object.__setattr__(self, "label", self.label or self.name)

    @property
    def has_direction(self) -> bool:
        """Whether higher or lower is better; else there is a best value, or none."""
        return self.better in BETTER

    @property
    def sign(self) -> int:
        """1 where higher is better, −1 where lower is."""
        if not self.has_direction:
            raise ValueError(
                f"A figure needs measures of which higher or lower is better; got better={self.better!r} of "
                f"{self.name!r}."
            )
        return 1 if self.better == "higher" else -1

    @property
    def arrow(self) -> str:
        """↑, ↓, → with the best value, or nothing."""
        if self.better is None:
            return ""
        return {"higher": "↑", "lower": "↓"}.get(str(self.better), f"→ {self.better}")

    @property
    def axis(self) -> str:
        """Label, unit and direction, for an axis."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.label}{unit}, {self.better} is better"

    def loss(self, value: float) -> float | None:
        """Returns a number that is lower for better values; None where neither is better."""
        if self.better is None:
            return None
        if not isinstance(self.better, str):
            return abs(value - self.better)
        return -self.sign * value


INTERVAL_LEVEL = 0.95  # of the intervals
RETAINED_SHARE = 0.8  # the share that selective prediction keeps

_OF_CLASSES = {"mi": "MI", "entropy": "entropy", "std": "std"}  # uncertainties
_OF_VALUES = {"epistemic": "epistemic", "total": "total"}


def _measures() -> Iterable[Measure]:
    yield Measure("num_trained", "lower", label="trainable parameters", whole=True)
    yield Measure("num_stored", "lower", label="parameters", whole=True)
    yield Measure("seconds", "lower", label="predict s", ranked=False)
    yield Measure("train_seconds", "lower", label="train s", ranked=False)
    for name, label, better in (
        ("accuracy", "accuracy", "higher"),
        ("auroc", "AUROC", "higher"),
        ("nll", "NLL", "lower"),
        ("brier", "Brier", "lower"),
        ("ece", "ECE", "lower"),
        ("mae", "MAE", "lower"),
        ("rmse", "RMSE", "lower"),
        ("r2", "R²", "higher"),
    ):
        yield Measure(name, better, label=label)
    for scheme in ("equal_mass", "equal_width"):
        for bins in (10, 15, 20):
            yield Measure(f"ece_{scheme}_{bins}", "lower", label=f"ECE ({scheme.replace('_', ' ')}, {bins} bins)")
    for name, label in (("mean_entropy", "entropy"), ("mean_mi", "MI"), ("mean_std", "std")):
        yield Measure(name, label=label)
    for kind in ("epistemic", "aleatoric", "total"):
        yield Measure(f"variance_{kind}", label=f"{kind} variance")
    for kind in ("epistemic", "total"):
        for name, label, best in VARIANCE_SCORES:
            yield Measure(f"{name}_{kind}", best, label=f"{label} ({kind})")
    for by, words in {**_OF_CLASSES, **_OF_VALUES}.items():
        for name, label, better in (*_OF_UNCERTAINTY, *(_OF_ERRORS if by in _OF_CLASSES else ())):
            yield Measure(f"{name}_{by}", better, label=f"{label} ({words})")
    yield Measure("mi_ratio", "higher", label="MI ratio")
    yield Measure("iqr_inside", label="IQR inside")
    yield Measure("iqr_outside", label="IQR outside")
    yield Measure("iqr_ratio", "higher", label="IQR ratio")


VARIANCE_SCORES: tuple[tuple[str, str, str | float], ...] = (
    ("nll", "NLL", "lower"),
    ("crps", "CRPS", "lower"),
    ("crps_sample", "sample CRPS", "lower"),
    ("picp_95", "PICP", INTERVAL_LEVEL),
    ("mpiw_95", "MPIW", "lower"),
    ("interval_score_95", "interval score", "lower"),
    ("calibration_error", "calibration error", "lower"),
    ("calibration_area", "calibration area", "lower"),
)
_OF_UNCERTAINTY = (
    ("auroc_ood", "AUROC-OOD", "higher"),
    ("aupr_ood", "AUPR-OOD", "higher"),
    ("aupr_in", "AUPR-In", "higher"),
    ("fpr_at_95_tpr", "FPR@95TPR", "lower"),
    ("tpr_at_5_fpr", "TPR@5FPR", "higher"),
    ("aurc", "AURC", "lower"),
    ("risk_at_80", "risk at 80 %", "lower"),
)
_OF_ERRORS = (("aupr_err", "AUPR-Err", "higher"), ("aupr_succ", "AUPR-Succ", "higher"))

MEASURES = {measure.name: measure for measure in _measures()}

# What a table shows by default; the detection scores once for every out-of-distribution set.
DEFAULT_SCORES = {
    "classification": ("num_stored", "accuracy", "auroc", "nll", "brier", "ece", "aupr_err_entropy"),
    "regression": ("num_stored", "rmse", "mae", "nll_total", "crps_total", "picp_95_total", "mpiw_95_total"),
}
DEFAULT_OOD_SCORES = {"classification": ("auroc_ood_mi", "auroc_ood_entropy"), "regression": ("auroc_ood_epistemic",)}


def find_measure(name: str) -> Measure:
    """Returns the measure of that name; "digits/auroc_ood_mi" is that of the out-of-distribution set "digits".

    >>> find_measure("digits/auroc_ood_mi").label
    'AUROC-OOD (MI), digits'
    """
    ood_set, _, base = name.rpartition("/")
    if base not in MEASURES:
        near = difflib.get_close_matches(base, MEASURES)
        hint = f" Near are {near}." if near else ""
        raise ValueError(f"There is no measure {name!r}.{hint} Known measures: {sorted(MEASURES)}.")
    known = MEASURES[base]
    return replace(known, name=name, label=f"{known.label}, {ood_set}") if ood_set else known


def pareto_front(values: np.ndarray, signs: Sequence[int]) -> np.ndarray:
    """Returns for every row whether no other is at least as good in all columns and better in one.

    Args:
        values: (settings, measures).
        signs: of every measure, 1 where higher is better and −1 where lower is.

    >>> pareto_front(np.array([[0.9, 0.3], [0.8, 0.2], [0.8, 0.4]]), signs=(1, -1))
    array([ True,  True, False])
    """
    table, sign = np.asarray(values, "float64"), np.asarray(signs)
    if table.ndim != 2 or not table.size or sign.shape != table.shape[1:] or not np.isin(sign, (-1, 1)).all():
        raise ValueError(
            "pareto_front needs values of shape (settings, measures), not empty, and a sign, 1 or -1, for each "
            f"measure; got shape {table.shape} and signs {list(signs)}."
        )
    require_finite("pareto_front", values=table)
    good = table * sign
    as_good = (good[:, None] >= good[None]).all(axis=-1)
    better = (good[:, None] > good[None]).any(axis=-1)
    return ~(as_good & better).any(axis=0)
