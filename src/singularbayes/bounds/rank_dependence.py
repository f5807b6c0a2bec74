"""How the PAC-Bayes bound depends on the rank, if every weight costs the same KL: planning figures, no certificates.

A bound for a trained model takes the actual sum of its KL; see `pac_bayes`.
"""

import math
from collections.abc import Sequence

from singularbayes.checks import require_integer, require_positive, require_share, require_unit


def complexity_ratio(rows: int, columns: int, rank: int) -> float:
    """Returns √(r(m + n)/(mn)): the complexity term of rank r over that of the full matrix, logarithms ignored.

    >>> complexity_ratio(256, 2, 16)  # a narrow head at rank 16: larger than 1
    2.84
    """
    require_integer("complexity_ratio", rows=rows, columns=columns, rank=rank)
    return math.sqrt(rank * (rows + columns) / (rows * columns))


def break_even_rank(rows: int, columns: int) -> float:
    """Returns mn/(m + n): below this rank the factors have fewer entries than the matrix. It is not min(m, n).

    >>> break_even_rank(100, 100)
    50.0
    """
    require_integer("break_even_rank", rows=rows, columns=columns)
    return rows * columns / (rows + columns)


def critical_rank(
    risk: float, weight_kl: float, shapes: Sequence[tuple[int, int]], num_data: int, delta: float = 0.05
) -> int:
    """Returns r*, the largest rank of all layers whose square-root bound stays below 1; 0 if none does.

    L̂ + √((C r Σ(m + n) + ln(2√N/δ))/(2N)) < 1, with the same KL C for every weight whatever the rank.

    Args:
        weight_kl: C, the KL of one weight in nats.
        shapes: rows and columns of every layer.
    """
    require_unit("critical_rank", risk=risk)
    require_positive("critical_rank", weight_kl=weight_kl)
    require_integer("critical_rank", num_data=num_data)
    require_share("critical_rank", delta=delta)
    if not len(shapes):
        raise ValueError("critical_rank needs the shape of at least one layer; got none.")
    for rows, columns in shapes:
        require_integer("critical_rank", rows=rows, columns=columns)
    slack = 2 * num_data * (1 - risk) ** 2 - math.log(2 * math.sqrt(num_data) / delta)
    return max(0, math.ceil(slack / (weight_kl * sum(rows + columns for rows, columns in shapes))) - 1)
