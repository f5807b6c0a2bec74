"""Nine methods on one problem, three seeds each: the script of compare.md.

    pip install ".[plots]"
    python docs/scripts/compare.py             # writes compare.json and compare.png, and the tables into the page
    python docs/scripts/compare.py --quick     # small, prints the table and changes nothing here

It needs no download and takes some minutes on two cores. Every setting was fixed before the run.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
from marks import fill
from PIL import Image
from singularbayes_experiments.records.record import machine, versions

import singularbayes as sb
from singularbayes import layers, plots
from singularbayes.demo import noisy_digits
from singularbayes.evaluation import Comparison, Evaluation, comparison_table
from singularbayes.plots import Measure

FOLDER = Path(__file__).parents[1]
PAGES = (FOLDER / "compare.md",)
COMMAND = "python docs/scripts/compare.py"


@dataclass(frozen=True)
class Settings:
    """The same for all methods. β was tuned on validation images without noise."""

    seeds: tuple[int, ...] = (0, 1, 2)
    pixel_noise: float = 0.35  # standard deviation; pixels are from 0 to 1
    held_out: tuple[int, ...] = (8, 9)
    split: int = 0  # one split of the images for all seeds
    units: int = 128
    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 3e-3  # of Adam, a cosine to 0
    beta: float = 0.1
    warmup: int = 20
    rank: int = 16
    tied: int = 2
    dropout: float = 0.2
    members: int = 5
    swag_epochs: int = 20  # of the epochs: the last, which SGD takes
    swag_rank: int = 20
    draws: int = 100


QUICK = Settings(seeds=(0, 1), units=16, epochs=5, warmup=1, rank=4, members=2, swag_epochs=2, swag_rank=2, draws=4)

COLUMNS = (
    "num_stored",
    "accuracy",
    "nll",
    "ece",  # 15 bins of equal mass
    "auroc_ood_mi",
    "auroc_ood_entropy",
    "aupr_err_entropy",
)
# Axes of the radars by their columns; the rim is the best there can be, the centre a poor value, not the worst method.
AXES = {
    "accuracy": Measure("accuracy", "higher", limits=(0.7, 1)),
    "nll": Measure("NLL", "lower", "nats", limits=(0, 0.8)),
    "ece": Measure("ECE", "lower", limits=(0, 0.15)),
    "auroc_ood_entropy": Measure("AUROC-OOD", "higher", limits=(0.5, 1)),
    "aupr_err_entropy": Measure("AUPR-Err", "higher", limits=(0, 1)),
}
NOT_DRAWN = ("rank-one", "SWAG")  # more than seven lines cannot be distinguished


@dataclass(frozen=True)
class Trainer:
    """Trains the network of the digits, 64-units-units-classes with ReLU, with the settings."""

    data: noisy_digits.Data
    settings: Settings

    def build(self, posterior: Callable[[int], sb.posteriors.Posterior], epochs: int, dropout: float = 0.0):
        """Returns what makes a compiled network; `posterior` is given the number of columns of a weight."""
        s, classes = self.settings, len(self.data.classes)
        steps = -(-len(self.data.train[0]) // s.batch_size)

        def network() -> keras.Model:
            stack: list[keras.layers.Layer] = [keras.Input((64,))]
            for _ in range(2):
                stack.append(layers.Dense(s.units, "relu", posterior=posterior(s.units)))
                stack += [keras.layers.Dropout(dropout)] if dropout else []
            model = keras.Sequential([*stack, layers.Dense(classes, posterior=posterior(classes))])
            rate = keras.optimizers.schedules.CosineDecay(s.learning_rate, steps * epochs)
            model.compile(keras.optimizers.Adam(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            return model

        return network

    def options(self) -> dict[str, Any]:
        """Returns how long, in which batches and with which weight of the KL to train."""
        s, num_data = self.settings, len(self.data.train[0])
        return {
            "epochs": s.epochs,
            "batch_size": s.batch_size,
            "callbacks": lambda: [sb.KLSchedule(num_data, s.beta, warmup=s.warmup)],
        }

    def seeds(self, posterior, epochs: int | None = None, dropout: float = 0.0) -> list[keras.Model]:
        """Returns one trained network a seed; on JAX all train as one program."""
        options = self.options() | {"epochs": epochs or self.settings.epochs}
        build = self.build(posterior, options["epochs"], dropout)
        return [run.model for run in sb.fit_many(build, *self.data.train, self.settings.seeds, **options)]

    def ensembles(self, kind, posterior) -> list:
        """Returns one trained ensemble a seed."""
        s = self.settings
        build = self.build(posterior, s.epochs)
        return [kind(build, s.members, seed).fit(*self.data.train, **self.options()) for seed in s.seeds]

    def swag(self) -> list[sb.SWAG]:
        """Returns one Gaussian per seed: a network trained for most of the epochs, snapshots of SGD in the rest."""
        s = self.settings
        models = self.seeds(_point, s.epochs - s.swag_epochs)
        return [
            sb.SWAG(model, s.swag_rank).fit(*self.data.train, s.swag_epochs, s.batch_size, seed=seed)
            for seed, model in zip(s.seeds, models, strict=True)
        ]


def _point(_columns: int) -> sb.Deterministic:
    return sb.Deterministic()


def methods(trainer: Trainer) -> Iterator[tuple[str, list]]:
    """Yields every method by its name in the table, trained with all seeds."""
    s = trainer.settings

    def low_rank(columns):
        return sb.LowRank.paper(min(s.rank, columns))

    yield f"low-rank {s.rank}", trainer.seeds(low_rank)
    yield "full-rank", trainer.seeds(lambda _: sb.FullRank())
    yield "rank-one", trainer.seeds(lambda _: sb.RankOne())
    yield f"{s.tied}-tied", trainer.seeds(lambda _: sb.KTied(s.tied))
    yield "deterministic", trainer.seeds(_point)
    yield "MC dropout", [sb.MCDropout(model) for model in trainer.seeds(_point, dropout=s.dropout)]
    yield "SWAG", trainer.swag()
    yield f"deep ensemble of {s.members}", trainer.ensembles(sb.DeepEnsemble, _point)
    yield f"low-rank ensemble of {s.members}", trainer.ensembles(sb.LowRankEnsemble, low_rank)


def evaluations(settings: Settings) -> list[Evaluation]:
    """Returns every method and seed, scored on the test images and on the digits that were held out."""
    data = noisy_digits.add_noise(
        noisy_digits.load(settings.held_out, settings.split), settings.pixel_noise, settings.split
    )
    return [
        sb.evaluate(model, data.test, ood=data.ood[0], name=name, seed=seed, draws=settings.draws)
        for name, trained in methods(Trainer(data, settings))
        for seed, model in zip(settings.seeds, trained, strict=True)
    ]


def table_of(runs: list[Evaluation]) -> Comparison:
    """Returns the comparison that the pages show."""
    return sb.compare(runs, COLUMNS)


def draw(table: Comparison, path: Path) -> None:
    """Writes both radars side by side: the means over seeds, and the same weighted by the stored parameters."""
    means = {c.measure.name: [cell.mean for cell in c.cells] for c in table.columns}
    values = dict(zip(table.methods, zip(*(means[name] for name in AXES), strict=True), strict=True))
    stored = dict(zip(table.methods, map(int, means["num_stored"]), strict=True))
    for method in NOT_DRAWN:
        del values[method], stored[method]
    measures = list(AXES.values())
    figures = plots.radar(values, measures), plots.efficiency_radar(values, measures, stored)
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            Image.open(plots.write(figure, Path(folder) / f"{i}.png", dpi=140)).convert("RGB")
            for i, figure in enumerate(figures)
        ]
    whole = Image.new("RGB", (sum(part.width for part in parts), max(part.height for part in parts)), "white")
    whole.paste(parts[0], (0, 0))
    whole.paste(parts[1], (parts[0].width, 0))
    whole.quantize(128).save(path, optimize=True)


def shown(page: str, tables: str) -> str:
    """Returns the text between the marks of a page: on compare.md both tables, in README the first of them."""
    return tables if page == "compare.md" else tables.split("\n\n")[0] + "\n"


def write(runs: list[Evaluation], settings: Settings, folder: Path, pages: tuple[Path, ...]) -> Comparison:
    """Writes the record and the radars into the folder, and the tables into the pages."""
    record = {
        "command": COMMAND,
        "settings": asdict(settings),
        "versions": versions(),
        "machine": machine(),
        "evaluations": [json.loads(run.to_json()) for run in runs],
    }
    (folder / "compare.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    table = table_of(runs)
    draw(table, folder / "compare.png")
    for page in pages:
        fill(page, "compare.py", shown(page.name, comparison_table.markdown(table)))
    return table


if __name__ == "__main__":
    if "--quick" in sys.argv[1:]:
        comparison_table.show(table_of(evaluations(QUICK)))
    else:
        comparison_table.show(write(evaluations(Settings()), Settings(), FOLDER, PAGES))
