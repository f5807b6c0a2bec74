"""Some draws of a model as one graph that can be exported: it outputs the mean and how far the draws disagree."""

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_integer, require_share
from singularbayes.convert.surgery import copied
from singularbayes.likelihoods import likelihood_of_output
from singularbayes.models.outputs import position_of
from singularbayes.posteriors import draw_keys, draw_sources, find_sources, flat_layers, noise
from singularbayes.prediction.sampler import outputs_under, side_by_side


def freeze_draws(
    model: keras.Model,
    draws: int = 32,
    seed: int = 0,
    *,
    likelihood=None,
    output: str | int | None = None,
    level: float = 0.95,
) -> keras.Model:
    """Returns a Keras model that predicts as `predict(model, x, draws, seed)` does, to the accuracy of float32.

    Its outputs are "mean", "entropy" and "mutual_information" (nats) for classes; "mean" and "std" (over draws: the
    epistemic part alone) for regression, with "noise" where the model predicts it, and where the noise is known
    "total_std" and the ends "lower" and "upper" of the interval that has a new value with probability `level` (counts
    have no such ends here). Nothing in it is random: the draws are weights of its own, draws · r (m + n) numbers for a
    low-rank weight, so `save` and `export` keep the uncertainty; a `.keras` file needs this package to be loaded, what
    `export` writes does not. The graph holds layers before the first random one once.

    Args:
        likelihood, output: as for `predict`.
        level: of the interval.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> frozen = freeze_draws(model, 8)
    >>> outputs = frozen.predict(np.ones((5, 4)), verbose=0)
    >>> outputs["mean"].shape, outputs["mutual_information"].shape
    ((5, 3), (5,))
    """
    require_integer("freeze_draws", draws=draws)
    require_integer("freeze_draws", 0, seed=seed)
    require_share("freeze_draws", level=level)
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"freeze_draws needs a model that knows its inputs; got {getattr(model, 'name', model)!r}, which does not. "
            "Wrap it: keras.Model(x, model(x)) with x = keras.Input(...)."
        )
    stateful = [layer.name for layer in flat_layers(model) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(f"freeze_draws needs a model without state between batches; got stateful layers {stateful}.")
    position = position_of(model, output, "freeze_draws") or 0
    chosen = likelihood_of_output(model, position, likelihood, "freeze_draws")
    outputs = keras.tree.flatten(model.outputs)[position]
    chosen.export(keras.KerasTensor((draws, *outputs.shape)))  # raises where outputs of that shape do not fit
    frozen = FrozenDraws(copied(model), int(draws), int(seed), chosen, position, level)
    # A Sequential model has one input and knows no structure of them.
    structure = getattr(model, "_inputs_struct", model.inputs[0])
    inputs = keras.tree.map_structure(lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name), structure)
    return Graph(inputs, frozen(inputs), name=f"{model.name}_{draws}_draws")


@keras.saving.register_keras_serializable(package="singularbayes")
class FrozenDraws(keras.layers.Layer):
    """A model under the draws of a seed, and the predictive distribution that they give, by name.

    Args:
        model: becomes its own.
        likelihood: a `Likelihood`.
        position: which of the model's outputs, in the order in which they are flattened.
        level: of the interval.
    """

    def __init__(self, model, draws, seed, likelihood, position=0, level=0.95, **kwargs):
        kwargs["trainable"] = False
        super().__init__(**kwargs)
        self.model, self.likelihood = _restored(model), _restored(likelihood)
        self.draws, self.seed, self.position, self.level = draws, seed, position, level
        self.model.trainable = False
        self._sources = find_sources(self.model)
        if not any(source.random for source in self._sources):
            self.draws = 1  # every draw is the same function
        drawn = [self._arrays(noise.as_keys(key)) for key in draw_keys(seed, self.draws)]
        # arrays[i][j] holds array j of source i, the draws on the first axis.
        self._held = [
            [self._hold(f"draws_{i}_{j}", same) for j, same in enumerate(zip(*arrays, strict=True))]
            for i, arrays in enumerate(zip(*drawn, strict=True))
        ]

    def _arrays(self, key) -> list[tuple]:
        return draw_sources(self._sources, key)

    def _hold(self, name, arrays):
        values = np.stack([ops.convert_to_numpy(array) for array in arrays])
        held = self.add_weight(name=name, shape=values.shape, initializer="zeros", dtype="float32", autocast=False)
        held.assign(values)
        return held

    def build(self, input_shape):
        pass  # the model is made

    def compute_output_spec(self, inputs):
        # By the model, layer by layer: to find it by a call, torch would make inputs of any length.
        output = keras.tree.flatten(self.model.compute_output_spec(inputs))[self.position]
        found = self._summary(keras.KerasTensor((self.draws, *output.shape), "float32"))
        return {name: keras.KerasTensor(tensor.shape, "float32") for name, tensor in found.items()}

    def call(self, inputs):
        def output(draw) -> list:
            return [outputs_under(self.model, self._sources, draw, inputs)[self.position]]

        held = [tuple(ops.convert_to_tensor(array.value) for array in arrays) for arrays in self._held]
        if any(held) and all(source.components == 1 for source in self._sources):  # else torch cannot export `vmap`
            return self._summary(ops.cast(side_by_side(output, held)[0], "float32"))
        draws = [[tuple(array[s] for array in arrays) for arrays in held] for s in range(self.draws)]
        return self._summary(ops.cast(ops.stack([output(draw)[0] for draw in draws]), "float32"))

    def _summary(self, outputs) -> dict:
        found = self.likelihood.export(outputs)
        return found | self.likelihood.export_interval(found, self.level)

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "draws": self.draws,
            "seed": self.seed,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
            "position": self.position,
            "level": self.level,
        }


def _restored(part):
    """Returns an object, or the one of its configuration."""
    return keras.saving.deserialize_keras_object(part) if isinstance(part, dict) else part


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
