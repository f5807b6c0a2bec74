"""The part of a model before its first random layers, which all draws share, and the rest, which runs for every draw.

A functional model is a graph of calls, and so is a Sequential one. A call is random where its layer draws, or where one
of its inputs is random; the others are the prefix. A nested model in which only some calls are random is taken apart
into its own calls. The frontier is what crosses from the prefix to the rest: the tensors that calls of the prefix make
(or that the model is given) and that random calls or the outputs use, with their masks.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask
from keras.src.models.functional import Functional, operation_fn

from singularbayes.models import form_of
from singularbayes.posteriors import Source, find_sources, flat_layers, scope

# Layers of these packages draw nothing outside training but what a `Source` of theirs draws.
QUIET = ("keras.", "keras_hub.", "singularbayes.")


@dataclass(frozen=True)
class _Call:
    """function(values of `takes`) gives values of `gives`, by their places."""

    function: Callable[[list], list]
    takes: list[int]
    gives: list[int]
    layer: Any  # None for what has no layer


class Split:
    """A model as two parts: `prefix(x)` gives the frontier, and `rest(frontier)` the outputs, flattened.

    Args:
        graph: of the model, as `graph_of` gives it.
    """

    def __init__(self, model: keras.Model, graph: Functional):
        # References, because a split is kept as long as its model lives.
        self._model: Callable[[], Any] = weakref.ref(model)
        self.graph: Callable[[], Any] = weakref.ref(graph)
        self._random: list[bool] = []  # by place
        self._calls: list[_Call] = []
        inputs = [self._place(False) for _ in graph.inputs]
        self._inputs, self._outputs = inputs, self._trace(graph, inputs)
        self._before = [call for call in self._calls if not self._is_random(call)]
        self._after = [call for call in self._calls if self._is_random(call)]
        made = {place for call in self._before for place in call.gives} | set(inputs)
        used = {place for call in self._after for place in call.takes} | set(self._outputs)
        self._frontier = sorted(made & used)

    @property
    def is_useful(self) -> bool:
        """Whether anything is shared by draws, and anything is not."""
        return bool(self._before and self._after)

    @property
    def random_layers(self) -> list[keras.layers.Layer]:
        """The layers of the calls that run for every draw."""
        return [call.layer for call in self._after if isinstance(call.layer, keras.layers.Layer)]

    def prefix(self, x) -> dict:
        """Returns the frontier for inputs `x`: {"values": [...], "masks": {position: mask}}."""
        model = self._model()
        with _call_of(model):
            if model._convert_input_args:
                x = keras.tree.map_structure(lambda array: _converted(model, array), x)
            values = dict(zip(self._inputs, self.graph()._standardize_inputs(x), strict=True))
            _run(self._before, values)
        masks = {str(i): get_keras_mask(values[place]) for i, place in enumerate(self._frontier)}
        return {
            "values": [values[place] for place in self._frontier],
            "masks": {i: mask for i, mask in masks.items() if mask is not None},
        }

    def rest(self, frontier: dict) -> list:
        """Returns the outputs of the model, flattened, under the draw that its sources are fixed to."""
        values = dict(zip(self._frontier, frontier["values"], strict=True))
        for i, mask in frontier["masks"].items():
            set_keras_mask(values[self._frontier[int(i)]], mask)
        with _call_of(self._model()):
            _run(self._after, values)
        return [values[place] for place in self._outputs]

    def _is_random(self, call: _Call) -> bool:
        return any(self._random[place] for place in call.gives)

    def _place(self, random: bool) -> int:
        self._random.append(random)
        return len(self._random) - 1

    def _add(self, function, takes: list[int], outputs: int, random: bool, layer=None) -> list[int]:
        random = random or any(self._random[place] for place in takes)
        gives = [self._place(random) for _ in range(outputs)]
        self._calls.append(_Call(function, takes, gives, layer))
        return gives

    def _trace(self, graph: Functional, inputs: list[int]) -> list[int]:
        """Adds the calls of a graph on these places; returns the places of its outputs."""
        places = dict(zip(map(id, graph.inputs), inputs, strict=True))
        for depth in sorted(graph._nodes_by_depth, reverse=True):
            for node in graph._nodes_by_depth[depth]:
                known = all(id(tensor) in places for tensor in node.input_tensors)
                if node.operation and not node.is_input and known:
                    takes = [places[id(tensor)] for tensor in node.input_tensors]
                    places.update(zip(map(id, node.outputs), self._trace_node(node, takes), strict=True))
        return [places[id(tensor)] for tensor in graph.outputs]

    def _trace_node(self, node, takes: list[int]) -> list[int]:
        layer, random = node.operation, _draws(node.operation)
        inner = graph_of(layer) if random and not all(self._random[place] for place in takes) else None
        if inner is None or not _is_plain(node, inner):
            return self._add(_function(node), takes, len(node.outputs), random, layer)
        places = dict(zip(map(id, node.input_tensors), takes, strict=True))
        inside = []
        for own, *given in zip(inner.inputs, keras.tree.flatten(node.arguments.args[0]), _masks(node), strict=True):
            entered = [places[id(tensor)] for tensor in given if tensor is not None]
            inside += self._add(_entry(layer, own), entered, 1, False)
        outputs = self._trace(inner, inside)
        return self._add(_with_masks(layer, node, len(outputs)), [*outputs, *inside], len(outputs), False)


def graph_of(layer) -> Functional | None:
    """Returns the graph of a functional or Sequential model that runs as Keras's own do, or None."""
    if isinstance(layer, keras.Sequential) and type(layer).call is keras.Sequential.call:
        return layer._functional
    return layer if isinstance(layer, Functional) and type(layer).call is Functional.call else None


