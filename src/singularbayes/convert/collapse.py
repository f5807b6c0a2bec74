"""The posterior means as a plain Keras model."""

from functools import partial
from typing import Literal, overload

import keras
import numpy as np

from singularbayes import layers
from singularbayes.convert import counterparts, surgery
from singularbayes.convert.components import count_components, take_components
from singularbayes.convert.layer_matrices import find_slots, find_weights, mean_value
from singularbayes.posteriors import find_sources

_SPLIT = (layers.Dense, layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.Conv2DTranspose, layers.Embedding)


@overload
def collapse(model: keras.Model, merge: bool = False, *, component: int = 0) -> keras.Model: ...


@overload
def collapse(model: keras.Model, merge: bool = False, *, component: Literal["all"]) -> list[keras.Model]: ...


def collapse(model: keras.Model, merge: bool = False, *, component: int | str = 0) -> keras.Model | list[keras.Model]:
    """Returns a plain Keras model that predicts what `model` does at its posterior means, compiled as `model` is.

    A low-rank Dense, Embedding or convolution in a Sequential or functional model becomes two small Keras layers, by
    A and by Bᵀ, where these have fewer weights than the merged one; the second has its name. Everything else is merged:
    LSTM, GRU, attention, EinsumDense, separable convolutions, layers in other layers, other posteriors. The result and
    its files need Keras alone, and the libraries of the other layers in it; where the compiled loss is of this package,
    Keras alone loads the file with `compile=False`.

    Args:
        merge: always merge, so that every layer is the Keras layer of its name.
        component: of a model with mixtures, the component whose mean network is wanted; the first is the one that a
            forward pass outside training uses. "all" gives the networks of all components, a list: a deep ensemble.

    >>> import keras, singularbayes as sb
    >>> bayes = keras.Sequential([keras.Input((20,)), sb.layers.Dense(10, posterior=sb.LowRank(2), name="hidden")])
    >>> [(layer.name, layer.units) for layer in collapse(bayes).layers]
    [('hidden_a', 2), ('hidden', 10)]
    >>> [(layer.name, layer.units) for layer in collapse(bayes, merge=True).layers]
    [('hidden', 10)]
    """
    if not isinstance(model, keras.layers.Layer) or not model.built:
        raise ValueError(f"collapse needs a built Keras model; got {model!r}. Call it once on a batch first.")
    if isinstance(component, str) and component != "all":
        raise ValueError(f'collapse needs component to be a number or "all"; got component={component!r}.')
    if component == "all":
        total = count_components(model, 'collapse(component="all")')
        return [collapse(model, merge, component=k) for k in range(total)]
    assert not isinstance(component, str)
    mixed = any(source.components > 1 for source in find_sources(model))
    plain = take_components(model, component) if mixed or component != 0 else surgery.copied(model)
    free = set() if merge else _only_listed(plain)
    ours = [place.layer for place in surgery.places(plain, surgery.is_ours) if surgery.is_ours(place.layer)]
    pairs = {id(layer): _pair(layer) for layer in ours if id(layer) in free and _smaller_in_two(layer)}
    surgery.exchange(plain, {id(layer): _plain(layer) for layer in ours if id(layer) not in pairs})
    if pairs:
        _insert_pairs(plain, pairs)
    surgery.compile_like(plain, model)
    return plain


def _only_listed(model) -> set[int]:
    """Returns the ids of the layers that only Sequential and functional models refer to: nothing calls them by name."""
    holders = [place.layer for place in surgery.places(model, surgery.is_ours) if not surgery.is_ours(place.layer)]
    listed, named = (
        {id(child) for holder in holders if _lists(holder) == kind for child in surgery.children(holder)}
        for kind in (True, False)
    )
    return listed - named


def _lists(holder) -> bool:
    return isinstance(holder, keras.Model) and surgery.lists_its_layers(holder)


def _insert_pairs(model, pairs: dict[int, list]) -> None:
    """Puts two layers in the place of each of some layers, in the Sequential and functional models that list it."""
    for place in reversed(surgery.places(model)):  # models in a model before it
        holder = place.layer
        if not (_lists(holder) and any(id(layer) in pairs for layer in holder.layers)):
            continue
        if isinstance(holder, keras.Sequential):
            parts = [part for layer in holder.layers for part in pairs.get(id(layer), [layer])]
            inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name) for x in holder.inputs]
            new = keras.Sequential([*inputs, *parts], name=holder.name)
        else:
            new = keras.models.clone_model(holder, clone_function=_itself, call_function=partial(_called, pairs))
        new.trainable = holder.trainable
        surgery.become(holder, new)


