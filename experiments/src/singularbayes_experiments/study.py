"""One task: data → the method trains → the problem scores. And tuning: the runs of a grid → the choice."""

import resource
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import numpy as np

from singularbayes.models import count_stored, count_trained
from singularbayes.prediction import predict
from singularbayes_experiments import protocol, scores
from singularbayes_experiments.config import Experiment, Task
from singularbayes_experiments.methods import Member, Trainer, find_method
from singularbayes_experiments.problems.base import TUNING, Data, Predict, Problem


@dataclass(frozen=True)
class Outcome:
    """What one run gave: numbers by name, and arrays that a table or a figure needs."""

    metrics: dict[str, float]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def run(problem: Problem, task: Task) -> Iterable[Outcome]:
    """Returns what every run of a task gave, in order. A problem that trains in another way has a `run(task)`."""
    own = getattr(problem, "run", None)
    return own(task) if own else train_and_score(problem, task)


def train_and_score(problem: Problem, task: Task) -> list[Outcome]:
    data: dict[int, Data] = {}
    for seed, settings in zip(task.seeds, task.settings, strict=True):
        if seed not in data:
            shared = problem.seeds_share_data and data
            data[seed] = next(iter(data.values())) if shared else problem.data(task.task, seed, settings, task.stage)
    members = [Member(seed, own, data[seed]) for seed, own in zip(task.seeds, task.settings, strict=True)]
    trainer = Trainer(problem)
    trained = find_method(task.method).train(trainer, members)
    costs = {"seconds": trainer.seconds / len(members), "products": trainer.products / len(members)}
    found = []
    for member, model in zip(members, trained, strict=True):
        predicting = predictor(model, member.settings.draws, member.seed)
        metrics, arrays = problem.score(predicting, member.data, member.settings, task.stage)
        networks = networks_of(model)
        metrics |= scores.posterior_scores(networks) | sizes(model) | costs
        metrics["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if networks and task.stage != TUNING:
            arrays |= scores.singular_values(networks[0])
        found.append(Outcome({name: float(value) for name, value in metrics.items()}, arrays))
    return found


def predictor(model: Any, draws: int, seed: int) -> Predict:
    """Returns what predicts by a Keras model, or by what has `predict`, with the draws and the seed of a run."""
    predicting = partial(predict, model) if isinstance(model, keras.Model) else model.predict
    return lambda x, **options: predicting(x, **{"draws": draws, "seed": seed} | options)


def networks_of(model: Any) -> list[keras.Model]:
    """Returns the network or the members of an ensemble; none of SWAG, whose weights are another Gaussian's."""
    return [model] if isinstance(model, keras.Model) else getattr(model, "models", [])


def sizes(model: Any) -> dict[str, float]:
    """Returns how many parameters are trained, and how many are stored for predictions."""
    if isinstance(model, keras.Model):
        return {"parameters": count_trained(model), "stored": count_stored(model)}
    return {"parameters": model.num_trained, "stored": model.num_stored}


# -- tuning ------------------------------------------------------------------------------------------------------------

Runs = Mapping[tuple[int | None, int], Mapping[str, float]]  # (configuration, seed) → metrics


def tried(runs: Runs, grid: Sequence[Any]) -> list[protocol.Tried]:
    """Returns the configurations of a grid with their scores."""
    found = []
    for place in range(len(grid)):
        own = [metrics for (number, _), metrics in sorted(runs.items(), key=lambda each: each[0][1]) if number == place]
        nll, ood = (tuple(metrics.get(name, np.nan) for metrics in own) for name in ("nll", "proxy_ood"))
        base = min((metrics.get("without_inputs", np.inf) for metrics in own), default=np.nan)
        found.append(protocol.Tried(str(place), nll, ood, base))
    return found


def choose(experiment: Experiment, preset: str, method: str, runs: Runs, task: str | None = None) -> int | None:
    """Returns the place of the configuration that the protocol chooses; None where all diverged."""
    every = tried(runs, experiment.grid(preset, method, task))
    return None if all(one.diverged for one in every) else int(protocol.choose(every))
