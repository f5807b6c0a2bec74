"""The default mixture and a deep ensemble on 100 digits without noise: the record of a sentence of when_not.md.

    python docs/scripts/few_digits.py    # writes few_digits.json and the sentence

Written down before its run: networks, epochs, rate, batches and members are those of the demo's digits; 100 images to
train and no noise are the only changes. Five seeds, of which none chose the demo's settings; every seed has its own
images. Compared are errors and NLL of all other images of the same digits, by paired differences over seeds.
"""

import json
import textwrap
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import keras
from marks import fill
from rich.console import Console
from singularbayes_experiments.records.record import machine, now, versions

import singularbayes as sb
from singularbayes import layers
from singularbayes.demo import Trainer, digits
from singularbayes.evaluation import Comparison, Evaluation
from singularbayes.metrics import Measure

FOLDER = Path(__file__).parents[1]
COMMAND = "python docs/scripts/few_digits.py"
MIXTURE, ENSEMBLE = "mixture", "deep ensemble"
COLUMNS = (Measure("error", "lower"), "nll")


@dataclass(frozen=True)
class Settings(digits.Settings):
    images: int = 100
    pixel_noise: float = 0.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


def evaluations(settings: Settings) -> list[Evaluation]:
    """Returns both methods with every seed, scored on the images that did not train."""
    sets = digits.noisy_data(settings, settings.seeds)
    parts, classes = [data.train for data in sets], len(sets[0].classes)
    trainer = Trainer(Console(), settings.seeds, total=2)

    def network(dense):
        return partial(digits.network, dense, settings, classes)

    schedule = partial(sb.KLSchedule, settings.images)
    mixtures = trainer.fit(MIXTURE, network(partial(layers.Dense, posterior="mixture")), parts, settings, schedule)
    ensembles = trainer.fit_ensembles(ENSEMBLE, network(keras.layers.Dense), parts, settings, settings.members)
    return [
        digits.evaluate(method, model, data, settings.draws, seed)[0]
        for method, models in ((MIXTURE, mixtures), (ENSEMBLE, ensembles))
        for model, data, seed in zip(models, sets, settings.seeds, strict=True)
    ]


def table_of(runs: list[Evaluation]) -> Comparison:
    return sb.compare(runs, COLUMNS, reference=ENSEMBLE)


def sentence(runs: list[Evaluation]) -> str:
    """Returns the errors of both methods and whether their paired difference excludes 0."""
    errors = {m: [100 * one.value("error") for one in runs if one.method == m] for m in (MIXTURE, ENSEMBLE)}
    mixture, ensemble = (sum(values) / len(values) for values in errors.values())
    [gap] = [each for each in table_of(runs).columns[0].differences if each is not None]
    words = "more" if gap.low > 0 else "fewer" if gap.high < 0 else None
    means = f"{mixture:.1f} and {ensemble:.1f} %" if words is None else f"{mixture:.1f} against {ensemble:.1f} %"
    said = (
        f"the default mixture has {words} errors than a deep ensemble of five, {means}"
        if words
        else f"the default mixture and a deep ensemble of five do not differ clearly, {means} errors"
    )
    interval = f"{100 * gap.mean:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]".replace("-", "−")
    return textwrap.fill(
        f"With 100 digits without noise {said} (a difference of {interval} points, {len(errors[MIXTURE])} seeds).",
        120,
        break_on_hyphens=False,
    )


def write(runs: list[Evaluation], settings: Settings, folder: Path) -> None:
    """Writes the record into the folder."""
    record = {
        "command": COMMAND,
        "settings": asdict(settings),
        "versions": versions(),
        "machine": machine(),
        "finished": now(),
        "evaluations": [json.loads(run.to_json()) for run in runs],
    }
    (folder / "few_digits.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(folder: Path) -> list[Evaluation]:
    record = json.loads((folder / "few_digits.json").read_text(encoding="utf-8"))
    return [Evaluation.from_json(json.dumps(run)) for run in record["evaluations"]]


if __name__ == "__main__":
    found = evaluations(Settings())
    write(found, Settings(), FOLDER)
    fill(FOLDER / "when_not.md", "few_digits", sentence(found))
    print(sentence(found))