def _itself(layer):
    return layer


def _called(pairs, layer, *args, **kwargs):
    if id(layer) not in pairs:
        return layer(*args, **kwargs)
    first, second = pairs[id(layer)]
    return second(first(*args))


def _plain(layer) -> keras.layers.Layer:
    if isinstance(layer, layers.TransformerEncoder):
        return _encoder(layer)
    if counterparts.plain_class(layer) is None:
        raise ValueError(f"collapse needs layers of this package; got {type(layer).__name__} {layer.name!r}.")
    return counterparts.make_plain(layer)


def _smaller_in_two(layer) -> bool:
    if type(layer) not in _SPLIT or len(layer.posterior.factor_moments()) != 2 or getattr(layer, "groups", 1) > 1:
        return False
    a, b = _factors(layer)
    (rows, rank), columns = a.shape, len(b)
    return rank * (rows + columns) < rows * columns


def _factors(layer) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means of A and B without the columns that are 0 in one of them, except for one."""
    (a, _), (b, _) = layer.posterior.factor_moments()
    used = a.any(axis=0) & b.any(axis=0)
    used[0] |= not used.any()
    return a[:, used], b[:, used]


def _pair(layer) -> list[keras.layers.Layer]:
    """Returns the layer as two: by A, without bias and activation, and by Bᵀ, with them."""
    a, b = _factors(layer)
    first, second = _factored(layer, rank=a.shape[1])
    shape = layer.get_build_config()["input_shape"]
    first.build(shape)
    second.build(first.compute_output_shape(shape))
    for part, matrix in ((first, a), (second, b.T)):
        next(iter(find_slots(part).values())).write(matrix)
    if "bias" in find_weights(layer):
        find_slots(second)["bias"].write(mean_value(find_weights(layer)["bias"]))
    return [first, second]


def _factored(layer, rank: int) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    common = {"dtype": layer.dtype_policy, "trainable": layer.trainable}
    inner = {"name": f"{layer.name}_a", **common}
    outer = {"name": layer.name, **common, "activity_regularizer": layer.activity_regularizer}
    if isinstance(layer, layers.Embedding):
        return (
            keras.layers.Embedding(layer.input_dim, rank, mask_zero=layer.mask_zero, **inner),
            keras.layers.Dense(layer.output_dim, use_bias=False, **outer),
        )
    for name in ("activation", "use_bias", "bias_initializer", "bias_regularizer", "bias_constraint"):
        outer[name] = getattr(layer, name)
    if isinstance(layer, layers.Dense):
        return keras.layers.Dense(rank, use_bias=False, **inner), keras.layers.Dense(layer.units, **outer)
    kind, form = counterparts.PLAIN[type(layer)], {"data_format": layer.data_format}
    names = ["kernel_size", "strides", "padding", "dilation_rate"]
    names += ["output_padding"] if isinstance(layer, layers.Conv2DTranspose) else []
    where = {name: getattr(layer, name) for name in names}
    return kind(rank, use_bias=False, **where, **form, **inner), kind(layer.filters, 1, **form, **outer)


def _encoder(block: layers.TransformerEncoder) -> keras.Model:
    """Returns the block as a functional model of Keras layers."""
    attention, inner, outer = (counterparts.make_plain(part) for part in (block.attention, block.inner, block.outer))
    norms = [_norm(norm) for norm in (block.attention_norm, block.dense_norm)]
    drop = keras.layers.Dropout(block.dropout, dtype=block.dtype_policy, name="dropout")
    shape = (None, *block.get_build_config()["input_shape"][1:])
    x = inputs = keras.Input(batch_shape=shape, dtype=block.compute_dtype)

    def first_positions(y):
        return y if block.positions is None else y[:, : block.positions]

    changes = (lambda x: attention(first_positions(x), x), lambda x: outer(inner(x)))
    for norm, change in zip(norms, changes, strict=True):
        # A layer, because the mask passes it, where it would not pass a sum.
        changed = drop(change(norm(x) if block.normalize_first else x))
        added = keras.layers.Add(dtype=block.dtype_policy)([first_positions(x), changed])
        x = added if block.normalize_first else norm(added)
    model = keras.Model(inputs, x, name=block.name, trainable=block.trainable)
    model.supports_masking = True
    return model


def _norm(norm) -> keras.layers.LayerNormalization:
    """Returns Keras's layer for the one of a block, which is a subclass."""
    plain = keras.layers.LayerNormalization.from_config(norm.get_config())
    plain.build(norm.gamma.shape)
    plain.set_weights(norm.get_weights())
    plain.trainable = norm.trainable
    return plain
