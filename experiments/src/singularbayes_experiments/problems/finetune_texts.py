"""Texts of the experiment `finetune` as token ids: read, split, cut to 64 tokens, and kept in one file.

Only tokens that occur have an id here, and a row of the embedding: a frozen encoder never looks at the others. 0 is
padding. So the file of weights that travels with the texts is half as large.
"""

import functools
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes_experiments import data
from singularbayes_experiments.problems import phrases
from singularbayes_experiments.problems.finetune import LENGTHS, Setting

_SST2_SENTENCES, _SST2_VALIDATION = 435, 2000
_PARTS = ("train", "validation", "test", "ood")
_PART_BYTES = 14_000_000  # of the files that weights are kept in


@dataclass(frozen=True)
class Texts:
    """All rows of a data set: `tokens` (rows, 64), `labels` (−1 out of distribution), and the rows of every part."""

    tokens: np.ndarray
    labels: np.ndarray
    parts: dict[str, np.ndarray]

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        return (self.tokens != 0).sum(axis=1)

    def training_rows(self, setting: Setting, seed: int) -> np.ndarray:
        """Returns the rows that train, as many for every seed."""
        rows = self.parts["train"]
        if setting.rows is None:
            return rows
        shuffled = np.random.default_rng([seed, 2]).permutation(rows)
        if not setting.per_class:
            return np.sort(shuffled[: setting.rows])
        labels = self.labels[shuffled]
        return np.sort(np.concatenate([shuffled[labels == k][: setting.rows] for k in range(self.classes)]))


def batches(texts: Texts, rows: np.ndarray, size: int, seed: tuple[int, ...]) -> np.ndarray:
    """Returns an epoch of batches (batches, size) of similar lengths; rows of an incomplete batch are left out.

    Batches are cut from an order by length with noise of two tokens, and stand in the order of their lengths.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(rows)[: len(rows) // size * size]
    return rows[np.argsort(texts.lengths[rows] + rng.uniform(0, 2, len(rows)), kind="stable")].reshape(-1, size)


def tokenised(tokenizer: Path) -> dict[str, tuple[list[list[int]], np.ndarray, dict[str, np.ndarray]]]:
    """Returns ids of the tokenizer, labels and parts of SST-2, CLINC150 and Banking77."""
    from tokenizers import Tokenizer

    reader = Tokenizer.from_file(str(tokenizer))
    reader.no_padding()
    reader.enable_truncation(LENGTHS[-1])

    def ids(texts: list[str]) -> list[list[int]]:
        return [each.ids for each in reader.encode_batch(texts)]

    clinc, banking, sst2 = data.clinc150(), data.banking77(), data.sst2()
    unknown = ids(clinc.out_of_scope)
    places = np.arange(len(banking.train[0]))
    nth = np.array([np.sum(banking.train[1][:i] == label) for i, label in enumerate(banking.train[1])])
    train = ids(sst2.train[0])
    split = phrases.split([row[1:-1] for row in train], _SST2_SENTENCES)
    held = np.random.default_rng(0).permutation(split.held_out)[:_SST2_VALIDATION]
    return {
        "sst2": _parts(train, sst2.train[1], split.train, np.sort(held), ids(sst2.dev[0]), sst2.dev[1], []),
        "clinc150": _parts(
            ids(clinc.train[0] + clinc.validation[0]),
            np.concatenate([clinc.train[1], clinc.validation[1]]),
            np.arange(len(clinc.train[0])),
            len(clinc.train[0]) + np.arange(len(clinc.validation[0])),
            ids(clinc.test[0]),
            clinc.test[1],
            unknown,
        ),
        "banking77": _parts(
            ids(banking.train[0]),
            banking.train[1],
            places[nth % 7 != 6],
            places[nth % 7 == 6],
            ids(banking.test[0]),
            banking.test[1],
            unknown,
        ),
    }


def _parts(rows, labels, train, validation, test, test_labels, ood):
    first = len(rows) + np.arange(len(test))
    parts = {
        "train": train,
        "validation": validation,
        "test": first,
        "ood": len(rows) + len(test) + np.arange(len(ood)),
    }
    every = np.concatenate([labels, test_labels, np.full(len(ood), -1)])
    return [*rows, *test, *ood], every, parts


def prepare(preset: Path, folder: Path) -> None:
    """Writes texts and the weights of an encoder, in float16, into a folder: `texts.npz` and `part-00` …"""
    from keras_hub.models import BertBackbone

    found = tokenised(preset / "tokenizer.json")
    used = np.unique(np.concatenate([np.concatenate(rows) for rows, _, _ in found.values()]))
    used = np.concatenate([[0], used[used != 0]])
    new = np.zeros(used.max() + 1, "uint16")
    new[used] = np.arange(len(used))
    arrays: dict[str, Any] = {}
    for name, (rows, labels, parts) in found.items():
        tokens = np.zeros((len(rows), LENGTHS[-1]), "uint16")
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = new[row]
        arrays |= {f"{name}_tokens": tokens, f"{name}_labels": labels.astype("int16")}
        arrays |= {f"{name}_{part}": parts[part].astype("int32") for part in _PARTS}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "texts.npz", **arrays)
    weights = [np.asarray(weight) for weight in BertBackbone.from_preset(str(preset)).weights]
    weights[0], weights[1] = weights[0][used], weights[1][: LENGTHS[-1]]
    packed = io.BytesIO()
    named: dict[str, Any] = {f"w{i:03}": weight.astype("float16") for i, weight in enumerate(weights)}
    np.savez_compressed(packed, **named)
    raw = packed.getvalue()
    for number, start in enumerate(range(0, len(raw), _PART_BYTES)):
        (folder / f"part-{number:02}").write_bytes(raw[start : start + _PART_BYTES])


def read_texts(folder: Path, name: str, length: int = LENGTHS[-1]) -> Texts:
    """Returns the texts of a data set, cut to a length, from a folder that `prepare` wrote."""
    with np.load(folder / "texts.npz") as arrays:
        parts = {part: arrays[f"{name}_{part}"] for part in _PARTS}
        return Texts(arrays[f"{name}_tokens"][:, :length], arrays[f"{name}_labels"].astype("int32"), parts)


def read_weights(folder: Path) -> list[np.ndarray]:
    """Returns the weights of the encoder, in the order of its `weights`."""
    raw = b"".join(part.read_bytes() for part in sorted(folder.glob("part-*")))
    with np.load(io.BytesIO(raw)) as arrays:
        return [arrays[name] for name in sorted(arrays)]
