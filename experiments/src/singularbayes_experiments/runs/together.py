"""Runs of experiments with all seeds of a method as one program: what an accelerator is for.

    python -m singularbayes_experiments.runs.together mnist paper,trial --out runs/gpu
    python -m singularbayes_experiments.runs.together mnist chosen --choose --out runs/gpu

It needs neither the command line's libraries nor a terminal. A record is what `singularbayes-experiments run` gives for
the seed, to the accuracy of floats; its machine says how many runs shared a program. Finished runs are not done again.
Nothing is kept of an unfinished one. Several processes may share a folder.
"""

import argparse
import importlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from singularbayes_experiments.methods.configurations import SEEDS as TRIAL_SEEDS
from singularbayes_experiments.records import record
from singularbayes_experiments.runs.runner import EXPERIMENTS, variants

SEEDS = (42, 123, 456)


def best_tried(experiment: Any, method: str, folder: Path) -> Any:
    """Returns the settings of a method with the least validation NLL among the trials in a folder."""
    candidates = experiment.CANDIDATES
    source = candidates.alike.get(method, method)
    trials = [one for one in record.read(folder, arrays=False) if one.preset == "trial"]
    found = [one for one in trials if (one.experiment, one.method) == (experiment.PROBLEM.name, source)]
    if not found:
        raise ValueError(
            f"--choose needs trials of {source!r} in {str(folder)!r}; got none. Run the preset trial first."
        )
    return candidates.chosen(candidates.choose(found))[method]


def settings_of(name: str, preset: str, method: str, trials: Path | None, candidate: str | None = None) -> list:
    """Returns the settings of a method that go by this name: one or its variants, or for "trial" all candidates.

    Args:
        trials: the folder that decides which are "chosen"; None is the committed choice.
        candidate: the only one to be tried.
    """
    experiment = importlib.import_module(f"singularbayes_experiments.problems.{name}")
    if preset == "trial":
        found = experiment.CANDIDATES.settings(method)
        if candidate is not None and candidate not in found:
            raise ValueError(f"{name} needs --candidate to be one of {list(found)} for {method}; got {candidate!r}.")
        return list(found.values()) if candidate is None else [found[candidate]]
    if preset == "chosen" and trials is not None:
        return variants(experiment, best_tried(experiment, method, trials))
    found = experiment.PRESETS[preset]
    return variants(experiment, found[method] if isinstance(found, dict) else found)


def run_missing(name: str, preset: str, method: str, settings: Any, seeds: Sequence[int], folder: Path) -> None:
    """Does the runs that the folder does not hold yet as one program, and says what they took."""
    done, plain = record.count(folder, trials=preset == "trial"), record.plain(settings)
    missing = [seed for seed in seeds if not done[record.identity(name, method, seed, plain)]]
    if not missing:
        return
    start = time.perf_counter()
    experiment = importlib.import_module(f"singularbayes_experiments.problems.{name}")
    found = experiment.run_many(method, missing, settings, preset)
    for one in found:
        record.append(one, folder)
    seconds = time.perf_counter() - start
    print(f"{name} {preset} {method} {missing}: {seconds:.0f} s, {_told(found)}", flush=True)


def _told(found: Sequence[record.Record]) -> str:
    """Returns the mean validation NLL of some runs; where they have none, of what their records begin with."""
    names = ["validation_nll"] if "validation_nll" in found[0].metrics else list(found[0].metrics)[:3]
    means = {name: sum(one.metrics.get(name, math.nan) for one in found) / len(found) for name in names}
    return ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and does all that it asks for."""
    parser = argparse.ArgumentParser(description="All seeds of a method as one program.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("presets", type=_names, help="paper, chosen, quick or trial; several with commas, in turn")
    parser.add_argument("--methods", type=_names, help="all unless said")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")])
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--choose", action="store_true", help="chosen: by the trials in --out, not the committed ones")
    parser.add_argument("--candidate", help="trial: this one alone, so that processes can share the candidates")
    given = parser.parse_args(arguments)
    experiment = importlib.import_module(f"singularbayes_experiments.problems.{given.experiment}")
    presets = [*experiment.PRESETS, *(["trial"] if hasattr(experiment, "CANDIDATES") else [])]
    for what, known, asked in (("presets", presets, given.presets), ("--methods", experiment.METHODS, given.methods)):
        if strange := [name for name in asked or () if name not in known]:
            parser.error(f"{given.experiment} needs {what} among {', '.join(known)}; got {', '.join(strange)}.")
    given.out.mkdir(parents=True, exist_ok=True)
    for method in given.methods or experiment.METHODS:
        for preset in given.presets:
            seeds = given.seeds or (TRIAL_SEEDS if preset == "trial" else getattr(experiment, "SEEDS", SEEDS))
            trials = given.out if given.choose else None
            for settings in settings_of(given.experiment, preset, method, trials, given.candidate):
                run_missing(given.experiment, preset, method, settings, seeds, given.out)


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
