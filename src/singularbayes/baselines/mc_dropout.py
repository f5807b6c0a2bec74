"""Dropout left on when predicting (Gal & Ghahramani 2016)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import keras
from keras import ops

from singularbayes.models import count_stored, count_trained
from singularbayes.models.data import is_stream, one_example
from singularbayes.models.inputs import require_model
from singularbayes.posteriors import flat_layers, noise, scope
from singularbayes.prediction import Predictive, predict
from singularbayes.training.fit_many import fit_many

# The attributes of Keras's layers for how much they drop or add.
_RATES = ("rate", "dropout", "recurrent_dropout", "stddev")


class _Masks(scope.Source, keras.layers.Layer):
    """The states of a model's seed generators: a draw of them fixes every mask of a pass."""

    def __init__(self, states):
        super().__init__()
        self.states = states

    def draw(self, key):
        keys = noise.split(key, len(self.states))
        return tuple(ops.cast(key, state.dtype) for key, state in zip(keys, self.states, strict=True))


def _of_model(name: str) -> property:
    return property(lambda self: getattr(self.model, name, None))


class _Dropping(keras.Model):
    """A model that predicts with dropout on."""

    def __init__(self, model):
        super().__init__(name=f"{model.name}_dropping")
        self.model, self.loss = model, model.loss
        self.masks = _Masks([variable for variable in model.variables if variable.name == "seed_generator_state"])
        self.built = True

    # What `predict` reads from a model; one that was not made as a graph has none of it.
    inputs = _of_model("inputs")
    outputs = _of_model("outputs")
    input_shape = _of_model("input_shape")
    output_names = _of_model("output_names")
    _inputs_struct = _of_model("_inputs_struct")
    _outputs_struct = _of_model("_outputs_struct")

    def call(self, inputs, training=False):
        states = scope.fixed_draw(self.masks)
        for variable, state in zip(self.masks.states, states, strict=True):
            variable.assign(state)  # inside a pass of `predict` no assignment outlives it
        with _standing_normalisation(self.model), _seeded(states):
            return self.model(inputs, training=True)


@contextmanager
def _standing_normalisation(model: keras.Model) -> Iterator[None]:
    """Keeps batch normalisation at its running statistics: Keras does so for layers that are not trainable."""
    layers = [layer for layer in flat_layers(model) if isinstance(layer, keras.layers.BatchNormalization)]
    layers = [layer for layer in layers if layer.trainable]
    try:
        for layer in layers:
            layer.trainable = False
        yield
    finally:
        for layer in layers:
            layer.trainable = True


@contextmanager
def _seeded(states: tuple) -> Iterator[None]:
    """Seeds torch's own generator, from which Keras takes the masks there; elsewhere the states are the seeds."""
    if keras.backend.backend() != "torch":
        yield
        return
    import torch

    first, second = (int(word) for word in states[0])
    with torch.random.fork_rng():
        torch.manual_seed(first << 31 | second)
        yield


class MCDropout:
    """A network whose dropout stays on: every draw is a pass with new masks. One training, one network, S passes.

    Batch normalisation keeps its running statistics. Masks are made per example, so a draw is reproducible from the
    seed for one `batch_size`, and another size gives other masks of the same distribution.

    Args:
        model: a compiled model with dropout, trained already or not.

    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> p = MCDropout(model).fit(np.ones((8, 4)), np.ones((8, 1)), epochs=1).predict(np.ones((2, 4)), draws=50)
    >>> bool((p.std > 0).all())
    True
    """

    def __init__(self, model: keras.Model):
        require_model("MCDropout", model)
        rates = [getattr(layer, name, None) for layer in flat_layers(model) for name in _RATES]
        if not any(isinstance(rate, (int, float)) and rate > 0 for rate in rates):
            raise ValueError(f"MCDropout needs a model with dropout; got {model.name!r} with none.")
        self.model = model
        self.history: keras.callbacks.History | None = None
        self._dropping: keras.Model | None = None

    def fit(self, x, y, epochs: int = 1, batch_size: int = 32, *, seed: int = 0, **options) -> Self:
        """Trains the model; `options` are those of `fit_many`. Returns the baseline."""
        (self.history,) = fit_many(lambda: self.model, x, y, [seed], epochs, batch_size, **options)
        return self

    @property
    def num_trained(self) -> int:
        """The trainable parameters."""
        return count_trained(self.model)

    @property
    def num_stored(self) -> int:
        """The stored parameters."""
        return count_stored(self.model)

    def predict(self, x, draws: int = 100, seed: int = 0, **options) -> Predictive:
        """Returns what `draws` passes with dropout predict; `options` are those of `singularbayes.predict`."""
        if self._dropping is None:
            if not self.model.built:
                if is_stream(x):
                    raise ValueError(
                        f"MCDropout needs {self.model.name!r} built before it predicts a stream; call fit."
                    )
                self.model(one_example(x, "MCDropout"), training=False)  # makes its weights
            self._dropping = _Dropping(self.model)
        return predict(self._dropping, x, draws, seed, **options)
