"""Tables of records as text: the terminal and the page show the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from singularbayes.experiments.record import Record
from singularbayes.report.sentences import NAMES


@dataclass(frozen=True)
class Table:
    """Column heads and rows of text; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def toy(records: Sequence[Record]) -> Table:
    """Returns fit and band of each method."""
    rows = [
        (
            NAMES[r.method],
            f"{r.parameters:,}",
            f"{r.metrics['rmse_near']:.3f}",
            f"{100 * r.metrics['coverage_near']:.0f} %",
            f"{r.metrics['iqr_inside']:.3f}",
            f"{r.metrics['iqr_outside']:.3f}",
            f"{r.metrics['iqr_ratio']:.2f}",
            f"{r.seconds:.0f}",
        )
        for r in records
    ]
    columns = ("method", "parameters", "RMSE", "coverage", "IQR inside", "IQR outside", "ratio", "train s")
    note = (
        "RMSE and the coverage of the 95 % total band are on new points of the training range. IQR: interquartile "
        "range over posterior draws, median over x inside the training range and over the rest of the plot; ratio: "
        "outside / inside."
    )
    return Table("Toy regression", columns, tuple(rows), note)


def digits(records: Sequence[Record]) -> Table:
    """Returns size, scores on test images and detection of the held-out digits of each method."""
    rows = [
        (
            NAMES[r.method],
            f"{r.parameters:,}",
            f"{r.metrics['accuracy']:.3f}",
            f"{r.metrics['nll']:.3f}",
            f"{r.metrics['ece']:.3f}",
            f"{r.metrics['auroc_mi']:.3f}" if "auroc_mi" in r.metrics else "–",
            f"{r.metrics['auroc_entropy']:.3f}",
            f"{r.seconds:.0f}",
        )
        for r in records
    ]
    columns = ("method", "parameters", "accuracy", "NLL", "ECE", "AUROC (MI)", "AUROC (entropy)", "train s")
    images = len(records[0].arrays["mi_test"])
    held_out = " and ".join(str(digit) for digit in records[0].settings["held_out"])
    note = (
        f"Accuracy, negative log-likelihood (nats) and calibration error (15 equal-mass bins) on {images} test images: "
        f"one image is {1 / images:.3f} of accuracy. AUROC: held-out digits {held_out} against test images, by mutual "
        "information and by entropy; a deterministic network is one function and has no mutual information."
    )
    return Table("Digits", columns, tuple(rows), note)
