"""Dropout that stays on in predictions."""

from singularbayes.baselines import MCDropout
from singularbayes_experiments.methods.base import Member, Trainer, method


@method("mc_dropout", "a deterministic network with dropout, which stays on in predictions")
def mc_dropout(trainer: Trainer, members: list[Member]) -> list:
    return [MCDropout(model) for model in trainer.fit("deterministic", members)]
