"""Every figure of singularbayes.plots, made from real runs: the script of figures.md.

    pip install ".[plots]"
    python docs/scripts/figures.py

It needs no download and takes about ten minutes on two cores. It writes figures.json, what the figures were made from,
and the pictures beside itself. The figure of singular values is on the page on conversion.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from PIL import Image
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.training import fit
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import toy

import singularbayes as sb
from singularbayes import demo, layers, metrics, plots
from singularbayes.models import count_trained
from singularbayes.plots import BoundPanel, Measure, Point
from singularbayes.posteriors import entry_correlation

FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Settings:
    """Sizes of the runs. The toy networks are those of the experiment `toy`, trained shorter."""

    seed: int = 0
    pixel_noise: float = 0.35  # standard deviation; pixels are from 0 to 1
    epochs: int = 40
    warmup: int = 10
    members: int = 5  # of the ensemble
    draws: int = 100
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    betas: tuple[float, ...] = (0.03, 0.3)
    linear_ranks: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # of the classifier without hidden layers, for the bounds
    linear_epochs: int = 150
    toy_epochs: int = 400


QUICK = Settings(
    epochs=1,
    warmup=0,
    members=2,
    draws=4,
    ranks=(1, 2),
    betas=(0.3,),
    linear_ranks=(1, 2),
    linear_epochs=1,
    toy_epochs=2,
)

MEASURES = (
    Measure("accuracy", "higher", limits=(0.5, 1)),
    Measure("NLL", "lower", "nats", limits=(0, 1)),
    Measure("Brier", "lower", limits=(0, 0.5)),
    Measure("ECE", "lower", limits=(0, 0.2)),
    Measure("AUROC-OOD", "higher", limits=(0.5, 1)),
    Measure("AUPR-OOD", "higher", limits=(0.5, 1)),
    Measure("AUPR-Err", "higher", limits=(0, 1)),
)


class Predictions:
    """The probabilities that single draws give to the test images and to the held-out digits, and their scores."""

    def __init__(self, test: np.ndarray, ood: np.ndarray, labels: np.ndarray, parameters: int):
        self.draws, self.mean, self.labels, self.parameters = test, test.mean(axis=0), labels, parameters
        self.mi = metrics.mutual_information(test), metrics.mutual_information(ood)
        self.entropy = metrics.entropy(self.mean), metrics.entropy(ood.mean(axis=0))
        self.wrong = self.mean.argmax(axis=1) != labels

    def scores(self) -> list[float]:
        """Returns the values of `MEASURES`. The entropy detects, which every method has."""
        return [
            metrics.accuracy(self.mean, self.labels),
            metrics.negative_log_likelihood(self.mean, self.labels),
            metrics.brier(self.mean, self.labels),
            metrics.expected_calibration_error(self.mean, self.labels, bins=10),
            metrics.auroc_ood(*self.entropy),
            metrics.aupr_ood(*self.entropy),
            metrics.aupr_err(self.entropy[0], self.wrong),
        ]


def trained(posterior, data: demo.noisy_digits.Data, schedule: TrainingSettings, seed: int) -> keras.Model:
    """Returns 64-128-128-classes with ReLU, trained; `posterior` is given the number of columns of each weight."""
    keras.utils.set_random_seed(seed)
    widths = (128, 128, len(data.classes))
    weights = [
        layers.Dense(width, activation, posterior=posterior(width))
        for width, activation in zip(widths, ("relu", "relu", None), strict=True)
    ]
    model = keras.Sequential([keras.Input((64,)), *weights])
    fit(model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), *data.train, schedule)
    return model


def _schedule(epochs: int, warmup: int, beta: float = 0.1, learning_rate: float = 3e-3) -> TrainingSettings:
    return TrainingSettings(
        epochs=epochs, batch_size=64, learning_rate=learning_rate, cosine=True, beta=beta, warmup=warmup
    )


def predictions(models: list[keras.Model], data: demo.noisy_digits.Data, draws: int) -> Predictions:
    """Returns the predictions of one network, or of several together."""
    test, ood = (
        np.concatenate([sb.predict(model, x, draws, keep_draws=True).draws for model in models])
        for x in (data.test[0], data.ood[0])
    )
    return Predictions(test, ood, data.test[1], sum(count_trained(model) for model in models))


def noisy_digits(settings: Settings) -> demo.noisy_digits.Data:
    """Returns the data of the experiment with noise on every pixel, so that there are mistakes to look at."""
    classes = demo.noisy_digits.load((8, 9), settings.seed)
    return demo.noisy_digits.add_noise(classes, settings.pixel_noise, settings.seed)


def classify(settings: Settings) -> dict[str, Any]:
    """Trains every method on noisy digits 0 … 7; 8 and 9 are out-of-distribution."""
    schedule = _schedule(settings.epochs, settings.warmup)
    data = noisy_digits(settings)

    def low_rank(rank):
        return lambda columns: sb.LowRank.paper(min(rank, columns))

    models = {
        "low-rank 16": [trained(low_rank(16), data, schedule, settings.seed)],
        "full-rank": [trained(lambda _: sb.FullRank(), data, schedule, settings.seed)],
        "rank-one": [trained(lambda _: sb.RankOne(), data, schedule, settings.seed)],
        f"ensemble of {settings.members}": [
            trained(lambda _: sb.Deterministic(), data, schedule, settings.seed + m) for m in range(settings.members)
        ],
    }
    predicted = {m: predictions(found, data, 1 if "ensemble" in m else settings.draws) for m, found in models.items()}
    predicted["deterministic"] = predictions(models[f"ensemble of {settings.members}"][:1], data, 1)
    block = {"rows": range(20, 26), "columns": range(6)}
    hidden = {m: models[m][0].layers[1].posterior for m in ("full-rank", "low-rank 16")}
    points = []
    for beta in settings.betas:
        for rank in settings.ranks:
            model = trained(low_rank(rank), data, replace(schedule, beta=beta), settings.seed)
            found = dict(
                zip((m.name for m in MEASURES), predictions([model], data, settings.draws).scores(), strict=True)
            )
            points.append(Point(f"{rank}", found["NLL"], found["AUROC-OOD"], f"β = {beta:g}"))
    return {
        "predicted": predicted,
        "correlations": {m: entry_correlation(posterior, **block) for m, posterior in hidden.items()},
        "points": points,
    }


def bound(settings: Settings) -> BoundPanel:
    """Trains classifiers without hidden layers and bounds their error: McAllester, δ = 0.05, with the exact KL."""
    schedule = _schedule(settings.linear_epochs, 1, beta=1.0, learning_rate=0.01)
    data = noisy_digits(settings)
    (x, y), prior = data.train, sb.Normal(0.5)

    def errors(posterior) -> tuple[float, float]:
        keras.utils.set_random_seed(settings.seed)
        model = keras.Sequential([keras.Input((64,)), layers.Dense(len(data.classes), posterior=posterior)])
        fit(model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), x, y, schedule)
        draws = sb.predict(model, x, settings.draws, keep_draws=True).draws
        test = sb.predict(model, data.test[0], settings.draws, keep_draws=True).draws
        train_error, test_error = (float((d.argmax(-1) != t).mean()) for d, t in ((draws, y), (test, data.test[1])))
        gap = math.sqrt((sb.kl(model, "exact") + math.log(2 * math.sqrt(len(x)) / 0.05)) / (2 * len(x)))
        return train_error + gap, test_error

    by_rank = np.array([errors(sb.LowRank.paper(rank, prior=prior)) for rank in settings.linear_ranks])
    full, full_test = errors(sb.FullRank(prior=prior))
    bounds, observed = by_rank.T.tolist()
    return BoundPanel(
        "error rate",
        settings.linear_ranks,
        {"PAC-Bayes": bounds},
        {"on test images": observed},
        vacuous=1.0,
        full_rank={"PAC-Bayes": full, "on test images": full_test},
    )


def regress(settings: Settings) -> dict[str, Any]:
    """Trains both networks of the toy regression; returns bands and calibration."""
    schedule = replace(toy.QUICK, epochs=settings.toy_epochs, warmup=settings.toy_epochs - 1)
    rng = np.random.default_rng(settings.seed)
    x, y = toy.draw_data(schedule.num_train, schedule.train_range, schedule.noise, rng)
    x_test, y_test = toy.draw_data(schedule.num_test, schedule.test_range, schedule.noise, rng)
    grid = np.linspace(*schedule.grid_range, 201, dtype="float32")
    found: dict[str, Any] = {"x": x[:, 0], "y": y[:, 0], "bands": {}, "intervals": {}}
    for method, name in {"low_rank": "low-rank 16", "full_rank": "full-rank"}.items():
        keras.utils.set_random_seed(settings.seed)
        model = toy.network(Weights(method, schedule), schedule)
        fit(model, sb.GaussianNLL(schedule.noise), x, y, schedule)
        functions = sb.predict(model, grid[:, None], settings.draws, keep_draws=True).draws
        p = sb.predict(model, x_test, settings.draws)
        std = np.sqrt(p.variance("total"))
        found["bands"][name] = plots.quartile_bands(grid, functions, schedule.noise)
        found["intervals"][name] = metrics.interval_calibration_curve(p.mean, std, y_test)
    return found


def draw(classes: dict[str, Any], panel: BoundPanel, values: dict[str, Any]) -> dict[str, Any]:
    """Returns every figure by the name of its file."""
    predicted = classes["predicted"]
    scores = {method: one.scores() for method, one in predicted.items()}
    parameters = {method: one.parameters for method, one in predicted.items()}
    several = {method: one for method, one in predicted.items() if len(one.draws) > 1}
    curves = {m: metrics.reliability_curve(a.mean, a.labels, bins=6) for m, a in predicted.items()}
    kept = {m: metrics.selective_curve(a.entropy[0], a.wrong) for m, a in predicted.items()}
    nll, detection = MEASURES[1], MEASURES[4]
    alike = [point for point in classes["points"] if point.group == classes["points"][-1].group]
    ranks = {nll: {int(p.label): [p.x] for p in alike}, detection: {int(p.label): [p.y] for p in alike}}
    return {
        "radar": plots.radar(scores, MEASURES),
        "efficiency_radar": plots.efficiency_radar(scores, MEASURES, parameters),
        "reliability": plots.reliability(curves),
        "interval_calibration": plots.interval_calibration(values["intervals"]),
        "selective_prediction": plots.selective_prediction(kept, "error rate", percent=True),
        "mi_histograms": plots.uncertainty_histograms(
            {m: a.mi for m, a in several.items()}, "mutual information (nats)"
        ),
        "function_bands": plots.function_bands(values["bands"], values["x"], values["y"]),
        "weight_correlations": plots.weight_correlations(classes["correlations"], rows=6, columns=6),
        "bounds_against_rank": plots.bounds_against_rank([panel]),
        "pareto": plots.pareto(classes["points"], nll, detection),
        "against_setting": plots.against_setting(ranks, "rank"),
    }


def write(settings: Settings, folder: Path, classes: dict[str, Any], panel: BoundPanel, values: dict[str, Any]) -> dict:
    """Writes the pictures and the record of what they show into the folder, and returns the record."""
    for name, figure in draw(classes, panel, values).items():
        path = plots.write(figure, folder / f"figure_{name}.png", dpi=140)
        Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # half of the bytes
    names = [measure.name for measure in MEASURES]
    record = {
        "settings": asdict(settings),
        "backend": keras.backend.backend(),
        "keras": keras.__version__,
        "parameters": {m: a.parameters for m, a in classes["predicted"].items()},
        "scores": {m: dict(zip(names, a.scores(), strict=True)) for m, a in classes["predicted"].items()},
        "bounds": asdict(panel),
        "points": [asdict(point) for point in classes["points"]],
    }
    (folder / "figures.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


def main(settings: Settings = Settings(), folder: Path = FOLDER) -> dict:
    """Runs everything, and writes the pictures and the record into the folder."""
    return write(settings, folder, classify(settings), bound(settings), regress(settings))


if __name__ == "__main__":
    main()
