"""Writes the arrays of every task of the trial to a folder, one file each; no test row is among them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn import datasets

from singularbayes_experiments import data
from singularbayes_experiments.problems import air, text

IMAGES = {"mnist": data.mnist, "fashion_mnist": data.fashion_mnist}
UCI = [name for name in data.UCI_SETS if not name.startswith("protein")]
SMALL = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
SPLITS = 5
Arrays = dict[str, np.ndarray]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for make in (images, uci, small, texts, windows):
        for name, found in make():
            np.savez_compressed(str(folder / f"{name}.npz"), allow_pickle=False, **found)
            print(name, {key: value.shape for key, value in found.items()}, flush=True)


def parts(x: np.ndarray, y: np.ndarray, places: list[np.ndarray]) -> Arrays:
    """Returns the rows that train, stop and score, on a first axis of one split."""
    named = zip(("train", "stop", "score"), places, strict=True)
    return {f"{part}_{k}": v[own][None] for part, own in named for k, v in (("x", x), ("y", y))}


def stacked(splits: list[Arrays]) -> Arrays:
    return {name: np.concatenate([split[name] for split in splits]) for name in splits[0]}


def images() -> Iterator[tuple[str, Arrays]]:
    """Gives the 55,000 rows that may train; the tasks take the first of them, and add noise."""
    for name, load in IMAGES.items():
        train = load().train
        assert train is not None
        x, y = train
        order = np.random.default_rng(0).permutation(len(x))
        places = [order[5000:], order[:2500], order[2500:5000]]
        yield name, parts(x.reshape(len(x), -1), y.astype("int32"), places)


def divided(x: np.ndarray, y: np.ndarray, shares: tuple[float, float], seed: int, regression: bool) -> Arrays:
    """Returns a random split, standardised by the rows that train; `shares` are those that train and stop."""
    order = np.random.default_rng(seed).permutation(len(x))
    places = np.split(order, [int(shares[0] * len(x)), int(sum(shares) * len(x))])
    own = x[places[0]]
    scaled = ((x - own.mean(0)) / np.where(own.std(0) > 0, own.std(0), 1)).astype("float32")
    if regression:
        y = ((y - y[places[0]].mean()) / y[places[0]].std()).astype("float32")
    return parts(scaled, y, places)


def uci() -> Iterator[tuple[str, Arrays]]:
    for name in UCI:
        whole = data.uci_regression(name)
        training = [whole.splits[i][0] for i in range(SPLITS)]
        yield name, stacked([divided(whole.x[t], whole.y[t], (0.7, 0.15), i, True) for i, t in enumerate(training)])


def small() -> Iterator[tuple[str, Arrays]]:
    for name, load in SMALL.items():
        x, y = load(return_X_y=True)
        regression = name == "diabetes"
        y = y if regression else y.astype("int32")
        clean = stacked([divided(x, y, (0.5, 0.25), i, regression) for i in range(SPLITS)])
        yield name, clean
        if name == "digits":
            rng = np.random.default_rng(2)
            noise = {k: v + 0.75 * rng.normal(size=v.shape).astype("float32") for k, v in clean.items() if k[-1] == "x"}
            yield "digits_noisy_pixels", {**clean, **noise}
            wrong = {
                k: np.where(rng.random(v.shape) < 0.3, rng.integers(0, 10, v.shape, "int32"), v)
                for k, v in clean.items()
                if k[-1] == "y"
            }
            yield "digits_noisy_labels", {**clean, **wrong}


def texts() -> Iterator[tuple[str, Arrays]]:
    x, y, training, held = text.training_texts(32, 1200)
    ids = np.unique(x[training], return_inverse=True)[0]  # of padding, 0, first
    x = np.where(np.isin(x, ids), np.searchsorted(ids, x), 1).astype("uint16")  # 1 for a piece that trains nowhere
    order = np.random.default_rng(0).permutation(training)
    for name, rows in (("sst2_5000", order[:5000]), ("sst2_all", order)):
        yield name, parts(x, y, [rows, held[:600], held[600:]])


def windows() -> Iterator[tuple[str, Arrays]]:
    (train, held, _), _ = air.split(air.rows_of(data.beijing_pm25().table), (29_213, 6_260, 6_260), 24)
    x, y = np.concatenate([train.x, held.x]), np.concatenate([train.y, held.y])[:, 0]
    first = np.arange(len(x))
    yield "beijing", parts(x.astype("float16"), y, np.split(first, [len(train.x), len(train.x) + len(held.x) // 2]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
