"""A table for a paper: below a method, the paper's numbers and the differences."""

from singularbayes.evaluation import escape_latex, latex_math
from singularbayes_experiments.report.tables import Cell, Table, TableRow

PACKAGES = r"\usepackage{amsmath,booktabs,textcomp}"  # what the tables need


def latex(table: Table, label: str) -> str:
    """Returns the table with the rules of booktabs; its note and footnotes are the caption."""
    parts = [table.title + ".", table.caption, *(f"{mark} {reason}" for mark, reason in table.footnotes.items())]
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        f"  \\caption{{{escape_latex(' '.join(part for part in parts if part))}}}",
        f"  \\label{{{label}}}",
        f"  \\begin{{tabular}}{{lr{'r' * len(table.measures)}}}",
        r"    \toprule",
        _line(["method", "seeds", *map(escape_latex, table.heads)]),
        r"    \midrule",
        *(line for row in table.rows for line in _lines(row)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def _lines(row: TableRow) -> list[str]:
    lines = [_line([escape_latex(row.name), str(row.seeds or "–"), *map(_ours, row.cells)])]
    if any(cell.paper for cell in row.cells):
        lines.append(_line([r"\quad paper", "", *(_paper(cell) for cell in row.cells)]))
    if any(cell.difference for cell in row.cells):
        lines.append(_line([r"\quad difference", "", *(_maths(cell.difference) for cell in row.cells)]))
    return lines


def _line(cells: list[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _ours(cell: Cell) -> str:
    mean = latex_math(cell.ours)
    mean = f"\\mathbf{{{mean}}}" if cell.best else mean
    return f"${' '.join([mean, latex_math(cell.error)]).strip()}$"


def _paper(cell: Cell) -> str:
    return escape_latex(cell.printed)


def _maths(text: str) -> str:
    return f"${latex_math(text)}$" if text else ""
