"""Holding out whole sentences of a treebank, whose rows are sentences and most of their phrases.

A random slice of such rows leaks: most of its phrases occur inside rows that are trained on.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class PhraseSplit:
    """Places of rows.

    `train` and `held_out` have no row of one inside a row of the other. `sentences` are those of `held_out` that are in
    no other row at all. Phrases that occur on both sides are in neither.
    """

    train: np.ndarray
    held_out: np.ndarray
    sentences: np.ndarray


def split(rows: Sequence[Sequence[int]], sentences: int, seed: int = 0) -> PhraseSplit:
    """Returns a split that holds out this many whole sentences with their phrases.

    A sentence is a row that is no part of another; a phrase is a part, of whichever sentences it stands in.

    >>> rows = [[1, 2, 3], [1, 2], [4, 2, 5], [2], [5], [6, 7]]
    >>> found = split(rows, sentences=1, seed=1)
    >>> found.sentences, found.held_out, found.train  # [2] is in [1, 2, 3] too
    (array([2]), array([2, 4]), array([0, 1, 5]))
    """
    tokens = [tuple(row) for row in rows]
    known = set(tokens)
    whole = _whole_sentences(known)
    if not 0 < sentences < len(whole):
        raise ValueError(f"split needs 0 < sentences < {len(whole)}, which there are; got sentences={sentences!r}.")
    place = {row: i for i, row in reversed(list(enumerate(tokens)))}
    whole.sort(key=place.__getitem__)  # the order of a set is not the same in every process
    chosen = set(np.random.default_rng(seed).choice(len(whole), sentences, replace=False).tolist())
    held = _parts((row for i, row in enumerate(whole) if i in chosen), known)
    kept = _parts((row for i, row in enumerate(whole) if i not in chosen), known)
    tops = {whole[i] for i in chosen}

    def places(wanted: Collection[Tokens]) -> np.ndarray:
        return np.array([i for i, row in enumerate(tokens) if row in wanted], "int64")

    return PhraseSplit(places(kept - held), places(held - kept), np.array(sorted(place[row] for row in tops)))


def _whole_sentences(known: set[Tokens]) -> list[Tokens]:
    """Returns the rows that are no part of another; the parts of a part are parts of the whole."""
    found: list[Tokens] = []
    inside: set[Tokens] = set()
    for row in sorted(known, key=len, reverse=True):
        if row not in inside:
            found.append(row)
            inside |= _parts([row], known) - {row}
    return found


def _parts(rows: Iterable[Tokens], known: set[Tokens]) -> set[Tokens]:
    """Returns the known rows that stand in these, themselves among them."""
    found = set()
    for row in rows:
        size = len(row)
        found |= {row[i:j] for i in range(size) for j in range(i + 1, size + 1)} & known
    return found
