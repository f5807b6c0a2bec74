"""A table for a README: ours, and below it in the same cell the paper's number and the difference."""

from singularbayes_experiments.report.tables import Cell, Table


def markdown(table: Table) -> str:
    """Returns the table, its note and its footnotes as Markdown that GitHub renders."""
    heads = ["method", "seeds", *table.heads]
    lines = [
        f"**{_in_cell(table.title)}**",
        "",
        f"| {' | '.join(map(_in_cell, heads))} |",
        f"|---|{'---:|' * (len(heads) - 1)}",
    ]
    lines += [
        f"| {' | '.join([_in_cell(row.name), str(row.seeds or '–'), *map(_cell, row.cells)])} |" for row in table.rows
    ]
    lines += ["", table.caption] if table.caption else []
    for mark, reason in table.footnotes.items():
        lines += ["", f"{mark} {reason}"]
    return "\n".join([*lines, ""])


def _cell(cell: Cell) -> str:
    ours = f"**{cell.ours}**" if cell.best else cell.ours
    text = f"{ours} {cell.error}".strip()
    if not cell.paper:
        return text
    difference = f" ({cell.difference})" if cell.difference else ""
    return f"{text}<br>paper {cell.printed}{difference}"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")
