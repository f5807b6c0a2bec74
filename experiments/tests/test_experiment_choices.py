"""The committed grids are those that were run, and the committed choices are what the recorded runs choose."""

import json
from collections import defaultdict

import numpy as np
import pytest
from singularbayes_experiments import config, protocol, records, study
from singularbayes_experiments.problems.base import Problem

_NAMES = {"rate": "learning_rate", "decay": "weight_decay", "scale": "prior_scale", "start": "start"}
_STARTS = {"he": "independent"}
_POINT = ("epochs", "learning_rate", "weight_decay")
_VARIATIONAL = (*_POINT[:2], "prior", "prior_scale", "beta", "eta", "rho_lr", "warmup", "start", "spread")
_OTHER = {"sst2": {"prior": "scale_mixture"}}  # recorded as "normal": its prior is not narrower or wider
_DETERMINISTIC = ("deterministic", "deep_ensemble")
_OWN = ("adapters", "cifar10")  # other presets and names of configurations, in tests of their own
EXPERIMENTS = [
    name
    for name in config.names()
    if name not in _OWN and "protocol" in config.read(name).presets and isinstance(config.read(name).problem, Problem)
]


@pytest.fixture(scope="module")
def recorded():
    """Returns task → method → (configuration, seed) → (settings, metrics) of tuning."""
    rows = records.connect().execute(
        "SELECT task, method, configuration, seed, settings, list(metric), list(value) FROM scores "
        "WHERE preset = 'protocol' AND stage = 'tuning' AND list_contains(?, experiment) GROUP BY ALL",
        [EXPERIMENTS],
    )
    found = defaultdict(lambda: defaultdict(dict))
    for task, method, configuration, seed, settings, names, values in rows.fetchall():
        metrics = dict(zip(names, values, strict=True))
        found[task][method][int(configuration.split()[-1]), seed] = json.loads(settings), metrics
    return found


def tuned():
    for name in EXPERIMENTS:
        yield from ((name, task) for task in config.read(name).tasks_of("protocol", "tuning"))


def pairs():
    for name, task in tuned():
        yield from ((name, task, method) for method in config.read(name).methods("protocol", task))


@pytest.mark.parametrize(("name", "task", "method"), list(pairs()))
def test_the_committed_choice_is_that_of_the_recorded_runs_of_the_committed_grid(name, task, method, recorded):
    experiment, runs = config.read(name), recorded[task][method]
    grid = experiment.grid("protocol", method, task)
    for (place, _), (settings, _) in runs.items():
        if place < len(grid):
            assert _as_recorded(grid[place], settings, method) == _renamed(settings | _OTHER.get(name, {}), method)
    tried = {key: metrics for key, (_, metrics) in runs.items() if key[0] < len(grid)}
    assert {key[0] for key in tried} == set(range(len(grid)))
    assert study.choose(experiment, "protocol", method, tried, task) == experiment.chosen("protocol", method, task)[0]


def _renamed(settings, method):
    """Returns the recorded settings by the names of today; rounds before the last knew no warm-up and no rank."""
    found = {"warmup": 0, "spread": []} | {_NAMES.get(key, key): value for key, value in settings.items()}
    found["start"] = _STARTS.get(found["start"], found["start"])
    keys = _POINT if method in _DETERMINISTIC else _VARIATIONAL
    return {key: found[key] for key in keys} | ({"rank": settings["rank"]} if settings.get("rank") else {})


def _as_recorded(own, settings, method):
    found = {"spread": []} | config.plain(own)
    keys = _POINT if method in _DETERMINISTIC else _VARIATIONAL
    return {key: found[key] for key in keys} | ({"rank": found["ranks"][0]} if settings.get("rank") else {})


def test_a_choice_is_the_best_proxy_of_those_within_a_standard_error():
    """By hand: the paired differences of "ties" to the best are .02 and 0, so the standard error is .01."""
    tried = [
        protocol.Tried("best", (0.30, 0.32), (0.5, 0.5)),
        protocol.Tried("ties", (0.32, 0.32), (0.9, 0.9)),
        protocol.Tried("third", (0.34, 0.32), (0.95, 0.95)),
        protocol.Tried("worse", (0.60, 0.58), (1.0, 1.0)),
        protocol.Tried("diverged", (np.nan, 0.1), (1.0, 1.0)),
        protocol.Tried("ignorant", (0.9, 0.1), (1.0, 1.0), without_inputs=0.8),
    ]
    assert protocol.choose(tried) == "ties"
