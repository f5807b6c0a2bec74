"""singularbayes, and Keras itself as the variant "keras", through `fit` and `predict` as a user calls them."""

from collections.abc import Callable
from importlib import metadata

import keras
import numpy as np
from builders import rivals
from shapes import NUM_DATA, SHAPES, Shape, targets

import singularbayes as sb

_BACKEND = keras.backend.backend()
# TensorFlow is one module of several wheels: tensorflow-cpu has it too.
PACKAGES = ("keras", metadata.packages_distributions()[_BACKEND][0])
VECTORISED = True


def train(shape: Shape, variant: str, execution: int = 1) -> Callable[[], int]:
    model = _model(shape, variant, steps_per_execution=execution)
    sb.set_kl(model, num_data=NUM_DATA)
    examples = shape.batch * shape.steps
    x, y = shape.inputs(examples), targets(shape, examples)

    def epoch() -> int:
        model.fit(x, y, batch_size=shape.batch, epochs=1, verbose=0)
        return shape.steps

    return epoch


def predict(shape: Shape, variant: str) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """Keras predicts once, however many draws are requested."""
    model = _model(shape, variant)
    if variant != "keras":
        likelihood = "gaussian" if shape.outputs == 1 else None

        def mean(x: np.ndarray, draws: int, batch: int) -> np.ndarray:
            found = sb.predict(model, x, draws=draws, batch_size=batch, likelihood=likelihood).mean
            return found.reshape(len(x), shape.outputs)  # one output is (examples,)

        return mean

    def once(x: np.ndarray, draws: int, batch: int) -> np.ndarray:
        outputs = model.predict(x, batch_size=batch, verbose=0)
        return outputs if shape.outputs == 1 else np.asarray(keras.ops.softmax(outputs))

    return once


def _model(shape: Shape, variant: str, **options) -> keras.Model:
    keras.utils.set_random_seed(0)
    [name] = [name for name, known in SHAPES.items() if known == shape]
    model = rivals(name)[variant]()
    classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = keras.losses.MeanSquaredError() if shape.outputs == 1 else classes
    model.compile(keras.optimizers.Adam(), loss, **options)
    return model
