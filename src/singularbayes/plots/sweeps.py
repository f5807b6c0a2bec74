"""The trade-offs of a sweep: each OOD detection score against each error, as the paper draws them."""

import math
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from singularbayes.metrics import Measure, find_measure
from singularbayes.plots.pareto import Point, pareto

if TYPE_CHECKING:
    from singularbayes.ranks import Sweep, Trial

_AGAINST = {"classification": ("nll", "ece"), "regression": ("mae", "rmse")}
_DETECTION = {"classification": "auroc_ood_mi", "regression": "auroc_ood_epistemic"}


def trade_offs(sweep: "Sweep") -> dict[str, Figure]:
    """Returns figures by the names of their two measures: OOD detection against NLL and ECE, or against MAE and RMSE.

    Labels are ranks, marks are values of β or whatever else was varied. A ring is around the recommended trial; bars
    are standard errors over seeds. A sweep without OOD examples has one figure, of its size against its first
    objective.

    docs/ranks.md has an example.
    """
    detections = [name for name in _names(sweep) if name.rpartition("/")[2] == _DETECTION[sweep.task]]
    pairs = [(x, y) for y in detections for x in _AGAINST[sweep.task]]
    if not pairs:
        pairs = [("num_trained", sweep.objectives[0].name)]
    return {f"{y.replace('/', '_')}_against_{x}": _figure(sweep, find_measure(x), find_measure(y)) for x, y in pairs}


def _names(sweep: "Sweep") -> list[str]:
    return list(dict.fromkeys(name for trial in sweep.finished for name in trial.metrics))


def _figure(sweep: "Sweep", x: Measure, y: Measure) -> Figure:
    trials = [t for t in sweep.finished if all(math.isfinite(t.metrics.get(m.name, math.nan)) for m in (x, y))]
    if not trials:
        raise ValueError(f"trade_offs needs finished trials with {x.name} and {y.name}; got none.")
    points = {trial.number: _point(trial, x, y, _varied(trials)) for trial in trials}
    return pareto(list(points.values()), x, y, points.get(sweep.recommended().number))


def _point(trial: "Trial", x: Measure, y: Measure, varied: set[str]) -> Point:
    errors = trial.errors.get(x.name, 0.0), trial.errors.get(y.name, 0.0)
    return Point(_ranks(trial), trial.metrics[x.name], trial.metrics[y.name], _rest(trial, varied), errors)


def _varied(trials: "list[Trial]") -> set[str]:
    """Returns the names of the settings that are not the same in all trials."""
    names = dict.fromkeys(name for trial in trials for name in trial.settings)
    return {name for name in names if len({str(trial.settings.get(name)) for trial in trials}) > 1}


def _ranks(trial: "Trial") -> str:
    found = [str(value) for name, value in trial.settings.items() if "rank" in name]
    return f"rank {found[0]}" if len(found) == 1 else ", ".join(found) or str(trial.number)


def _rest(trial: "Trial", varied: set[str]) -> str:
    """Returns the settings other than ranks: sampled values are rounded, so that there are few groups."""
    rest = {name: value for name, value in trial.settings.items() if "rank" not in name and name in varied}
    shown = (f"{name} {value:.1g}" if isinstance(value, float) else f"{name} {value}" for name, value in rest.items())
    return ", ".join(shown) or "trials"
