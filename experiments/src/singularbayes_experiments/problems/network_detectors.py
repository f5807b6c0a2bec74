"""How far plain scores of one deterministic network tell out-of-distribution images, and two classes held out.

Max-softmax, energy and the Mahalanobis distance of the last hidden layer are what any uncertainty has to beat. Written
down before any run: the deterministic network of the experiment with its tuned settings and three of its seeds, against
the out-of-distribution sets of its page; and the same network, and the tuned low-rank one, trained without the last
two classes, whose test images are then the out-of-distribution ones. Committed are all but seed 123 of MNIST, which the
same command adds. Nothing is chosen by these runs. A record has the preset "simple", as those of detectors without a
network, so that the report shows it below the tables of methods.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from singularbayes.metrics import MahalanobisDistance, auroc_ood, energy_score, least_confidence
from singularbayes.models import count_stored, count_trained
from singularbayes.prediction import predict
from singularbayes_experiments.methods import methods
from singularbayes_experiments.methods.trainers import OneByOne, Training
from singularbayes_experiments.problems import images
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.problems.simple_detectors import PRESET, non_zero
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record, plain

NAMES = ("mnist", "fashion_mnist", "cnn")
SEEDS = (42, 123, 456)
HELD_OUT = (8, 9)
KINDS = ("all classes", "held out", "held out, low-rank")
Scores = dict[str, dict[str, float]]  # by detector, then by metric


@dataclass(frozen=True)
class Sets:
    """Pixels divided by their scale: images that train, in-distribution test images, and others by name."""

    train: images.Part
    test: np.ndarray
    others: dict[str, np.ndarray]
    classes: int


def sets(problem: images.ImageProblem, settings, held_out: tuple[int, ...] = ()) -> Sets:
    """Returns the images of an experiment; with classes held out, their test images are the only others."""
    (x, y), _ = problem.split(settings)
    (x_test, y_test), others = problem.testing(settings)
    if not held_out:
        return Sets((x, y), x_test, others, images.CLASSES)
    known, tested = ~np.isin(y, held_out), ~np.isin(y_test, held_out)
    places = np.cumsum(~np.isin(np.arange(images.CLASSES), held_out)) - 1  # labels without gaps
    train = x[known], places[y[known]]
    return Sets(train, x_test[tested], {"held_out": x_test[~tested]}, images.CLASSES - len(held_out))


def detect(network: keras.Model, data: Sets) -> Scores:
    """Returns the AUROC of every other set by three scores of a deterministic network."""
    hidden = keras.Model(network.inputs, network.layers[-2].output)
    ask = partial(hidden.predict, batch_size=1000, verbose=0)
    x, y = data.train
    distance = MahalanobisDistance(ask(x), y)

    def scores(pixels: np.ndarray) -> dict[str, np.ndarray]:
        logits = network.predict(pixels, batch_size=1000, verbose=0).astype("float64")
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        confidence = least_confidence(p / p.sum(axis=1, keepdims=True))
        return {"max_softmax": confidence, "energy": energy_score(logits), "mahalanobis": distance(ask(pixels))}

    inside = scores(data.test)
    outside = {name: scores(pixels) for name, pixels in data.others.items()}
    return {
        by: {f"{name}/auroc_ood": auroc_ood(inside[by], found[by]) for name, found in outside.items()} for by in inside
    }


def detect_by_draws(network: keras.Model, data: Sets, settings, seed: int) -> Scores:
    """Returns the AUROC of every other set by mutual information and by entropy of a Bayesian network."""
    inside: Any = predict(network, data.test, draws=settings.draws, seed=seed)
    found = {}
    for name, pixels in data.others.items():
        p: Any = predict(network, pixels, draws=settings.draws, seed=seed)
        found[f"{name}/auroc_ood_mi"] = auroc_ood(inside.mutual_information, p.mutual_information)
        found[f"{name}/auroc_ood_entropy"] = auroc_ood(inside.entropy, p.entropy)
    return {"low_rank_held_out": found}


def run(name: str, kind: str, seed: int, settings=None) -> list[Record]:
    """Trains a network of an experiment and returns one record per detector."""
    method = "low_rank" if kind == KINDS[2] else "deterministic"
    own = settings or EXPERIMENTS[name].settings("chosen", method)
    problem: Any = EXPERIMENTS[name].problem
    data = sets(problem, own, () if kind == KINDS[0] else HELD_OUT)
    problem = replace(problem, make=partial(problem.make, classes=data.classes))
    start = time.perf_counter()
    trainer = OneByOne(problem.network_of(method, own), Training(*data.train), own)
    [network] = methods.find_method(method).train(trainer, [seed])
    found = detect_by_draws(network, data, own, seed) if method == "low_rank" else detect(network, data)
    if kind == KINDS[1] and seed == SEEDS[0]:  # it needs no network, so one record is all
        sign = 1 if name == "mnist" else -1  # as in `simple_detectors`
        inside, outside = (sign * non_zero(x) for x in (data.test, data.others["held_out"]))
        found["more_pixels" if sign > 0 else "fewer_pixels"] = {"held_out/auroc_ood": auroc_ood(inside, outside)}
    kept = plain(own) | {"kind": kind, "held_out": list(() if kind == KINDS[0] else HELD_OUT)}
    rest: dict[str, Any] = {"stored": count_stored(network), "preset": PRESET}
    seconds = time.perf_counter() - start
    return [
        Record(name, by, seed, kept, {m: float(v) for m, v in scores.items()}, count_trained(network), seconds, **rest)
        for by, scores in found.items()
    ]


def run_network_detectors(names: Sequence[str] | None, seeds: Sequence[int], folder: Path) -> Iterator[str]:
    """Runs what has no records in the folder yet, and yields a line per network."""
    lines = folder / record.LINES
    have = {(o.experiment, o.settings["kind"], o.seed) for o in record.read(folder)} if lines.is_file() else set()
    for seed in seeds:
        for name in names or NAMES:
            for kind in KINDS:
                if (name, kind, seed) in have:
                    continue
                made = run(name, kind, seed)
                for one in made:
                    record.append(one, folder)
                shown = "; ".join(f"{m} by {o.method} {v:.3f}" for o in made for m, v in o.metrics.items())
                yield f"{name}, {kind}, seed {seed}: {shown}"
