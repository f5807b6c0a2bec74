"""Where each matrix of a Keras layer lies, and what our layer has in its place.

A Keras layer keeps its weights in arrays of any shape, ours has a posterior over each as one matrix. A `Slot` is the
place of such a matrix in a Keras layer: `read` gives it as our posterior has it, `write` puts it back. The slots of a
layer and the posteriors (and plain biases) of its counterpart have the same names: "kernel", "bias", "query/kernel", ….
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes import layers
from singularbayes.posteriors import Posterior


@dataclass(frozen=True)
class Slot:
    """Where one matrix lies in a Keras weight."""

    variable: Any
    rows: tuple[int, ...]  # the axes of the weight that are its rows, in order
    columns: tuple[int, ...]
    head: int | None = None  # of a weight with a head axis: the second of a kernel, the first of a bias

    @property
    def is_matrix(self) -> bool:
        """Whether it has a posterior of its own in our layer; a bias may have one, and a depthwise kernel has none."""
        return bool(self.rows)

    @property
    def dtype(self) -> str:
        """The type that the weight is stored in."""
        return keras.backend.standardize_dtype(self.variable.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        sizes = [math.prod(self.variable.shape[axis] for axis in axes) for axes in (self.rows, self.columns)]
        return sizes[0], sizes[1]

    def read(self) -> np.ndarray:
        """Returns the matrix, (rows, columns); a vector becomes one row."""
        return self._part(as_float32(self.variable)).reshape(self.shape)

    def write(self, matrix: np.ndarray) -> None:
        """Puts the matrix in its place."""
        values = as_float32(self.variable)
        part = self._part(values)
        part[...] = np.reshape(matrix, part.shape)
        self.variable.assign(values)

    def _part(self, values: np.ndarray) -> np.ndarray:
        """Returns a view of the part of `values` that the matrix is, its row axes first."""
        order = (*self.rows, *self.columns)
        if self.head is None:
            return values.transpose(order)
        (axis,) = set(range(values.ndim)) - set(order)
        return values.transpose((axis, *order))[self.head]


def as_float32(tensor) -> np.ndarray:
    """Returns a copy of a tensor as NumPy."""
    # A copy: on some backends the array would share the buffer of the weight.
    return np.array(ops.convert_to_numpy(ops.cast(tensor, "float32")))


def find_slots(layer: keras.layers.Layer, per_head: bool = False) -> dict[str, Slot]:
    """Returns the matrices and biases of a built Keras layer that has a counterpart, by name.

    Args:
        per_head: one matrix per head for the query, key and value of attention, as in the layer of that argument.
    """
    if isinstance(layer, keras.layers.MultiHeadAttention):
        return dict(_attention_slots(layer, per_head))
    if isinstance(layer, (keras.layers.LSTM, keras.layers.GRU)):
        kernels = {"kernel": layer.cell.kernel, "recurrent_kernel": layer.cell.recurrent_kernel}
        return {**{name: _matrix(kernel) for name, kernel in kernels.items()}, **_bias_slot(layer.cell.bias)}
    if isinstance(layer, keras.layers.EinsumDense):
        return {"kernel": _einsum_slot(layer), **_bias_slot(layer.bias)}
    if isinstance(layer, keras.layers.Embedding):  # the reversible one is a subclass
        back = {} if getattr(layer, "tie_weights", True) else {"reverse_embeddings": _matrix(layer.reverse_embeddings)}
        return {"embeddings": _matrix(layer.embeddings), **back}
    bias = _bias_slot(layer.bias if layer.use_bias else None)
    if isinstance(layer, (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)):
        pointwise, depthwise = _matrix(layer.pointwise_kernel), layer.depthwise_kernel
        return {"pointwise_kernel": pointwise, "depthwise_kernel": _plain_slot(depthwise), **bias}
    if isinstance(layer, keras.layers.Conv2DTranspose):
        return {"kernel": Slot(layer.kernel, (0, 1, 3), (2,)), **bias}  # Keras has the outputs before the inputs
    return {"kernel": _matrix(layer.kernel), **bias}


def _matrix(kernel) -> Slot:
    """Returns the slot of a kernel whose last axis is its columns."""
    *rows, columns = range(len(kernel.shape))
    return Slot(kernel, tuple(rows), (columns,))


def _plain_slot(weight) -> Slot:
    return Slot(weight, (), tuple(range(len(weight.shape))))


def _bias_slot(bias) -> dict[str, Slot]:
    return {} if bias is None else {"bias": _plain_slot(bias)}


def _einsum_slot(layer) -> Slot:
    left, _, y = layer.equation.replace(" ", "").partition("->")
    w = left.partition(",")[2]
    rows = tuple(axis for axis, letter in enumerate(w) if letter not in y)
    columns = tuple(axis for axis, letter in enumerate(w) if letter in y)
    return Slot(layer.kernel, rows, columns)


def _attention_slots(layer, per_head: bool) -> Iterator[tuple[str, Slot]]:
    for projection, dense in _projections(layer).items():
        for name, slot in find_slots(dense).items():
            if per_head and projection != "output":
                kernel = slot.columns[1:]  # without the axis of the heads, the first of the columns
                for head in range(layer.num_heads):
                    yield f"{projection}/head_{head}/{name}", Slot(slot.variable, slot.rows, kernel, head)
            else:
                yield f"{projection}/{name}", slot


def _projections(layer) -> dict[str, keras.layers.Layer]:
    names = {"query": "_query_dense", "key": "_key_dense", "gate": "_gate_dense", "value": "_value_dense"}
    names["output"] = "_output_dense"
    return {name: getattr(layer, place) for name, place in names.items() if name != "gate" or layer._use_gate}


def find_weights(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the posteriors and plain biases of one of our layers, by the names of the Keras layer's slots."""
    if isinstance(layer, layers.MultiHeadAttention):
        inner = {}
        for projection, dense in _projections(layer).items():
            heads = getattr(dense, "heads", None)
            parts = {projection: dense} if heads is None else {f"{projection}/{head.name}": head for head in heads}
            inner.update({f"{part}/{name}": w for part, own in parts.items() for name, w in find_weights(own).items()})
        return inner
    if isinstance(layer, layers.Embedding):
        back = getattr(layer, "reverse_posterior", None)  # of a reversible one whose weights are not tied
        return {"embeddings": layer.posterior, **({} if back is None else {"reverse_embeddings": back})}
    found = {"kernel": layer.posterior}
    if isinstance(layer, (layers.SeparableConv1D, layers.SeparableConv2D)):
        found = {"pointwise_kernel": layer.posterior, "depthwise_kernel": layer.depthwise_kernel}
    if isinstance(layer, (layers.LSTM, layers.GRU)):
        found["recurrent_kernel"] = layer.recurrent_posterior
    if layer.use_bias:
        found["bias"] = layer.bias if layer.bias_posterior is None else layer.bias_posterior
    return found


