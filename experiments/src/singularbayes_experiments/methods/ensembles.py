"""Several networks from seeds of their own whose draws are pooled, and mixtures: several in one model."""

from collections.abc import Sequence
from dataclasses import replace

import keras

from singularbayes.baselines import DeepEnsemble, member_seeds
from singularbayes_experiments.methods.base import Member, Trainer, method


def in_ensembles(members: Sequence[Member]) -> list[Member]:
    """Returns the networks of all ensembles, one ensemble after another, with seeds hashed from its own."""
    return [replace(one, seed=seed) for one in members for seed in member_seeds(one.seed, one.settings.members)]


def by_ensemble(models: list[keras.Model], members: Sequence[Member]) -> list[list[keras.Model]]:
    """Returns the networks of each ensemble."""
    size = len(models) // len(members)
    return [models[i * size : (i + 1) * size] for i in range(len(members))]


@method("deep_ensemble", "deterministic networks from different seeds")
def deep_ensemble(trainer: Trainer, members: list[Member]) -> list:
    models = trainer.fit("deterministic", in_ensembles(members))
    return [DeepEnsemble.from_models(each) for each in by_ensemble(models, members)]


@method("low_rank_ensemble", "low-rank networks from different seeds, their draws pooled")
def low_rank_ensemble(trainer: Trainer, members: list[Member]) -> list:
    models = trainer.fit("low_rank", in_ensembles(members))
    return [DeepEnsemble.from_models(each) for each in by_ensemble(models, members)]


@method("lora_ensemble", "adapters without random weights from different seeds")
def lora_ensemble(trainer: Trainer, members: list[Member]) -> list:
    models = trainer.fit("deterministic", in_ensembles(members))
    return [DeepEnsemble.from_models(each) for each in by_ensemble(models, members)]


@method("mixture_repeat_anchored", "mixture_repeat with a prior around the start of each component")
@method("mixture", "mixture_repeat, as records of CIFAR-10 and of adapters call it")
@method("mixture_repeat", "low-rank components in one model, each trained on every example")
def mixture_repeat(trainer: Trainer, members: list[Member]) -> list:
    return trainer.fit("low_rank", members, components=members[0].settings.members)
