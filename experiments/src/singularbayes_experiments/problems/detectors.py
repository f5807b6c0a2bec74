"""How far plain detectors tell out-of-distribution data: what every uncertainty has to beat.

Those without a network are functions of one example: the larger, the more it is taken for out-of-distribution. Their
directions were set with the main pair of each experiment in mind, so that other pairs may have an AUROC below one half.
Only the rarity of words and the Gaussian of the inputs look at training data; none looks at out-of-distribution data.

Max-softmax, energy and the Mahalanobis distance of the last hidden layer are of the deterministic network of the
experiment with the settings of its preset "chosen". Nothing is chosen by these runs. Images have a second network,
trained without the last two classes, whose test images are then the out-of-distribution ones, and the same for a
low-rank network and two ensembles ("…_held_out"). On SST-2, sentences of product reviews and out-of-scope queries are
less easily told by length or rare words than news; these also tell by a low-rank network and ensembles ("…_texts").
Beijing is a regression, with no max-softmax and no energy; intensive care has one logit, by which both rank alike.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import keras
import numpy as np

from singularbayes.metrics import MahalanobisDistance, auroc_ood, energy_score, least_confidence
from singularbayes_experiments import config, data, study
from singularbayes_experiments.methods import Member, Trainer, find_method
from singularbayes_experiments.problems import air, text
from singularbayes_experiments.problems.base import RESULT, Data, OwnRuns, Part, Scores

IMAGES = ("mnist", "fashion_mnist", "cnn")
HEADS = {"sst2": "head", "beijing": "mean", "icu": "logit"}  # the last layers; of images "logits"
MAIN = {"sst2": "ag_news", "beijing": "guangzhou"}  # the set whose scores have no prefix
OF_NETWORK = ("max_softmax", "energy", "mahalanobis")
TRAINED = ("low_rank", "deep_ensemble", "low_rank_ensemble")
CLASSES = 10


@dataclass(frozen=True)
class DetectorSettings:
    """Classes of images that are held out, the preset of the experiment, and more of its settings for a trial."""

    held_out: tuple[int, ...] = (8, 9)
    preset: str = "chosen"


class Detectors(OwnRuns):
    """A task is an experiment, a method a detector of it."""

    Settings = DetectorSettings
    methods = (
        *("more_pixels", "fewer_pixels", "text_length", "word_rarity", "dew_point", "input_distance", *OF_NETWORK),
        *(f"{name}_{end}" for end in ("held_out", "texts") for name in TRAINED),
    )

    def run(self, task) -> Iterator[study.Outcome]:
        name, by = task.task, task.method
        for seed, settings in zip(task.seeds, task.settings, strict=True):
            if by in INPUTS:
                found = INPUTS[by](name, settings)
            elif by in OF_NETWORK:
                found = {key: value for each in networks(name, seed, settings) for key, value in each[by].items()}
            else:
                method, end = next((own, by.removeprefix(f"{own}_")) for own in TRAINED[::-1] if by.startswith(own))
                sets = held_out(name, settings) if end == "held_out" else texts(settings)
                found = by_draws(name, method, seed, sets, settings)
            if name == "icu":
                found["auroc_ood"] = float(np.mean(list(found.values())))
            yield study.Outcome(found)


@dataclass(frozen=True)
class Sets:
    """What trains, the test inputs, and others by the start of their metrics; of a regression there are no classes."""

    task: str
    data: Data
    others: dict[str, np.ndarray]
    classes: int

    @property
    def test(self) -> Any:
        return self.data.test and self.data.test.x


# -- data --------------------------------------------------------------------------------------------------------------


def settings_of(name: str, method: str, settings: DetectorSettings, task: str | None = None) -> Any:
    return config.read(name).chosen(settings.preset, method, task)[1]


def every_set(name: str, settings: DetectorSettings) -> Iterator[Sets]:
    """Yields the sets of an experiment, of every shift where it has several."""
    experiment = config.read(name)
    for task in experiment.tasks_of(settings.preset):
        own = settings_of(name, "deterministic", settings, task)
        found = experiment.problem.data(task, 0, own, RESULT)
        if name == "icu":
            yield Sets(task, found, {f"{task}/": found.ood["held_out_care"]}, 2)
        elif name == "sst2":
            yield texts(settings)
        else:
            others = {"" if each == MAIN.get(name) else f"{each}/": x for each, x in found.ood.items()}
            yield Sets(task, found, others, 0 if name == "beijing" else CLASSES)


def held_out(name: str, settings: DetectorSettings) -> Sets:
    """Returns images of the classes that train, their labels without gaps; test images of the rest are the others."""
    (whole,) = every_set(name, settings)
    places = np.cumsum(~np.isin(np.arange(CLASSES), settings.held_out)) - 1

    def known(part: Part) -> Part:
        rows = ~np.isin(part.y, settings.held_out)
        return Part(part.x[rows], places[part.y[rows]].astype("int32"))

    test: Any = whole.data.test
    found = replace(whole.data, train=known(whole.data.train), test=known(test), ood={})
    others = {"held_out/": test.x[np.isin(test.y, settings.held_out)]}
    return Sets(whole.task, found, others, CLASSES - len(settings.held_out))


def and_held_out(name: str, settings: DetectorSettings) -> list[Sets]:
    return [*every_set(name, settings), *([held_out(name, settings)] if name in IMAGES else [])]


def texts(settings: DetectorSettings) -> Sets:
    """Returns reviews of films, and news, sentences of product reviews and out-of-scope queries."""
    own = settings_of("sst2", "deterministic", settings)
    found = config.read("sst2").problem.data("sst2", 0, own, RESULT)
    more = {"product_reviews/": data.product_reviews(), "clinc150/": data.clinc150().out_of_scope}
    others = {start: text.encode(each, own.length) for start, each in more.items()}
    return Sets("sst2", found, {"": found.ood["ag_news"], **others}, 2)


# -- detectors without a network ---------------------------------------------------------------------------------------


def rarity(known: list[list[int]], texts: list[list[int]], size: int) -> np.ndarray:
    """Returns the mean of −log of the share of each piece in the known texts, every piece counted once more.

    >>> rarity([[0, 0, 1]], [[0], [1], [2], []], size=3).round(2)
    array([0.69, 1.1 , 1.79, 0.  ])
    """
    counts = 1 + np.bincount(np.concatenate([np.array(ids, int) for ids in known]), minlength=size)
    surprise = -np.log(counts / counts.sum())
    return np.array([surprise[ids].mean() if ids else 0.0 for ids in texts])


def told(inside: np.ndarray, others: dict[str, np.ndarray]) -> Scores:
    return {f"{start}auroc_ood": float(auroc_ood(inside, outside)) for start, outside in others.items()}


def _by(score: Callable[[Sets, np.ndarray], np.ndarray], name: str, settings: DetectorSettings) -> Scores:
    found: Scores = {}
    for sets in and_held_out(name, settings):
        found |= told(score(sets, sets.test), {start: score(sets, x) for start, x in sets.others.items()})
    return found


def _lit(sign: int, sets: Sets, x: np.ndarray) -> np.ndarray:
    """Returns the share of pixels that are not 0."""
    return sign * (x != 0).reshape(len(x), -1).mean(axis=1)


def _of_one_class(x: np.ndarray) -> MahalanobisDistance:
    return MahalanobisDistance(x, np.zeros(len(x)))


def _dew_point(sets: Sets, x: np.ndarray) -> np.ndarray:
    return x[:, -1, air.FEATURES.index("DEWP")]


def _of_pieces(score: Callable, name: str, settings: DetectorSettings) -> Scores:
    """Returns what a score of pieces tells; texts are not cut."""
    train, dev = (text.pieces(part[0]) for part in (data.sst2().train, data.sst2().dev))
    others = {"": data.ag_news().texts, "product_reviews/": data.product_reviews()}
    others["clinc150/"] = data.clinc150().out_of_scope
    return told(score(train, dev), {start: score(train, text.pieces(each)) for start, each in others.items()})


INPUTS: dict[str, Callable[[str, DetectorSettings], Scores]] = {
    "more_pixels": partial(_by, partial(_lit, 1)),
    "fewer_pixels": partial(_by, partial(_lit, -1)),
    "dew_point": partial(_by, _dew_point),
    "input_distance": partial(_by, lambda sets, x: _of_one_class(sets.data.train.x)(x)),
    "text_length": partial(_of_pieces, lambda train, texts: np.array([len(ids) for ids in texts])),
    "word_rarity": partial(_of_pieces, lambda train, texts: rarity(train, texts, len(data.bert_vocab()))),
}


# -- detectors of networks ---------------------------------------------------------------------------------------------


def train(name: str, method: str, seed: int, sets: Sets, settings: DetectorSettings) -> Any:
    """Returns what a method trains on the sets of an experiment."""
    problem, own = config.read(name).problem, settings_of(name, method, settings, sets.task)
    if name in IMAGES:
        problem.classes = sets.classes
    return find_method(method).train(Trainer(problem), [Member(seed, own, sets.data)])[0]


@cache
def networks(name: str, seed: int, settings: DetectorSettings) -> list[dict[str, Scores]]:
    """Returns what each deterministic network of an experiment tells; the detectors of a seed share them."""
    own, head = partial(train, name, "deterministic", seed), HEADS.get(name, "logits")
    return [of_network(own(sets, settings), sets, head) for sets in and_held_out(name, settings)]


def of_network(network: keras.Model, sets: Sets, head: str) -> dict[str, Scores]:
    """Returns the AUROC of every other set by the scores that a deterministic network has."""
    hidden = keras.Model(network.inputs, network.get_layer(head).input)
    ask = partial(hidden.predict, batch_size=1000, verbose=0)
    x, y = sets.data.train.x, np.ravel(sets.data.train.y) if sets.classes else np.zeros(len(sets.data.train.x))
    far = MahalanobisDistance(ask(x), y.astype(int))

    def scores(inputs: np.ndarray) -> dict[str, np.ndarray]:
        found = {"mahalanobis": far(ask(inputs))}
        if not sets.classes:
            return found
        logits = network.predict(inputs, batch_size=1000, verbose=0).astype("float64")
        if logits.shape[1] == 1:
            return {"max_softmax": -np.abs(logits[:, 0])} | found
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        confidence = least_confidence(p / p.sum(axis=1, keepdims=True))
        return {"max_softmax": confidence, "energy": energy_score(logits)} | found

    inside, others = scores(sets.test), {start: scores(x) for start, x in sets.others.items()}
    return {by: told(inside[by], {start: found[by] for start, found in others.items()}) for by in inside}


def by_draws(name: str, method: str, seed: int, sets: Sets, settings: DetectorSettings) -> Scores:
    """Returns the AUROC of every other set by mutual information and by entropy of a network or an ensemble."""
    model, draws = train(name, method, seed, sets, settings), settings_of(name, method, settings).draws
    asking = study.predictor(model, draws, seed)
    others = {start or f"{MAIN[name]}/": asking(x) for start, x in sets.others.items()}
    inside, found = asking(sets.test), {}
    for start, p in others.items():
        found[f"{start}auroc_ood_mi"] = float(auroc_ood(inside.mutual_information, p.mutual_information))
        found[f"{start}auroc_ood_entropy"] = float(auroc_ood(inside.entropy, p.entropy))
    return found | study.sizes(model)
