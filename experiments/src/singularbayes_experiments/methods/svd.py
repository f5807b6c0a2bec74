"""Low-rank networks whose means start at the truncated SVD of trained deterministic ones."""

from typing import Any

import keras
import numpy as np

from singularbayes.baselines import DeepEnsemble
from singularbayes.posteriors import find_posteriors
from singularbayes_experiments.methods.base import Member, Trainer, method
from singularbayes_experiments.methods.ensembles import by_ensemble, in_ensembles


@method("low_rank_svd", "low-rank, started at the SVD of a trained network")
def low_rank_svd(trainer: Trainer, members: list[Member]) -> list:
    trained = [[point] for point in points(trainer, members)]
    return trainer.fit("low_rank", members, start=lambda model, number: start_at(model, trained[number]))


@method("low_rank_svd_ensemble", "low-rank networks from SVDs, their draws pooled")
def low_rank_svd_ensemble(trainer: Trainer, members: list[Member]) -> list:
    models = low_rank_svd(trainer, in_ensembles(members))
    return [DeepEnsemble.from_models(each) for each in by_ensemble(models, members)]


@method("mixture_svd_anchored", "mixture_svd with a prior around that start")
@method("mixture_svd", "mixture whose components start at the members of a deep ensemble")
def mixture_svd(trainer: Trainer, members: list[Member]) -> list:
    trained = by_ensemble(points(trainer, in_ensembles(members)), members)
    components = members[0].settings.members
    start = lambda model, number: start_at(model, trained[number])  # noqa: E731
    return trainer.fit("low_rank", members, components=components, start=start)


def points(trainer: Trainer, members: list[Member]) -> list[keras.Model]:
    """Returns deterministic networks, trained for a while."""
    own = members[0].settings
    changes: dict[str, Any] = {"epochs": own.svd_epochs, "weight_decay": own.svd_decay}
    changes |= {} if own.svd_rate is None else {"learning_rate": own.svd_rate}
    return trainer.fit("point", members, **changes)


def start_at(model: keras.Model, trained: list[keras.Model]) -> None:
    """Moves the means of a network to the weights of a deterministic one, as near to them as its ranks allow.

    Several networks are the starts of as many components. Their plain weights stand on a first axis; a noise that all
    components share starts at the mean of theirs.
    """
    for posterior, *weights in zip(find_posteriors(model), *map(find_posteriors, trained), strict=True):
        values = [keras.ops.convert_to_numpy(weight.mean().dense()) for weight in weights]
        posterior.center(values[0]) if len(values) == 1 else posterior.center_components(values)
    for variable, *plain in zip(outside(model), *map(outside, trained), strict=True):
        stacked = np.stack([keras.ops.convert_to_numpy(value) for value in plain])
        variable.assign(stacked if stacked.shape == variable.shape else stacked.mean(axis=0))


def outside(model: keras.Model) -> list:
    """Returns the trained weights that no posterior holds: plain biases and normalisations."""
    inside = {id(variable) for posterior in find_posteriors(model) for variable in posterior.variables}
    return [variable for variable in model.trainable_variables if id(variable) not in inside]
