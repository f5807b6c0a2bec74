"""Where the arrays of a model lie: every large one split over devices, decided as the model is made."""

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import keras
import numpy as np

from singularbayes.checks import require_integer

_SMALLEST = 1 << 14  # entries; below it the messages of a split array cost more than its memory is worth


@dataclass(frozen=True)
class Share:
    """How a variable lies on the devices: the axis that is split, or None, and its entries on one device."""

    path: str
    shape: tuple[int, ...]
    split: int | None
    entries: int


class ModelParallel(keras.distribution.ModelParallel):
    """`keras.distribution.ModelParallel` that finds the layout of every variable itself, on JAX.

    An array of at least `smallest` entries is split along its longest axis that the devices divide; the others are on
    every device. A factor's array is (2, rows + columns, rank), so it is split by rows, else by rank; a plain kernel
    or a table by its longer side. The optimizer's arrays lie as their variables do.

    Set it before the model is made, because Keras places a variable when it makes it. Results are those of one device:
    how arrays are split decides where values are computed, not which.

    Args:
        mesh: a `keras.distribution.DeviceMesh`.
        axis: the axis of the mesh that arrays are split over. The batch's own axis is allowed: then every device has
            examples of its own and a part of every array.
        batch: the axis of the mesh that examples are split over; None is the first.
        smallest: arrays with fewer entries are on every device.
        layout_map: a `keras.distribution.LayoutMap` of the same mesh; where it names a variable, it decides.
        auto_shard_dataset: as in Keras.

    >>> mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), keras.distribution.list_devices()[:1])
    >>> ModelParallel(mesh, smallest=100).split((2, 44 + 128, 15))
    1
    """

    def __init__(
        self,
        mesh: keras.distribution.DeviceMesh,
        axis: str = "model",
        *,
        batch: str | None = None,
        smallest: int = _SMALLEST,
        layout_map: keras.distribution.LayoutMap | None = None,
        auto_shard_dataset: bool = True,
    ):
        _require(mesh, axis, batch, smallest, layout_map)
        layout_map = keras.distribution.LayoutMap(mesh) if layout_map is None else layout_map
        super().__init__(layout_map=layout_map, batch_dim_name=batch, auto_shard_dataset=auto_shard_dataset)
        self.axis, self.smallest = axis, smallest
        self.parts: int = dict(zip(mesh.axis_names, mesh.shape, strict=True))[axis]

    def split(self, shape: tuple[int, ...]) -> int | None:
        """Returns which axis of an array of that shape is split, or None."""
        divisible = [i for i, size in enumerate(shape) if size % self.parts == 0]
        if not divisible or math.prod(shape) < self.smallest:
            return None
        return max(divisible, key=lambda i: shape[i])

    def get_variable_layout(self, variable):
        layout = getattr(variable, "_layout", None) or self._layout_map[variable.path]
        if layout is not None:
            return layout
        axes: list[str | None] = [None] * len(variable.shape)
        split = self.split(variable.shape)
        if split is not None and keras.backend.is_float_dtype(variable.dtype):  # the state of a seed generator is not
            axes[split] = self.axis
        return keras.distribution.TensorLayout(axes, self.device_mesh)

    def shares(self, model: keras.Model) -> list[Share]:
        """Returns how the trained and untrained variables of a model lie on the devices, as they are."""
        return [_share(variable) for variable in model.variables]

    def describe(self, model: keras.Model) -> str:
        """Returns a table of what is split, what is on every device, and the entries that one device holds."""
        shares = [share for share in self.shares(model) if math.prod(share.shape) > 2]  # no seeds, no KL weights
        width = max((len(share.path) for share in shares), default=0)
        lines = [f"{s.path:<{width}}  {_marked(s):<20}  {s.entries:>13,} on a device" for s in shares]
        held, whole = sum(s.entries for s in shares), sum(math.prod(s.shape) for s in shares)
        there = f"{self.parts} parts over {self.axis!r}; · marks the axis that is split"
        return "\n".join([*lines, f"{held:,} of {whole:,} entries on a device: {there}"])


def _share(variable) -> Share:
    shape = tuple(variable.shape)
    local = tuple(variable.value.sharding.shard_shape(shape))
    split = next((i for i, (size, part) in enumerate(zip(shape, local, strict=True)) if size != part), None)
    return Share(variable.path, shape, split, math.prod(local))


def _marked(share: Share) -> str:
    return "(" + ", ".join(f"{size}·" if i == share.split else str(size) for i, size in enumerate(share.shape)) + ")"


def _require(mesh, axis, batch, smallest, layout_map) -> None:
    if keras.backend.backend() != "jax":
        raise ValueError(f"ModelParallel needs Keras on JAX; got the backend {keras.backend.backend()!r}.")
    if not isinstance(mesh, keras.distribution.DeviceMesh):
        raise ValueError(f"ModelParallel needs mesh to be a keras.distribution.DeviceMesh; got {mesh!r}.")
    for name, value in {"axis": axis, "batch": batch}.items():
        if value not in mesh.axis_names and (name, value) != ("batch", None):
            raise ValueError(
                f"ModelParallel needs {name} to be an axis of the mesh, one of {list(mesh.axis_names)}; got {value!r}."
            )
    require_integer("ModelParallel", smallest=smallest)
    if layout_map is not None and layout_map.device_mesh is not mesh:
        raise ValueError(f"ModelParallel needs a layout_map of the same mesh; got one of {layout_map.device_mesh}.")


def batch_mesh():
    """Returns the devices and the axis that work is split over on JAX: the batch's of a distribution, else all here."""
    distribution = keras.distribution.distribution()
    if distribution is not None:
        return distribution.device_mesh.backend_mesh, distribution.batch_dim_name
    return _all_devices(), "devices"


@functools.cache
def _all_devices():
    import jax

    return jax.sharding.Mesh(np.array(jax.local_devices()), ("devices",))


@contextmanager
def batches_of(*examples: int) -> Iterator[None]:
    """Lets Keras take batches of these sizes, under a distribution whose devices may not divide them.

    Keras lays out all batches of a loop as the first one, and raises where the devices do not divide a later one. If
    they do not divide them all, every device holds whole batches and computes the same: no faster than one device.
    """
    distribution = keras.distribution.distribution()
    if distribution is None or all(size % device_count() == 0 for size in examples):
        yield
        return

    def on_every_device(shape):
        return keras.distribution.TensorLayout([None] * len(shape), distribution.device_mesh)

    distribution.get_data_layout = on_every_device  # of this object, until the end
    try:
        yield
    finally:
        del distribution.get_data_layout


def device_count() -> int:
    """Returns over how many devices a prediction is spread."""
    if keras.backend.backend() != "jax":
        return 1
    mesh, axis = batch_mesh()
    return mesh.shape[axis]


def free_bytes() -> int | None:
    """Returns the free memory of the accelerator, or None on a CPU and where the backend does not report it."""
    if keras.backend.backend() != "jax":
        return None
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
