"""SWAG: a Gaussian fitted to the weights that SGD passes through (Maddox et al. 2019)."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_integer
from singularbayes.models import count_stored, count_trained
from singularbayes.models.data import collected, is_stream
from singularbayes.models.draw_weights import forget_compiled
from singularbayes.models.inputs import arranged, require_model
from singularbayes.models.programs import compiled
from singularbayes.posteriors import draw_keys, find_posteriors, flat_layers
from singularbayes.prediction import Predictive, pool
from singularbayes.training import fit_many, load
from singularbayes.training.fit_many import callbacks_factory

_MODEL, _MOMENTS = "model.keras", "moments.npz"


class Snapshots:
    """Mean and variance of all snapshots, and the last K deviations from the running mean.

    θ = mean + √(var / 2) ∘ z₁ + D z₂ / √(2 (K − 1)), so its covariance is ½ (diag(var) + D Dᵀ / (K − 1)). K is the
    rank, or the number of snapshots where there are fewer. The first snapshot is its own running mean: that deviation
    is 0 and is not kept, but counts in K.

    >>> snapshots = Snapshots(rank=5)
    >>> for value in (1.0, 3.0, 5.0):
    ...     snapshots.add(np.array([value]))
    >>> snapshots.mean, snapshots.variance, [d.tolist() for d in snapshots.deviations]  # running means 1, 2, 3
    (array([3.]), array([2.66666667]), [[1.0], [2.0]])
    """

    def __init__(self, rank: int):
        self.rank, self.collected = rank, 0
        self.mean = self.squares = np.zeros(0)
        self.deviations: deque[np.ndarray] = deque(maxlen=rank)

    def add(self, weights: np.ndarray) -> None:
        """Adds one snapshot, (P,)."""
        weights = np.asarray(weights, "float64")
        if not np.isfinite(weights).all():
            raise ValueError("SWAG needs finite weights; got NaN or infinity in a snapshot. Lower the learning rate.")
        self.collected += 1
        if self.collected == 1:
            self.mean, self.squares = weights.copy(), np.zeros_like(weights)
            return
        shift = weights - self.mean
        self.mean = self.mean + shift / self.collected
        self.squares = self.squares + shift * (weights - self.mean)
        self.deviations.append((weights - self.mean).astype("float32"))

    def require(self) -> None:
        """Raises unless there are enough snapshots for a covariance."""
        if self.collected < 2:
            raise ValueError(
                f"SWAG needs 2 or more snapshots; got {self.collected}. Call fit with epochs >= start + 2."
            )

    @property
    def variance(self) -> np.ndarray:
        return self.squares / self.collected

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Returns one draw of the weights, (P,)."""
        k = min(self.rank, self.collected)
        weights = self.mean + np.sqrt(self.variance / 2) * rng.standard_normal(len(self.mean), "float32")
        along = rng.standard_normal(len(self.deviations)) / np.sqrt(2 * (k - 1))
        for z, deviation in zip(along, self.deviations, strict=True):
            weights += z * deviation
        return weights.astype("float32")


class _Collect(keras.callbacks.Callback):
    """Takes a snapshot after every epoch from `start` on."""

    def __init__(self, snapshots: Snapshots, start: int):
        super().__init__()
        self.snapshots, self.start = snapshots, start

    def on_epoch_end(self, epoch, logs=None):
        if epoch >= self.start:
            self.snapshots.add(flat_weights(self.model.trainable_variables))


