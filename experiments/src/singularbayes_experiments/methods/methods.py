"""The methods that experiments compare: what each puts on a weight, and what it trains.

A method is written once, for a list of seeds. Who trains the networks is handed in: one after another, or all seeds as
one program (`trainers.py`). A rank after the name, as in low_rank_50, is that of the weights instead of the settings'.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import keras

from singularbayes.baselines import DeepEnsemble, LowRankEnsemble, member_seeds
from singularbayes.posteriors import find_posteriors
from singularbayes_experiments.methods.trainers import Trainer
from singularbayes_experiments.methods.weights import Weights

Train = Callable[[Trainer, list[int]], list]  # one thing a seed


@dataclass(frozen=True)
class Method:
    """What a method is in a sentence, how it trains one thing a seed, and its rank where that is not the settings'.

    What it trains is a Keras model or has `predict(x, draws, seed)`.

    Args:
        member: how one member of an ensemble trains, given its own seed; None where the method is no ensemble.
    """

    description: str
    train: Train
    rank: int | None = None
    member: Train | None = None


def one_network(kind: str) -> Train:
    """Returns how a method of one network trains: the posterior `kind` on every weight."""

    def train(trainer: Trainer, seeds: list[int]) -> list:
        weights = Weights(kind, trainer.settings)
        settings = _point(trainer.settings) if kind == "deterministic" else trainer.settings
        return trainer.fit(lambda seed: trainer.network(weights), seeds, settings, kind)

    return train


def from_svd(trainer: Trainer, seeds: list[int]) -> list:
    """Trains deterministic networks for a while, then low-rank ones whose means start at their truncated SVD."""
    settings = trainer.settings
    warm = replace(_point(settings), epochs=settings.svd_epochs)
    points = trainer.fit(lambda seed: trainer.network(Weights("point", settings)), seeds, warm, "point")
    trained = dict(zip(seeds, points, strict=True))

    def started(seed: int) -> keras.Model:
        model = trainer.network(Weights("low_rank", settings))
        start_at(model, trained[seed])
        return model

    return trainer.fit(started, seeds, settings, "low_rank")


def start_at(model: keras.Model, point: keras.Model) -> None:
    """Moves the means of a network to the weights of a deterministic network, or as near to them as its ranks allow."""
    for posterior, weight in zip(find_posteriors(model), find_posteriors(point), strict=True):
        posterior.center(keras.ops.convert_to_numpy(weight.mean().dense()))
    for variable, value in zip(_outside(model), _outside(point), strict=True):
        variable.assign(value)


def _outside(model: keras.Model) -> list:
    """Returns the trained weights that no posterior holds: plain biases and normalisations."""
    inside = {id(variable) for posterior in find_posteriors(model) for variable in posterior.variables}
    return [variable for variable in model.trainable_variables if id(variable) not in inside]


def ensemble(description: str, kind: type[DeepEnsemble] | type[LowRankEnsemble], train: Train) -> Method:
    """Returns the method of an ensemble: members trained alike, from seeds hashed from its own, their draws pooled."""

    def train_all(trainer: Trainer, seeds: list[int]) -> list:
        size = trainer.settings.members
        models = train(trainer, [member for seed in seeds for member in member_seeds(seed, size)])
        return [kind.from_models(models[i * size : (i + 1) * size]) for i in range(len(seeds))]

    return Method(description, train_all, member=train)


def swag(trainer: Trainer, seeds: list[int]) -> list:
    """Trains deterministic networks for most epochs, then takes a snapshot after every epoch of SGD in the rest."""
    settings = trainer.settings
    first = replace(_point(settings), epochs=settings.epochs - settings.swag_epochs)
    weights = Weights("deterministic", settings)
    models = trainer.fit(lambda seed: trainer.network(weights), seeds, first, "point")
    return trainer.fit_swag(models, seeds, "swag")


def _point(settings):
    """Returns the settings of a network without noise, which has no KL to warm up."""
    return replace(settings, zero_epochs=0, warmup=0)


_POINT, _LOW_RANK = one_network("deterministic"), one_network("low_rank")
METHODS = {
    "low_rank": Method("W = A Bᵀ, Gaussian factors", _LOW_RANK),
    "low_rank_svd": Method("the same, started at the SVD of a trained network", from_svd),
    "low_rank_laplace": Method("W = A Bᵀ, Laplace factors", one_network("low_rank_laplace")),
    "full_rank": Method("every weight Gaussian by itself", one_network("full_rank")),
    "rank_one": Method("a point weight scaled by random vectors", one_network("rank_one")),
    "deterministic": Method("one deterministic network", _POINT),
    "deep_ensemble": ensemble("deterministic networks from different seeds", DeepEnsemble, _POINT),
    "low_rank_ensemble": ensemble("low-rank networks, their draws pooled", LowRankEnsemble, _LOW_RANK),
    "swag": Method("a Gaussian of the weights along SGD", swag),
}
# Those of the paper's large experiments.
COMPARED = ("low_rank", "low_rank_svd", "full_rank", "rank_one", "deterministic", "deep_ensemble", "swag")
_OF_A_RANK = "low_rank_"
# Of the experiments that name them.
FURTHER = {
    "low_rank_auto": Method("W = A Bᵀ with a rank that is learned", one_network("low_rank_auto")),
    "low_rank_svd_ensemble": ensemble("low-rank networks from SVDs, pooled", LowRankEnsemble, from_svd),
}


def find_method(name: str) -> Method:
    """Returns a method by its name.

    >>> find_method("low_rank_50").rank
    50
    """
    rank = name.removeprefix(_OF_A_RANK)
    if name.startswith(_OF_A_RANK) and rank.isdecimal():
        return replace(METHODS["low_rank"], description=f"low_rank with ranks of {rank}", rank=int(rank))
    return (METHODS | FURTHER)[name]


def sentences(*names: str) -> dict[str, str]:
    """Returns what each method is, by its name; `METHODS` where none is named."""
    return {name: find_method(name).description for name in names or METHODS}


def count_epochs(method: str, settings) -> int:
    """Returns how many epochs a run of a method trains in all; raises where its settings leave none for a network."""
    found = find_method(method)
    if settings.epochs < 1:
        raise ValueError(f"{method} needs epochs of 1 or more; got epochs={settings.epochs}.")
    if found.train is swag and settings.epochs <= settings.swag_epochs:
        raise ValueError(
            f"{method} trains before it collects weights in the last swag_epochs, so it needs epochs > swag_epochs; "
            f"got epochs={settings.epochs} and swag_epochs={settings.swag_epochs}."
        )
    each = settings.epochs + (settings.svd_epochs if from_svd in (found.train, found.member) else 0)
    return each * max(1, count_members(method, settings))


def count_members(method: str, settings) -> int:
    """Returns how many members a method trains, 0 for one that is no ensemble."""
    return settings.members if find_method(method).member else 0
