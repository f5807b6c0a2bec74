"""One method, one look: its colour, line and marker are the same in all figures of a page, whoever is beside it."""

from collections.abc import Sequence
from dataclasses import replace

from singularbayes.plots import COLOURS, Look, look
from singularbayes_experiments.report.names import LINES
from singularbayes_experiments.report.rows import Row

_LINES = {method: look(place) for place, method in enumerate(LINES)}
_METHODS = {
    **_LINES,
    # Those that are no lines elsewhere have another's colour, low_rank_laplace with a line of its own: it has spectra.
    "low_rank_laplace": replace(_LINES["low_rank_svd"], line=_LINES["full_rank"].line, marker="*"),
    "low_rank_auto": replace(_LINES["low_rank"], marker="*"),
    "low_rank_ensemble": replace(_LINES["deep_ensemble"], marker="o"),
    "low_rank_svd_ensemble": replace(_LINES["deep_ensemble"], marker="s"),
    "mc_dropout": replace(_LINES["deterministic"], marker="*"),
}
# Other ranks, other settings and unknown methods: not in low_rank's colour, with markers that no method above has.
_OTHERS = tuple(replace(look(1 + i % (len(COLOURS) - 1)), marker="<>phd"[i % 5], line=look(i).line) for i in range(30))


def row_looks(rows: Sequence[Row]) -> dict[str, Look]:
    """Returns the look of every row by its name; a method's own is that of its first row."""
    found: dict[str, Look] = {}
    methods: set[str] = set()
    others = 0
    for row in rows:
        if row.method in _METHODS and row.method not in methods:
            found[row.name] = _METHODS[row.method]
        else:
            found[row.name] = _OTHERS[others % len(_OTHERS)]
            others += 1
        methods.add(row.method)
    return found
