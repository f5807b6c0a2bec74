"""Some draws of a model as one graph that can be exported: its answer is the mean and how far the draws disagree."""

import keras
import numpy as np
from keras import ops

from singularbayes.convert.surgery import copied
from singularbayes.likelihoods import likelihood as likelihoods
from singularbayes.likelihoods import meaning_of
from singularbayes.models import draw_keys, find_posteriors, flat_layers, position_of
from singularbayes.posteriors import noise, scope


def freeze_draws(
    model: keras.Model, draws: int = 32, seed: int = 0, *, likelihood=None, output: str | int | None = None
) -> keras.Model:
    """Returns a Keras model that answers as `predict(model, x, draws, seed)` does, to the accuracy of float32.

    Its outputs are "mean" and "mutual_information" (nats) for classes, "mean" and "std" (over draws: the epistemic part
    alone) for numbers, with their "noise" where the model says it. Nothing in it is random: the draws are weights of
    its own, k · r (m + n) numbers for a low-rank weight, so `save` and `export` keep the uncertainty. What `export`
    writes needs nothing of this package; a `.keras` file needs it to be loaded. The graph holds the model once a draw,
    one after another.

    Args:
        likelihood, output: as for `predict`.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> frozen = freeze_draws(model, 8, likelihood="categorical_logits")
    >>> answer = frozen.predict(np.ones((5, 4)), verbose=0)
    >>> answer["mean"].shape, answer["mutual_information"].shape
    ((5, 3), (5,))
    """
    for name, value, least in (("draws", draws, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"freeze_draws needs {name} to be a whole number >= {least}; got {name}={value!r}.")
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"freeze_draws needs a model that knows its inputs; got {model.name!r}, which does not. Wrap it: "
            "keras.Model(x, model(x)) with x = keras.Input(...)."
        )
    stateful = [layer.name for layer in flat_layers(model) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(f"freeze_draws needs a model without state between batches; got stateful layers {stateful}.")
    position = position_of(model, output, "freeze_draws")
    meaning = meaning_of(model, position, likelihood, "freeze_draws")
    name = "gaussian" if isinstance(meaning, likelihoods.Gaussian) else _name_of(meaning)
    shape = keras.tree.flatten(model.outputs)[position or 0].shape
    if isinstance(meaning, likelihoods.Bernoulli) and shape[-1] != 1:
        raise ValueError(f"freeze_draws needs one output a row for a Bernoulli likelihood; got shape {shape}.")
    frozen = FrozenDraws(copied(model), int(draws), int(seed), likelihood=name, position=position or 0)
    # A Sequential model has one input and knows no structure of them.
    structure = getattr(model, "_inputs_struct", model.inputs[0])
    inputs = keras.tree.map_structure(lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name), structure)
    whole = keras.Model(inputs, frozen(inputs), name=f"{model.name}_{draws}_draws")
    whole(inputs)  # Keras exports to ONNX only what was called
    return whole


def _name_of(meaning) -> str:
    return next(name for name, known in likelihoods.NAMES.items() if known == meaning)


