"""How bounds depend on the rank: the paper's figure fig:bounds_lstm, its complexity ratio and its critical rank.

Planning figures, no certificates: every weight costs the same KL at every rank, and every factor keeps its norm. The
paper prints neither for its LSTM, so its own curve cannot be computed again; this one is drawn for given numbers.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from singularbayes.bounds import NetworkClass, pac_bayes
from singularbayes.checks import require_integer, require_positive, require_share, require_unit
from singularbayes.plots import style
from singularbayes_experiments.theory.printed import printed_complexity

Shapes = Sequence[tuple[int, int]]  # rows and columns of every weight


def complexity_ratio(rows: int, columns: int, rank: int) -> float:
    """Returns √(r(m + n)/(mn)): the complexity term of rank r over that of the full matrix, logarithms ignored.

    >>> round(complexity_ratio(256, 2, 16), 2)  # a narrow head at rank 16: larger than 1
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


def critical_rank(risk: float, weight_kl: float, shapes: Shapes, num_data: int, delta: float = 0.05) -> int:
    """Returns r*, the largest rank of all layers whose square-root bound stays below 1; 0 if none does.

    L̂ + √((C r Σ(m + n) + ln(2√N/δ))/(2N)) < 1, with the same KL C for every weight whatever the rank.

    >>> critical_rank(0.05, weight_kl=0.5, shapes=[(64, 64), (64, 8)], num_data=1_000)
    17
    """
    require_unit("critical_rank", risk=risk)
    require_positive("critical_rank", weight_kl=weight_kl)
    require_integer("critical_rank", num_data=num_data)
    require_share("critical_rank", delta=delta)
    slack = 2 * num_data * (1 - risk) ** 2 - math.log(2 * math.sqrt(num_data) / delta)
    return max(0, math.ceil(slack / (weight_kl * sum(map(sum, shapes)))) - 1)


def pac_bayes_curve(
    ranks: Sequence[int], risk: float, weight_kl: float, shapes: Shapes, num_data: int, delta: float = 0.05
) -> np.ndarray:
    """Returns the square-root bound at every rank, the same in all layers, not cut at 1.

    >>> pac_bayes_curve([1, 2], 0.05, 0.5, [(64, 64), (64, 8)], 1_000).round(3)
    array([0.281, 0.372])
    """

    def bound(rank: int) -> float:
        kl = weight_kl * rank * sum(map(sum, shapes))
        return pac_bayes(risk, kl, num_data, delta, form="sqrt").terms["uncapped"]

    return np.array([bound(rank) for rank in ranks])


def index_curve(
    ranks: Sequence[int], norms: Sequence[float], shapes: Shapes, input_norm: float, num_data: int
) -> np.ndarray:
    """Returns the paper's Ĝ of all matrices as if they were layers one after another: of an LSTM it bounds nothing.

    Args:
        norms: C_i of every matrix.

    >>> index_curve([1, 4], [1.0, 1.0], [(8, 16), (16, 4)], 30.0, 100).round(2)
    array([1.8, 3.6])
    """
    widths = [shapes[0][0], *(columns for _, columns in shapes)]
    classes = [NetworkClass(norms, [rank] * len(shapes), widths) for rank in ranks]
    return np.array([printed_complexity(network, input_norm, num_data).value for network in classes])


@style.for_print
def bounds_figure(ranks: Sequence[int], bounds: np.ndarray, index: np.ndarray) -> Figure:
    """Returns the figure: the PAC-Bayes bound, grey where it is vacuous, above the index of Gaussian complexity.

    >>> len(bounds_figure([1, 2, 4], np.array([0.3, 0.6, 1.2]), np.array([1.0, 1.4, 2.0])).axes)
    2
    """
    figure = Figure(figsize=(style.COLUMN, 3.6))
    panels = figure.subplots(2, sharex=True)
    names = ("PAC-Bayes bound of the risk", "published index,\nno certificate")
    for axes, name, values in zip(panels, names, (bounds, index), strict=True):
        axes.plot(ranks, values, marker="o", color=style.INK)
        axes.set(ylabel=name, xscale="log", ylim=(0, None))
        axes.set_xticks(list(ranks), [str(rank) for rank in ranks])
        axes.minorticks_off()
    top = max(1.25, panels[0].get_ylim()[1])
    panels[0].axhspan(1.0, top, color=style.PALE, lw=0, zorder=0)
    panels[0].set_ylim(0, top)
    panels[1].set_xlabel("rank")
    return figure
