"""Which trials a sweep runs next, and how their results are recorded.

A trial has a position, 0 … trials − 1, which its sampler is seeded by. Positions are taken in waves: a wave knows
all that the waves before it found, and nothing of itself. So neither the machines nor the order in which they end
decide which trials there are; and a wave that was interrupted is completed with the settings that it had.
"""

import math
from typing import Any

import numpy as np

from singularbayes.metrics import Measure
from singularbayes.ranks.space import Space, suggest
from singularbayes.ranks.storage import require_optuna
from singularbayes.ranks.trials import Trial
from singularbayes.ranks.work import Curve, Ended

_POSITION, _METRICS, _ERRORS, _TRIED = "position", "metrics", "errors", "tried"
_STARTUP = 8  # trials by chance, before the sampler learns from them


def ended_trials(study) -> list[Trial]:
    """Returns the trials that ended, by position: finished, stopped early or diverged."""
    states = require_optuna().trial.TrialState
    done = [t for t in study.trials if t.state in (states.COMPLETE, states.PRUNED) or t.user_attrs.get(_TRIED)]
    found = [_read(trial.user_attrs, trial.params) for trial in done]
    return sorted(found, key=lambda trial: trial.number)


def _read(kept: dict[str, Any], settings: dict[str, Any]) -> Trial:
    return Trial(kept[_POSITION], settings, kept.get(_METRICS, {}), kept.get(_ERRORS, {}))


def finished_curves(study) -> tuple[Curve, ...]:
    """Returns the objective along the way of every finished trial."""
    states = require_optuna().trial.TrialState
    return tuple(t.intermediate_values for t in study.get_trials(states=(states.COMPLETE,)))


def end_open_trials(study) -> None:
    """Ends the trials without a result, such as those of a process that was killed."""
    states = require_optuna().trial.TrialState
    for _ in study.get_trials(states=(states.WAITING,)):
        study.ask()  # it is running then: Optuna ends no trial that waits
    for trial in study.get_trials(states=(states.RUNNING,)):
        study.tell(trial.number, state=states.FAIL)


def next_wave(
    study, space: Space, points: list[dict[str, Any]] | None, number: int, at_once: int, seed: int
) -> list[Any]:
    """Returns the open Optuna trials of the next wave, with their settings; none when all have ended.

    Args:
        points: the settings by position, where they are a grid.
        number: of trials in all.
    """
    ended = {trial.number for trial in ended_trials(study)}
    missing = [position for position in range(number) if position not in ended]
    left = _left(study, space) if points is None else dict(enumerate(points))
    wave = [position for position in missing if position // at_once == missing[0] // at_once]
    return [_asked(study, space, position, left.get(position), seed) for position in wave]


def _left(study, space: Space) -> dict[int, dict[str, Any]]:
    """Returns the settings by position that were started, whatever became of them."""
    return {t.user_attrs[_POSITION]: t.params for t in study.trials if t.params.keys() == space.keys()}


def _asked(study, space: Space, position: int, settings: dict[str, Any] | None, seed: int) -> Any:
    state = int(np.random.SeedSequence([seed, position]).generate_state(1)[0])
    study.sampler = require_optuna().samplers.TPESampler(seed=state, n_startup_trials=_STARTUP)
    if settings is not None:
        study.enqueue_trial(settings)
    trial = study.ask()
    trial.set_user_attr(_POSITION, position)
    suggest(trial, space)
    return trial


def end_trial(study, trial, ended: Ended, wanted: tuple[Measure, ...]) -> None:
    """Ends a trial: with its values, as stopped early, or as one that diverged."""
    states = require_optuna().trial.TrialState
    if len(wanted) == 1:
        for epochs, value in ended.curve.items():
            trial.report(value, epochs)
    if not ended.metrics:
        study.tell(trial, state=states.PRUNED)
        return
    values = [ended.metrics[measure.name] for measure in wanted]
    trial.set_user_attr(_METRICS, _finite(ended.metrics))
    trial.set_user_attr(_ERRORS, _finite(ended.errors))
    if all(math.isfinite(value) for value in values):
        study.tell(trial, values)
    else:
        trial.set_user_attr(_TRIED, True)  # it diverged, and would again
        study.tell(trial, state=states.FAIL)


def _finite(scores: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if math.isfinite(value)}
