"""The figure of README.md: three kinds of networks, trained on the same 256 points, beyond them.

    python docs/scripts/pitch.py        # about a minute on two quiet cores; writes docs/pitch.png and docs/pitch.json

A 1-64-64-1 tanh network, known noise: one deterministic network, a deep ensemble of five, and one model whose weights
have a mixture of five low-rank posteriors with anchored priors. Every setting was fixed before the run but for the
spread of the anchors, the learning rate, η and β: four combinations were tried, with these points and seed 0.
"""

import json
from pathlib import Path

import keras
import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from singularbayes_experiments.records.record import machine, versions

import singularbayes as sb
from singularbayes import layers
from singularbayes.demo import regression
from singularbayes.plots import style

FOLDER = Path(__file__).parents[1]
SETTINGS = {
    "seed": 0,
    "points": 256,
    "noise": 0.07,  # as the networks assume it
    "units": 64,
    "rank": 16,
    "components": 5,
    "anchored": 0.1,
    "spreads": [4.0, 0.3, 0.5],  # of the anchors of the three weights
    "eta": 0.01,
    "beta": 0.3,
    "epochs": 1000,
    "batch_size": 64,
    "learning_rate": 0.01,  # of Adam, a cosine to 0
    "draws": 200,
}
RANGE = (-0.1, 0.6)  # of the points


def compiled(model: keras.Model) -> keras.Model:
    steps = SETTINGS["epochs"] * SETTINGS["points"] // SETTINGS["batch_size"]
    rate = keras.optimizers.schedules.CosineDecay(SETTINGS["learning_rate"], steps)
    model.compile(keras.optimizers.Adam(rate), sb.GaussianNLL(SETTINGS["noise"]))
    return model


def deterministic() -> keras.Model:
    hidden = [keras.layers.Dense(SETTINGS["units"], "tanh") for _ in range(2)]
    return compiled(keras.Sequential([keras.Input((1,)), *hidden, keras.layers.Dense(1)]))


def mixture() -> keras.Model:
    def dense(units: int, activation: str | None, spread: float, rank: int | None) -> keras.layers.Layer:
        options = {"prior": sb.Anchored(SETTINGS["anchored"], spread=spread), "eta": SETTINGS["eta"]}
        one = sb.FullRank(**options) if rank is None else sb.LowRank(rank, **options)
        several = {"components": SETTINGS["components"], "examples": "repeat"}
        bias = sb.Mixture(sb.FullRank(**options), **several)
        return layers.Dense(units, activation, posterior=sb.Mixture(one, **several), bias_posterior=bias)

    first, hidden, last = SETTINGS["spreads"]
    units = SETTINGS["units"]
    weights = [
        dense(units, "tanh", first, None),  # a column of weights has no lower rank
        dense(units, "tanh", hidden, SETTINGS["rank"]),
        dense(1, None, last, None),
    ]
    return compiled(keras.Sequential([keras.Input((1,)), *weights]))


def predictions() -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    """Returns the points, the inputs of the figure, and mean and standard deviation of every method there."""
    x, y = regression.sample(SETTINGS["points"], 0.02, np.random.default_rng(SETTINGS["seed"]))
    grid = np.linspace(-0.5, 1.1, 161, dtype="float32")[:, None]
    options = {"epochs": SETTINGS["epochs"], "batch_size": SETTINGS["batch_size"]}
    keras.utils.set_random_seed(SETTINGS["seed"])
    single, ours = deterministic(), mixture()
    single.fit(x, y, verbose=0, **options)
    ensemble = sb.DeepEnsemble(deterministic, members=5).fit(x, y, **options)
    ours.fit(x, y, verbose=0, callbacks=[sb.KLSchedule(beta=SETTINGS["beta"])], **options)
    found = {
        "deterministic network": sb.predict(single, grid),
        "deep ensemble of 5": ensemble.predict(grid),
        "low-rank mixture of 5": sb.predict(ours, grid, draws=SETTINGS["draws"], seed=0),
    }
    return x[:, 0], y[:, 0], grid[:, 0], {name: (p.mean, p.std) for name, p in found.items()}


def main() -> None:
    x, y, grid, found = predictions()
    inside = (grid > RANGE[0]) & (grid < RANGE[1])
    with matplotlib.rc_context(style.PAGE):
        figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharex=True, sharey=True, layout="constrained")
        for axis, (name, (mean, std)) in zip(axes, found.items(), strict=True):
            for width in (2, 1):
                axis.fill_between(grid, mean - width * std, mean + width * std, color="#0072B2", alpha=0.25, lw=0)
            axis.plot(grid, mean, color="#0072B2")
            axis.plot(x, y, "k.", markersize=2, alpha=0.4)
            axis.axvspan(*RANGE, color="0.5", alpha=0.12, lw=0)
            axis.set(title=name, xlabel="x", ylim=(-3, 3.5))
        axes[0].set_ylabel("y")
        figure.savefig(FOLDER / "pitch.png", dpi=160)
    ratios = {
        name: float(np.median(std[~inside]) / np.median(std[inside])) if std.any() else None
        for name, (_, std) in found.items()
    }
    record = {"settings": SETTINGS, "band outside / inside": ratios, "versions": versions(), "machine": machine()}
    (FOLDER / "pitch.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(ratios)


if __name__ == "__main__":
    main()
