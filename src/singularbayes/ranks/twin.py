"""The Bayesian twin of a trained model, at whatever rank, made on any machine."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import keras

from singularbayes import convert
from singularbayes.models import load_without_optimizer
from singularbayes.posteriors import LowRank


@dataclass(frozen=True)
class Twin:
    """Makes the Bayesian twin of a trained model at a rank, from its truncated weights: what a sweep can build.

    It holds the model's file, so that it can be sent to other machines.

    Args:
        file: the bytes of a .keras file.
        packages: packages that define layers of the model.
    """

    file: bytes
    packages: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path, packages: tuple[str, ...] = ()) -> "Twin":
        """Returns the twin of the model in a .keras file; raises where there is none."""
        load_without_optimizer(path, packages)
        return cls(path.read_bytes(), packages)

    @property
    def digest(self) -> str:
        """A short hash of the file: what tells one model from another."""
        return hashlib.sha256(self.file).hexdigest()[:12]

    def trained(self) -> keras.Model:
        """Returns the trained model."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            path.write_bytes(self.file)
            return load_without_optimizer(path, self.packages)

    def __call__(self, rank: int) -> keras.Model:
        """Returns the twin, compiled as the model was; a matrix that is smaller has a smaller rank."""
        return convert.bayesianize(self.trained(), LowRank(rank), init="svd", cap=True)

    def ranks(self) -> list[int]:
        """Returns 1, 2, 4, … as long as the factors of some matrix have no more numbers than it."""
        most = max(rows * columns // (rows + columns) for rows, columns in self._shapes())
        return [2**i for i in range(max(most, 1).bit_length())]

    def _shapes(self) -> list[tuple[int, int]]:
        return [row.shape for row in convert.spectrum(self.trained()).rows]
