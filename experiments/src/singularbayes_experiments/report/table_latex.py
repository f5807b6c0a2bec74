r"""A table for a paper: below a method, the paper's numbers and the differences.

It needs \usepackage{amsmath,booktabs,textcomp}.
"""

from singularbayes.evaluation import escaped, maths
from singularbayes_experiments.report.tables import Cell, Table, TableRow


def latex(table: Table, label: str) -> str:
    """Returns the table with the rules of booktabs; its note and footnotes are the caption."""
    said = [table.title + ".", table.caption, *(f"{mark} {reason}" for mark, reason in table.footnotes.items())]
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        f"  \\caption{{{escaped(' '.join(part for part in said if part))}}}",
        f"  \\label{{{label}}}",
        f"  \\begin{{tabular}}{{lr{'r' * len(table.measures)}}}",
        r"    \toprule",
        _line(["method", "seeds", *map(escaped, table.heads)]),
        r"    \midrule",
        *(line for row in table.rows for line in _lines(row)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def _lines(row: TableRow) -> list[str]:
    lines = [_line([escaped(row.name), str(row.seeds), *map(_ours, row.cells)])]
    if any(cell.paper for cell in row.cells):
        lines.append(_line([r"\quad paper", "", *(_paper(cell) for cell in row.cells)]))
    if any(cell.difference for cell in row.cells):
        lines.append(_line([r"\quad difference", "", *(_maths(cell.difference) for cell in row.cells)]))
    return lines


def _line(cells: list[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _ours(cell: Cell) -> str:
    mean = maths(cell.ours)
    mean = {1: f"\\mathbf{{{mean}}}", 2: f"\\underline{{{mean}}}"}.get(cell.place or 0, mean)
    return f"${' '.join([mean, maths(cell.error)]).strip()}$"


def _paper(cell: Cell) -> str:
    return escaped(cell.printed)


def _maths(text: str) -> str:
    return f"${maths(text)}$" if text else ""
