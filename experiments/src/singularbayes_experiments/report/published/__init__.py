"""The numbers that the paper prints, table by table, and which of them cannot be right: a file a field."""

from singularbayes_experiments.report.published import air, bounds, images, mortality, profile, text, toy
from singularbayes_experiments.report.published.number import Number, PaperTable

TABLES: tuple[PaperTable, ...] = (
    *toy.TABLES,
    *images.TABLES,
    *air.TABLES,
    *text.TABLES,
    *profile.TABLES,
    *mortality.TABLES,
    *bounds.TABLES,
)


def numbers(experiment: str) -> dict[tuple[str, str], Number]:
    """Returns what the paper prints of an experiment, by method and measure; nothing where it has no such experiment.

    >>> numbers("mnist")["low_rank", "nll"].value
    0.0924
    """
    found: dict[tuple[str, str], Number] = {}
    for table in TABLES:
        if table.experiment == experiment:
            found |= {key: number for key, number in table.numbers().items() if key not in found}  # the first counts
    return found


__all__ = ["TABLES", "Number", "PaperTable", "numbers"]
