"""A Keras layer whose weights exist once per component of a mixture."""

from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend import get_keras_mask

from singularbayes.checks import require_integer
from singularbayes.layers.base import HoldsPosteriors
from singularbayes.posteriors import are_blocks, initializers, number_of_pass, require_blocks, scope


class _Inside:
    """The layer of one component, held where Keras does not look for layers."""

    def __init__(self, layer):
        self.layer: Any = layer


@keras.saving.register_keras_serializable(package="singularbayes")
class PerComponent(scope.Source, HoldsPosteriors):
    """A Keras layer of one input, such as a normalisation, with weights and statistics for each component of a mixture.

    A layer between those with a `Mixture` is one for all components. Where its weights are trained, the components are
    no longer networks of their own, and a `BatchNormalization` would take its statistics over the examples of all of
    them. This layer has `components` copies of the weights, and each is used for the examples of its component.
    `bayesianize` puts it around the normalisations of a model.

    Args:
        layer: a Keras layer. Examples are on the first axis of its input and its output.
        components: as in the mixtures of the model.

    >>> import singularbayes as sb
    >>> norm = PerComponent(keras.layers.LayerNormalization(), components=4)
    >>> norm.build((None, 8))
    >>> [tuple(weight.shape) for weight in norm.weights]
    [(4, 8), (4, 8)]
    """

    def __init__(self, layer, components, **kwargs):
        require_integer("PerComponent", components=components)
        if isinstance(layer, dict):
            layer = keras.saving.deserialize_keras_object(layer)
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"PerComponent needs a Keras layer; got {layer!r}.")
        super().__init__(**{"name": layer.name, "dtype": layer.dtype_policy, "trainable": layer.trainable, **kwargs})
        self.components = int(components)
        self._inside = _Inside(_copy_of(layer))
        self.seed_generator = keras.random.SeedGenerator()
        self.supports_masking = layer.supports_masking

    def wrapped(self) -> keras.layers.Layer:
        """Returns the layer of one component; its weights have no values of their own.

        No property: Keras would take what it holds for a layer to save.
        """
        return self._inside.layer

    def build(self, input_shape):
        copies = [_copy_of(self._inside.layer) for _ in range(self.components)]
        for layer in copies:
            layer.build(input_shape)
        self._inside.layer = copies[0]
        self._stacked = [self._stack([layer.weights[place] for layer in copies]) for place in range(len(self._weights))]

    @property
    def _weights(self) -> list:
        """The weights of one component, in the order of the stacked ones."""
        return self._inside.layer.weights

    def _stack(self, own: list):
        one = own[0]

        def mean_regularizer(values):
            return sum(one.regularizer(values[k]) for k in range(self.components)) / self.components

        return self.add_weight(
            name=one.name,
            shape=(self.components, *one.shape),
            initializer=initializers.Given(lambda _, dtype=None: ops.stack([weight.value for weight in own])),
            regularizer=None if one.regularizer is None else mean_regularizer,
            trainable=one.trainable,
            dtype=one.dtype,
            autocast=False,
        )

    def call(self, inputs, training=None):
        # Not an argument: the layer that is wrapped may take none, and has to take this one's place in a graph.
        values, mask = [weight.value for weight in self._stacked], get_keras_mask(inputs)
        if scope.fixed_draw(self) is not None or not (training or are_blocks()):
            return self._run([ops.take(value, self._component(), axis=0) for value in values], inputs, False, mask)[0]
        require_blocks(self.components, inputs)
        shares = self._shares(inputs)
        masks = None if mask is None else self._shares(mask)
        found = [
            self._run([value[k] for value in values], shares[k], bool(training), None if masks is None else masks[k])
            for k in range(self.components)
        ]
        for weight, *after in zip(self._stacked, *(new for _, new in found), strict=True):
            if any(value is not None for value in after):
                weight.assign(ops.stack(after))
        return ops.concatenate([outputs for outputs, _ in found])

    def _shares(self, x):
        """Returns the examples of every component, (components, examples, …)."""
        return ops.reshape(x, (self.components, -1, *ops.shape(x)[1:]))

    def _run(self, values: list, inputs, training: bool, mask) -> tuple[Any, list]:
        """Returns outputs with these weights, and the weights that the call has changed; None for the others."""
        layer = self._inside.layer
        layer.trainable = self.trainable  # a frozen normalisation uses its statistics in training too
        arguments: dict[str, Any] = {"training": training} if layer._call_has_training_arg else {}
        if mask is not None and "mask" in layer._call_signature.parameters:
            arguments["mask"] = mask
        pairs = list(zip(self._weights, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs) as inside:
            before = [inside.get_current_value(weight) for weight in self._weights]
            outputs = layer.call(inputs, **arguments)
            after = [inside.get_current_value(weight) for weight in self._weights]
        return outputs, [new if new is not old else None for old, new in zip(before, after, strict=True)]

    def _component(self):
        """Returns the component of a pass outside training."""
        choice = scope.fixed_draw(self)
        if choice is not None:
            return ops.cast(choice[0], "int32")
        return number_of_pass(self.seed_generator.next) % self.components if scope.draws_now(self) else 0

    def draw(self, key):
        return self.draw_number(key, number_of_pass(lambda: key))

    def draw_number(self, key, number):
        return (ops.cast(number, "int32") % self.components,)

    @property
    def draw_size(self):
        return 1

    # -- components ----------------------------------------------------------------------------------------------------

    def start_at(self, weights: list[list[np.ndarray]]) -> None:
        """Gives every component weights of its own, as `get_weights` of the Keras layer has them."""
        for weight, *values in zip(self._stacked, *weights, strict=True):
            weight.assign(np.stack(values))

    def take_components(self, numbers) -> keras.layers.Layer:
        """Returns the layer of some components, or the Keras layer of one where `numbers` is one number."""
        values = [[np.array(ops.convert_to_numpy(w)[k]) for w in self._stacked] for k in np.atleast_1d(numbers)]
        shape = self.get_build_config()["input_shape"]
        plain = _copy_of(self._inside.layer)
        if isinstance(numbers, int):
            plain.build(shape)
            plain.set_weights(values[0])
            return plain
        made = PerComponent(plain, len(values), trainable=self.trainable)
        made.build(shape)
        made.start_at(values)
        return made

    def compute_output_spec(self, inputs, training=None):
        return self._inside.layer.compute_output_spec(inputs)

    def get_config(self):
        return {
            **super().get_config(),
            "layer": keras.saving.serialize_keras_object(_copy_of(self._inside.layer)),
            "components": self.components,
        }


def _copy_of(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Returns a copy that is not built."""
    copy = type(layer).from_config(layer.get_config())
    copy.trainable = layer.trainable
    return copy
