"""Multiple-choice questions as packed token ids: the prompt once, then every choice, none of which sees another.

A row is `Question: …\\nAnswer:` and the choices, each with a space before it. A choice attends to the prompt and to
itself, and its positions go on from the prompt's, so its tokens have the probabilities that they have alone after the
prompt. 0 in `groups` is the prompt, 1 … 4 a choice, `PADDING` neither.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes_experiments import data
from singularbayes_experiments.problems.finetune_language import CHOICE_TOKENS, CHOICES, LENGTHS, SLOTS, LanguageSetting

PADDING = 9


@dataclass(frozen=True)
class Questions:
    """All questions of a data set, one per row, and the rows of every part.

    Args:
        tokens, groups, positions: (rows, length).
        sources, targets, owners: (rows, slots): the place of the token before one of a choice, that token's id, and
            its choice, 0 … 3; an owner of −1 is none.
    """

    tokens: np.ndarray
    groups: np.ndarray
    positions: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    owners: np.ndarray
    labels: np.ndarray
    parts: dict[str, np.ndarray]

    @functools.cached_property
    def buckets(self) -> np.ndarray:
        """The least of `LENGTHS` that a row fits into, with its slots."""
        length, slots = (self.groups != PADDING).sum(axis=1), (self.owners >= 0).sum(axis=1)
        fits = [(length <= most) & (slots <= SLOTS[most]) for most in LENGTHS]
        return np.array(LENGTHS)[np.argmax(fits, axis=0)]

    def training_rows(self, setting: LanguageSetting) -> np.ndarray:
        return self.parts["train"]


def pack(prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Returns one row; a long choice is cut at its end, a long prompt at its beginning.

    >>> row = pack([5, 6], [[7], [8, 9]])
    >>> row["tokens"][:6].tolist(), row["groups"][:6].tolist(), row["positions"][:6].tolist()
    ([5, 6, 7, 8, 9, 0], [0, 0, 1, 2, 2, 9], [0, 1, 2, 2, 3, 0])
    >>> row["sources"][:4].tolist(), row["targets"][:4].tolist(), row["owners"][:4].tolist()
    ([1, 1, 3, 0], [7, 8, 9, 0], [0, 1, 1, -1])
    """
    choices = [choice[:CHOICE_TOKENS] for choice in choices]
    prompt = prompt[-(LENGTHS[-1] - sum(map(len, choices))) :]
    row = {name: np.zeros(LENGTHS[-1], "int32") for name in ("tokens", "groups", "positions")}
    slots = {name: np.zeros(SLOTS[LENGTHS[-1]], "int32") for name in ("sources", "targets", "owners")}
    row["groups"][:], slots["owners"][:] = PADDING, -1
    place, slot, last = len(prompt), 0, len(prompt) - 1
    row["tokens"][:place], row["groups"][:place], row["positions"][:place] = prompt, 0, range(place)
    for owner, choice in enumerate(choices):
        for nth, token in enumerate(choice):
            row["tokens"][place], row["groups"][place], row["positions"][place] = token, owner + 1, last + 1 + nth
            slots["sources"][slot] = place - 1 if nth else last
            slots["targets"][slot], slots["owners"][slot] = token, owner
            place, slot = place + 1, slot + 1
    return {**row, **slots}


def prepare(tokenizer, name: str, path: Path) -> None:
    """Writes the rows of a data set; questions with more than four choices are left out."""

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text).ids

    rows, labels, ends = [], [], []
    for questions in data.reasoning(name).values():
        for one in questions:
            if len(one.choices) <= CHOICES:
                prompt = ids(f"Question: {one.question}\nAnswer:")
                rows.append(pack(prompt, [ids(f" {choice}") for choice in one.choices]))
                labels.append(one.answer)
        ends.append(len(rows))
    train = np.arange(ends[0])
    held = np.random.default_rng(0).permutation(ends[0])[: ends[0] // 5]
    arrays = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    small: dict[str, Any] = {
        name: values.astype("uint16" if name in ("tokens", "targets") else "int8") for name, values in arrays.items()
    }
    np.savez_compressed(
        path,
        **small,
        labels=np.array(labels, "int8"),
        train=np.setdiff1d(train, held).astype("int32"),
        validation=np.sort(held).astype("int32"),
        test=np.arange(*ends, dtype="int32"),
    )


def load(path: Path) -> Questions:
    """Returns what `prepare` wrote."""
    parts = ("train", "validation", "test")
    with np.load(path) as arrays:
        rows = {name: arrays[name].astype("int32") for name in arrays if name not in parts}
        return Questions(**rows, parts={name: arrays[name] for name in parts})
