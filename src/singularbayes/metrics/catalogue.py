"""What each number of an evaluation is called, and whether more of it is better."""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from singularbayes.metrics.measure import Measure

INTERVAL_LEVEL = 0.95  # of the intervals
RETAINED_SHARE = 0.8  # the share that selective prediction keeps

_OF_CLASSES = {"mi": "MI", "entropy": "entropy", "std": "std"}  # uncertainties
_OF_VALUES = {"epistemic": "epistemic", "total": "total"}


def _measures() -> Iterable[Measure]:
    yield Measure("num_trained", "lower", label="trainable parameters", whole=True)
    yield Measure("num_stored", "lower", label="parameters", whole=True)
    yield Measure("seconds", "lower", label="predict s", ranked=False)
    yield Measure("train_seconds", "lower", label="train s", ranked=False)
    yield Measure("peak_bytes", "lower", label="peak MB", scale=1e6, ranked=False)
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
