"""Short queries with intents, and queries that have none of them."""

import csv
import io
import json
from dataclasses import dataclass

import numpy as np

from singularbayes_experiments.data.catalogue import BANKING77, CLINC150
from singularbayes_experiments.data.read import read

Labelled = tuple[list[str], np.ndarray]


@dataclass(frozen=True)
class Intents:
    """Parts are (queries, labels): labels int64, the place of the intent in `classes`.

    `validation` is None where none is published; `out_of_scope` are test queries that have no intent of `classes`.
    """

    train: Labelled
    validation: Labelled | None
    test: Labelled
    out_of_scope: list[str]
    classes: tuple[str, ...]
    description: str


def clinc150() -> Intents:
    """Returns CLINC150: 15,000 queries to train, 3,000 to validate, 4,500 to test, and 1,000 out of scope.

    >>> clinc150().train[0][0]  # doctest: +SKIP
    'what expression would i use to say i love you if i were an italian'
    """
    parts = json.loads(read(CLINC150, "data_full.json"))
    classes = tuple(sorted({intent for _, intent in parts["train"]}))
    train, validation, test = (_labelled(parts[part], classes) for part in ("train", "val", "test"))
    out_of_scope = [query for query, _ in parts["oos_test"]]
    return Intents(train, validation, test, out_of_scope, classes, CLINC150.description)


def banking77() -> Intents:
    """Returns Banking77: 10,003 queries to train and 3,080 to test, none out of scope.

    >>> banking77().train[0][0]  # doctest: +SKIP
    'I am still waiting on my card?'
    """
    train, test = (_table(f"{part}.csv") for part in ("train", "test"))
    classes = tuple(sorted({intent for _, intent in train}))
    return Intents(_labelled(train, classes), None, _labelled(test, classes), [], classes, BANKING77.description)


def _table(name: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(read(BANKING77, name).decode(), newline="")))[1:]


def _labelled(rows: list[list[str]], classes: tuple[str, ...]) -> Labelled:
    place = {intent: i for i, intent in enumerate(classes)}
    return [query for query, _ in rows], np.array([place[intent] for _, intent in rows], "int64")
