"""What the members of `fit_many` train on: arrays, and the order in which each member sees their rows."""

from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from singularbayes.models import as_arrays, collected, common_length, is_stream, lengths_of
from singularbayes.training.data_size import DataSize
from singularbayes.training.length_buckets import Buckets


@dataclass(frozen=True)
class Examples:
    """Arrays with the examples on the first axis: inputs (one array or several), targets, and weights if there are.

    With `buckets` the inputs are one array of token ids, and a batch has as many columns of it as its bucket. With
    `rows` each member, by its number, sees some of the examples, as many as any other.
    """

    x: Any
    y: Any
    weight: np.ndarray | None
    batch_size: int
    buckets: Buckets | None = None
    rows: np.ndarray | None = None

    @property
    def arrays(self) -> tuple:
        return (self.x, self.y) if self.weight is None else (self.x, self.y, self.weight)

    def __len__(self) -> int:
        """How many examples a member sees in an epoch."""
        return len(keras.tree.flatten(self.x)[0] if self.rows is None else self.rows[0])

    @property
    def size(self) -> DataSize:
        """The number of examples of a member, for its callbacks. Rows may repeat."""
        return DataSize(len(self), exact=self.rows is None)

    @property
    def steps(self) -> int:
        return -(-len(self) // self.batch_size)

    def order(self, member: int, seed: int, epoch: int) -> np.ndarray:
        """Returns the order in which a member with that seed sees the examples in an epoch."""
        if self.buckets is not None:
            return self.buckets.order(seed, epoch, self.batch_size)
        order = np.random.default_rng([seed, epoch]).permutation(len(self)).astype("int32")
        return order if self.rows is None else self.rows[member][order]

    @property
    def columns(self) -> tuple[int | None, ...]:
        """How many columns batches may have; None is all."""
        return (None,) if self.buckets is None else self.buckets.columns

    def kinds(self, epoch: int) -> np.ndarray:
        """Returns which of `columns` each batch of an epoch has; the same for all members."""
        if self.buckets is None:
            return np.zeros(self.steps, "int32")
        return self.buckets.of_batches(epoch, self.batch_size)

    def take(self, ids, columns: int | None = None, arrays: tuple | None = None) -> tuple:
        """Returns the batch of these examples as Keras takes it, of the arrays here or of copies on a device."""
        x, *others = keras.tree.map_structure(lambda array: array[ids], self.arrays if arrays is None else arrays)
        return (x if columns is None else x[:, :columns], *others)


class ShuffledExamples(keras.utils.PyDataset):
    """The examples in the order of one member's epoch, batch by batch."""

    def __init__(self, examples: Examples, member: int, seed: int, epoch: int):
        super().__init__()
        self.examples, self.member, self.seed = examples, member, seed
        self.turn(epoch)  # Keras fetches batches before the first epoch begins

    def turn(self, epoch: int) -> None:
        self.ids, self.kinds = self.examples.order(self.member, self.seed, epoch), self.examples.kinds(epoch)

    @property
    def num_batches(self):
        return self.examples.steps

    def __getitem__(self, index):
        size, columns = self.examples.batch_size, self.examples.columns[self.kinds[index]]
        if keras.backend.backend() == "tensorflow":
            columns = None  # its pipelines take the lengths of the first two batches for those of all
        return self.examples.take(self.ids[index * size : (index + 1) * size], columns)


def read_examples(name: str, x, y, weight, batch_size: int) -> Examples:
    """Returns arrays that are fit to train on; raises where they are not. Errors call them `name`."""
    x, y, weight = collected(x, y, weight, name)
    if y is None:
        raise ValueError(f"{name} needs targets; got y=None, and no batches (x, y).")
    x, y = (keras.tree.map_structure(_numbers, _without_lists(part)) for part in (x, y))
    weight = None if weight is None else _numbers(weight)
    common_length(name, x, y, weight)
    named = {"x": x, "y": y} if weight is None else {"x": x, "y": y, "sample_weight": weight}
    with_nan = [part for part, arrays in named.items() if any(map(_has_nan, keras.tree.flatten(arrays)))]
    if with_nan:
        raise ValueError(f"{name} needs {' and '.join(named)} without NaN; got NaN in {' and '.join(with_nan)}.")
    return Examples(x, y, weight, batch_size)


def read_held_out(given, batch_size: int) -> Examples:
    """Returns the validation data of `fit_many`."""
    if is_stream(given):
        return read_examples("fit_many(validation_data)", given, None, None, batch_size)
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise ValueError(
            f"fit_many needs validation_data to be (x, y) or (x, y, sample_weight); got {type(given).__name__}."
        )
    x, y, weight = (*given, None)[:3]
    return read_examples("fit_many(validation_data)", x, y, weight, batch_size)


def rows_of_members(rows, members: int, examples: int, padding: int | None) -> np.ndarray:
    """Returns the rows of every member (members, examples)."""
    table = as_arrays(rows, "fit_many(rows)")
    if table.ndim != 2 or len(table) != members or table.dtype.kind not in "iu" or not table.size:
        raise ValueError(
            f"fit_many needs rows to be integers (members, examples), here ({members}, …); got "
            f"{table.dtype} {table.shape}."
        )
    if table.min() < 0 or table.max() >= examples:
        raise ValueError(f"fit_many needs rows from 0 to {examples - 1}; got {table.min()} to {table.max()}.")
    if padding is not None:
        raise ValueError("fit_many needs rows or padding, not both: members of one batch are of like length.")
    return table.astype("int32")


def by_length(train: Examples, padding: int) -> Examples:
    """Returns the examples with batches of like length."""
    return replace(train, buckets=Buckets.of_lengths(lengths_of(train.x, padding)))


def without_padding(held_out: Examples, padding: int) -> Examples:
    """Returns the examples without the columns that are padding in all of them."""
    return replace(held_out, x=held_out.x[:, : lengths_of(held_out.x, padding).max()])


def _without_lists(structure):
    # A pipeline of TensorFlow takes a list for an array.
    return tuple(map(_without_lists, structure)) if isinstance(structure, list) else structure


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _numbers(array: np.ndarray) -> np.ndarray:
    return array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array
