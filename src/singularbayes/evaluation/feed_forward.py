"""A model as the bounds by norms see it: dense layers one after another, each with its factors of W."""

from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes.bounds import LayerFacts, product_norm, reasons_outside
from singularbayes.layers import Dense
from singularbayes.posteriors import Posterior, draw_keys, draw_sources, find_sources, noise

# By identity: a subclass, or a class of the same name, may compute anything.
_KINDS = {
    Dense: "Dense",
    keras.layers.Dense: "Dense",
    keras.layers.InputLayer: "InputLayer",
    keras.layers.Flatten: "Flatten",
    keras.layers.Reshape: "Reshape",
    keras.layers.Activation: "Activation",
}
_IDLE = (keras.layers.Dropout, keras.layers.GaussianNoise, keras.layers.GaussianDropout)  # nothing in prediction
_TINY = 1e-300  # the scale of a factor that does not vary

Factor = tuple[np.ndarray, np.ndarray]  # means and scales


@dataclass(frozen=True)
class DenseWeight:
    """The random weight W = A Bᵀ of a dense layer; where all of W is drawn, A is W and B the identity."""

    posterior: Posterior

    @property
    def low_rank(self) -> bool:
        return len(self.posterior.factor_moments()) == 2

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.a[0].shape[0], self.b[0].shape[0]
        return rows, columns

    @property
    def rank(self) -> int:
        return min(self.a[0].shape[1], *self.shape)

    @property
    def a(self) -> Factor:
        mean, variance = self.posterior.factor_moments()[0]
        return mean, np.sqrt(variance)

    @property
    def b(self) -> Factor:
        *_, (mean, variance) = self.posterior.factor_moments()
        if self.low_rank:
            return mean, np.sqrt(variance)
        return np.eye(mean.shape[1]), np.full((mean.shape[1],) * 2, _TINY)

    @property
    def norm(self) -> float:
        """‖W̄‖₂."""
        return float(product_norm(self.a[0], self.b[0]))

    def draws(self, draw: tuple) -> tuple[np.ndarray, np.ndarray]:
        """Returns A and B of a draw of the posterior."""
        arrays = [ops.convert_to_numpy(array).astype("float64") for array in draw]
        return (arrays[0], arrays[1]) if self.low_rank else (arrays[0], np.eye(arrays[0].shape[1]))


def read_dense_layers(model: keras.Model) -> tuple[list[DenseWeight], tuple[str, ...]]:
    """Returns the weights of a feed-forward network in order, or none and the reasons why it is not one."""
    if type(model) is not keras.Sequential:
        return [], (f"{type(model).__name__} is not a keras.Sequential, whose layers follow one another",)
    layers = [layer for layer in flat_layers_in_order(model) if type(layer) not in _IDLE]
    reasons = list(reasons_outside([_facts(layer) for layer in layers]))
    weights = []
    for place, layer in enumerate(layers, start=1):
        if type(layer) is Dense:
            weights.append(DenseWeight(layer.posterior))
            reason = layer.posterior.why_no_norms()
            reasons += [f"layer {place} (Dense) {reason}"] if reason else []
        elif type(layer) is keras.layers.Dense:
            reasons.append(f"layer {place} (Dense) has no posterior")
    if not weights and not reasons:
        reasons.append("no dense layer")
    return ([] if reasons else weights), tuple(reasons)


def factor_draws(
    model: keras.Model, weights: list[DenseWeight], draws: int, seed: int
) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Yields A and B of every layer, draw by draw: the draws that `predict` makes from the same seed."""
    sources = find_sources(model)
    places = [next(i for i, source in enumerate(sources) if source is weight.posterior) for weight in weights]
    for key in draw_keys(seed, draws):
        drawn = draw_sources(sources, noise.as_keys(key))
        yield [weight.draws(drawn[i]) for weight, i in zip(weights, places, strict=True)]


def flat_layers_in_order(model: keras.Sequential) -> Iterator[keras.layers.Layer]:
    """Yields the layers of a Sequential model, those of models in it one by one."""
    for layer in model.layers:
        if type(layer) is keras.Sequential:
            yield from flat_layers_in_order(layer)
        else:
            yield layer


def _facts(layer: keras.layers.Layer) -> LayerFacts:
    if type(layer) is keras.layers.ReLU and not layer.negative_slope and not layer.threshold:
        return LayerFacts("Activation", False, "relu")
    name = type(layer).__name__
    kind = _KINDS.get(type(layer), f"{type(layer).__module__}.{name}" if name in _KINDS.values() else name)
    activation = getattr(layer, "activation", keras.activations.linear)
    return LayerFacts(kind, bool(getattr(layer, "use_bias", False)), activation_name(activation))


def activation_name(activation) -> str:
    """Returns the name of a Keras activation; another function is marked, even if it has the name of one."""
    name = getattr(activation, "__name__", type(activation).__name__)
    # keras.ops has the same functions, except gelu, which it approximates; its slope has the same bound.
    known = any(getattr(package, name, None) is activation for package in (keras.activations, ops))
    return name if known else f"{name} (not Keras's)"
