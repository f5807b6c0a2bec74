"""Why a sweep recommends a trial, in words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from singularbayes.ranks.trials import Sweep, Trial


def why_recommended(sweep: "Sweep") -> str:
    """Returns which trial to take and what it gives up; and whether chance could have decided."""
    knee, chosen = sweep.knee(), sweep.recommended()
    if chosen is not knee:
        return _smaller(sweep, chosen, knee)
    text = _best(sweep, knee) if len(sweep.objectives) == 1 else _knee(sweep, knee)
    return f"{text}{_edge(sweep, knee)}{_chance(sweep, knee)}"


def _best(sweep: "Sweep", chosen: "Trial") -> str:
    (measure,), (value,) = sweep.objectives, sweep.values(chosen)
    return f"Take {chosen.label}: {measure.label} {value:.4g} is the best of {len(sweep.finished)} trials."


def _knee(sweep: "Sweep", chosen: "Trial") -> str:
    front, parts = sweep.pareto(), []
    for measure, value in zip(sweep.objectives, sweep.values(chosen), strict=True):
        best = max(front, key=lambda trial: measure.sign * trial.metrics[measure.name])
        there = f"the best, {best.metrics[measure.name]:.4g}, needs {best.label}"
        is_best = value == best.metrics[measure.name]
        parts.append(f"{measure.label} {value:.4g} ({'the best' if is_best else there})")
    return f"Take {chosen.label}: {' and '.join(parts)}. {_front(sweep, front)}"


def _front(sweep: "Sweep", front: list["Trial"]) -> str:
    tried = len(sweep.finished)
    if len({tuple(sweep.values(trial)) for trial in front}) == 1:
        return f"None of {tried} trials is better in any objective."
    beaten = f"{len(front)} of {tried} trials are beaten by no other"
    if len({tuple(sweep.values(trial)) for trial in sweep.nearest()}) > 1:
        first = sweep.objectives[0].label
        return f"{beaten}, and none is nearer to the best of all objectives, so {first}, the first of them, decides."
    return f"{beaten}, and it is nearest to the best of all objectives."


def _edge(sweep: "Sweep", chosen: "Trial") -> str:
    """Returns a remark on a rank above which none was tried."""
    tried = [trial.settings.get("rank") for trial in sweep.finished]
    if len(set(tried)) == 1 or chosen.settings.get("rank") != max(tried, key=lambda rank: rank or 0):
        return ""
    return " It is the highest rank tried: a higher one may do better."


def _smaller(sweep: "Sweep", chosen: "Trial", knee: "Trial") -> str:
    several = len(sweep.objectives) > 1
    what = "which is nearest to the best of all objectives" if several else "the best"
    return (
        f"Take {chosen.label}: {_scores(sweep, chosen)} {'are' if several else 'is'} within {_error(sweep, knee)} of "
        f"{knee.label}, {what}, with {_scores(sweep, knee)}. Of all such trials it has the fewest trainable parameters."
    )


def _chance(sweep: "Sweep", chosen: "Trial") -> str:
    if chosen.errors:
        return f" No smaller one is within {_error(sweep, chosen)} of it."
    return " One seed a trial decides, so small differences may be chance." if sweep.seeds == 1 else ""


def _error(sweep: "Sweep", trial: "Trial") -> str:
    errors = " and ".join(f"{error:.2g}" for error in sweep.errors(trial))
    return f"one standard error ({errors}, over {sweep.seeds} seeds)"


def _scores(sweep: "Sweep", trial: "Trial") -> str:
    pairs = zip(sweep.objectives, sweep.values(trial), strict=True)
    return " and ".join(f"{measure.label} {value:.4g}" for measure, value in pairs)
