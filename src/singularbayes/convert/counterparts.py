"""Which of our layers stands for which Keras layer, and where each matrix of the one lies in the other.

A Keras layer keeps its weights in arrays of any shape, ours has a posterior over each as one matrix. A `Slot` is the
place of such a matrix in a Keras layer: `read` gives it as our posterior has it, `write` puts it back. The slots of a
layer and the posteriors (and plain biases) of its counterpart have the same names: "kernel", "bias", "query/kernel", ….
"""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes import layers
from singularbayes.convert.copies import float_policy
from singularbayes.layers import hand_down
from singularbayes.posteriors import Posterior

COUNTERPARTS: dict[type[keras.layers.Layer], type[keras.layers.Layer]] = {
    keras.layers.Dense: layers.Dense,
    keras.layers.EinsumDense: layers.EinsumDense,
    keras.layers.Embedding: layers.Embedding,
    keras.layers.ReversibleEmbedding: layers.ReversibleEmbedding,
    keras.layers.LSTM: layers.LSTM,
    keras.layers.GRU: layers.GRU,
    keras.layers.MultiHeadAttention: layers.MultiHeadAttention,
    keras.layers.Conv1D: layers.Conv1D,
    keras.layers.Conv2D: layers.Conv2D,
    keras.layers.Conv3D: layers.Conv3D,
    keras.layers.Conv2DTranspose: layers.Conv2DTranspose,
    keras.layers.SeparableConv1D: layers.SeparableConv1D,
    keras.layers.SeparableConv2D: layers.SeparableConv2D,
}
PLAIN = {ours: theirs for theirs, ours in COUNTERPARTS.items()}

# Arguments that mean nothing for a posterior; the layers refuse them.
_KERNELS = ("kernel", "recurrent", "embeddings", "pointwise")
_DROPPED = {f"{kernel}_{what}" for kernel in _KERNELS for what in ("regularizer", "constraint")}
_POINT = {"lora_rank", "lora_alpha", "quantization_config", "gptq_unpacked_column_size"}
_DROPPED |= _POINT
_OURS = {"posterior", "recurrent_posterior", "bias_posterior", "estimator", "per_head"}


def counterpart_class(layer: keras.layers.Layer) -> type[keras.layers.Layer] | None:
    """Returns the class of ours that stands for a Keras layer, or None.

    A subclass that adds code of its own may compute anything, so it has none; one that only adds a name has.
    """
    for base in type(layer).__mro__:
        if base in COUNTERPARTS:
            return COUNTERPARTS[base]
        if any(callable(value) or isinstance(value, (property, classmethod)) for value in vars(base).values()):
            return None
    return None


def plain_class(layer: keras.layers.Layer) -> type[keras.layers.Layer] | None:
    """Returns the Keras class that one of our layers stands for, or None for any other layer."""
    return PLAIN.get(type(layer))


def refusal(layer: keras.layers.Layer) -> str | None:
    """Returns why a layer of a class that has a counterpart cannot have one itself, or None."""
    if not layer.built:
        return "it was never built: no call reached it"
    if getattr(layer, "quantization_mode", None) not in (None, "int8"):
        return f"it is quantised ({layer.quantization_mode}, and only int8 is supported)"
    if isinstance(layer, keras.layers.EinsumDense):
        left, _, y = layer.equation.replace(" ", "").partition("->")
        x, _, w = left.partition(",")
        letters = [part.replace("...", "") for part in (x, w, y)]
        if any(len(set(part)) < len(part) for part in letters) or set(x) & set(w) & set(y) - {"."}:
            return f"its kernel is not one matrix (equation {layer.equation!r})"
    return None


def is_convertible(layer: keras.layers.Layer) -> bool:
    """Whether a Keras layer has a Bayesian counterpart and can be replaced by it."""
    return counterpart_class(layer) is not None and refusal(layer) is None


def changes(layer: keras.layers.Layer) -> list[str]:
    """Returns what becomes of the Keras arguments that are set and that the counterpart cannot take."""
    given = sorted(name for name, value in layer.get_config().items() if name in _DROPPED and value is not None)
    lost = [f"{name} dropped: the prior takes its place" for name in given if name not in _POINT]
    # The kernel that Keras gives is the sum of the two.
    return [*lost, *(["LoRA merged into the weight"] if "lora_rank" in given else [])]


