"""From YAML to tasks: an experiment's presets, the grid of every method, and the runs that one program trains.

A configuration is its place in the expanded grid, the rounds in order. `grid` is a list of parts: `product` of lists of
values, the last name varying fastest, or `list` of settings; beside either, `settings` that all of the part share.

The tasks of a preset are names, or for each name what it has of its own: settings, seeds, and methods beside what
the preset has for these. Where a preset is `tuned_on` some tasks, what they choose serves all.
"""

import dataclasses
import difflib
import importlib
import inspect
import itertools
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from singularbayes_experiments.methods import Settings, find_method
from singularbayes_experiments.methods.base import with_named_rank
from singularbayes_experiments.methods.settings import program_settings
from singularbayes_experiments.problems.base import RESULT, TUNING, OwnRuns, Problem

CONFIGS = Path(__file__).parents[2] / "configs"
PROBLEMS = "singularbayes_experiments.problems"
OWN = "own"  # the preset of runs with other settings than a file has
_EXPERIMENT = ("summary", "problem", "options", "seeds", "tasks", "settings", "presets")
_PRESET = ("settings", "methods", "seeds", "tasks", "tuned_on")
_TASK = ("settings", "methods", "seeds")
_METHOD = ("settings", "grid", "choice")
_PART = ("settings", "product", "list")


@dataclass(frozen=True)
class Task:
    """Runs of one method that train as one program: their configurations, seeds and settings.

    Args:
        configurations: the place in the grid of every run, None where there is no grid.
    """

    experiment: str
    task: str
    method: str
    preset: str
    stage: str
    configurations: tuple[int | None, ...]
    seeds: tuple[int, ...]
    settings: tuple[Any, ...]

    @property
    def name(self) -> str:
        return f"{self.experiment} {self.task} {self.method} {self.stage}"

    def only(self, places: Sequence[int]) -> "Task":
        """Returns the task with some of its runs."""

        def part(values: tuple) -> tuple:
            return tuple(values[i] for i in places)

        return replace(
            self, configurations=part(self.configurations), seeds=part(self.seeds), settings=part(self.settings)
        )


