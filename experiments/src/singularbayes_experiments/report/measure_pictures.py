"""Figures drawn from the metrics of records alone: sweeps of a setting, Pareto fronts and radars."""

from collections.abc import Callable, Sequence

from singularbayes.metrics import Measure
from singularbayes.plots import Point, against_setting, efficiency_radar, pareto, radar
from singularbayes_experiments.report.picture import Panel, Picture, svg
from singularbayes_experiments.report.rows import Row, listed

Draw = Callable[[Sequence[Row]], Picture]
_STORED = "stored parameters"  # of SWAG more than it trains


def sweep(
    name: str,
    title: str,
    measures: Sequence[Measure],
    setting: str,
    value: Callable[[Row], float],
    caption: Callable[[Sequence[Row]], str],
    marks: Sequence[float] = (),
) -> Draw:
    """Returns what draws measures against a setting that `value` reads from a row."""

    def draw(rows: Sequence[Row]) -> Picture:
        curves = {m: {value(row): row.values(m.name) for row in rows if row.values(m.name)} for m in measures}
        drawn = {measure: seeds for measure, seeds in curves.items() if seeds}
        settings = listed([f"{at:g}" for at in sorted(map(value, rows))])
        alt = f"{listed([m.label for m in drawn])} against {setting}, at {settings}."
        panels = (Panel(svg(against_setting(drawn, setting, marks=marks)), alt),)
        return Picture(name, title, caption(rows), panels)

    return draw


def pareto_front(x: Measure, y: Measure) -> Draw:
    """Returns what draws every method by two measures, and the front of those that no other beats in both."""

    def draw(rows: Sequence[Row]) -> Picture:
        # Without labels: the key names the methods.
        points = [Point("", r.mean(x.name) / x.scale, r.mean(y.name) / y.scale, r.name) for r in rows]
        caption = (
            f"{y.label} against {x.label}, means over seeds. Filled marks are on the front: no other method is better "
            "in both."
        )
        alt = "; ".join(f"{p.group}: {x.label} {p.x:.4g}, {y.label} {p.y:.4g}" for p in points) + "."
        return Picture("pareto", "Pareto front", caption, (Panel(svg(pareto(points, x, y)), alt),))

    return draw


def radars(measures: Sequence[Measure], name: str = "radar", title: str = "Radars") -> Draw:
    """Returns what draws two radars: scores as they are, and weighed by how many numbers a method stores."""

    def draw(rows: Sequence[Row]) -> Picture:
        values = {row.name: [row.mean(m.name) / m.scale for m in measures] for row in rows}
        stored = {row.name: row.first.stored or row.parameters for row in rows}
        caption = (
            "Means over seeds, better outwards. Every axis runs from the worst to the best method, so a long distance "
            f"may be a small difference. In the second, scores are multiplied by √(fewest {_STORED} / {_STORED})."
        )
        figures = radar(values, measures), efficiency_radar(values, measures, stored, _STORED)
        alts = f"Radar of {listed(list(values))} by {listed([m.label for m in measures])}.", f"The same by {_STORED}."
        panels = tuple(Panel(svg(figure), alt) for figure, alt in zip(figures, alts, strict=True))
        return Picture(name, title, caption, panels)

    return draw
