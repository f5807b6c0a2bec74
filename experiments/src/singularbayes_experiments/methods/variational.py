"""One network, and the posterior that each of its weights has.

The settings of the methods called anchored have `prior: anchored`; in all else they are those without that word.
"""

from singularbayes_experiments.methods.base import Member, Trainer, method


@method("lora", "an adapter without random weights")
@method("lora_temperature", "an adapter without random weights, at the temperature that is best on validation")
@method("deterministic", "one deterministic network")
def deterministic(trainer: Trainer, members: list[Member]) -> list:
    return trainer.fit("deterministic", members)


@method("low_rank_anchored", "W = A Bᵀ, Gaussian factors with a prior around their start")
@method("bayes", "an adapter with random factors")
@method("low_rank", "W = A Bᵀ, Gaussian factors")
def low_rank(trainer: Trainer, members: list[Member]) -> list:
    return trainer.fit("low_rank", members)


@method("low_rank_laplace", "W = A Bᵀ, Laplace factors")
def low_rank_laplace(trainer: Trainer, members: list[Member]) -> list:
    return trainer.fit("low_rank_laplace", members)


@method("full_rank", "every weight Gaussian by itself")
def full_rank(trainer: Trainer, members: list[Member]) -> list:
    return trainer.fit("full_rank", members)


@method("rank_one", "a point weight scaled by random vectors")
def rank_one(trainer: Trainer, members: list[Member]) -> list:
    return trainer.fit("rank_one", members)
