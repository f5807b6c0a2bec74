"""A search for ranks, and for β and η beside them, by short trainings on Optuna."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.live import Live
from rich.table import Table

from singularbayes.metrics import Measure
from singularbayes.ranks import waves
from singularbayes.ranks.engines import Engine, Local
from singularbayes.ranks.fingerprint import digest_of, first_model, has_noise, task_of
from singularbayes.ranks.objectives import measures
from singularbayes.ranks.space import Space, grid, read_space
from singularbayes.ranks.storage import digest, lock_storage, open_study, plain, quiet_optuna, require_optuna
from singularbayes.ranks.sweep_config import Budget, Counterpart, Data
from singularbayes.ranks.trials import Sweep, Trial, cells
from singularbayes.ranks.work import Ended, Work


def sweep(
    build: Callable[..., keras.Model],
    data: Data,
    space: Space,
    objectives: Sequence[str] = ("nll", "auroc_ood"),
    budget: Budget | int = Budget(),
    *,
    storage: str | Path | None = None,
    task: str | None = None,
    seed: int = 0,
    engine: Engine | None = None,
) -> Sweep:
    """Returns trials of settings from a space, chosen by Optuna's multi-objective sampler, and which of them to take.

    A trial trains `build(**settings)` with every seed for a few epochs and is judged by the mean of its scores on
    the validation data; from two seeds on, by their standard error too (`Sweep.recommended`). On a terminal a table
    grows with the trials. With one objective, trials that fall behind the median of the others are stopped early.

    Args:
        build: makes a compiled model from the settings by name: `lambda rank, eta: …`, or one rank a layer. `beta` is
            not passed on: it is the β of the KL weight, by default that of `KLSchedule`.
        space: settings by name: (low, high) of two integers or two others, searched by their logarithm, or a list.
            Where all are lists, every combination is tried once, in an order of chance.
        objectives: names of measures, as an `Evaluation` has them; "auroc_ood" is by mutual information, or by the
            epistemic variance in regression. OOD objectives need `data.ood`.
        budget: or a number of trials.
        storage: a file that keeps the trials. The same call resumes; with more trials in the budget it adds to
            them.
        task: "classification" or "regression", where the compiled loss does not determine it.
        seed: of the sampler; seeds of training are 0, 1, ….
        engine: where trials are trained; None is this process. Trials and their scores are the same on all engines.

    docs/ranks.md has an example.
    """
    require_optuna()
    budget = Budget(trials=budget) if isinstance(budget, int) else budget
    space = read_space(space)
    if not isinstance(data, Data):
        raise ValueError(
            f"sweep needs ranks.Data(train=(x, y), validation=(x, y)); got data of type {type(data).__name__}."
        )
    model = first_model(build, space)
    task = task_of(model, task)
    wanted = measures(objectives, task, data.ood_by_name, has_noise(model))
    what = _dependencies(build, model, data, space=space, wanted=wanted, budget=budget, task=task, seed=seed)
    del model  # its memory is the trials'
    directions = ["maximize" if measure.sign > 0 else "minimize" for measure in wanted]
    points = grid(space, seed)
    number = budget.trials if points is None else min(budget.trials, len(points))
    with lock_storage(storage), quiet_optuna(), live_table(wanted) as show:
        study = open_study(storage, directions, what)
        waves.end_open_trials(study)
        show(waves.ended_trials(study))
        try:
            while wave := waves.next_wave(study, space, points, number, budget.at_once, seed):
                work = Work(build, data, wanted, budget, task, waves.finished_curves(study))
                for trial, ended in _ended(study, wave, work, engine or Local()):
                    waves.end_trial(study, trial, ended, wanted)
                    show(waves.ended_trials(study))
        finally:
            waves.end_open_trials(study)
        return Sweep(task, wanted, tuple(waves.ended_trials(study)), budget.seeds)


def _dependencies(
    build, model, data: Data, *, space: Space, wanted: tuple[Measure, ...], budget: Budget, task: str, seed: int
) -> dict[str, Any]:
    """Returns what the trials of a storage depend on; their number may grow."""
    return plain(
        {
            "objectives": [measure.name for measure in wanted],
            "space": {name: list(choice) for name, choice in space.items()},
            "task": task,
            "seed": int(seed),
            **budget.costs,
            "data": digest((data.train, data.validation, data.ood_by_name)),
            "model": build.digest if isinstance(build, Counterpart) else digest_of(model),
        }
    )


def _ended(study, wave: list[Any], work: Work, engine: Engine) -> Iterator[tuple[Any, Ended]]:
    """Yields the trials of a wave as they end; settings that come twice are trained once."""
    known = {
        _key(trial.settings): Ended(trial.metrics, errors=trial.errors)
        for trial in waves.ended_trials(study)
        if trial.metrics
    }
    yield from ((trial, known[_key(trial.params)]) for trial in wave if _key(trial.params) in known)
    new = {_key(trial.params): trial.params for trial in wave if _key(trial.params) not in known}
    for position, ended in engine.map(work, list(new.values())):
        key = list(new)[position]
        yield from ((trial, ended) for trial in wave if _key(trial.params) == key)


def _key(settings: dict[str, Any]) -> tuple:
    return tuple(sorted(settings.items()))


_SHOWN = 30  # the last trials; a longer table would not fit a screen


@contextmanager
def live_table(measures: Sequence[Measure], console: Console | None = None) -> Iterator[Callable[[list[Trial]], None]]:
    """Yields what to call with all trials after each of them: on a terminal it draws their table, else nothing."""
    console = console or Console()
    if not console.is_terminal:
        yield lambda trials: None
        return
    with Live(console=console, auto_refresh=False) as shown:
        yield lambda trials: shown.update(_drawn(measures, trials), refresh=True)


def _drawn(measures: Sequence[Measure], trials: list[Trial]) -> Table:
    sweep = Sweep("", tuple(measures), tuple(trials))
    front = {trial.number for trial in sweep.pareto()} if sweep.finished else set()
    head, rows = cells(measures, trials, front)
    drawn = Table(title=f"{len(trials)} trials", title_justify="left")
    for i, name in enumerate(head):
        drawn.add_column(name, justify="left" if i == 0 else "right")
    for row in rows[-_SHOWN:]:
        drawn.add_row(*row, style="bold" if row[-1] else None)
    return drawn
