"""Numbers that other papers print, for tables that set ours beside them."""

from collections.abc import Mapping
from dataclasses import dataclass

from singularbayes_experiments.runs.modes_tables import name_of


@dataclass(frozen=True)
class Other:
    """A row of another paper.

    Args:
        name: what readers call the method, and whose it is; splits: how many runs its numbers are means of, where a
            table does not say otherwise (protein has 5 splits).
        numbers: by measure, as printed: the mean and, with ±, what is printed behind it.
    """

    name: str
    splits: int
    numbers: Mapping[str, str]


_TABLES: tuple[str, ...] = ("boston_housing", "concrete", "energy", "kin8nm", "naval_propulsion_plant", "power_plant")
_TABLES += ("protein_tertiary_structure", "wine_quality_red", "yacht")
SETS = {name: name_of(name) for name in _TABLES}
_METHODS = (
    "PBP (Hernández-Lobato and Adams 2015)",
    "MC dropout (Gal and Ghahramani 2016)",
    "deep ensemble (Lakshminarayanan et al. 2017)",
)
# Table 1 of Lakshminarayanan, Pritzel and Blundell 2017, which repeats the numbers of the other two papers: a line a
# set, RMSE of the three methods, then their NLL.
_TABLE = """
boston_housing              3.01±0.18 2.97±0.85 3.28±1.00   2.57±0.09  2.46±0.25  2.41±0.25
concrete                    5.67±0.09 5.23±0.53 6.03±0.58   3.16±0.02  3.04±0.09  3.06±0.18
energy                      1.80±0.05 1.66±0.19 2.09±0.29   2.04±0.02  1.99±0.09  1.38±0.22
kin8nm                      0.10±0.00 0.10±0.00 0.09±0.00  -0.90±0.01 -0.95±0.03 -1.20±0.02
naval_propulsion_plant      0.01±0.00 0.01±0.00 0.00±0.00  -3.73±0.01 -3.80±0.05 -5.63±0.05
power_plant                 4.12±0.03 4.02±0.18 4.11±0.17   2.84±0.01  2.80±0.05  2.79±0.04
protein_tertiary_structure  4.73±0.01 4.36±0.04 4.71±0.06   2.97±0.00  2.89±0.01  2.83±0.02
wine_quality_red            0.64±0.01 0.62±0.04 0.64±0.04   0.97±0.01  0.93±0.06  0.94±0.12
yacht                       1.02±0.05 1.11±0.38 1.58±0.48   1.63±0.02  1.55±0.12  1.18±0.21
"""


def uci(measure: str) -> tuple[Other, ...]:
    """Returns what was published of the small regression sets; `measure` is "rmse" or "nll".

    >>> uci("nll")[2].numbers["yacht/nll"]
    '1.18±0.21'
    """
    first = {"rmse": 1, "nll": 1 + len(_METHODS)}[measure]
    lines = [line.split() for line in _TABLE.strip().splitlines()]
    return tuple(
        Other(name, 20, {f"{line[0]}/{measure}": line[first + i] for line in lines}) for i, name in enumerate(_METHODS)
    )
