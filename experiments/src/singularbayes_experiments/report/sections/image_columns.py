"""What the sections of the image classifiers share: columns, figures and a sentence."""

from collections.abc import Sequence
from dataclasses import replace

from singularbayes.metrics import Measure
from singularbayes_experiments.report import class_pictures, sentences
from singularbayes_experiments.report.measure_pictures import pareto_front, radars
from singularbayes_experiments.report.names import NAMES, measure
from singularbayes_experiments.report.rows import Row
from singularbayes_experiments.report.section import PARAMETERS, STORED, TRAINING, Columns, Drawing, Section

HELD_OUT = "held_out"  # two classes that a network of its own was trained without
SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "notmnist": "notMNIST", HELD_OUT: "held-out classes"}
ACCURACY = measure("accuracy", 2, label="accuracy %", scale=0.01)
NLL = measure("nll", 4)
ECE = measure("ece", 4)
QUALITY = Columns(
    "Test images",
    (
        PARAMETERS,
        ACCURACY,
        NLL,
        measure("brier", 4),
        ECE,
        measure("mean_mi", 4),
    ),
    sort="nll",
    note=(
        "Negative log-likelihood (NLL) and mutual information (MI) in nats; a deterministic network has no MI (–). "
        "Brier is the sum over classes; ECE has 15 bins of equal mass."
    ),
)
TEMPERED = Columns(
    "With a temperature, and what it costs",
    (
        measure("recalibrated_temperature", 3),
        measure("recalibrated_nll", 4, label="NLL"),
        measure("recalibrated_ece", 4, label="ECE"),
        STORED,
        TRAINING,
        measure("peak_bytes", 0),
    ),
    sort="recalibrated_nll",
    note=(
        "NLL and ECE on the test images with the temperature that is best on the validation images. Parameters "
        "are those that predictions need; SWAG has more than it trains. Training time is "
        "on the machine named below; of seeds that were trained together, it is a seed's share. Memory is the "
        "peak since its process began, which runs of one process share."
    ),
    headline=False,
)
BINNINGS = Columns(
    "Calibration error under all binnings",
    tuple(
        measure(f"ece_{scheme}_{bins}", 4, label=f"{short} {bins}")
        for scheme, short in (("equal_mass", "EM"), ("equal_width", "EW"))
        for bins in (10, 15, 20, 30)
    ),
    sort="ece_equal_mass_15",
    note="EM: bins of equal mass; EW: bins of equal width; and their number.",
    headline=False,
)
# Ensembles and sweeps come near others in lines: as many lines as can be distinguished.
_LINES = ("low_rank", "low_rank_laplace", "full_rank", "rank_one", "deterministic", "deep_ensemble", "swag")


def detection(ood: Sequence[str]) -> Columns:
    """Returns how well uncertainty finds images of other sets."""
    measures = [_found(name, by) for name in (*ood, HELD_OUT) for by in ("mi", "entropy")]
    note = (
        "AUROC of out-of-distribution images against test images, by mutual information (MI) and by entropy (H): the "
        "chance that an out-of-distribution image is the more uncertain one. A deterministic network has no MI. "
        "AUPR-Err: how well entropy finds errors among the test images; it rises with the number of errors, so no best "
        "one is marked."
    )
    wrong = measure("aupr_err_entropy", 3, label="AUPR-Err", ranked=False)
    title = "Out-of-distribution images and errors"
    return Columns(title, (*measures, wrong), f"{ood[-1]}/auroc_ood_entropy", note)


def _found(name: str, by: str) -> Measure:
    label = f"{SETS[name]} ({'MI' if by == 'mi' else 'H'})"
    return measure(f"{name}/auroc_ood_{by}", 4, label=label)


def drawings(ood: Sequence[str]) -> tuple[Drawing, ...]:
    """Returns the figures of a classifier of images."""
    found = replace(_found(ood[-1], "entropy"), label=f"{SETS[ood[-1]]} (H)")
    axes = (ACCURACY, NLL, ECE, found)
    curves = ("test_mean", "test_labels")
    return (
        Drawing("Calibration", class_pictures.calibration, curves, methods=_LINES),
        Drawing("Selective prediction", class_pictures.selective, (*curves, "test_entropy"), methods=_LINES),
        Drawing("Pareto front", pareto_front(NLL, found), metrics=(NLL.name, found.name), rows=2),
        Drawing("Radars", radars(axes), metrics=tuple(m.name for m in axes), methods=_LINES, rows=2),
        *(_histograms(name, "mi") for name in ood),
        _histograms(ood[-1], "entropy"),
    )


def _histograms(ood: str, by: str) -> Drawing:
    draw = class_pictures.histograms(ood, SETS[ood], by)
    title = f"Histograms of {class_pictures.NAMES[by]} ({SETS[ood]})"
    return Drawing(title, draw, (f"test_{by}", f"{ood}_{by}"), methods=_LINES)


def section(experiment: str, title: str, description: str, ood: Sequence[str], **options) -> Section:
    """Returns the section of a classifier of images with these out-of-distribution sets."""
    tables = (QUALITY, detection(ood), TEMPERED, BINNINGS)

    def finding(rows: Sequence[Row]) -> str:
        return sentences.classifiers(rows, f"{ood[-1]}/auroc_ood_entropy", SETS[ood[-1]])

    ranked = (ACCURACY, NLL, ECE, _found(ood[-1], "mi"))
    return Section(experiment, title, description, tables, NAMES, drawings(ood), finding, ranked=ranked, **options)
