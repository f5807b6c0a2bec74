"""A number of the paper and a table of them, as they are printed.

98.15% is 0.9815, 22.4k is 22,400, 357.5MB is 357,500,000, .895±.004 is a mean and a standard deviation over seeds, – is
no number. Methods and measures are called as records call them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

_SUFFIXES = {"%": "0.01", "k": "1e3", "K": "1e3", "M": "1e6", "MB": "1e6", "s": "1", "": "1"}
_NUMBER = re.compile(rf"([\d,]*\.?\d+)({'|'.join(_SUFFIXES)})")


@dataclass(frozen=True)
class Number:
    """A number of the paper.

    Args:
        printed: as it stands there, without the deviation.
        deviation: over seeds, where it is printed.
        table: the label of its table in the paper's source.
        wrong: why it cannot be right; empty where nothing is known against it.
        unit: what one of it is in the unit of records: 60 for minutes.
    """

    printed: str
    deviation: float | None
    table: str
    wrong: str = ""
    unit: int = 1

    @property
    def value(self) -> float:
        """The number in the unit of records.

        >>> Number("98.15%", None, "").value, Number("4,788,010", None, "").value
        (0.9815, 4788010.0)
        """
        digits, unit = self._parts()
        return float(digits * unit)

    @property
    def rounding(self) -> float:
        """How far the unrounded number may be from the printed one: half a unit of its last place.

        >>> Number("22.4k", None, "").rounding
        50.0
        """
        digits, unit = self._parts()
        return float(unit.scaleb(int(digits.as_tuple().exponent)) / 2)

    def _parts(self) -> tuple[Decimal, Decimal]:
        match = _NUMBER.fullmatch(self.printed)
        if match is None:
            raise ValueError(f"A number of the paper needs digits, such as 98.15% or 22.4k; got {self.printed!r}.")
        return Decimal(match[1].replace(",", "")), Decimal(_SUFFIXES[match[2]]) * self.unit


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: measures, and a line a method. One without numbers has neither.

    Args:
        label: in the paper's source, where it has one; experiment: whose records have ours, empty for none.
        what: what it shows, in a few words.
        wrong: why numbers cannot be right, by measure, or by (method, measure).
        units: what one is in the unit of records, by measure, where that is not 1.
        remark: what else a reader has to know of it.
        page: which page of the repository has ours, where records of experiments do not.
    """

    label: str
    experiment: str
    what: str
    measures: str = ""
    lines: str = ""
    wrong: Mapping[str | tuple[str, str], str] = field(default_factory=dict)
    units: Mapping[str, int] = field(default_factory=dict)
    remark: str = ""
    page: str = ""

    def numbers(self) -> dict[tuple[str, str], Number]:
        """Returns every number by method and measure."""
        names, found = self.measures.split(), {}
        for line in self.lines.strip().splitlines():
            method, *printed = line.split()
            for name, text in zip(names, printed, strict=True):
                if text != "–":
                    mean, _, deviation = text.partition("±")
                    wrong = self.wrong.get((method, name), self.wrong.get(name, ""))
                    spread = float(deviation) if deviation else None
                    found[method, name] = Number(mean, spread, self.label, wrong, self.units.get(name, 1))
        return found
