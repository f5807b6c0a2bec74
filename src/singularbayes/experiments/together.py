"""Runs of the image experiments with all seeds of a method as one program: what an accelerator is for.

    python -m singularbayes.experiments.together mnist trial --out runs/trials
    python -m singularbayes.experiments.together mnist paper,chosen --seeds 42,123,456 --out runs/paper

It needs neither the command line's libraries nor a terminal. A record is what `singularbayes run` gives for the seed,
to the accuracy of floats; its machine says how many runs shared a program. Finished runs are not done again. Nothing is
kept of an unfinished one.
"""

import argparse
import importlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from singularbayes.experiments import candidates, record

EXPERIMENTS = ("mnist", "fashion_mnist", "cnn", "kl_study")
SEEDS = (42, 123, 456)


def settings_of(experiment: Any, preset: str, method: str) -> list:
    """Returns the settings of a method that go by this name: one, or for "trial" all candidates."""
    if preset == "trial":
        return list(candidates.candidates(method, experiment.Settings()).values())
    found = experiment.PRESETS[preset]
    return [found[method] if isinstance(found, dict) else found]


def jobs(experiment: Any, presets: Sequence[str], methods: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Yields (preset, method, settings) of everything to do."""
    for preset in presets:
        for method in methods or experiment.METHODS:
            for settings in settings_of(experiment, preset, method):
                yield preset, method, settings


def run_all(name: str, presets: Sequence[str], methods: Sequence[str], seeds: Sequence[int], folder: Path) -> None:
    """Does all runs that the folder does not hold yet, and says what each took."""
    experiment = importlib.import_module(f"singularbayes.experiments.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    for preset, method, settings in jobs(experiment, presets, methods):
        wanted = seeds or (candidates.SEEDS if preset == "trial" else SEEDS)
        done = record.count(folder)
        plain = record.plain(settings)
        missing = [seed for seed in wanted if not done[record.identity(name, method, seed, plain)]]
        if missing:
            start = time.perf_counter()
            for found in experiment.run_many(method, missing, settings, preset):
                record.append(found, folder)
            nll = found.metrics["validation_nll"]
            print(f"{name} {preset} {method} {missing}: {time.perf_counter() - start:.0f} s, NLL {nll:.4f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="All seeds of a method as one program.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("presets", type=_names, help="paper, chosen, quick or trial; several with commas")
    parser.add_argument("--methods", type=_names, default=(), help="all unless said")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=())
    parser.add_argument("--out", type=Path, default=Path("runs"))
    given = parser.parse_args(arguments)
    run_all(given.experiment, given.presets, given.methods, given.seeds, given.out)


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
