"""Tasks of KerasHub: a backbone, a head, and a preprocessor that makes token ids of texts."""

from typing import Any

import keras
import numpy as np

from singularbayes.models.data import is_stream
from singularbayes.models.text import require_positions, tokenized


def has_preprocessor(model) -> bool:
    """Whether a model is a task, whose `preprocessor` may be a layer or any function, without weights."""
    return hasattr(model if isinstance(model, type) else type(model), "preprocess_samples")


def share_preprocessor(model: keras.layers.Layer, preprocessor) -> None:
    """Gives a task a preprocessor, which several may use: it is never trained."""
    # Past the registers of Keras and torch, as KerasHub does: these hold layers alone, and lock when a model is built.
    vars(model).get("_modules", {}).pop("_preprocessor", None)
    object.__setattr__(model, "_preprocessor", preprocessor)


class ReadsText:
    """`fit`, `evaluate` and `predict` of a converted task: texts in memory are tokenised first, arrays are taken as is.

    KerasHub's own do this inside tf.data or grain, which need more packages; they remain for streams.
    """

    compile: Any
    optimizer: Any
    trainable_variables: list

    def fit(self, x=None, y=None, batch_size=None, sample_weight=None, validation_data=None, **kwargs):
        if is_stream(x):
            return super().fit(x, y, batch_size, sample_weight, validation_data, **kwargs)  # type: ignore[misc]
        if validation_data is not None and not is_stream(validation_data):
            held_x, held_y, held_weight = keras.utils.unpack_x_y_sample_weight(validation_data)
            held_out = self._arrays(held_x, held_y, held_weight, "fit")
            validation_data = keras.utils.pack_x_y_sample_weight(*held_out)
        x, y, sample_weight = self._arrays(x, y, sample_weight, "fit")
        data = {"batch_size": batch_size, "sample_weight": sample_weight, "validation_data": validation_data}
        return keras.Model.fit(self, x, y, **data, **kwargs)

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        if is_stream(x):
            return super().evaluate(x, y, batch_size, sample_weight, **kwargs)  # type: ignore[misc]
        x, y, sample_weight = self._arrays(x, y, sample_weight, "evaluate")
        return keras.Model.evaluate(self, x, y, batch_size=batch_size, sample_weight=sample_weight, **kwargs)

    def predict(self, x=None, batch_size=None, **kwargs):
        if is_stream(x):
            return super().predict(x, batch_size, **kwargs)  # type: ignore[misc]
        return keras.Model.predict(self, self._arrays(x, None, None, "predict")[0], batch_size=batch_size, **kwargs)

    def compile_from_config(self, config):
        # Keras repeats its own `compile` alone, and that of a task takes the same arguments.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def _arrays(self, x, y, weight, caller):
        x, y, weight = tokenized(self, x, _as_array(y), _as_array(weight), caller)
        arrays = [part for part in keras.tree.flatten(x) if hasattr(getattr(part, "dtype", None), "kind")]
        require_positions(self, arrays, caller)
        return x, y, weight


def _as_array(values):
    """Returns a list of numbers, as labels beside a list of texts often are, as the array that Keras needs."""
    plain = isinstance(values, list | tuple) and all(np.isscalar(value) for value in values)
    return np.asarray(values) if plain else values