# -- the matrices of a layer -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """Where one matrix lies in a Keras weight."""

    variable: Any  # or, of a quantised layer, an array of what it stands for
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
        return "int8" if isinstance(self.variable, np.ndarray) else keras.backend.standardize_dtype(self.variable.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        sizes = [math.prod(self.variable.shape[axis] for axis in axes) for axes in (self.rows, self.columns)]
        return sizes[0], sizes[1]

    def read(self) -> np.ndarray:
        """Returns the matrix, (rows, columns); what is none is one row."""
        return self._part(_numpy(self.variable)).reshape(self.shape)

    def write(self, matrix: np.ndarray) -> None:
        """Puts the matrix in its place."""
        values = _numpy(self.variable)
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


def _numpy(tensor) -> np.ndarray:
    # A copy: on some backends the array would share the buffer of the weight.
    return np.array(ops.convert_to_numpy(ops.cast(tensor, "float32")))


def slots(layer: keras.layers.Layer, per_head: bool = False) -> dict[str, Slot]:
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
    return {"kernel": _matrix(_stored_kernel(layer)), **bias}


def _stored_kernel(layer):
    """Returns the kernel of a layer, or of a quantised one Q / scale as an array."""
    if getattr(layer, "quantization_mode", None) is None:
        return layer.kernel
    scale = layer.kernel_scale
    if isinstance(layer, keras.layers.EinsumDense):
        scale = layer._adjust_scale_for_dequant(scale)
    return _numpy(layer._kernel) / _numpy(scale)


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
    return Slot(_stored_kernel(layer), rows, columns)


def _attention_slots(layer, per_head: bool) -> Iterator[tuple[str, Slot]]:
    for projection, dense in _projections(layer).items():
        for name, slot in slots(dense).items():
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


def weights(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the posteriors and plain biases of one of our layers, by the names of the Keras layer's slots."""
    if isinstance(layer, layers.MultiHeadAttention):
        inner = {}
        for projection, dense in _projections(layer).items():
            heads = getattr(dense, "heads", None)
            parts = {projection: dense} if heads is None else {f"{projection}/{head.name}": head for head in heads}
            inner.update({f"{part}/{name}": w for part, own in parts.items() for name, w in weights(own).items()})
        return inner
    if isinstance(layer, layers.Embedding):
        back = getattr(layer, "reverse_posterior", None)
        return {"embeddings": layer.posterior, **({} if back is None else {"reverse_embeddings": back})}
    found = {"kernel": layer.posterior}
    if isinstance(layer, (layers.SeparableConv1D, layers.SeparableConv2D)):
        found = {"pointwise_kernel": layer.posterior, "depthwise_kernel": layer.depthwise_kernel}
    if isinstance(layer, (layers.LSTM, layers.GRU)):
        found["recurrent_kernel"] = layer.recurrent_posterior
    if layer.use_bias:
        found["bias"] = layer.bias if layer.bias_posterior is None else layer.bias_posterior
    return found


def matrices(layer: keras.layers.Layer, per_head: bool = False) -> dict[str, np.ndarray]:
    """Returns every weight matrix of a built layer by name, biases left out: of a Keras layer as a posterior of ours
    would have it, of one of our layers the mean, of a mixture those of its components, "kernel[0]", "kernel[1]", ….

    >>> import keras
    >>> layer = keras.layers.Conv2D(8, 3)
    >>> layer.build((None, 16, 16, 4))
    >>> {name: matrix.shape for name, matrix in matrices(layer).items()}
    {'kernel': (36, 8)}
    """
    if plain_class(layer) is not None:
        found = {name: w for name, w in weights(layer).items() if isinstance(w, Posterior)}
        return {
            name if w.components == 1 else f"{name}[{k}]": mean
            for name, w in found.items()
            if not name.endswith("bias")
            for k, mean in enumerate(w.for_components(value))
        }
    return {name: slot.read() for name, slot in slots(layer, per_head).items() if slot.is_matrix}


def value(weight) -> np.ndarray:
    """Returns the mean of a posterior, or a plain weight, as NumPy."""
    return _numpy(weight.mean().dense() if isinstance(weight, Posterior) else weight)


# -- from one to the other -------------------------------------------------------------------------------------------


def make_counterpart(
    layer: keras.layers.Layer,
    posteriors: Posterior | Mapping[str, Posterior],
    bias_posterior: Posterior | None = None,
    per_head: bool = False,
) -> keras.layers.Layer:
    """Returns our layer for a Keras layer: same arguments, built, with weights that start anew.

    Args:
        posteriors: one for all matrices, or one for each by name; only recurrent layers use more than the first.
    """
    ours = counterpart_class(layer)
    if ours is None:
        raise ValueError(f"make_counterpart needs one of {[cls.__name__ for cls in COUNTERPARTS]}; got {layer!r}.")
    named = {"kernel": posteriors} if isinstance(posteriors, Posterior) else posteriors
    dtype = next(slot.dtype for slot in slots(layer, per_head).values() if slot.is_matrix)
    named = {name: posterior.on_base(dtype) for name, posterior in named.items()}
    arguments = {**_arguments(layer), "posterior": next(iter(named.values()))}
    if isinstance(layer, (keras.layers.LSTM, keras.layers.GRU)):
        arguments["recurrent_posterior"] = named.get("recurrent_kernel")
    if not isinstance(layer, keras.layers.Embedding):
        arguments["bias_posterior"] = bias_posterior
    if isinstance(layer, keras.layers.MultiHeadAttention):
        arguments["per_head"] = per_head
    return built_like(ours(**arguments), layer)


def make_plain(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Returns the Keras layer for one of ours, built, with the posterior means as its weights."""
    theirs = plain_class(layer)
    if theirs is None:
        raise ValueError(f"make_plain needs one of {[cls.__name__ for cls in PLAIN]}; got {layer!r}.")
    arguments = _arguments(layer)
    for name in ("kernel_initializer", "pointwise_initializer", "implementation"):
        if name in arguments and (arguments[name] is None or name == "implementation"):
            del arguments[name]
    plain = built_like(theirs(**arguments), layer)
    found = weights(layer)
    for name, slot in slots(plain, getattr(layer, "per_head", False)).items():
        slot.write(value(found[name]))
    return plain


def trained_in_float32(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Returns the Keras layer with weights in float32: the layer itself, or a copy of a quantised or 16-bit one."""
    quantized = getattr(layer, "quantization_mode", None)
    if quantized is None and layer.variable_dtype not in ("bfloat16", "float16"):
        return layer
    config = {**layer.get_config(), "dtype": f"mixed_{layer.variable_dtype}"}
    if quantized:
        config = {name: value for name, value in _arguments(layer).items() if name not in _POINT}
    made = built_like(type(layer).from_config(config), layer)
    made.exchanged = True  # so that a file has it: the config of the model describes the other
    if not quantized:
        made.set_weights([_numpy(weight) for weight in layer.weights])
        return made
    theirs = slots(layer)
    for name, slot in slots(made).items():
        slot.write(theirs[name].read())
    return made


def start_from(counterpart: keras.layers.Layer, *given: keras.layers.Layer, equal: bool = False) -> None:
    """Moves the means of the counterpart to the weights of a Keras layer, or to their best approximation.

    Args:
        given: one layer, or one for every component of a mixture.
        equal: of one layer, start all components at the same weights; else all but the first start around them.
    """
    found, per_head = weights(counterpart), getattr(counterpart, "per_head", False)
    places = [slots(layer, per_head) for layer in given]
    for name in places[0]:
        weight, read = found[name], [own[name].read() for own in places]
        for layer, matrix in zip(given, read, strict=True):
            require_finite(matrix, f"{layer.path or layer.name}/{name}")
        if not isinstance(weight, Posterior):  # one, or one for every component
            copies = math.prod(weight.shape) // read[0].size
            weight.assign(np.reshape(read * (copies if len(read) == 1 else 1), weight.shape))
        elif len(read) == 1 and not equal:
            weight.center(read[0])
        else:
            weight.center_components(read * (weight.components if len(read) == 1 else 1))


def require_finite(matrix: np.ndarray, where: str) -> None:
    """Raises where a weight is NaN or infinite: it has no singular values."""
    if not np.isfinite(matrix).all():
        raise ValueError(f"Singular values need finite weights; got NaN or infinity in {where}.")


def _arguments(layer) -> dict[str, Any]:
    """Returns the arguments that a layer was made with and that its counterpart, or its Keras layer, takes too."""
    config = {name: v for name, v in layer.get_config().items() if name not in _DROPPED | _OURS}
    # The functions themselves: one of the user has no name to be found by. Keras's Dense forgets its regularizer.
    for name in ("activation", "recurrent_activation"):
        if name in config:
            config[name] = getattr(layer, name)
    if getattr(layer, "quantization_mode", None):
        config["dtype"] = float_policy(layer)
    return {**config, "activity_regularizer": layer.activity_regularizer}


def built_like(new, old):
    """Returns the new layer, built as the old one was and under the same path."""
    shapes = old.get_build_config()
    if not shapes:
        raise ValueError(f"Conversion needs a built layer; got {type(old).__name__} {old.name!r}, which is not.")
    with contextlib.ExitStack() as scopes:
        for scope in (old.path or "").split("/")[:-1]:
            scopes.enter_context(keras.name_scope(scope))
        new.build_from_config(shapes)
    new._remat_mode = old._remat_mode
    hand_down(new, old.trainable)  # again, for it reaches what was built only now
    return new
