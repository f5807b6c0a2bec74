"""Nine small regression sets with fixed splits: the comparison that papers on Bayesian networks share.

The protocol of Hernández-Lobato and Adams (2015) with the splits of Gal and Ghahramani (2016): one hidden layer of 50
ReLU units, 100 for protein; inputs and targets standardised by the training rows; 40 epochs; the noise is learned. A
seed is the number of a split: a run trains a network, or an ensemble, on that split of every set, all splits of a set
as one program on JAX. RMSE and NLL are of the test rows, in the units of the targets; the NLL is that of a Gaussian
with the mean and the total variance of the draws or members. Protein has 5 splits, the others 20.

Not an experiment of the paper: the scale called "paper" is our defaults, fixed beforehand, and reports call it so. One
or two settings were run on two splits of yacht and Boston, without test rows, before the configurations were written
down; β = 0.1 became 0.3 there. Networks are small: a run leaves no checkpoints, and one that was interrupted starts
again.

A trial trains on four fifths of the training rows of a split and is scored on the rest alone; its NLL is the mean over
sets, to which units add the same whatever is tried. Rows that test one split train another, as in all work with these
splits, so choosing on two of them has seen some of the test rows of the rest.
"""

import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from singularbayes_experiments import data
from singularbayes_experiments.methods.configurations import Changes, Configurations
from singularbayes_experiments.methods.experiment import Experiment, Problem
from singularbayes_experiments.methods.methods import sentences
from singularbayes_experiments.methods.pools import offset_watch
from singularbayes_experiments.methods.training import require_method
from singularbayes_experiments.problems.small_regression import SplitOutcome, UCISettings, outcomes
from singularbayes_experiments.records.record import Record, departures, machine, plain

METHODS = sentences("low_rank", "full_rank", "deep_ensemble")
SEEDS = tuple(range(20))
MANY_CORES = 8  # from which on sets train in processes of their own


class UCI(Problem):
    """One split of every set is a run."""

    name = "uci"
    methods: Mapping[str, str] = METHODS

    def run(self, method, seed, settings=None, *, watch=None, keep=None, preset="paper") -> Record:
        """Trains one method on one split of every set and scores it; `keep` is not used."""
        require_method(method, METHODS)
        _require_splits([seed])
        settings = UCISettings() if settings is None else settings
        start, every = time.perf_counter(), []
        for place, name in enumerate(settings.sets):
            counted = offset_watch(watch, place * settings.epochs)
            every += outcomes(name, method, [seed], settings, tuning=preset == "trial", watch=counted)
        return _record(method, seed, settings, preset, every, time.perf_counter() - start)

    def run_many(self, method, seeds, settings=None, *, preset="paper") -> list[Record]:
        """Returns what `run` returns for every split; on a machine with many cores several sets train at once."""
        require_method(method, METHODS)
        _require_splits(seeds)
        settings = UCISettings() if settings is None else settings
        start = time.perf_counter()
        work = partial(outcomes, method=method, seeds=tuple(seeds), settings=settings, tuning=preset == "trial")
        cores = os.cpu_count() or 1
        if cores < MANY_CORES:
            found = list(map(work, settings.sets))
        else:
            largest_first = sorted(settings.sets, key=lambda name: -len(data.uci_regression(name).y))
            with ProcessPoolExecutor(cores // 2, multiprocessing.get_context("spawn")) as pool:
                found = list(pool.map(work, largest_first))
        every = [outcome for each in found for outcome in each]
        share, where = (time.perf_counter() - start) / len(seeds), machine() | {"trained_together": len(seeds)}
        return [replace(_record(method, seed, settings, preset, every, share), machine=where) for seed in seeds]

    def count_epochs(self, method, settings) -> int:
        """Returns the epochs of all sets; the members of an ensemble train together."""
        return len(settings.sets) * settings.epochs


def _record(
    method: str, seed: int, settings: UCISettings, preset: str, every: list[SplitOutcome], seconds: float
) -> Record:
    own = sorted((one for one in every if one.split == seed), key=lambda one: min(one.scores))
    scores = {name: value for one in own for name, value in one.scores.items()}
    size = sum(one.parameters for one in own)
    return Record(
        experiment="uci",
        method=method,
        seed=seed,
        settings=plain(settings),
        metrics=_validated(scores) if preset == "trial" else scores,
        parameters=size,
        seconds=seconds,
        paper=departures(settings),
        stored=size,
        preset=preset,
        arrays={name: array for one in own for name, array in one.arrays.items()},
    )


def _validated(scores: dict[str, float]) -> dict[str, float]:
    """Returns the scores of a trial, with the NLL that configurations are chosen by: the mean over sets."""
    mean = float(np.mean([value for name, value in scores.items() if name.endswith("/nll")]))
    return {"validation_nll": mean, **{f"validation/{name}": value for name, value in scores.items()}}


def _require_splits(seeds: Sequence[int]) -> None:
    unknown = [seed for seed in seeds if seed not in SEEDS]
    if unknown:
        raise ValueError(f"uci needs seeds from 0 to {SEEDS[-1]}, the numbers of the splits; got {unknown[0]}.")


LONGER: Changes = {"least_steps": 10_000}
VARIATIONAL: dict[str, Changes] = {
    f"beta {beta:g}{parts}": {**LONGER, "rho_lr": 4.0, "beta": beta, "own_noise": bool(parts)}
    for beta in (1.0, 0.3)
    for parts in ("", ", own noise")
}
POINT: dict[str, Changes] = {
    f"{name}{parts}": {**changes, "own_noise": bool(parts)}
    for name, changes in (("40 epochs", Changes()), ("10,000 steps", LONGER))
    for parts in ("", ", own noise")
}
CONFIGURATIONS = Configurations(
    UCISettings(), {"low_rank": VARIATIONAL, "full_rank": VARIATIONAL, "deep_ensemble": POINT}
)
# The configuration with the least validation NLL: experiments/results/uci_trials.jsonl.
CHOICE = {"low_rank": "beta 0.3, own noise", "full_rank": "beta 1", "deep_ensemble": "10,000 steps, own noise"}
TUNED = CONFIGURATIONS.tuned(CHOICE)
QUICK = UCISettings(sets=("yacht", "energy"), epochs=10, warmup=2, draws=20, members=2)

EXPERIMENT = Experiment(
    summary="Nine small regression sets with fixed splits: the comparison that papers on Bayesian networks share.",
    problem=UCI(),
    presets={"paper": UCISettings(), "chosen": TUNED, "quick": QUICK},
    configurations=CONFIGURATIONS,
    choice=CHOICE,
    seeds=SEEDS,
)
