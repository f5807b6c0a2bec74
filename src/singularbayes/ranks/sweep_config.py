"""What a sweep is given: data, a budget, and what builds a model at a rank."""

import hashlib
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras

from singularbayes import convert
from singularbayes.checks import require_integer
from singularbayes.models import load_without_optimizer
from singularbayes.posteriors import LowRank


@dataclass(frozen=True)
class Data:
    """What a sweep trains on, what it is judged by, and out-of-distribution inputs: x, or several by name.

    >>> import numpy as np
    >>> x, y = np.ones((6, 2)), np.arange(6)
    >>> Data(train=(x[:4], y[:4]), validation=(x[4:], y[4:])).ood is None
    True
    """

    train: tuple[Any, Any]
    validation: tuple[Any, Any]
    ood: Any = None

    @property
    def ood_by_name(self) -> dict[str, Any]:
        if self.ood is None:
            return {}
        return self.ood if isinstance(self.ood, dict) else {"": self.ood}


@dataclass(frozen=True)
class Budget:
    """How many trials, and how much each may cost: fewer epochs and draws than a final training.

    `at_once` trials are chosen together: they know those before them and not each other, so that an engine can spread
    them out. Which trials there are depends on it, and not on the engine.

    >>> Budget(trials=8, epochs=5, seeds=3).trials
    8
    """

    trials: int = 20
    epochs: int = 10
    draws: int = 20
    seeds: int = 1
    batch_size: int = 128
    warmup: int = 0  # epochs in which the KL weight rises
    at_once: int = 4

    def __post_init__(self) -> None:
        require_integer("Budget", **{name: value for name, value in asdict(self).items() if name != "warmup"})
        require_integer("Budget", 0, warmup=self.warmup)
        if self.warmup >= self.epochs:
            raise ValueError(f"Budget needs warmup < epochs; got warmup={self.warmup} and epochs={self.epochs}.")

    @property
    def costs(self) -> dict[str, int]:
        """What the scores of a trial depend on."""
        return {name: value for name, value in asdict(self).items() if name not in ("trials", "at_once")}


@dataclass(frozen=True)
class Counterpart:
    """Makes the Bayesian counterpart of a trained model at a rank, from its truncated weights: what a sweep can build.

    It holds the model's file, so that it can be sent to other machines.

    Args:
        file: the bytes of a .keras file.
        packages: packages that define layers of the model.
    """

    file: bytes
    packages: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path, packages: tuple[str, ...] = ()) -> "Counterpart":
        """Returns the counterpart of the model in a .keras file; raises where there is none."""
        load_without_optimizer(path, packages)
        return cls(path.read_bytes(), packages)

    @property
    def digest(self) -> str:
        """A short hash of the file: what distinguishes one model from another."""
        return hashlib.sha256(self.file).hexdigest()[:12]

    def trained(self) -> keras.Model:
        """Returns the trained model."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            path.write_bytes(self.file)
            return load_without_optimizer(path, self.packages)

    def __call__(self, rank: int) -> keras.Model:
        """Returns the counterpart, compiled as the model was; a matrix that is smaller has a smaller rank."""
        return convert.bayesianize(self.trained(), LowRank(rank))

    def ranks(self) -> list[int]:
        """Returns 1, 2, 4, … as long as the factors of some matrix have no more parameters than it."""
        most = max(rows * columns // (rows + columns) for rows, columns in self._shapes())
        return [2**i for i in range(max(most, 1).bit_length())]

    def _shapes(self) -> list[tuple[int, int]]:
        return [row.shape for row in convert.spectrum(self.trained()).rows]
