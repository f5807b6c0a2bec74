"""A deterministic classifier whose confidence is set on held-out data (Guo et al. 2017)."""

from pathlib import Path
from typing import Self

import keras

from singularbayes.baselines import folders
from singularbayes.models import count_stored, count_trained, require_model
from singularbayes.prediction import ClassPredictive, Temperature, predict, recalibrate
from singularbayes.training import load

_FILE = "model.keras"


class TemperatureScaled:
    """A trained deterministic classifier with probabilities softmax(logits / T): T changes no label.

    Args:
        model: trained and compiled; its loss decides whether it gives logits or probabilities.

    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, kernel_initializer="identity")])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> sure = np.array([[3.0, 0.0]] * 4)  # 95 % sure, and right in 3 of 4 cases: logits should be log 3 apart
    >>> round(TemperatureScaled(model).fit(sure, [0, 0, 0, 1]).temperature, 3)
    2.731
    """

    def __init__(self, model: keras.Model):
        require_model("TemperatureScaled", model)
        self.model, self.temperature = model, 1.0

    def __repr__(self) -> str:
        return f"TemperatureScaled({self.model.name!r}, temperature={self.temperature:.4g})"

    def fit(self, x, y=None, **options) -> Self:
        """Finds the T that minimises −log p(y) on held-out `x` and integer labels `y`. Returns the baseline.

        `x` may be data of every kind that `predict` takes; `y=None` takes the labels of batches (x, y).
        """
        self.temperature = recalibrate(self._predictions(x, options), y).value
        return self

    def _predictions(self, x, options) -> ClassPredictive:
        predictive = predict(self.model, x, **options)
        if not isinstance(predictive, ClassPredictive) or predictive.num_draws > 1 or predictive.mean.ndim != 2:
            raise ValueError(
                f"TemperatureScaled needs a deterministic network that gives one class per example; got "
                f"{self.model.name!r}, with {predictive.num_draws} draws of shape {predictive.mean.shape}."
            )
        return predictive

    @property
    def num_trained(self) -> int:
        """The trainable parameters: the model's and T."""
        return count_trained(self.model) + 1

    @property
    def num_stored(self) -> int:
        """The stored parameters: the model's and T."""
        return count_stored(self.model) + 1

    def predict(self, x, draws: int = 1, seed: int = 0, **options) -> ClassPredictive:
        """Returns the scaled probabilities; nothing is random, so there is one draw whatever `draws` is."""
        return Temperature(self.temperature)(self._predictions(x, options))

    def save(self, folder: str | Path) -> None:
        """Writes the model and T into a folder; an older one there is replaced."""
        content = {"temperature": self.temperature}
        folders.write_folder(folder, "TemperatureScaled", content, lambda path: self.model.save(path / _FILE))

    @classmethod
    def load(cls, folder: str | Path, **options) -> Self:
        """Returns a saved baseline; `options` are those of `keras.saving.load_model`."""
        content = folders.read_folder(folder, "TemperatureScaled")
        scaled = cls(load(Path(folder) / _FILE, **options))
        scaled.temperature = content["temperature"]
        return scaled
