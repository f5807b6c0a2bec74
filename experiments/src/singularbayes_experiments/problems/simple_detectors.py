"""How far a number that needs no network tells out-of-distribution data: what every detector has to beat.

Each is a function of one example: the larger, the more it is taken for out-of-distribution. The directions were set
with the main pair of each experiment in mind, so that other pairs may have an AUROC below one half. Only the rarity of
words and the Gaussian of the inputs look at training data; none looks at out-of-distribution data. A record of a
detector is one of its experiment with the preset "simple".
"""

import gzip
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from singularbayes.metrics import auroc_ood
from singularbayes_experiments import data
from singularbayes_experiments.problems import air, forecast, icu, text
from singularbayes_experiments.records.files import replace
from singularbayes_experiments.records.record import Record

PRESET = "simple"
Found = Mapping[str, float]  # AUROC by the name of its metric


def non_zero(pixels: np.ndarray) -> np.ndarray:
    """Returns the share of pixels that are not 0, image by image.

    >>> non_zero(np.array([[[0, 9], [0, 0]], [[1, 1], [1, 0]]]))
    array([0.25, 0.75])
    """
    return (pixels != 0).reshape(len(pixels), -1).mean(axis=1)


def rarity(known: list[list[int]], texts: list[list[int]], size: int) -> np.ndarray:
    """Returns the mean of −log of the share of each piece in the known texts, every piece counted once more.

    >>> rarity([[0, 0, 1]], [[0], [1], [2], []], size=3).round(2)
    array([0.69, 1.1 , 1.79, 0.  ])
    """
    counts = 1 + np.bincount(np.concatenate([np.array(ids, int) for ids in known]), minlength=size)
    surprise = -np.log(counts / counts.sum())
    return np.array([surprise[ids].mean() if ids else 0.0 for ids in texts])


def distance(train: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the squared Mahalanobis distance of rows from a Gaussian with mean and covariance of the training rows.

    >>> distance(np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])).round(2)
    array([0., 2.])
    """
    centre = train.mean(axis=0)
    inverse = np.linalg.pinv(np.atleast_2d(np.cov(train, rowvar=False)), hermitian=True)
    return np.einsum("ni,ij,nj->n", x - centre, inverse, x - centre)


def _images(known: str, others: tuple[str, ...], sign: int) -> Found:
    inside = sign * non_zero(getattr(data, known)().test[0])
    return {f"{o}/auroc_ood": auroc_ood(inside, sign * non_zero(getattr(data, o)().test[0])) for o in others}


def detect(experiment: str) -> Iterator[tuple[str, Found]]:
    """Yields the detectors of an experiment by name, with their AUROC."""
    if experiment == "mnist":
        yield "more_pixels", _images("mnist", ("fashion_mnist", "notmnist"), 1)
    elif experiment in ("fashion_mnist", "cnn"):
        yield "fewer_pixels", _images("fashion_mnist", ("mnist", "notmnist"), -1)
    elif experiment == "sst2":
        pieces, sentences, size = text.bert(), data.sst2(), len(data.bert_vocab().words)
        others = {
            "": data.ag_news().texts,
            "product_reviews/": data.product_reviews().texts,
            "clinc150/": data.clinc150().out_of_scope,
        }
        train, dev = pieces.ids(sentences.train[0]), pieces.ids(sentences.dev[0])
        tokens = {start: pieces.ids(texts) for start, texts in others.items()}
        inside = np.array([len(ids) for ids in dev])
        yield (
            "text_length",
            {f"{start}auroc_ood": auroc_ood(inside, np.array([len(ids) for ids in t])) for start, t in tokens.items()},
        )
        inside = rarity(train, dev, size)
        yield (
            "word_rarity",
            {f"{start}auroc_ood": auroc_ood(inside, rarity(train, t, size)) for start, t in tokens.items()},
        )
    elif experiment == "beijing":
        settings = forecast.ForecastSettings()
        split = forecast.windows(settings.windows, settings.hours)
        place = air.FEATURES.index("DEWP")
        found = {}
        for city, x in forecast.ood_windows(settings.windows, settings.hours, settings.every).items():
            prefix = "" if city == forecast.MAIN else f"{city.lower()}/"
            found[f"{prefix}auroc_ood"] = auroc_ood(split.test.x[:, -1, place], x[:, -1, place])
        yield "dew_point", found
    elif experiment == "icu":
        found = {}
        for shift in icu.SHIFTS:
            sets = icu.split(shift)
            assert sets.ood is not None
            inside, outside = (distance(sets.train[0], x) for x in (sets.test[0], sets.ood[0]))
            found[f"{shift}/auroc_ood"] = auroc_ood(inside, outside)
        yield "input_distance", found | {"auroc_ood": float(np.mean(list(found.values())))}


def detect_queries() -> Iterator[dict]:
    """Yields records of the experiment `finetune`: what tells out-of-scope queries of CLINC150 without a network.

    Known queries are the test queries of CLINC150 or of Banking77; rarity is by the pieces of their training queries.
    """
    pieces, size, clinc, banking = text.bert(), len(data.bert_vocab().words), data.clinc150(), data.banking77()
    unknown = pieces.ids(clinc.out_of_scope)
    for name, own in (("clinc150", clinc), ("banking77", banking)):
        train, test = (pieces.ids(texts) for texts in (own.train[0], own.test[0]))
        lengths = [np.array([len(ids) for ids in texts]) for texts in (test, unknown)]
        found = {"text_length": lengths, "word_rarity": [rarity(train, texts, size) for texts in (test, unknown)]}
        for detector, (inside, outside) in found.items():
            for setting in (f"{name}-10", name):
                score = {"auroc": float(auroc_ood(inside, outside))}
                about = {"stage": "detector", "setting": setting, "method": detector, "kind": PRESET, "seed": 0}
                yield about | {"ood": score}


def run_query_detectors(path: Path) -> Path:
    """Writes the records of `detect_queries` and returns their path."""
    lines = "".join(f"{json.dumps(one)}\n" for one in detect_queries())
    return replace(path, gzip.compress(lines.encode(), mtime=0))


EXPERIMENTS = ("mnist", "fashion_mnist", "cnn", "sst2", "beijing", "icu")


def run_simple_detectors(path: Path) -> Path:
    """Writes a record of every detector of every experiment into one file, and returns its path."""
    lines = []
    for experiment in EXPERIMENTS:
        start = time.perf_counter()
        for name, found in detect(experiment):
            scores = {metric: float(value) for metric, value in found.items()}
            seconds = time.perf_counter() - start
            lines.append(Record(experiment, name, 0, {}, scores, 0, seconds, preset=PRESET).line())
    return replace(path, "".join(f"{line}\n" for line in lines).encode())
