"""Tables as plain text."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns rows under their heads, the first column to the left and the others to the right.

    >>> print(table(("layer", "rank"), [("dense", 4), ("logits", 10)]))
    layer   rank
    ────────────
    dense      4
    logits    10
    """
    cells = [tuple(head), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(pairs)).rstrip()
        for pairs in (zip(row, widths, strict=True) for row in cells)
    ]
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])
