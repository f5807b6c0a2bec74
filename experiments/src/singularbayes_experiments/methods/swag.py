"""SWAG: a Gaussian of the weights along SGD, after most of the training."""

import time

import keras

from singularbayes.baselines import SWAG
from singularbayes_experiments.methods.base import Member, Trainer, method

MOMENTUM = 0.9


@method("swag", "a Gaussian of the weights along SGD")
def swag(trainer: Trainer, members: list[Member]) -> list:
    """Trains deterministic networks for most epochs, then takes a snapshot after every epoch of SGD in the rest."""
    own = members[0].settings
    if own.epochs <= own.swag_epochs:
        raise ValueError(
            f"swag must have epochs > swag_epochs, in which it collects weights; got epochs={own.epochs} and "
            f"swag_epochs={own.swag_epochs}."
        )
    models = trainer.fit("deterministic", members, epochs=own.epochs - own.swag_epochs)
    begun = time.perf_counter()
    found = []
    for model, member in zip(models, members, strict=True):
        train, settings = member.data.train, member.settings
        collected = SWAG(model, settings.swag_rank).fit(
            train.x,
            train.y,
            settings.swag_epochs,
            settings.batch_size,
            optimizer=keras.optimizers.SGD(settings.swag_rate, momentum=MOMENTUM),
            seed=member.seed,
            sample_weight=train.weight,
        )
        found.append(collected)
    trainer.seconds += time.perf_counter() - begun
    return found
