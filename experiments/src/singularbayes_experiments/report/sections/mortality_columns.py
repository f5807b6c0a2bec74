"""What the sections of intensive care share: columns and figures."""

from collections.abc import Sequence

from singularbayes_experiments.report import class_pictures
from singularbayes_experiments.report.measure_pictures import pareto_front, radars
from singularbayes_experiments.report.names import LINES, measure
from singularbayes_experiments.report.rows import Row
from singularbayes_experiments.report.section import PARAMETERS, STORED, TRAINING, Columns, Drawing

AUROC, NLL, ECE = (measure(name, 3) for name in ("auroc", "nll", "ece"))
FOUND = measure("auroc_ood_mi", 3)
RANKED = (NLL, ECE, FOUND)  # what is drawn against the rank
DEPARTURES = (
    "Two things differ from the paper even with its settings. SWAG begins with 20 epochs of Adam, the optimiser of the "
    "other methods; in the paper these epochs are of SGD, whose rate drops at epochs 6 and 12. The paper multiplies "
    "the initial means of weights with a rank of 5 or less, that is of the head, by 0.32; here the factor is 0.55 for "
    "all low-rank weights."
)
_MANY_ERRORS = (
    "AUPR-Err rises with the number of errors: a random score has an AUPR-Err equal to the error rate. So it "
    "can be compared only between networks of about the same accuracy, and no best one is marked."
)


def overview(title: str, note: str) -> Columns:
    """Returns the columns of the paper's table; `note` gets a warning of AUPR-Err, which many errors raise."""
    names = ("aupr_err_mi", "auroc_ood_mi", "aupr_ood_mi", "aupr_in_mi")
    detection = (measure(name, 3, ranked=name != "aupr_err_mi") for name in names)
    more = (NLL, measure("unweighted_nll", 3), ECE, measure("mi_ratio", 2), STORED)
    return Columns(title, (AUROC, *detection, *more, PARAMETERS), "auroc_ood_mi", f"{note} {_MANY_ERRORS}")


PROBABILITIES = Columns(
    "Probabilities of death",
    (
        measure("accuracy", 1, label="accuracy %", scale=0.01),
        measure("auprc", 3),
        NLL,
        measure("brier", 3),
        ECE,
        measure("unweighted_nll", 3),
        measure("unweighted_ece", 3),
        measure("recalibrated_temperature", 2),
        measure("recalibrated_nll", 3),
        measure("recalibrated_ece", 3),
    ),
    sort="nll",
    note=(
        "AUPRC: average precision with death as the positive class. Networks that were trained with class weights "
        "predict death too often; dividing the odds by the weight undoes that. The temperature is the best one on "
        "validation. There is none (–) where equal probabilities have a lower NLL there than the network at any "
        "temperature; a mean over shifts needs one in each."
    ),
)
UNSURE = Columns(
    "Out-of-distribution stays and errors by other uncertainties",
    (
        *(measure(f"{name}_{by}", 3) for name in ("auroc_ood", "aupr_succ", "aurc") for by in ("mi", "std", "entropy")),
        TRAINING,
    ),
    sort="auroc_ood_entropy",
    note=(
        "AUROC-OOD: out-of-distribution stays against in-distribution ones. AUPR-Succ: how well low uncertainty finds "
        "right predictions. AURC: the mean error rate of the 1, 2, …, all least uncertain stays. A "
        "deterministic network has neither MI nor std."
    ),
)
UNDER_SHIFT = Columns(
    "Predictions of the out-of-distribution stays",
    (
        measure("shifted_auroc", 3, label="AUROC"),
        measure("shifted_nll", 3, label="NLL"),
        measure("shifted_deaths", 1, label="deaths %", scale=0.01),
    ),
    sort="shifted_nll",
    note="How good the predictions of the out-of-distribution stays are, where their outcome is known.",
)


def drawings(ood: Sequence[tuple[str, str, str]]) -> tuple[Drawing, ...]:
    """Returns the figures.

    Args:
        ood: what the names of arrays begin with, of out-of-distribution and of in-distribution stays, and a label.
    """
    axes = (AUROC, NLL, ECE, FOUND, measure("aupr_succ_mi"))
    curves = ("test_mean", "test_labels")
    return (
        Drawing("Calibration", class_pictures.calibration, curves, methods=LINES),
        Drawing("Selective prediction", class_pictures.selective, (*curves, "test_entropy"), methods=LINES),
        Drawing("Pareto front", pareto_front(NLL, FOUND), metrics=(NLL.name, FOUND.name), rows=2),
        Drawing("Radars", radars(axes), metrics=tuple(m.name for m in axes), methods=LINES, rows=2),
        *(
            Drawing(
                f"Histograms of mutual information ({label})",
                class_pictures.histograms(ood, label, "mi", known),
                (f"{known}_mi", f"{ood}_mi"),
                methods=LINES,
            )
            for ood, known, label in ood
        ),
    )


def finding(rows: Sequence[Row]) -> str:
    """Returns who finds out-of-distribution stays best, who predicts best, and how low-rank stands to both."""
    scored = [row for row in rows if row.has_metrics([FOUND.name, "nll"])]
    if len(scored) < 2:
        return ""
    best, sure = max(scored, key=lambda row: row.mean(FOUND.name)), min(scored, key=lambda row: row.mean("nll"))
    parts = [
        f"Out-of-distribution stays are detected best by the mutual information of {best.name} (AUROC "
        f"{best.mean(FOUND.name):.3f}); the lowest NLL is that of {sure.name} ({sure.mean('nll'):.3f})."
    ]
    by = {row.method: row for row in scored}
    if {"low_rank", "deep_ensemble"} <= by.keys():
        low, deep = by["low_rank"], by["deep_ensemble"]
        parts.append(
            f"Low-rank against the deep ensemble: AUROC {low.mean(FOUND.name):.3f} and {deep.mean(FOUND.name):.3f}, "
            f"NLL {low.mean('nll'):.3f} and {deep.mean('nll'):.3f}."
        )
    return " ".join(parts)
