"""Some components of the mixtures of a model as a model of their own."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from singularbayes import layers, posteriors
from singularbayes.checks import is_integer
from singularbayes.convert import counterparts, surgery
from singularbayes.posteriors import find_posteriors, find_sources, flat_layers


def take_components(model: keras.Model, components: int | Sequence[int]) -> keras.Model:
    """Returns a copy of a model of mixtures with some of its components: compiled like it, with a fresh optimizer.

    Args:
        components: the number of one, or a list. One gives a network with plain posteriors, several a mixture.

    >>> import keras, singularbayes as sb
    >>> head = sb.layers.Dense(2, posterior=sb.Mixture(sb.LowRank(2), components=4))
    >>> model = keras.Sequential([keras.Input((5,)), head])
    >>> take_components(model, [0, 2]).layers[0].posterior, take_components(model, 3).layers[0].posterior
    (Mixture(LowRank(2), components=2), LowRank(2))
    """
    total = count_components(model, "take_components")
    numbers: list[int] = list(components) if isinstance(components, Sequence) else [components]
    known = all(is_integer(number, 0) and number < total for number in numbers)
    if not numbers or not known or len(set(numbers)) < len(numbers):
        raise ValueError(f"take_components needs different components from 0 to {total - 1}; got {components!r}.")
    chosen = sorted(map(int, numbers)) if len(numbers) > 1 else int(numbers[0])
    copy = surgery.copied(model)
    new = {
        id(place.layer): _with_components(place.layer, chosen)
        for place in surgery.places(copy, surgery.is_ours)
        if surgery.is_ours(place.layer) and max(map(_components, flat_layers(place.layer))) > 1
    }
    surgery.exchange(copy, new)
    surgery.compile_like(copy, model)
    return copy


def count_components(model: keras.Model, caller: str) -> int:
    """Returns the number of components of a model's mixtures; raises where it has none, or several numbers of them."""
    if not isinstance(model, keras.layers.Layer) or not model.built:
        raise ValueError(f"{caller} needs a built Keras model; got {model!r}. Call it once on a batch first.")
    numbers = sorted({source.components for source in find_sources(model)} - {1})
    if len(numbers) != 1:
        raise ValueError(
            f"{caller} needs a model whose mixtures have one number of components above 1; got {numbers or 'none'} in "
            f"{model.name!r}."
        )
    return numbers[0]


def _components(layer) -> int:
    return layer.components if isinstance(layer, posteriors.Source) else 1


def _with_components(layer, chosen: int | list[int]):
    """Returns a layer with these components and their weights."""
    if isinstance(layer, layers.PerComponent):
        return layer.take_components(chosen)
    config = layer.get_config()
    for argument in [name for name, value in config.items() if name.endswith("posterior") and value is not None]:
        mixture = posteriors.get_posterior(config[argument], argument)
        config[argument] = posteriors.serialize(
            mixture.with_components(None if isinstance(chosen, int) else len(chosen))
        )
    new = counterparts.built_like(type(layer).from_config(config), layer)
    for mine, theirs in zip(layer.weights, new.weights, strict=True):
        values = np.array(ops.convert_to_numpy(mine))
        theirs.assign(values if values.shape == tuple(theirs.shape) else values[chosen])  # one for all, or for each
    for old, made in zip(find_posteriors(layer), find_posteriors(new), strict=True):
        if old.random:
            made.take_kl_weight(old)
    return new
