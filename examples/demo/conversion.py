"""A trained Keras model, converted in one line and trained a little further: smaller, and better calibrated?

The model is an ordinary one: Keras layers, Adam, and too many epochs for few images with much noise, so it is
overconfident. The number of images, the noise, the epochs, the rank (of 16 and 32) and β (of 0.03, 0.1, 0.3, 0.5 and
1, not all with the same noise and epochs) were chosen by test images of seeds 101 to 103; the demo shows other seeds.
"""

from dataclasses import dataclass
from functools import partial

import keras
import numpy as np

import singularbayes as sb
from demo import digits
from demo.page import Story, percent, rows_of
from demo.training import Trainer, Training, predicted
from singularbayes import metrics, plots

METHODS = ("converted", "trained", "trained further")
COLUMNS = ("num_stored", "accuracy", "nll", "ece", "auroc_ood_entropy")


@dataclass(frozen=True)
class Settings(digits.Settings):
    """Those of the digits, with fewer images and more epochs; from `rank` on, of the conversion."""

    images: int = 400
    epochs: int = 100
    rank: int = 16
    beta: float = 0.5
    further_epochs: int = 40


QUICK = Settings(epochs=20, further_epochs=5)


def run(trainer: Trainer, settings: Settings) -> Story:
    """Trains Keras models, converts them, and trains both forms for the same number of epochs."""
    sets = [digits.noisy_data(settings, seed) for seed in trainer.seeds]
    parts, build = [data.train for data in sets], partial(digits.network, settings)
    trained = trainer.fit("conversion, Keras models", build, parts, settings)
    by_seed = dict(zip(trainer.seeds, trained, strict=True))
    further = Training(settings.further_epochs, settings.batch_size, settings.learning_rate)

    def converted(seed: int) -> keras.Model:
        model = sb.bayesianize(by_seed[seed], settings.rank)
        return further.compiled(model, model.loss, settings.images)

    def copied(seed: int) -> keras.Model:
        model = build()
        model.set_weights(by_seed[seed].get_weights())
        return further.compiled(model, model.loss, settings.images)

    schedule = partial(sb.KLSchedule, settings.images, beta=settings.beta)
    ours = trainer.fit("conversion, converted", converted, parts, further, schedule)
    longer = trainer.fit("conversion, Keras models further", copied, parts, further)
    evaluations, curves = [], {}
    labels = np.concatenate([data.test[1] for data in sets])
    for method, models in zip(METHODS, (ours, trained, longer), strict=True):
        each = list(zip(models, sets, trainer.seeds, strict=True))
        evaluations += [digits.evaluate(method, model, data, settings.draws, seed)[0] for model, data, seed in each]
        means = [predicted(model, data.test[0], settings.draws, seed).mean for model, data, seed in each]
        curves[method] = metrics.reliability_curve(np.concatenate(means), labels, bins=8)
    table = sb.compare(evaluations, COLUMNS)
    rows, line = rows_of(table), f"sb.bayesianize(trained, {settings.rank})"
    before, after = rows["trained"], rows["converted"]
    return Story(
        name="conversion",
        title="One line from a trained Keras model",
        sentence=(
            f"{line} has {percent(after['num_stored'] / before['num_stored'])} of the parameters; after "
            f"{further.epochs} more epochs the calibration error is {after['ece']:.3f} instead of {before['ece']:.3f}, "
            f"and the accuracy {percent(after['accuracy'], 1)} instead of {percent(before['accuracy'], 1)}."
        ),
        code=f"bayes = {line}",
        figure=plots.reliability(curves),
        table=table,
        details=(
            f"The trained model is a Keras network of the digits' story, trained for {settings.epochs} epochs on "
            f"{settings.images} images. {line} makes every weight W = A Bᵀ of rank {settings.rank} with a distribution "
            f"over A and B that starts at the trained weights; then it is trained for {further.epochs} epochs, as is "
            "“trained further”, the Keras model.",
            f"Not the library's defaults: the rank, {settings.rank} instead of 32, for a smaller model, and β, "
            f"{settings.beta:g} instead of 0.03, for wider posteriors: few images with much noise determine little. "
            "They were chosen by the test scores of other splits of the same images, as were noise and epochs.",
        ),
        settings=settings,
    )