def find_matrices(layer: keras.layers.Layer, per_head: bool = False) -> dict[str, np.ndarray]:
    """Returns every weight matrix of a built layer by name, biases left out: of a Keras layer as a posterior of ours
    would have it, of one of our layers the mean, of a mixture those of its components, "kernel[0]", "kernel[1]", ….

    >>> import keras
    >>> layer = keras.layers.Conv2D(8, 3)
    >>> layer.build((None, 16, 16, 4))
    >>> {name: matrix.shape for name, matrix in find_matrices(layer).items()}
    {'kernel': (36, 8)}
    """
    if isinstance(layer, (layers.BayesianLayer, layers.MultiHeadAttention)):
        found = {name: w for name, w in find_weights(layer).items() if isinstance(w, Posterior)}
        return {
            name if w.components == 1 else f"{name}[{k}]": mean
            for name, w in found.items()
            if not name.endswith("bias")
            for k, mean in enumerate(w.for_components(mean_value))
        }
    return {name: slot.read() for name, slot in find_slots(layer, per_head).items() if slot.is_matrix}


def mean_value(weight) -> np.ndarray:
    """Returns the mean of a posterior, or a plain weight, as NumPy."""
    return as_float32(weight.mean().dense() if isinstance(weight, Posterior) else weight)


def require_finite(matrix: np.ndarray, where: str) -> None:
    """Raises where a weight is NaN or infinite: it has no singular values."""
    if not np.isfinite(matrix).all():
        raise ValueError(f"Singular values need finite weights; got NaN or infinity in {where}.")
