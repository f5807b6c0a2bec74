"""What a figure shows, in one sentence made from the numbers, whatever they are."""

from collections.abc import Sequence

from singularbayes.experiments.record import Record

NAMES = {"low_rank": "low-rank", "full_rank": "full-rank", "deterministic": "deterministic"}
EVEN = 0.05  # a ratio this close to 1 is called no change


def toy(records: Sequence[Record]) -> str:
    """Returns how the band changes outside the training range, method by method, and what the rank saves."""
    changes = [f"the {NAMES[r.method]} band {_change(r.metrics['iqr_ratio'])}" for r in records]
    return f"Away from the data {_join(changes)}{_saving(records)}."


def _change(ratio: float) -> str:
    if abs(ratio - 1) < EVEN:
        return f"is as wide as inside ({ratio:.2f} times)"
    return f"{'widens' if ratio > 1 else 'narrows'} to {ratio:.2f} times its width inside"


def _saving(records: Sequence[Record]) -> str:
    counts = {r.method: r.parameters for r in records}
    if not {"low_rank", "full_rank"} <= counts.keys():
        return ""
    low, full = counts["low_rank"], counts["full_rank"]
    return f"; the low-rank network has {low:,} parameters against {full:,}, {_fewer(low, full)}"


def _fewer(count: int, reference: int) -> str:
    share = 100 * (1 - count / reference)
    return f"{share:.0f} % fewer" if share >= 0 else f"{-share:.0f} % more"


def digits(records: Sequence[Record]) -> str:
    """Returns how often each method finds a held-out digit more uncertain than a known one, and who does best."""
    held_out = _join([str(digit) for digit in records[0].settings["held_out"]])
    rates = [f"{_rate(score(r)[1])} for the {NAMES[r.method]} network (by {score(r)[0]})" for r in records]
    best = max(records, key=lambda r: score(r)[1])
    return (
        f"Shown a held-out {held_out.replace(' and ', ' or ')} and a known digit, uncertainty ranks the pair right in "
        f"{_join(rates)}: {_verdict(best)}."
    )


def score(record: Record) -> tuple[str, float]:
    """Returns the uncertainty that a method is judged by and its AUROC: one function has no mutual information."""
    if "auroc_mi" in record.metrics:
        return "mutual information", record.metrics["auroc_mi"]
    return "entropy", record.metrics["auroc_entropy"]


def _rate(auroc: float) -> str:
    return f"{100 * auroc:.1f} % of cases"


def _verdict(best: Record) -> str:
    if score(best)[1] <= 0.5 + EVEN:
        return "no better than a coin for any of them"
    return f"the {NAMES[best.method]} network does best"


def _join(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
