"""How fast the singular values of a model's matrices fall: what a low rank would keep of each."""

from dataclasses import dataclass

import keras
import numpy as np

from singularbayes.convert import counterparts, surgery
from singularbayes.convert.layer_matrices import find_matrices, require_finite
from singularbayes.models.progress import track
from singularbayes.text_table import text_table

# Numbers of this relative size are rounding: float32 weights of rank r have rank r.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MatrixSpectrum:
    """The singular values s₁ ≥ s₂ ≥ … of one matrix. Shares are of ‖W‖_F² = Σ s².

    >>> row = MatrixSpectrum("head", "Dense", "kernel", (3, 2), np.array([2.0, 1.0]))
    >>> row.rank_for(0.8), row.rank_for(0.9)
    (1, 2)
    """

    layer: str  # its path in the model
    kind: str  # its class
    matrix: str  # which of the layer's: "kernel", "recurrent_kernel", "query/kernel", …
    shape: tuple[int, int]
    values: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.layer}/{self.matrix}"

    @property
    def explained(self) -> np.ndarray:
        """The share of ‖W‖_F² that the best approximation of rank 1, 2, … keeps (Eckart–Young); 1 for a zero matrix."""
        total = np.cumsum(self.values**2)
        return total / total[-1] if total[-1] else np.ones(len(self.values))

    @property
    def entropy_rank(self) -> float:
        """An effective rank: exp(−Σ p log p), p = s² / Σ s²; r for r equal singular values, 0 for a zero matrix."""
        squares = self.values**2
        if not squares.any():
            return 0.0
        p = squares[squares > 0] / squares.sum()
        return float(np.exp(-(p * np.log(p)).sum()))

    @property
    def stable_rank(self) -> float:
        """An effective rank: ‖W‖_F² / ‖W‖₂², which small singular values hardly move; at most the entropy rank."""
        squares = self.values**2
        return float(squares.sum() / squares[0]) if squares[0] else 0.0

    def rank_for(self, explained: float) -> int:
        """Returns the smallest rank, at least 1, that keeps this share of ‖W‖_F².

        >>> MatrixSpectrum("head", "Dense", "kernel", (3, 3), np.array([3.0, 1.0, 0.0])).rank_for(0.9)
        1
        """
        _require_share(explained)
        return int(np.argmax(self.explained >= explained - _ROUNDING)) + 1


@dataclass(frozen=True)
class Spectrum:
    """The spectra of a model, in the order of its layers. Printed, it is a table for a share of 90 %.

    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, kernel_initializer="ones", name="head")])
    >>> spectrum(model).rank_for(0.9)  # for bayesianize(model, rules=…)
    {'head': 1}
    """

    model: str
    rows: tuple[MatrixSpectrum, ...]

    def rank_for(self, explained: float) -> dict[str, int]:
        """Returns the rank that keeps this share of ‖W‖_F² for each layer, the largest of its matrices.

        It can be used as rules: `bayesianize(model, rules=spectrum(model).rank_for(0.9))`.
        """
        ranks: dict[str, int] = {}
        for row in self.rows:
            ranks[row.layer] = max(ranks.get(row.layer, 0), row.rank_for(explained))
        # The first rule that fits is taken, and "head" also fits "block/head": the longer path goes first.
        return dict(sorted(ranks.items(), key=lambda item: -item[0].count("/")))

    def table(self, explained: float = 0.9) -> str:
        """Returns the table: sizes, both effective ranks, and the rank that keeps this share of ‖W‖_F²."""
        _require_share(explained)
        head = ("matrix", "type", "size", "largest", "entropy rank", "stable rank", f"rank for {100 * explained:.6g} %")
        cells = [
            (
                row.name,
                row.kind,
                f"{row.shape[0]}×{row.shape[1]}",
                f"{row.values[0]:.3g}",
                f"{row.entropy_rank:.1f}",
                f"{row.stable_rank:.1f}",
                str(row.rank_for(explained)),
            )
            for row in self.rows
        ]
        table = text_table(head, cells, "<<<>>>>")
        return f"Spectrum of {self.model!r}\n{table}"

    def __str__(self) -> str:
        return self.table()


def spectrum(model: keras.Model) -> Spectrum:
    """Returns the singular values of every weight matrix that has, or could have, a posterior.

    A Keras kernel is taken as the matrix that `bayesianize` would make of it: a convolution's is (positions · channels)
    × filters, that of an LSTM has its four gates side by side. Of a Bayesian layer it is the posterior mean, of a
    mixture that of every component, "kernel[0]", "kernel[1]", ….

    >>> import keras
    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, kernel_initializer="ones", name="head")])
    >>> row = spectrum(model).rows[0]
    >>> row.name, row.shape, row.rank_for(0.9), f"{row.entropy_rank:.1f}"
    ('head/kernel', (8, 4), 1, '1.0')
    """
    if not isinstance(model, keras.layers.Layer) or not model.built:
        raise ValueError(f"spectrum needs a built Keras model; got {model!r}. Call it once on a batch first.")
    found = [place for place in surgery.places(model, _has_matrices) if _has_matrices(place.layer)]
    if not found:
        raise ValueError(
            f"spectrum needs a model with at least one of {[cls.__name__ for cls in counterparts.COUNTERPARTS]}; got "
            f"{model.name!r}, which has none that is built."
        )
    rows = [
        _matrix_spectrum(place.path, type(place.layer).__name__, name, matrix)
        for place in track(found, len(found), "singular values")
        for name, matrix in find_matrices(place.layer).items()
    ]
    return Spectrum(model.name, tuple(rows))


def _has_matrices(layer) -> bool:
    return counterparts.plain_class(layer) is not None or counterparts.is_convertible(layer)


def _matrix_spectrum(layer: str, kind: str, name: str, matrix: np.ndarray) -> MatrixSpectrum:
    require_finite(matrix, f"{layer}/{name}")
    values = np.linalg.svd(matrix.astype("float64"), compute_uv=False)
    return MatrixSpectrum(layer, kind, name, (matrix.shape[0], matrix.shape[1]), values)


def _require_share(explained: float) -> None:
    if isinstance(explained, bool) or not isinstance(explained, (int, float)) or not 0 < explained <= 1:
        raise ValueError(f"rank_for needs 0 < explained <= 1; got explained={explained!r}.")
