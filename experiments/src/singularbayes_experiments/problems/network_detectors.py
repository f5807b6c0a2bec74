"""How far plain scores of one deterministic network tell out-of-distribution data, and two classes held out.

Max-softmax, energy and the Mahalanobis distance of the last hidden layer are what any uncertainty has to beat. Written
down before any run: the deterministic network of the experiment with its tuned settings and three of its seeds, against
the out-of-distribution sets of its page. Nothing is chosen by these runs. A record has the preset "simple", as those of
detectors without a network, so that the report shows it below the tables of methods. What has no committed record yet
the same command adds.

- Images: also the same network, and the tuned low-rank one, trained without the last two classes, whose test images
  are then the out-of-distribution ones. On MNIST and Fashion-MNIST, written down later but before their runs, also the
  deep ensemble of five and the five low-rank networks with their tuned settings; MNIST has all its seeds before
  Fashion-MNIST has one. They are the ensembles of the same page, so that the rows of one table compare.
- SST-2: against news; and against two sets that are less easily told by length or rare words: sentences of customer
  reviews of electronic products (nearest to film reviews), and out-of-scope queries to an assistant. On these also one
  low-rank network, a deep ensemble of five and five low-rank modes, with the tuned settings.
- Beijing: the Mahalanobis distance alone, to the mean of all training windows. Max-softmax and energy need classes.
- Intensive care: a network for each of the five shifts. It has one logit, so that energy ranks stays as max-softmax
  does, and is left out.
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
from singularbayes_experiments import data
from singularbayes_experiments.methods import methods
from singularbayes_experiments.methods.study import predict_sets
from singularbayes_experiments.methods.trainers import OneByOne, OneProgram, Training
from singularbayes_experiments.problems import forecast, icu, images, reviews, text
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.problems.simple_detectors import PRESET, non_zero
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record, plain

IMAGES = ("mnist", "fashion_mnist", "cnn")
NAMES = (*IMAGES, "sst2", "beijing", "icu")
SEEDS = (42, 123, 456)
HELD_OUT = (8, 9)
DETERMINISTIC = "deterministic"
ALL = "all classes"
PLAIN = "held out"
KINDS = {  # of networks of images: the method of each
    ALL: DETERMINISTIC,
    PLAIN: DETERMINISTIC,
    "held out, low-rank": "low_rank",
    "held out by deep_ensemble": "deep_ensemble",
    "held out by low_rank_ensemble": "low_rank_ensemble",
}
TEXT_KINDS = (DETERMINISTIC, "low_rank", "deep_ensemble", "low_rank_ensemble")
HEADS = dict.fromkeys(IMAGES, "logits") | {"sst2": "head", "beijing": "mean", "icu": "logit"}  # the last layers
Scores = dict[str, dict[str, float]]  # by detector, then by metric


@dataclass(frozen=True)
class DetectorSets:
    """Inputs of a network: those that train, in-distribution test inputs, and others by name; classes 0: regression.

    The main out-of-distribution set of an experiment other than of images has no name, as its metrics have no prefix.
    """

    train: images.Part
    test: np.ndarray
    others: dict[str, np.ndarray]
    classes: int


def kinds(name: str) -> tuple[str, ...]:
    """Returns which networks an experiment has."""
    if name in IMAGES:
        return tuple(kind for kind, method in KINDS.items() if method in EXPERIMENTS[name].problem.methods)
    return TEXT_KINDS if name == "sst2" else (DETERMINISTIC,)


def sets(problem: images.ImageProblem, settings, held_out: tuple[int, ...] = ()) -> DetectorSets:
    """Returns the images of an experiment; with classes held out, their test images are the only others."""
    (x, y), _ = problem.split(settings)
    (x_test, y_test), others = problem.testing(settings)
    if not held_out:
        return DetectorSets((x, y), x_test, others, images.CLASSES)
    known, tested = ~np.isin(y, held_out), ~np.isin(y_test, held_out)
    places = np.cumsum(~np.isin(np.arange(images.CLASSES), held_out)) - 1  # labels without gaps
    train = x[known], places[y[known]]
    return DetectorSets(train, x_test[tested], {"held_out": x_test[~tested]}, images.CLASSES - len(held_out))


def texts(problem: reviews.Reviews, settings) -> DetectorSets:
    """Returns reviews of films, and news, reviews of products and queries as token ids."""
    *_, (dev, _), news = reviews.encoded(settings.length)
    found = {"product_reviews": data.product_reviews().texts, "clinc150": data.clinc150().out_of_scope}
    others = {name: text.bert().encode(each, settings.length) for name, each in found.items()}
    return DetectorSets(problem.trained(settings), dev, {"": news, **others}, settings.classes)


def windows(settings) -> DetectorSets:
    """Returns the windows of Beijing, and those of other cities."""
    split = forecast.windows(settings.windows, settings.hours)
    cities = forecast.ood_windows(settings.windows, settings.hours, settings.every)
    others = {"" if city == forecast.MAIN else city.lower(): x for city, x in cities.items()}
    return DetectorSets((split.train.x, split.train.y), split.test.x, others, classes=0)


def stays(settings) -> DetectorSets:
    """Returns the stays of a shift of intensive care."""
    found = icu.split(settings.shift, settings.scaling)
    assert found.ood is not None
    return DetectorSets(found.train, found.test[0], {settings.shift: found.ood[0]}, classes=2)


def detect(network: keras.Model, data: DetectorSets, head: str = "logits") -> Scores:
    """Returns the AUROC of every other set by the scores that a deterministic network has."""
    hidden = keras.Model(network.inputs, network.get_layer(head).input)
    ask = partial(hidden.predict, batch_size=1000, verbose=0)
    x, y = data.train
    distance = MahalanobisDistance(ask(x), y if data.classes else np.zeros(len(x)))
    one_logit = network.output_shape[-1] < data.classes

    def scores(inputs: np.ndarray) -> dict[str, np.ndarray]:
        found = {"mahalanobis": distance(ask(inputs))}
        if not data.classes:
            return found
        logits = network.predict(inputs, batch_size=1000, verbose=0).astype("float64")
        if one_logit:
            return {"max_softmax": -np.abs(logits[:, 0])} | found
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        confidence = least_confidence(p / p.sum(axis=1, keepdims=True))
        return {"max_softmax": confidence, "energy": energy_score(logits)} | found

    inside = scores(data.test)
    outside = {name: scores(inputs) for name, inputs in data.others.items()}
    return {
        by: {metric(name, "auroc_ood"): auroc_ood(inside[by], found[by]) for name, found in outside.items()}
        for by in inside
    }


def metric(name: str, score: str) -> str:
    """Returns the name of a score of a set.

    >>> metric("mnist", "auroc_ood"), metric("", "auroc_ood")
    ('mnist/auroc_ood', 'auroc_ood')
    """
    return f"{name}/{score}" if name else score


def detect_by_draws(trained, data: DetectorSets, seed: int, **options) -> dict[str, float]:
    """Returns the AUROC of every other set by mutual information and by entropy of a network or an ensemble."""
    others = {name or "ag_news": inputs for name, inputs in data.others.items()}
    p: dict[str, Any] = predict_sets(trained, seed, options, {"test": data.test, **others})
    inside, found = p.pop("test"), {}
    for name, outside in p.items():
        found[f"{name}/auroc_ood_mi"] = auroc_ood(inside.mutual_information, outside.mutual_information)
        found[f"{name}/auroc_ood_entropy"] = auroc_ood(inside.entropy, outside.entropy)
    return found


def run(name: str, kind: str, seed: int, settings=None) -> list[Record]:
    """Trains the networks of an experiment and returns one record per detector."""
    method = KINDS.get(kind, kind)
    own = settings or EXPERIMENTS[name].settings("chosen", method)
    start = time.perf_counter()
    found: Scores = {}
    for variant in EXPERIMENTS[name].variants(own):
        trained, data = _train(name, kind, method, seed, variant)
        if method == DETERMINISTIC:
            for by, scores in detect(trained, data, HEADS[name]).items():
                found.setdefault(by, {}).update(scores)
        else:
            options = {"draws": own.draws} | ({} if name in IMAGES else {"padding": text.PADDING})
            by = f"{method}_held_out" if name in IMAGES else f"{method}_texts"
            found[by] = detect_by_draws(trained, data, seed, **options)
    if name == "icu":
        found = {by: scores | {"auroc_ood": float(np.mean(list(scores.values())))} for by, scores in found.items()}
    if kind == PLAIN and seed == SEEDS[0]:  # it needs no network, so one record is all
        sign = 1 if name == "mnist" else -1  # as in `simple_detectors`
        inside, outside = (sign * non_zero(x) for x in (data.test, data.others["held_out"]))
        found["more_pixels" if sign > 0 else "fewer_pixels"] = {"held_out/auroc_ood": auroc_ood(inside, outside)}
    kept = plain(own) | {"kind": kind, "held_out": list(HELD_OUT if kind in KINDS and kind != ALL else ())}
    rest: dict[str, Any] = {"stored": _size(trained, stored=True), "preset": PRESET}
    seconds, size = time.perf_counter() - start, _size(trained)
    return [
        Record(name, by, seed, kept, {m: float(v) for m, v in scores.items()}, size, seconds, **rest)
        for by, scores in found.items()
    ]


def _train(name: str, kind: str, method: str, seed: int, settings) -> tuple[Any, DetectorSets]:
    problem: Any = EXPERIMENTS[name].problem
    if name in IMAGES:
        found = sets(problem, settings, () if kind == ALL else HELD_OUT)
        problem = replace(problem, make=partial(problem.make, classes=found.classes))
        training = Training(*found.train)
    else:
        found = (
            texts(problem, settings) if name == "sst2" else windows(settings) if name == "beijing" else stays(settings)
        )
        training = problem.training(settings)
    # The members of an ensemble are trained at once where that is possible.
    together = (name == "sst2" or method.endswith("ensemble")) and keras.config.backend() == "jax"
    trainer = (OneProgram if together else OneByOne)(problem.network_of(method, settings), training, settings)
    [trained] = methods.find_method(method).train(trainer, [seed])
    return trained, found


def _size(trained, stored: bool = False) -> int:
    if isinstance(trained, keras.Model):
        return (count_stored if stored else count_trained)(trained)
    return trained.num_stored if stored else trained.num_trained


def run_network_detectors(
    names: Sequence[str] | None, seeds: Sequence[int], folder: Path, only: Sequence[str] | None = None
) -> Iterator[str]:
    """Runs what has no records in the folder yet, and yields a line per network; `only` some kinds of networks."""
    lines = folder / record.LINES
    have = {(o.experiment, o.settings["kind"], o.seed) for o in record.read(folder)} if lines.is_file() else set()
    for seed in seeds:
        for name in names or NAMES:
            for kind in kinds(name):
                if (name, kind, seed) in have or (only and kind not in only):
                    continue
                made = run(name, kind, seed)
                for one in made:
                    record.append(one, folder)
                shown = "; ".join(f"{m} by {o.method} {v:.3f}" for o in made for m, v in o.metrics.items())
                yield f"{name}, {kind}, seed {seed}: {shown}"