@contextmanager
def _trained_by(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> Iterator[keras.Model]:
    """Gives a compiled model another optimizer inside a `with` block."""
    own = model.optimizer
    try:
        model.optimizer = optimizer
        forget_compiled(model)
        yield model
    finally:
        if not own.built:
            own.build(model.trainable_variables)  # Keras warns about a file whose optimizer has no state
        model.optimizer = own
        forget_compiled(model)


class SWAG:
    """A deterministic network and the Gaussian N(mean, ½ diag(var) + ½ D Dᵀ / (K − 1)) of its weights along SGD.

    The mean and the variances are of all snapshots; D has the last K of their deviations from the running mean. One
    training of some epochs more, (2 + K) times the parameters, one pass per draw. After `fit` the model is at the mean.
    With batch normalisation every draw gets its own statistics from the training inputs, as the authors do it:
    one pass over them per draw.

    Args:
        model: compiled; trained already, or trained by `fit` before it collects.
        rank: K, at least 2; the paper has 20.

    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> x = np.random.default_rng(0).normal(size=(64, 3))
    >>> swag = SWAG(model, rank=4).fit(x, x[:, :1], epochs=10)
    >>> swag.num_trained, swag.num_stored, swag.predict(x, draws=20).num_draws  # (2 + 4) · 4
    (4, 24, 20)
    """

    def __init__(self, model: keras.Model, rank: int = 20):
        require_integer("SWAG", 2, rank=rank)
        require_model("SWAG", model)
        if not model.compiled:
            raise ValueError(f"SWAG needs a compiled model; got {model.name!r}. Call compile first.")
        if any(posterior.random for posterior in find_posteriors(model)):
            raise ValueError(f"SWAG needs a deterministic network; got {model.name!r} with a random posterior.")
        self.model, self.rank = model, int(rank)
        self.snapshots = Snapshots(self.rank)
        self.history: keras.callbacks.History | None = None
        self.inputs = None  # what the statistics of batch normalisation are made from

    def __repr__(self) -> str:
        return f"SWAG({self.model.name!r}, rank={self.rank}, {self.snapshots.collected} snapshots)"

    def fit(
        self,
        x,
        y,
        epochs: int,
        batch_size: int = 32,
        *,
        start: int = 0,
        optimizer: keras.optimizers.Optimizer | None = None,
        seed: int = 0,
        **options,
    ) -> Self:
        """Trains the model on, takes a snapshot after every epoch from `start` on, and returns the baseline.

        The model has its own optimizer back afterwards.

        Args:
            start: epochs that train the model before it collects; 0 for one that is trained.
            optimizer: SGD with a constant rate of 0.01 and momentum 0.9 if None.
            **options: those of `fit_many`.
        """
        if is_stream(x):
            x, y, options["sample_weight"] = collected(x, y, options.get("sample_weight"), "SWAG.fit")
        snapshots = Snapshots(self.rank)
        collect, others = _Collect(snapshots, start), callbacks_factory(options.pop("callbacks", None))
        with _trained_by(optimizer or keras.optimizers.SGD(0.01, momentum=0.9), self.model) as model:
            (self.history,) = fit_many(
                lambda: model, x, y, [seed], epochs, batch_size, callbacks=lambda: [collect, *others()], **options
            )
        snapshots.require()
        self.snapshots = snapshots
        self.inputs = x if has_statistics(self.model) else None
        self._set(snapshots.mean)
        return self

    @classmethod
    def from_snapshots(cls, model: keras.Model, snapshots: Snapshots, inputs=None) -> Self:
        """Returns the SWAG of snapshots that are there already; the model is then at their mean.

        Args:
            inputs: the training inputs, which a network with batch normalisation needs.
        """
        snapshots.require()
        swag = cls(model, snapshots.rank)
        swag.snapshots, swag.inputs = snapshots, inputs if has_statistics(model) else None
        swag._set(snapshots.mean)
        return swag

    @property
    def num_trained(self) -> int:
        """The trainable parameters: P of one network."""
        return count_trained(self.model)

    @property
    def num_stored(self) -> int:
        """The stored parameters: (2 + K) P, and what is not trained. The first deviation is 0 and is not kept."""
        frozen = count_stored(self.model) - self.num_trained
        return (2 + len(self.snapshots.deviations)) * self.num_trained + frozen

    def predict(self, x, draws: int = 100, seed: int = 0, **options) -> Predictive:
        """Returns what `draws` networks from the Gaussian predict; `options` are those of `singularbayes.predict`."""
        self.snapshots.require()
        if has_statistics(self.model) and self.inputs is None:
            raise ValueError(
                f"SWAG needs the training inputs for the batch normalisation of {self.model.name!r}, and files do not "
                "hold them; pass them to load: SWAG.load(folder, inputs=x)."
            )
        try:
            return pool(lambda: self._drawn(seed, draws), draws, x, draws, seed, **options)
        finally:
            self._set(self.snapshots.mean)

    def _drawn(self, seed: int, draws: int) -> Iterator[keras.Model]:
        """Yields the model with one draw of its weights after another."""
        for key in draw_keys(seed, draws):
            self._set(self.snapshots.draw(np.random.default_rng(key[:2])))
            yield self.model

    def _set(self, flat: np.ndarray) -> None:
        variables = self.model.trainable_variables
        ends = np.cumsum([int(np.prod(variable.shape)) for variable in variables])
        for variable, values in zip(variables, np.split(flat, ends[:-1]), strict=True):
            variable.assign(values.reshape(variable.shape))
        if has_statistics(self.model):
            renew_statistics(self.model, self.inputs)

    def save(self, folder: str | Path) -> None:
        """Writes the model at the mean and the moments into a folder; training inputs are not saved."""
        self.snapshots.require()
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.model.save(Path(folder) / _MODEL)
        kept = self.snapshots
        np.savez(
            Path(folder) / _MOMENTS,
            counts=np.array([kept.rank, kept.collected]),
            moments=np.stack([kept.mean, kept.squares]),
            deviations=np.array(kept.deviations),
        )

    @classmethod
    def load(cls, folder: str | Path, inputs=None, **options) -> Self:
        """Returns a saved SWAG; `options` are those of `keras.saving.load_model`.

        Args:
            inputs: the training inputs, which a network with batch normalisation needs.
        """
        with np.load(Path(folder) / _MOMENTS) as arrays:
            rank, collected = map(int, arrays["counts"])
            swag = cls(load(Path(folder) / _MODEL, **options), rank)
            swag.snapshots.collected, (swag.snapshots.mean, swag.snapshots.squares) = collected, arrays["moments"]
            swag.snapshots.deviations.extend(arrays["deviations"])
        swag.inputs = inputs
        return swag


def flat_weights(variables) -> np.ndarray:
    """Returns all entries of some variables in one row, (P,)."""
    return np.concatenate([keras.ops.convert_to_numpy(variable).ravel() for variable in variables])


def has_statistics(model: keras.Model) -> bool:
    """Whether a model has batch normalisation."""
    return bool(_normalisations(model))


def renew_statistics(model: keras.Model, inputs, batch_size: int = 256) -> None:
    """Sets the running statistics of batch normalisation to those of `inputs`: averages over batches, as in training.

    Every layer sees what those before it give when they normalise by their batch, and dropout is on.
    """
    x = arranged(model, inputs)
    examples = len(keras.tree.flatten(x)[0])
    total: list[np.ndarray] = []
    for first in range(0, examples, batch_size):
        batch = keras.tree.map_structure(lambda array: array[first : first + batch_size], x)  # noqa: B023
        share = min(batch_size, examples - first) / examples
        found = [share * ops.convert_to_numpy(value).astype("float64") for value in compiled(model, _of_batch, batch)]
        total = [a + b for a, b in zip(total, found, strict=True)] if total else found
    for variable, value in zip(_statistics(model), total, strict=True):
        variable.assign(value)


def _normalisations(model) -> list:
    return [layer for layer in flat_layers(model) if isinstance(layer, keras.layers.BatchNormalization)]


def _statistics(model) -> list:
    return [variable for layer in _normalisations(model) for variable in (layer.moving_mean, layer.moving_variance)]


def _of_batch(model, batch):
    """Returns the means and variances of a batch in every layer, as its running statistics with no momentum."""
    layers = _normalisations(model)
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.momentum = 0.0
        model(keras.tree.map_structure(ops.convert_to_tensor, batch), training=True)
        return [ops.convert_to_tensor(variable) for variable in _statistics(model)]
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
