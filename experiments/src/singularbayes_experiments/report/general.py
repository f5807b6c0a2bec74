"""Figures of any experiment that has what they show: other ranks of the low-rank network, and singular values."""

from collections.abc import Sequence

from singularbayes.metrics import Measure
from singularbayes_experiments.methods.posterior_scores import SINGULAR_VALUES
from singularbayes_experiments.report import spectrum_pictures
from singularbayes_experiments.report.measure_pictures import radars, sweep
from singularbayes_experiments.report.names import rank_in
from singularbayes_experiments.report.rows import Row, listed
from singularbayes_experiments.report.section import PARAMETERS, STORED, TRAINING, Drawing, Section

_COSTS = {PARAMETERS.name, STORED.name, TRAINING.name}
_MOST = 4  # panels below each other


def drawings(section: Section, rows: Sequence[Row]) -> list[Drawing]:
    """Returns the figures of these rows; that of singular values also where they are absent but should be there."""
    found = _ablation(section, rows)
    if section.spectra or any(row.has_arrays([SINGULAR_VALUES]) for row in rows):
        shown = spectrum_pictures.shown(rows)
        found.append(Drawing("Singular values", spectrum_pictures.draw, (SINGULAR_VALUES,), methods=shown))
    return found


def rank_of(row: Row) -> int | None:
    """Returns the rank of a low-rank network, by its method's name or its settings; None for other methods."""
    if row.method != "low_rank":
        return rank_in(row.method)
    settings = row.first.settings
    return settings["ranks"][0] if "ranks" in settings else settings.get("rank")


def _ablation(section: Section, rows: Sequence[Row]) -> list[Drawing]:
    """Returns measures against the rank, and radars of the ranks, where there are methods that name one."""
    found = {row.method: section.ranks.get(row.method) if section.ranks else rank_of(row) for row in rows}
    ranks = {method: rank for method, rank in found.items() if rank is not None}
    if len(ranks) < 2:
        return []
    measures = section.ranked or _ranked(section)
    names = tuple(measure.name for measure in measures)
    text = listed([f"{rank:g}" for rank in sorted(ranks.values())])
    caption = (
        f"The low-rank network at ranks of {text}; bars are standard errors over seeds. {section.rank_note}".strip()
    )
    draw = sweep("ranks", "Rank", measures, "rank", lambda row: ranks[row.method], lambda rows: caption)
    pictures = {"Rank ablation": draw}
    axes = [measure for measure in measures if measure.better in ("higher", "lower")]
    if len(axes) > 2:  # or a radar has no area
        pictures["Radars of the ranks"] = radars(axes, "rank-radar", "Radars of the ranks")
    return [Drawing(title, each, metrics=names, methods=tuple(ranks), rows=2) for title, each in pictures.items()]


def _ranked(section: Section) -> tuple[Measure, ...]:
    """Returns the first measures of the first table that have a better end."""
    table = section.tables[0].measures
    return tuple(m for m in table if m.better in ("higher", "lower") and m.name not in _COSTS)[:_MOST]
