"""How many examples the data of a `fit` have.

Keras tells callbacks the number of steps and nothing else of the data. But each `fit` hands the iterator of its data to
the method that builds the model, before it makes the callbacks; that method remembers it here.
"""

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.trainers import data_adapters

from singularbayes.models import device_count
from singularbayes.posteriors import training_begins

_DATA: weakref.WeakKeyDictionary[keras.Model, weakref.ref] = weakref.WeakKeyDictionary()
_STATED: weakref.WeakKeyDictionary[keras.Model, "DataSize"] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class DataSize:
    """The number of training examples, `exact` or an estimate; `an_epoch` where that many are in an epoch."""

    examples: int
    exact: bool
    an_epoch: bool = True


def remember_data(before_fit: Callable[[keras.Model], None]) -> None:
    """Makes every model remember the data of the `fit` or `evaluate` that it began last, and call `before_fit`.

    That method is not public. Where a version of Keras has none nothing is remembered, and num_data has to be given.
    """
    name = "_maybe_symbolic_build" if keras.backend.backend() == "tensorflow" else "_symbolic_build"
    build = getattr(keras.Model, name, None)
    if build is None or getattr(build, "remembers_data", False):
        return

    @functools.wraps(build)
    def build_and_remember(model, *arguments, **named):
        iterator = named.get("iterator")
        if iterator is not None:
            if training_begins():
                before_fit(model)
            if iterator.data_adapter.num_batches == 0:  # some backends would train on nothing
                raise _no_data_error(model)
            _DATA[model] = weakref.ref(iterator)
        try:
            return build(model, *arguments, **named)
        except StopIteration as error:  # of data without a length
            raise _no_data_error(model) from error

    build_and_remember.remembers_data = True  # type: ignore[attr-defined]
    setattr(keras.Model, name, build_and_remember)


def _no_data_error(model: keras.Model) -> ValueError:
    return ValueError(
        f"fit and evaluate of {model.name!r} need at least one example; got data without a batch. Look for a slice or "
        "a filter that leaves nothing of x and y, or a data set with len 0."
    )


@contextmanager
def state_size(model: keras.Model, size: DataSize) -> Iterator[None]:
    """States the number of examples of the training that begins inside the `with` block."""
    _STATED[model] = size
    try:
        yield
    finally:
        del _STATED[model]


def data_of(model: keras.Model) -> Any:
    """Returns what `read_size` needs of the `fit` that begins, while its callbacks get the model."""
    return _STATED.get(model) or _DATA.get(model, lambda: None)()


def read_size(data: Any, caller: str) -> DataSize:
    """Returns how many examples the data of a `fit` have; raises where that cannot be known."""
    if isinstance(data, DataSize):
        return data
    adapter = getattr(data, "data_adapter", None)
    if adapter is None or adapter.num_batches is None or _processes() > 1:
        kind = "data that this `fit` does not show" if adapter is None else f"data for a {type(adapter).__name__}"
        several = f" in {_processes()} processes" if _processes() > 1 else ""
        raise ValueError(
            f"{caller} needs num_data, the number of different training examples, where it cannot be read from the "
            f"data: generators, streams without a length, and data that repeat; got {kind}{several}. Pass it: "
            f"{caller}(num_data=60_000) for 60,000 examples."
        )
    if isinstance(adapter, data_adapters.ArrayDataAdapter):
        last = adapter.partial_batch_size or adapter.batch_size
        return DataSize((adapter.num_batches - 1) * adapter.batch_size + last, exact=True)
    examples = adapter.num_batches * (adapter.batch_size or _first_batch_size(adapter))
    return DataSize(examples, exact=False, an_epoch=data.steps_per_epoch is None)


def require_divisible_batches(data: Any, what: str) -> None:
    """Raises where Keras could not split a batch of arrays over the devices of a distribution.

    Args:
        what: the data, as errors name them.
    """
    adapter = getattr(data, "data_adapter", None)
    distribution = keras.distribution.distribution()
    if distribution is None or not isinstance(adapter, data_adapters.ArrayDataAdapter) or _processes() > 1:
        return
    devices, size = device_count(), adapter.batch_size
    examples = read_size(data, what).examples
    if all(batch % devices == 0 for batch in (min(size, examples), examples % size)):
        return
    raise ValueError(
        f"{what} under a {type(distribution).__name__} over {devices} devices need batches that the devices divide, "
        f"the last one too, because Keras splits no others; got {examples} examples in batches of {size}. Pass "
        f"batch_size={max(devices, size - size % devices)} and {examples - examples % devices} examples "
        f"(x[:{examples - examples % devices}]), or train by fit_many, which takes them as they are."
    )


def _first_batch_size(adapter) -> int:
    if isinstance(adapter, data_adapters.PyDatasetAdapter):
        batch = adapter.py_dataset[0]
    else:
        batch = next(iter(adapter.get_numpy_iterator()))
    x, *_ = keras.utils.unpack_x_y_sample_weight(batch)
    return int(keras.tree.flatten(x)[0].shape[0])


def _processes() -> int:
    """Returns how many processes train together, each with a part of the data."""
    if keras.backend.backend() != "jax":
        return 1
    import jax

    return jax.process_count()