@dataclass(frozen=True)
class Experiment:
    """An experiment as its YAML file has it.

    Args:
        seeds: by stage or preset.
        tasks: the parts that have runs of their own.
    """

    name: str
    summary: str
    problem_name: str
    presets: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    common: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def problem(self) -> Any:
        """The object of the only problem that its module defines."""
        module = importlib.import_module(f"{PROBLEMS}.{self.problem_name}")
        own = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
        (kind,) = [each for each in own if issubclass(each, Problem | OwnRuns) and not inspect.isabstract(each)]
        return kind(**self.options)

    def require_method(self, method: str) -> None:
        """Raises where there is no such method."""
        if isinstance(self.problem, OwnRuns):
            known([method], self.problem.methods, f"A method of {self.name}")
        else:
            find_method(method)

    def tasks_of(self, preset: str, stage: str = RESULT) -> tuple[str, ...]:
        """Returns the tasks of a preset; in tuning those whose runs choose for all."""
        found = self._preset(preset)
        every = tuple(found.get("tasks") or self.tasks or (self.name,))
        return tuple(found.get("tuned_on", every)) if stage == TUNING else every

    def methods(self, preset: str, task: str | None = None) -> tuple[str, ...]:
        """Returns the methods of a task, or those of all tasks."""
        tasks, shared = self.tasks_of(preset) if task is None else (task,), self._preset(preset).get("methods", {})
        return tuple(dict.fromkeys(name for one in tasks for name in self._own(preset, one).get("methods", shared)))

    def grid(self, preset: str, method: str, task: str | None = None) -> list[Any]:
        """Returns the settings of every configuration in order; one where there is no grid."""
        own = self._method(preset, method, task)
        parts = (self._preset(preset), self._own(preset, task), own)
        shared = [self.common, *(part.get("settings", {}) for part in parts)]
        every = own.get("grid", [{"list": [{}]}])
        return [self._settings(method, [*shared, *changes]) for part in every for changes in expand(part)]

    def chosen(self, preset: str, method: str, task: str | None = None) -> tuple[int | None, Any]:
        """Returns the place and the settings of the configuration whose results are reported."""
        own = self._method(preset, method, task)
        every = self.grid(preset, method, task)
        if "grid" not in own:
            return None, every[0]
        if own.get("choice") is None:
            raise ValueError(f"{self.name}.yaml must have the choice of {method} ({preset}); run its tuning first.")
        return own["choice"], every[own["choice"]]

    def runs_of(
        self,
        preset: str,
        stage: str = RESULT,
        *,
        tasks: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> list[Task]:
        """Returns the tasks of a preset, each with runs that train as one program.

        Args:
            tasks, methods, seeds: None are those of the file.
            changes: settings to replace; their preset is "own".
        """
        every_task, every_method = self.tasks_of(preset, stage), self.methods(preset)
        tasks = known(tasks or every_task, every_task, f"A task of {self.name} {preset} {stage}")
        methods = known(methods or every_method, every_method, f"A method of {self.name} {preset}")
        found, kept = [], OWN if changes else preset
        for task, method in itertools.product(tasks, methods):
            if method not in self.methods(preset, task):
                continue
            if stage == TUNING and "grid" not in self._method(preset, method, task):
                continue
            grid = (
                enumerate(self.grid(preset, method, task)) if stage == TUNING else [self.chosen(preset, method, task)]
            )
            every = [(place, typed(own, changes or {}, "--set")) for place, own in grid]
            groups: dict[Any, list] = {}
            for (place, own), seed in itertools.product(every, seeds or self._seeds(preset, stage, task)):
                groups.setdefault(program_settings(own) if isinstance(own, Settings) else own, []).append(
                    (place, seed, own)
                )
            for runs in groups.values():
                places, own_seeds, settings = (tuple(part) for part in zip(*runs, strict=True))
                found.append(Task(self.name, task, method, kept, stage, places, own_seeds, settings))
        return found

    def _settings(self, method: str, changes: Iterable[Mapping[str, Any]]) -> Any:
        settings = self.problem.Settings()
        for own in changes:
            settings = typed(settings, own, f"{self.name}.yaml")
        return with_named_rank(method, settings) if isinstance(settings, Settings) else settings

    def _preset(self, preset: str) -> Mapping[str, Any]:
        known([preset], self.presets, f"A preset of {self.name}")
        return self.presets[preset]

    def _own(self, preset: str, task: str | None) -> Mapping[str, Any]:
        """Returns what a task has of its own."""
        tasks = self._preset(preset).get("tasks")
        return (tasks.get(task) or {}) if isinstance(tasks, Mapping) else {}

    def _method(self, preset: str, method: str, task: str | None = None) -> Mapping[str, Any]:
        parts = (self._preset(preset), self._own(preset, task))
        return {name: value for part in parts for name, value in (part.get("methods", {}).get(method) or {}).items()}

    def _seeds(self, preset: str, stage: str, task: str) -> Sequence[int]:
        own = {**self._preset(preset).get("seeds", self.seeds), **self._own(preset, task).get("seeds", {})}
        found = own.get(stage if stage == TUNING else preset, own.get(stage))
        if found is None:
            raise ValueError(f"{self.name}.yaml must have seeds for {stage} or {preset}; it has {list(own)}.")
        return found


def expand(part: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """Returns the changes of every configuration of a part of a grid.

    >>> [changes[1] for changes in expand({"product": {"beta": [0.1, 0.3], "epochs": [5, 9]}})][:3]
    [{'beta': 0.1, 'epochs': 5}, {'beta': 0.1, 'epochs': 9}, {'beta': 0.3, 'epochs': 5}]
    """
    values = part.get("product", {})
    each = [dict(zip(values, own, strict=True)) for own in itertools.product(*values.values())]
    return [[part.get("settings", {}), *own] for own in itertools.product(each, part.get("list", [{}]))]


def typed(settings: Any, changes: Mapping[str, Any], where: str) -> Any:
    """Returns settings with some changed, each as the type that it has.

    >>> from singularbayes_experiments.methods import Settings
    >>> typed(Settings(), {"beta": 1, "ranks": [4, 2], "prior": "normal"}, "here").ranks
    (4, 2)
    """
    known(changes, [one.name for one in fields(settings)], f"A setting of {type(settings).__name__} ({where})")
    kinds = typing.get_type_hints(type(settings))
    return replace(settings, **{name: _as(kinds[name], value, f"{name} ({where})") for name, value in changes.items()})


def _as(kind: Any, value: Any, where: str) -> Any:
    """Returns a value of YAML as one of a type; raises where it is none."""
    inside, origin = typing.get_args(kind), typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and types.NoneType in inside:
            return None
        return _as(next(each for each in inside if each is not types.NoneType), value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_as(inside[0], each, where) for each in value)
    if origin is typing.Literal and value in inside:
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    raise ValueError(f"{where} must be {kind}; got {value!r}.")


def known(names: Iterable[str], every: Iterable[str], what: str) -> list[str]:
    """Returns the names; raises with the nearest known name where one is unknown."""
    names, every = list(names), list(every)
    for name in names:
        if name not in every:
            close = difflib.get_close_matches(str(name), every, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{what} must be one of {every}; got {name!r}.{hint}")
    return names


def parse(name: str, content: Mapping[str, Any]) -> Experiment:
    """Returns an experiment from what its YAML file holds; raises where a key is unknown."""
    file = f"{name}.yaml"
    known(content, _EXPERIMENT, f"A key of {file}")
    summary, problem, presets = (content[key] for key in ("summary", "problem", "presets"))
    options, seeds, common = (content.get(key, {}) for key in ("options", "seeds", "settings"))
    found = Experiment(name, summary, problem, presets, options, seeds, tuple(content.get("tasks", ())), common)
    for preset, own in content["presets"].items():
        known(own, _PRESET, f"A key of {preset} in {file}")
        tasks = own.get("tasks", ())
        _check(found, own, preset)
        for task in tasks if isinstance(tasks, Mapping) else ():
            known(tasks[task] or {}, _TASK, f"A key of {preset}/{task} in {file}")
            _check(found, tasks[task] or {}, f"{preset}/{task}")
    return found


def _check(experiment: Experiment, part: Mapping[str, Any], where: str) -> None:
    for method, own in part.get("methods", {}).items():
        experiment.require_method(method)
        known(own or {}, _METHOD, f"A key of {where}/{method} in {experiment.name}.yaml")
        for each in (own or {}).get("grid", []):
            known(each, _PART, f"A key of a grid of {where}/{method} in {experiment.name}.yaml")


def names(folder: Path = CONFIGS) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def read(name: str, folder: Path = CONFIGS) -> Experiment:
    """Returns an experiment by its name."""
    known([name], names(folder), "An experiment")
    return parse(name, yaml.safe_load((folder / f"{name}.yaml").read_text("utf8")))


def plain(settings: Any) -> dict[str, Any]:
    """Returns settings as JSON holds them: tuples become lists."""
    return json.loads(json.dumps(dataclasses.asdict(settings)))
