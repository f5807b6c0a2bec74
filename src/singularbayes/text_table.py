"""Tables as plain text."""

from collections.abc import Sequence


def text_table(head: Sequence[str], rows: Sequence[Sequence[object]], align: str | None = None) -> str:
    """Returns rows under their heads.

    Args:
        align: "<" (left) or ">" (right) for each column; by default the first is left and the others are right.

    >>> print(text_table(("layer", "rank"), [("dense", 4), ("logits", 10)]))
    layer   rank
    ────────────
    dense      4
    logits    10
    """
    align = align or "<".ljust(len(head), ">")
    cells = [tuple(head), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])