@keras.saving.register_keras_serializable(package="singularbayes")
class FrozenDraws(keras.layers.Layer):
    """A model under the draws of a seed, and what they say together. Made by `freeze_draws`; the model becomes its own.

    Args:
        likelihood: one of the names that `predict` takes.
        position: which of the model's outputs, in the order in which they are flattened.
    """

    def __init__(self, model, draws, seed, *, likelihood, position=0, **kwargs):
        kwargs["trainable"] = False
        super().__init__(**kwargs)
        self.model = keras.saving.deserialize_keras_object(model) if isinstance(model, dict) else model
        self.draws, self.seed, self.likelihood, self.position = draws, seed, likelihood, position
        self.model.trainable = False
        self._posteriors = find_posteriors(self.model)
        if not any(posterior.random for posterior in self._posteriors):
            self.draws = 1  # every draw is the same function
        drawn = [self._arrays(noise.as_keys(key)) for key in draw_keys(seed, self.draws)]
        # arrays[i][j] holds array j of posterior i, the draws on the first axis.
        self._held = [
            [self._hold(f"draws_{i}_{j}", same) for j, same in enumerate(zip(*arrays, strict=True))]
            for i, arrays in enumerate(zip(*drawn, strict=True))
        ]
        for posterior in self._posteriors:
            posterior.by_rows = False  # all rows are made: the file needs no generator

    def _arrays(self, key) -> list[tuple]:
        keys = noise.split(key, len(self._posteriors))
        pairs = zip(self._posteriors, keys, strict=True)
        return [posterior.whole(posterior.draw(key)) for posterior, key in pairs]

    def _hold(self, name, arrays):
        values = np.stack([ops.convert_to_numpy(array) for array in arrays])
        held = self.add_weight(name=name, shape=values.shape, initializer="zeros", dtype="float32", autocast=False)
        held.assign(values)
        return held

    def build(self, input_shape):
        pass  # the model and its draws are made

    def compute_output_spec(self, inputs):
        # Said by the model, layer by layer: to find it by a call, torch would make inputs as long as it likes.
        output = keras.tree.flatten(self.model.compute_output_spec(inputs))[self.position]
        *examples, last = output.shape
        if self.likelihood.startswith("bernoulli"):
            last = 2  # both classes
        if self.likelihood == "gaussian":
            shapes = {"mean": output.shape, "std": output.shape}
        elif self.likelihood == "mean_scale":
            shapes = dict.fromkeys(("mean", "std", "noise"), (*examples, last // 2))
        else:
            shapes = {"mean": (*examples, last), "mutual_information": tuple(examples)}
        return {name: keras.KerasTensor(shape, "float32") for name, shape in shapes.items()}

    def call(self, inputs):
        return self._reduced(ops.stack([self._output(inputs, s) for s in range(self.draws)]))

    def _output(self, inputs, s: int):
        """Returns the output of draw s."""
        held = zip(self._posteriors, self._held, strict=True)
        with scope.fix({id(posterior): tuple(array[s] for array in arrays) for posterior, arrays in held}):
            outputs = keras.tree.flatten(self.model(inputs, training=False))
        return ops.cast(outputs[self.position], "float32")

    def _reduced(self, outputs):
        """Returns mean and disagreement of outputs, (draws, examples, …)."""
        if self.likelihood == "gaussian":
            return _moments(outputs)
        if self.likelihood == "mean_scale":
            mean, rho = ops.split(outputs, 2, axis=-1)
            scale = ops.softplus(rho) + likelihoods.LEAST_SCALE
            return {**_moments(mean), "noise": ops.sqrt(ops.mean(ops.square(scale), axis=0))}
        probabilities = _PROBABILITIES[self.likelihood](outputs)
        mean = ops.mean(probabilities, axis=0)
        disagreement = _entropy(mean) - ops.mean(_entropy(probabilities), axis=0)
        return {"mean": mean, "mutual_information": ops.maximum(disagreement, 0.0)}

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "draws": self.draws,
            "seed": self.seed,
            "likelihood": self.likelihood,
            "position": self.position,
        }


def _moments(values):
    mean = ops.mean(values, axis=0)
    return {"mean": mean, "std": ops.sqrt(ops.mean(ops.square(values - mean), axis=0))}


def _entropy(p):
    return -ops.sum(p * ops.log(ops.maximum(p, 1e-37)), axis=-1)


def _both(one):
    return ops.concatenate([1.0 - one, one], axis=-1)


_PROBABILITIES = {
    "categorical_logits": lambda outputs: ops.softmax(outputs, axis=-1),
    "categorical": lambda outputs: outputs / ops.sum(outputs, axis=-1, keepdims=True),
    "bernoulli_logits": lambda outputs: _both(ops.sigmoid(outputs)),
    "bernoulli": _both,
}
