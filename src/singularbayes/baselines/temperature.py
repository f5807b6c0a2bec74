"""A point classifier whose confidence is set on held-out data (Guo et al. 2017)."""

import dataclasses
from pathlib import Path
from typing import Self

import keras
import numpy as np
from scipy import optimize, special

from singularbayes.baselines import folders
from singularbayes.baselines.counts import count_trained
from singularbayes.inference import ClassPredictive, load, predict

_FILE = "model.keras"
_RANGE = (1e-2, 1e2)


class TemperatureScaled:
    """A trained point classifier with probabilities softmax(logits / T): one number more, which changes no label.

    Args:
        model: trained and compiled; its loss says whether it gives logits or probabilities.

    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, kernel_initializer="identity")])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> sure = np.array([[3.0, 0.0]] * 4)  # 95 % sure, and right in 3 of 4 cases: logits should be log 3 apart
    >>> round(TemperatureScaled(model).fit(sure, [0, 0, 0, 1]).temperature, 3)
    2.731
    """

    def __init__(self, model: keras.Model):
        self.model, self.temperature = model, 1.0

    def fit(self, x, y, **options) -> Self:
        """Finds the T that minimises −log p(y) on held-out `x` and whole-number labels `y`. Returns the baseline."""
        logits = _logits(self._ask(x, options))
        labels = np.asarray(y).reshape(-1)
        if len(labels) != len(logits) or not np.isin(labels, np.arange(logits.shape[1])).all():
            raise ValueError(
                f"TemperatureScaled needs a label from 0 to {logits.shape[1] - 1} for each of {len(logits)} examples; "
                f"got {len(labels)} labels with values {np.unique(labels)[:5]}."
            )

        def loss(log_t: float) -> float:
            chosen = special.log_softmax(logits / np.exp(log_t), axis=-1)[np.arange(len(labels)), labels.astype(int)]
            return float(-chosen.mean())

        # −log p(y) is convex in 1/T, so it has one minimum in log T.
        found = optimize.minimize_scalar(loss, bounds=np.log(_RANGE), method="bounded", options={"xatol": 1e-8})
        self.temperature = float(np.exp(found.x))
        return self

    def _ask(self, x, options) -> ClassPredictive:
        predictive = predict(self.model, x, **options)
        if not isinstance(predictive, ClassPredictive) or predictive.num_draws > 1 or predictive.mean.ndim != 2:
            raise ValueError(
                f"TemperatureScaled needs a point network that gives one class an example; got {self.model.name!r}, "
                f"with {predictive.num_draws} draws of shape {predictive.mean.shape}."
            )
        return predictive

    @property
    def num_trained(self) -> int:
        """How many numbers are trained: the model's and T."""
        return count_trained(self.model) + 1

    @property
    def num_stored(self) -> int:
        """How many numbers are kept: all that are trained."""
        return self.num_trained

    def predict(self, x, draws: int = 1, seed: int = 0, **options) -> ClassPredictive:
        """Returns the scaled probabilities; nothing is random, so there is one draw whatever `draws` says."""
        predictive = self._ask(x, options)
        mean = special.softmax(_logits(predictive) / self.temperature, axis=-1)
        draws_kept = None if predictive.draws is None else mean[None]
        entropy = special.entr(mean).sum(axis=-1)
        return dataclasses.replace(predictive, mean=mean, draws=draws_kept, expected_entropy=entropy)

    def save(self, folder: str | Path) -> None:
        """Writes the model and T into a folder; an older one there is replaced."""
        content = {"temperature": self.temperature}
        folders.write(folder, "TemperatureScaled", content, lambda path: self.model.save(path / _FILE))

    @classmethod
    def load(cls, folder: str | Path, **options) -> Self:
        """Returns a saved baseline; `options` are those of `keras.saving.load_model`."""
        content = folders.read(folder, "TemperatureScaled")
        scaled = cls(load(Path(folder) / _FILE, **options))
        scaled.temperature = content["temperature"]
        return scaled


def _logits(predictive: ClassPredictive) -> np.ndarray:
    # softmax(log p / T) is softmax(logits / T): they differ by a constant of each example.
    return np.log(np.maximum(predictive.mean, np.finfo("float64").tiny))
