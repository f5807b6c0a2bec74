"""What rows show, in one sentence made from the numbers, whatever they are."""

from collections.abc import Sequence

from singularbayes_experiments.report.rows import Row, listed

EVEN = 0.05  # a ratio this close to 1 is called no change
FEW = 3  # methods, of which one may be called the best


def bands(banded: Sequence[Row], rows: Sequence[Row]) -> str:
    """Returns how the band changes outside the training range, method by method, and what the rank saves."""
    if len(banded) > FEW:
        ratios = listed([f"{row.mean('iqr_ratio'):.2f} for {row.name}" for row in banded])
        return f"Width of the band away from the data, divided by that inside: {ratios}{_saving(rows)}."
    changes = [f"the {row.name} band {_change(row.mean('iqr_ratio'))}" for row in banded]
    return f"Away from the data {listed(changes)}{_saving(rows)}." if changes else ""


def _change(ratio: float) -> str:
    if abs(ratio - 1) < EVEN:
        return f"is as wide as inside ({ratio:.2f} times)"
    return f"{'widens' if ratio > 1 else 'narrows'} to {ratio:.2f} times its width inside"


def _saving(rows: Sequence[Row]) -> str:
    counts = {row.method: row.parameters for row in rows}
    if not {"low_rank", "full_rank"} <= counts.keys():
        return ""
    low, full = counts["low_rank"], counts["full_rank"]
    return f"; the low-rank network has {low:,} parameters against {full:,} of the full-rank one, {_fewer(low, full)}"


def _fewer(count: int, reference: int) -> str:
    share = 100 * (1 - count / reference)
    return f"{share:.0f} % fewer" if share >= 0 else f"{-share:.0f} % more"


def classifiers(rows: Sequence[Row], detection: str, ood: str) -> str:
    """Returns what the low-rank network reaches and saves, and which method is best in each of three ways.

    Args:
        detection: the name of an AUROC by entropy or by mutual information; ood: the label of those examples.
    """
    by = "mutual information" if detection.endswith("_mi") else "entropy"
    parts = []
    low = next((row for row in rows if row.method == "low_rank" and row.has_metrics(["accuracy", "nll"])), None)
    if low is not None:
        parts.append(
            f"Low-rank: {100 * low.mean('accuracy'):.2f} % and an NLL of {low.mean('nll'):.4f}{_saving(rows)}."
        )
    for metric, sign, words, shown in (
        ("accuracy", 1, "Highest accuracy", "{:.2%}"),
        ("nll", -1, "Lowest NLL", "{:.4f}"),
        (detection, 1, f"Best detection of {ood} by {by}", "AUROC {:.4f}"),
    ):
        scored = [row for row in rows if row.has_metrics([metric])]
        if len({row.method for row in scored}) >= FEW:
            best = max(scored, key=lambda row: sign * row.mean(metric))
            parts.append(f"{words}: {best.name} ({shown.format(best.mean(metric)).replace('%', ' %')}).")
    return " ".join(parts)