def _draws(layer) -> bool:
    """Returns whether a layer may draw outside training."""
    if not isinstance(layer, keras.layers.Layer):
        return False
    sources: list[Any] = find_sources(layer)
    if isinstance(layer, keras.layers.Lambda) or any(source.random for source in sources):
        return True
    own = any(part._seed_generators for part in flat_layers(layer) if not isinstance(part, Source))
    graph = graph_of(layer)
    if graph is not None:
        return own and any(_draws(part) for part in graph.operations)
    return own and not type(layer).__module__.startswith(QUIET)


def _is_plain(node, graph: Functional) -> bool:
    """Returns whether a nested model is called with its inputs and their masks alone, in shapes that need no change."""
    arguments = node.arguments
    others = [value for name, value in arguments.kwargs.items() if name != "mask" and value is not None]
    if others or len(arguments.args) != 1 or isinstance(arguments.args[0], dict):
        return False
    tensors = keras.tree.flatten(arguments.args[0])
    known = {id(tensor) for tensor in node.input_tensors}
    given = [*tensors, *(mask for mask in _masks(node) if mask is not None)]
    return (
        len(tensors) == len(graph.inputs) == len(_masks(node))
        and all(id(tensor) in known for tensor in given)
        and all(len(one.shape) == len(own.shape) for one, own in zip(tensors, graph.inputs, strict=True))
    )


def _masks(node) -> list:
    """Returns the masks that a nested model is called with, one for each of its inputs; None where there is none."""
    masks = node.arguments.kwargs.get("mask")
    return [None] * len(keras.tree.flatten(node.arguments.args[0])) if masks is None else keras.tree.flatten(masks)


def _function(node) -> Callable[[list], list]:
    call = operation_fn(node.operation, training=False)

    def run(values: list) -> list:
        args, kwargs = node.arguments.fill_in(dict(zip(map(id, node.input_tensors), values, strict=True)))
        return keras.tree.flatten(call(*args, **kwargs))

    return run


def _converted(layer, x):
    """Returns an input as the call of a layer converts it, with its mask."""
    mask = get_keras_mask(x)
    x = layer.dtype_policy.convert_input(x, layer.autocast, layer.input_dtype)
    if mask is not None:
        set_keras_mask(x, mask)
    return x


def _entry(layer, tensor) -> Callable[[list], list]:
    """Returns what a nested model does with one of its inputs first."""

    def enter(values: list) -> list:
        x, *masks = values
        mask = masks[0] if masks else get_keras_mask(x)
        x = _converted(layer, x) if layer._convert_input_args else x
        x = ops.convert_to_tensor(x, dtype=tensor.dtype)
        if mask is not None:
            set_keras_mask(x, mask)
        return [x]

    return enter


def _with_masks(layer, node, outputs: int) -> Callable[[list], list]:
    """Returns what a nested model does last: outputs without a mask get those of its inputs."""

    def leave(values: list) -> list:
        out, inputs = values[:outputs], keras.tree.pack_sequence_as(node.arguments.args[0], values[outputs:])
        if layer.supports_masking:
            layer._set_mask_metadata(inputs, out, keras.tree.map_structure(get_keras_mask, inputs))
        return out

    return leave


def _run(calls: list[_Call], values: dict[int, Any]) -> None:
    for call in calls:
        values.update(zip(call.gives, call.function([values[place] for place in call.takes]), strict=True))


@contextmanager
def _call_of(model) -> Iterator[None]:
    """Makes layers find themselves inside a call of the model outside training."""
    context = model._get_call_context()
    before = context.get_value("training", None)
    context.set_value("training", False)
    try:
        yield
    finally:
        context.set_value("training", before)  # where a call of another layer is under way
        model._maybe_reset_call_context()


_SPLITS: weakref.WeakKeyDictionary[Any, tuple[Any, Split]] = weakref.WeakKeyDictionary()


def split_of(model: keras.Model) -> Split | None:
    """Returns the model as its prefix and the rest; None where draws share nothing, or the model is no graph."""
    graph = graph_of(model)
    if graph is None or keras.distribution.distribution() is not None:  # which lays out tensors by paths of layers
        return None
    form, split = _SPLITS.get(model, (None, None))
    if split is None or form is not form_of(model) or split.graph() is not graph:
        split = Split(model, graph)
        _SPLITS[model] = form_of(model), split
    return split if split.is_useful else None


def frontier_of(model: keras.Model, x) -> dict | None:
    """Returns the frontier of a model for `x`, or None; states of a stateful layer are left as they are."""
    split = split_of(model)
    if split is None:
        return None
    with keras.StatelessScope(state_mapping=[(variable, variable.value) for variable in model.variables]):
        return split.prefix(x)


def outputs_under(model: keras.Model, sources, draw, x, frontier=None) -> list:
    """Returns the outputs, flattened, of one draw; where there is a frontier, by the rest of the model after it."""
    with scope.fix_draws({id(source): arrays for source, arrays in zip(sources, draw, strict=True)}):
        if frontier is None:
            return keras.tree.flatten(model(x, training=False))
        split: Any = split_of(model)
        return split.rest(frontier)
