"""The methods of the image experiments: what each puts on a weight, and what it trains.

A method is written once, for a list of seeds. Who trains the networks is handed in: one after another, or all seeds as
one program (`trainer.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import keras

from singularbayes.baselines import DeepEnsemble, LowRankEnsemble
from singularbayes.convert import bayesianize, collapse
from singularbayes.experiments.trainers import Trainer, Weights
from singularbayes.posteriors import Deterministic, FullRank, LowRank, Posterior, RankOne, ScaleMixture


@dataclass(frozen=True)
class Method:
    """What a method is in a sentence, how it trains one thing a seed, and the rank of its hidden weights if it has one.

    What it trains is a Keras model or has `predict(x, draws, seed)`.
    """

    says: str
    train: Callable[[Trainer, list[int]], list]
    hidden_rank: int | None = None


def random_weights(kind: str, settings) -> Weights:
    """Returns what makes the posterior of every weight of a network of that kind."""
    prior = ScaleMixture(pi=settings.pi, sigma1=settings.sigma1, sigma2=settings.sigma2)
    options = {"prior": prior, "eta": settings.eta, "damping": settings.damping, "rho_lr": settings.rho_lr}
    kinds: dict[str, Callable[[int], Posterior]] = {
        "low_rank": lambda rank: LowRank(rank, **options),
        "low_rank_laplace": lambda rank: LowRank(rank, family="laplace", **options),
        "full_rank": lambda rank: FullRank(**options),
        "rank_one": lambda rank: RankOne(settings.rank_one_form, **options),
        "deterministic": lambda rank: Deterministic(),
    }
    return kinds[kind]


def one_network(kind: str) -> Callable[[Trainer, list[int]], list]:
    """Returns how a method of one network trains: the posterior `kind` on every weight."""

    def train(trainer: Trainer, seeds: list[int]) -> list:
        weights = random_weights(kind, trainer.settings)
        settings = _point(trainer.settings) if kind == "deterministic" else trainer.settings
        return trainer.fit(lambda seed: trainer.network(weights), seeds, settings, kind)

    return train


def from_svd(trainer: Trainer, seeds: list[int]) -> list:
    """Trains point networks for a while, then low-rank ones whose means start at their truncated SVD."""
    settings = trainer.settings
    point = random_weights("deterministic", settings)
    warm = replace(_point(settings), epochs=settings.svd_epochs)
    trained = trainer.fit(lambda seed: trainer.network(point), seeds, warm, "point")
    plain = {seed: collapse(model) for seed, model in zip(seeds, trained, strict=True)}

    low_rank = trainer.network(random_weights("low_rank", settings))
    rules = {layer.name: layer.posterior for layer in low_rank.layers if hasattr(layer, "posterior")}
    return trainer.fit(lambda seed: bayesianize(plain[seed], rules=rules, init="svd"), seeds, settings, "low_rank")


def ensemble(kind: type[DeepEnsemble] | type[LowRankEnsemble], weights: str) -> Callable[[Trainer, list[int]], list]:
    """Returns how an ensemble trains: members from seeds hashed from its own, whose draws are pooled."""

    def train(trainer: Trainer, seeds: list[int]) -> list:
        settings = _point(trainer.settings) if weights == "deterministic" else trainer.settings
        own = random_weights(weights, settings)
        members = [kind(_never, settings.members, seed).seeds for seed in seeds]
        every = [seed for group in members for seed in group]
        models = trainer.fit(lambda seed: trainer.network(own), every, settings, "member")
        size = settings.members
        return [kind.of(models[i * size : (i + 1) * size]) for i in range(len(seeds))]

    return train


def swag(trainer: Trainer, seeds: list[int]) -> list:
    """Trains point networks for most of the epochs, then takes a snapshot after every epoch of SGD in the rest."""
    settings = trainer.settings
    first = replace(_point(settings), epochs=settings.epochs - settings.swag_epochs)
    weights = random_weights("deterministic", settings)
    models = trainer.fit(lambda seed: trainer.network(weights), seeds, first, "point")
    return trainer.fit_swag(models, seeds, "swag")


def _point(settings):
    """Returns the settings of a network without noise, which has no KL to warm up."""
    return replace(settings, warmup=0)


def _never() -> keras.Model:
    raise AssertionError("the members are trained by the trainer")


METHODS = {
    "low_rank": Method("W = A Bᵀ, Gaussian factors", one_network("low_rank")),
    "low_rank_svd": Method("the same, started at the SVD of a trained network", from_svd),
    "low_rank_laplace": Method("W = A Bᵀ, Laplace factors", one_network("low_rank_laplace")),
    "low_rank_10": Method("low_rank with hidden ranks of 10", one_network("low_rank"), hidden_rank=10),
    "low_rank_50": Method("low_rank with hidden ranks of 50", one_network("low_rank"), hidden_rank=50),
    "full_rank": Method("every weight Gaussian by itself", one_network("full_rank")),
    "rank_one": Method("a point weight scaled by random vectors", one_network("rank_one")),
    "deterministic": Method("one point network", one_network("deterministic")),
    "deep_ensemble": Method("point networks from different seeds", ensemble(DeepEnsemble, "deterministic")),
    "low_rank_ensemble": Method("low-rank networks, their draws pooled", ensemble(LowRankEnsemble, "low_rank")),
    "swag": Method("a Gaussian of the weights along SGD", swag),
}


def count_epochs(method: str, settings) -> int:
    """Returns how many epochs a run of a method trains in all."""
    if method.endswith("ensemble"):
        return settings.members * settings.epochs
    return settings.epochs + (settings.svd_epochs if method == "low_rank_svd" else 0)
