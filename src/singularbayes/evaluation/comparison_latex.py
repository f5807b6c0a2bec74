r"""The table of a comparison for a paper. It needs \usepackage{amsmath,booktabs}."""

from singularbayes.evaluation.comparison import Comparison
from singularbayes.evaluation.comparison_columns import Cell, Column, Difference
from singularbayes.evaluation.comparison_table import caption, difference_rows, difference_text, method_rows

_ARROWS = {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\rightarrow$"}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "²": "$^2$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
    "η": r"$\eta$",
    "ρ": r"$\rho$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "×": r"$\times$",
    "≠": r"$\ne$",
    "‖": r"$\|$",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    **_ARROWS,
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_MATHS = {
    "±": r"\pm",
    "−": "-",
    "∞": r"\infty",
    "–": r"\text{--}",
    " of ": r"\text{ of }",
    " pairs": r"\text{ pairs}",
    " pair)": r"\text{ pair})",
    " [": r"\ [",
    " (": r"\ (",
}


def latex(comparison: Comparison, label: str = "tab:comparison") -> str:
    """Returns a LaTeX table with the rules of booktabs; differences stand below a rule of their own.

    >>> from singularbayes.evaluation import Evaluation, compare
    >>> runs = [Evaluation(name, "classification", 0, {"nll": nll}) for name, nll in (("a", 0.3), ("b", 0.4))]
    >>> [rule in latex(compare(runs, ["nll"])) for rule in ("toprule", "bottomrule")]
    [True, True]
    """
    heads = [escape_latex(f"{column.measure.label} {column.measure.arrow}".strip()) for column in comparison.columns]
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        f"  \\caption{{{escape_latex(caption(comparison))}}}",
        f"  \\label{{{label}}}",
        f"  \\begin{{tabular}}{{l{'r' * len(heads)}}}",
        r"    \toprule",
        _row("", heads),
    ]
    for rows in (method_rows(comparison, _cell), difference_rows(comparison, _difference)):
        if rows:
            lines += [r"    \midrule", *(_row(escape_latex(name), cells) for name, cells in rows)]
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def escape_latex(text: str) -> str:
    r"""Returns text that LaTeX prints as it is.

    >>> print(escape_latex("R² of a_b & 5 %"))
    R$^2$ of a\_b \& 5 \%
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def _row(name: str, cells: list[str]) -> str:
    return f"    {' & '.join([name, *cells])} \\\\"


def _cell(column: Column, cell: Cell) -> str:
    mean, error = (latex_math(text) for text in column.text(cell))
    mean = f"\\mathbf{{{mean}}}" if cell.best else mean
    return f"${' '.join([mean, error]).strip()}$"


def _difference(column: Column, difference: Difference) -> str:
    return f"${latex_math(difference_text(column, difference))}$"


def latex_math(text: str) -> str:
    """Returns numbers as they stand in math mode: no space behind the comma of thousands, one behind that of a list."""
    for sign, command in _MATHS.items():
        text = text.replace(sign, command)
    return text.replace(", ", r",\ ").replace(",", "{,}").replace("{,}\\ ", r",\ ")
