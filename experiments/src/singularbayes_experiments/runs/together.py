"""Runs of an experiment with all seeds of a method as one program: what an accelerator is for.

A record is what `singularbayes-experiments run` gives for the seed without `--together`, to the accuracy of floats; its
machine has how many runs shared a program. Finished runs are not done again. Nothing is kept of an unfinished one.
Several processes may share a folder.
"""

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from singularbayes_experiments.methods.configurations import TUNING_SEEDS
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.problems.registry import find_experiment
from singularbayes_experiments.records import record
from singularbayes_experiments.runs.runner import require_methods


def run_together(
    experiment: str,
    presets: Sequence[str],
    *,
    folder: Path,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    choose: bool = False,
    configuration: str | None = None,
) -> Iterator[str]:
    """Returns an iterator that does the runs that the folder does not hold yet, with a line for every program.

    Args:
        presets: in this order for each method; "trial" is the tuning runs of all configurations.
        methods: None is all.
        seeds: None is the experiment's own, or those of tuning runs.
        choose: whether "chosen" is tuned by the tuning runs in the folder, not by the committed ones.
        configuration: the only one of the tuning runs.
    """
    found = find_experiment(experiment)
    known = [*found.presets, *([] if found.configurations is None else ["trial"])]
    if unknown := [preset for preset in presets if preset not in known]:
        raise ValueError(f"{experiment} needs --preset among {', '.join(known)}; got {', '.join(unknown)}.")
    names = require_methods(found, methods)

    def lines() -> Iterator[str]:
        for method, preset in itertools.product(names, presets):
            own_seeds = seeds or (TUNING_SEEDS if preset == "trial" else found.seeds)
            for settings in preset_settings(found, preset, method, folder if choose else None, configuration):
                line = _run_missing(found, preset, method, settings, own_seeds, folder)
                if line is not None:
                    yield line

    return lines()


def preset_settings(
    experiment: Experiment, preset: str, method: str, tuning_runs: Path | None = None, configuration: str | None = None
) -> list:
    """Returns the settings of a method in a preset: one or its variants, or for "trial" all configurations.

    Args:
        tuning_runs: the folder that decides what is "chosen"; None is the committed choice.
        configuration: the only one of the tuning runs.
    """
    if preset == "trial":
        assert experiment.configurations is not None
        found = experiment.configurations.settings(method)
        if configuration is not None and configuration not in found:
            raise ValueError(
                f"{experiment.name} needs --configuration to be one of {list(found)} for {method}; got "
                f"{configuration!r}."
            )
        return list(found.values()) if configuration is None else [found[configuration]]
    if preset == "chosen" and tuning_runs is not None:
        return experiment.variants(_tuned_in(experiment, method, tuning_runs))
    return experiment.variants(experiment.settings(preset, method))


def _tuned_in(experiment: Experiment, method: str, folder: Path) -> Any:
    """Returns the settings of a method with the least validation NLL among the tuning runs in a folder."""
    configurations = experiment.configurations
    if configurations is None:
        raise ValueError(f"--choose needs an experiment with configurations; {experiment.name} has none.")
    source = configurations.shared.get(method, method)
    tuning = [one for one in record.read(folder, arrays=False) if one.preset == "trial"]
    found = [one for one in tuning if (one.experiment, one.method) == (experiment.name, source)]
    if not found:
        raise ValueError(
            f"--choose needs tuning runs of {source!r} in {str(folder)!r}; got none. Run --preset trial first."
        )
    return configurations.tuned(configurations.best(found))[method]


def _run_missing(
    experiment: Experiment, preset: str, method: str, settings: Any, seeds: Sequence[int], folder: Path
) -> str | None:
    """Does the runs that the folder does not hold yet as one program, and returns how long they took."""
    name, plain = experiment.name, record.plain(settings)
    done = record.count(folder, tuning=preset == "trial")
    missing = [seed for seed in seeds if not done[record.identity(name, method, seed, plain)]]
    if not missing:
        return None
    start = time.perf_counter()
    found = experiment.problem.run_many(method, missing, settings, preset=preset)
    for one in found:
        record.append(one, folder)
    return f"{name} {preset} {method} {missing}: {time.perf_counter() - start:.0f} s, {_scores(found)}"


def _scores(found: Sequence[record.Record]) -> str:
    """Returns the mean validation NLL of some runs; where they have none, of what their records begin with."""
    names = ["validation_nll"] if "validation_nll" in found[0].metrics else list(found[0].metrics)[:3]
    means = {name: sum(one.metrics.get(name, math.nan) for one in found) / len(found) for name in names}
    return ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
