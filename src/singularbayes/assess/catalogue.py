"""What each number of an evaluation is called, and whether more of it is better."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

LEVEL = 0.95  # of the intervals
RETAINED = 0.8  # the share that selective prediction keeps

_OF_CLASSES = {"mi": "MI", "entropy": "entropy", "std": "std"}  # uncertainties
_OF_VALUES = {"epistemic": "epistemic", "total": "total"}


@dataclass(frozen=True)
class Measure:
    """One number of an evaluation.

    Attributes:
        label: how a table heads it.
        better: "higher", "lower", the value that is best, or None where neither is.
        whole: it is a count.
        unit: tables show it divided by this.
        ranked: tables mark the best and the second. Time and memory are not ranked: they hold what is compiled, and
            the whole process, so that order and chance can decide.
    """

    name: str
    label: str
    better: str | float | None = None
    whole: bool = False
    unit: float = 1.0
    ranked: bool = True

    @property
    def arrow(self) -> str:
        """↑, ↓, → with the best value, or nothing."""
        if self.better is None:
            return ""
        return {"higher": "↑", "lower": "↓"}.get(str(self.better), f"→ {self.better}")

    def loss(self, value: float) -> float | None:
        """Returns a number that is lower for better values; None where neither is better."""
        if self.better is None:
            return None
        if isinstance(self.better, float):
            return abs(value - self.better)
        return -value if self.better == "higher" else value


def _measures() -> Iterable[Measure]:
    yield Measure("num_trained", "trained parameters", "lower", whole=True)
    yield Measure("num_stored", "parameters", "lower", whole=True)
    yield Measure("seconds", "predict s", "lower", ranked=False)
    yield Measure("train_seconds", "train s", "lower", ranked=False)
    yield Measure("peak_bytes", "peak MB", "lower", unit=1e6, ranked=False)
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
        yield Measure(name, label, better)
    for scheme in ("equal_mass", "equal_width"):
        for bins in (10, 15, 20):
            yield Measure(f"ece_{scheme}_{bins}", f"ECE ({scheme.replace('_', ' ')}, {bins} bins)", "lower")
    for name, label in (("mean_entropy", "entropy"), ("mean_mi", "MI"), ("mean_std", "std")):
        yield Measure(name, label)
    for kind in ("epistemic", "aleatoric", "total"):
        yield Measure(f"variance_{kind}", f"{kind} variance")
    for kind in ("epistemic", "total"):
        for name, label, best in OF_VARIANCE:
            yield Measure(f"{name}_{kind}", f"{label} ({kind})", best)
    for by, words in {**_OF_CLASSES, **_OF_VALUES}.items():
        for name, label, better in (*_OF_UNCERTAINTY, *(_OF_ERRORS if by in _OF_CLASSES else ())):
            yield Measure(f"{name}_{by}", f"{label} ({words})", better)
    yield Measure("mi_ratio", "MI ratio", "higher")
    yield Measure("iqr_inside", "IQR inside")
    yield Measure("iqr_outside", "IQR outside")
    yield Measure("iqr_ratio", "IQR ratio", "higher")


OF_VARIANCE: tuple[tuple[str, str, str | float], ...] = (
    ("nll", "NLL", "lower"),
    ("crps", "CRPS", "lower"),
    ("crps_sample", "sample CRPS", "lower"),
    ("picp_95", "PICP", LEVEL),
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

# What a table shows unless it is told; the detection scores once for every set of foreign examples.
TABLES = {
    "classification": ("num_stored", "accuracy", "auroc", "nll", "brier", "ece", "aupr_err_entropy"),
    "regression": ("num_stored", "rmse", "mae", "nll_total", "crps_total", "picp_95_total", "mpiw_95_total"),
}
FOREIGN = {"classification": ("auroc_ood_mi", "auroc_ood_entropy"), "regression": ("auroc_ood_epistemic",)}


def find(name: str) -> Measure:
    """Returns the measure of that name; "digits/auroc_ood_mi" is that of the foreign examples called "digits".

    >>> find("digits/auroc_ood_mi").label
    'AUROC-OOD (MI), digits'
    """
    foreign, _, base = name.rpartition("/")
    if base not in MEASURES:
        raise ValueError(f"There is no measure {name!r}; there are {sorted(MEASURES)}.")
    known = MEASURES[base]
    return replace(known, name=name, label=f"{known.label}, {foreign}") if foreign else known
