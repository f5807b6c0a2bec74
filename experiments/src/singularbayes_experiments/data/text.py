"""Sentences with labels, and the vocabulary to split them by. Text is as published, blanks at its ends included."""

import csv
import io
import json
from dataclasses import dataclass

import numpy as np

from singularbayes_experiments.data.files import read

Labelled = tuple[list[str], np.ndarray]


@dataclass(frozen=True)
class Sentences:
    """`train` and `dev` are (sentences, labels): labels int64, 1 positive, 0 negative. `test` has no labels."""

    train: Labelled
    dev: Labelled
    test: list[str]


@dataclass(frozen=True)
class News:
    """Articles: their titles, the descriptions below them, and labels int64, the place of the topic in `classes`."""

    titles: list[str]
    descriptions: list[str]
    labels: np.ndarray
    classes: tuple[str, ...]

    @property
    def texts(self) -> list[str]:
        """Title, one blank, description: what is usually classified."""
        return [f"{title} {below}" for title, below in zip(self.titles, self.descriptions, strict=True)]


@dataclass(frozen=True)
class Intents:
    """Questions and their intents: labels int64, the place of the intent in `classes`.

    `train`, `validation` and `test` are (questions, labels); `out_of_scope` are the test questions that have no intent.
    Parts that are not published are empty.
    """

    train: Labelled
    validation: Labelled
    test: Labelled
    out_of_scope: list[str]
    classes: tuple[str, ...]


def sst2() -> Sentences:
    """Returns SST-2: 67,349 phrases to train, 872 sentences with labels and 1,821 without.

    Most training rows are parts of others: a random slice of them is no validation set.
    """
    train, dev, test = (_rows(part) for part in ("train", "dev", "test"))
    return Sentences(_labelled(train), _labelled(dev), [sentence for _, sentence in test])


def ag_news() -> News:
    """Returns the 7,600 test articles of AG's News, 1,900 for each of four topics."""
    classes = tuple(read("ag_news", "classes.txt").decode().split())
    text = io.StringIO(read("ag_news", "test.csv").decode(), newline="")
    kinds, titles, descriptions = zip(*csv.reader(text), strict=True)
    labels = np.array(kinds, "int64") - 1
    return News(list(titles), list(descriptions), labels, classes)


def product_reviews() -> list[str]:
    """Returns 3,708 sentences of customer reviews of electronic products."""
    lines = read("product_reviews", "amazonReviewSnippets_GroundTruth.txt").decode().split("\r\n")
    rows = [line.split("\t") for line in lines if line]  # a number, the mean rating, the sentence
    return [sentence for _, _, sentence in rows]


def clinc150() -> Intents:
    """Returns CLINC150: 15,000 questions to train, 3,000 to validate and 4,500 to test, and 1,000 out of scope."""
    parts = json.loads(read("clinc150", "data_full.json"))
    classes = tuple(sorted({intent for _, intent in parts["train"]}))
    place = {intent: i for i, intent in enumerate(classes)}

    def labelled(part: str) -> Labelled:
        questions, intents = zip(*parts[part], strict=True)
        return list(questions), np.array([place[intent] for intent in intents], "int64")

    outside = [question for question, _ in parts["oos_test"]]
    train, validation, test = (labelled(part) for part in ("train", "val", "test"))
    return Intents(train, validation, test, outside, classes)


def banking77() -> Intents:
    """Returns Banking77: 10,003 questions to train and 3,080 to test."""
    tables = [list(csv.reader(io.StringIO(read("banking77", f"{part}.csv").decode(), newline=""))) for part in _PARTS]
    classes = tuple(sorted({intent for _, intent in tables[0][1:]}))
    place = {intent: i for i, intent in enumerate(classes)}
    train, test = (
        ([question for question, _ in rows], np.array([place[intent] for _, intent in rows], "int64"))
        for _, *rows in tables
    )
    return Intents(train, ([], np.array([], "int64")), test, [], classes)


def bert_vocab() -> list[str]:
    """Returns the 30,522 words of bert-base-uncased; the place of a word is its token id."""
    return _lines(read("bert_vocab", "vocab.txt"))


_PARTS = ("train", "test")


def _rows(part: str) -> list[list[str]]:
    # Nothing is quoted: a quotation mark is a character.
    return [line.split("\t") for line in _lines(read("sst2", f"{part}.tsv"))[1:]]


def _labelled(rows: list[list[str]]) -> Labelled:
    sentences, labels = zip(*rows, strict=True)
    return list(sentences), np.array(labels, "int64")


def _lines(data: bytes) -> list[str]:
    # Unlike str.splitlines, which also breaks at characters that the vocabulary has as words.
    return data.decode().removesuffix("\n").split("\n")
