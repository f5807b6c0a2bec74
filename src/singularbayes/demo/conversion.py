"""A trained Keras model, converted in one line and trained a little further: smaller, and better calibrated?

The model is an ordinary one: Keras layers, Adam, and too many epochs for few images with much noise, so it is
overconfident. The number of images, the noise, the epochs, the rank (of 16 and 32) and β (of 0.03, 0.1, 0.3, 0.5 and
1, not all with the same noise and epochs) were chosen by test images of seeds 101 to 103; the demo shows other seeds.
"""

from dataclasses import asdict, dataclass
from functools import partial

import keras
import numpy as np

import singularbayes as sb
from singularbayes import metrics
from singularbayes.demo import digits, figures
from singularbayes.demo.page import Story, changed
from singularbayes.demo.training import Trainer, Training, predicted
from singularbayes.evaluation import Comparison

METHODS = ("converted", "trained", "trained further")
PROGRAMS = 3
OURS = METHODS[0]
COLUMNS = ("num_stored", "accuracy", "nll", "ece", "auroc_ood_entropy")


@dataclass(frozen=True)
class Settings(digits.Settings):
    """Those of the digits, with fewer images and more epochs; from `rank` on, of the conversion."""

    images: int = 400
    epochs: int = 100
    rank: int = 16
    beta: float = 0.5
    further_epochs: int = 40

    @property
    def further(self) -> Training:
        """The training after the conversion."""
        return Training(self.further_epochs, self.batch_size, self.learning_rate)


QUICK = Settings(epochs=20, further_epochs=5)


def run(trainer: Trainer, settings: Settings) -> Story:
    """Trains Keras models, converts them, and trains both forms for the same number of epochs."""
    sets = digits.noisy_data(settings, trainer.seeds)
    parts = [data.train for data in sets]
    build = partial(digits.network, keras.layers.Dense, settings, len(sets[0].classes))
    trained = trainer.fit("conversion, Keras models", build, parts, settings)
    by_seed = dict(zip(trainer.seeds, trained, strict=True))
    further = settings.further

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
    evaluations, curves, parameters = [], {}, {}
    for method, models in zip(METHODS, (ours, trained, longer), strict=True):
        found = [
            digits.evaluate(method, model, data, settings.draws, seed)[0]
            for model, data, seed in zip(models, sets, trainer.seeds, strict=True)
        ]
        evaluations += found
        probabilities = [
            predicted(model, data.test[0], settings.draws, seed).mean
            for model, data, seed in zip(models, sets, trainer.seeds, strict=True)
        ]
        labels = np.concatenate([data.test[1] for data in sets])
        curves[method] = metrics.reliability_curve(np.concatenate(probabilities), labels, bins=8)
        parameters[method] = int(found[0].value("num_stored"))
    table = sb.compare(evaluations, COLUMNS)
    drawn = figures.Conversion(parameters, curves)
    line = f"sb.bayesianize(trained, {settings.rank})"
    return Story(
        name="conversion",
        title="One line from a trained Keras model",
        sentence=summary(table, line, further.epochs),
        code=f"bayes = {line}",
        ours=OURS,
        figures=(figures.conversion(drawn, wide=True), figures.conversion(drawn, wide=False)),
        alt=(
            "Left, the numbers of parameters; right, accuracy against confidence of the trained model, the trained "
            "model after further epochs, and the converted one. " + summary(table, line, further.epochs)
        ),
        details=(
            f"The trained model is a Keras network of the digits' story, trained for {settings.epochs} epochs on "
            f"{settings.images} images. {line} makes every weight W = A Bᵀ of rank {settings.rank} with a distribution "
            f"over A and B that starts at the trained weights; then it is trained for {further.epochs} epochs with "
            f"callbacks=[sb.KLSchedule(beta={settings.beta:g})]. “Trained further” is the Keras model with as many "
            "more epochs.",
            f"Not the library's defaults: the rank, {settings.rank} instead of 32, for a smaller model, and β, "
            f"{settings.beta:g} instead of 0.03, for wider posteriors: few images with much noise determine little.",
            "Images, noise, epochs, rank and β were chosen by the test scores of other splits of the same images.",
        ),
        table=table,
        note=(
            "Accuracy, NLL (nats) and expected calibration error (ECE, 15 bins of equal mass) are on test images, "
            "AUROC-OOD is of the unseen digits by entropy, as in the story before. The curves are of the test "
            "images of all seeds, in 8 bins of equal mass. A temperature fitted on held-out images (sb.recalibrate) "
            "calibrates any of these."
        ),
        settings=asdict(settings),
    )


def summary(table: Comparison, line: str, epochs: int) -> str:
    """Returns what the conversion does to the number of parameters, the calibration error and the accuracy."""
    names = [measure.name for measure in table.measures]
    rows = {method: dict(zip(names, row, strict=True)) for method, row in table.values().items()}
    ours, trained = rows[OURS], rows["trained"]
    size = f"{100 * ours['num_stored'] / trained['num_stored']:.0f}\N{NO-BREAK SPACE}%"
    return (
        f"{line} has {size} of the parameters; after {epochs} more epochs calibration errors "
        f"{changed(trained['ece'], ours['ece'], '.3f')} and classification errors "
        f"{changed(1 - trained['accuracy'], 1 - ours['accuracy'], '.1%')}."
    )
