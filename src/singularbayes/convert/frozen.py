"""What graphs to export share: networks that run inside one layer, and the summary of their outputs."""

from abc import abstractmethod

import keras
from keras import ops

from singularbayes.checks import require_share


class Frozen(keras.layers.Layer):
    """A layer that runs networks on its inputs, none of them random, and outputs their predictive distribution by name.

    Args:
        likelihood: a `Likelihood`.
        position: which of the networks' outputs, in the order in which they are flattened.
        level: of the interval.
    """

    def __init__(self, *, likelihood, position=0, level=0.95, **kwargs):
        kwargs["trainable"] = False
        super().__init__(**kwargs)
        self.likelihood = restored(likelihood)
        self.position, self.level = position, level

    @property
    @abstractmethod
    def networks(self) -> list[keras.Model]:
        """The networks."""

    @property
    @abstractmethod
    def number(self) -> int:
        """How many outputs are summarised."""

    @abstractmethod
    def _output_lists(self, inputs) -> list[list]:
        """Returns the flattened outputs of every draw or member."""

    def build(self, input_shape):
        pass  # the networks are made

    def compute_output_spec(self, inputs):
        # By the network, layer by layer: to find it by a call, torch would make inputs of any length.
        output = keras.tree.flatten(self.networks[0].compute_output_spec(inputs))[self.position]
        found = self._summary(keras.KerasTensor((self.number, *output.shape), "float32"))
        return {name: keras.KerasTensor(tensor.shape, "float32") for name, tensor in found.items()}

    def call(self, inputs):
        outputs = [ops.cast(each[self.position], "float32") for each in self._output_lists(inputs)]
        return self._summary(ops.stack(outputs))

    def _summary(self, outputs) -> dict:
        found = self.likelihood.export(outputs)
        return found | self.likelihood.export_interval(found, self.level)

    def get_config(self):
        return {
            **super().get_config(),
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
            "position": self.position,
            "level": self.level,
        }


def restored(part):
    """Returns an object, or the one of its configuration."""
    return keras.saving.deserialize_keras_object(part) if isinstance(part, dict) else part


def require_inputs(caller: str, model, level: float) -> None:
    """Raises unless a model knows its inputs, and the level of the interval is one."""
    require_share(caller, level=level)
    if not getattr(model, "inputs", None):
        name = getattr(model, "name", model)
        raise ValueError(
            f"{caller} needs a model that knows its inputs; got {name!r}, which does not. Wrap it: "
            "keras.Model(x, model(x)) with x = keras.Input(...)."
        )


def as_graph(layer: Frozen, model: keras.Model, name: str) -> keras.Model:
    """Returns a functional model of the layer alone, with the inputs of a model."""
    # A Sequential model has one input and knows no structure of them.
    structure = getattr(model, "_inputs_struct", model.inputs[0])
    inputs = keras.tree.map_structure(lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name), structure)
    return Graph(inputs, layer(inputs), name=name)


@keras.saving.register_keras_serializable(package="singularbayes")
class Graph(keras.Model):
    """A functional model whose outputs have their names in an ONNX file too; Keras leaves them to the exporters."""

    def export(self, filepath, format="tf_saved_model", **kwargs):
        self(self.input)  # Keras exports to ONNX only what was called, which a model from a file was not
        super().export(filepath, format=format, **kwargs)
        if format == "onnx":
            _name_outputs(str(filepath), sorted(self.output))


def _name_outputs(path: str, names: list[str]) -> None:
    import onnx
    from onnx.compose import add_prefix

    # The weights of a large file stand in another one beside it, which stays.
    file = add_prefix(onnx.load(path, load_external_data=False), "network/", rename_inputs=False, inplace=True)
    for output, name in zip(file.graph.output, names, strict=True):
        file.graph.node.append(onnx.helper.make_node("Identity", [output.name], [name]))
        output.name = name
    onnx.save(file, path)
