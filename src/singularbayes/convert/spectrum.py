"""How fast the singular values of a model's matrices fall: what a low rank would keep of each."""

from dataclasses import dataclass

import keras
import numpy as np

from singularbayes.convert import surgery, twins
from singularbayes.models import track

# Numbers of this relative size are rounding: float32 weights of rank r have rank r.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MatrixSpectrum:
    """The singular values s₁ ≥ s₂ ≥ … of one matrix. The energy of a value is its share of ‖W‖_F², s_i² / Σ s²."""

    layer: str  # its path in the model
    kind: str  # its class
    matrix: str  # which of the layer's: "kernel", "recurrent_kernel", "query/kernel", …
    shape: tuple[int, int]
    values: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.layer}/{self.matrix}"

    @property
    def energy(self) -> np.ndarray:
        """The energy that the best approximation of rank 1, 2, … keeps (Eckart–Young). A zero matrix loses none."""
        total = np.cumsum(self.values**2)
        return total / total[-1] if total[-1] else np.ones(len(self.values))

    @property
    def entropy_rank(self) -> float:
        """An effective rank: exp(−Σ p log p) of the energies p; r for r equal singular values, 0 for a zero matrix."""
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

    def rank_for(self, energy: float) -> int:
        """Returns the smallest rank, at least 1, that keeps this share of the energy.

        >>> MatrixSpectrum("head", "Dense", "kernel", (3, 3), np.array([3.0, 1.0, 0.0])).rank_for(0.9)
        1
        """
        _require_share(energy)
        return int(np.argmax(self.energy >= energy - _ROUNDING)) + 1


@dataclass(frozen=True)
class Spectrum:
    """The spectra of a model, in the order of its layers. Printed, it is a table for an energy of 90 %."""

    model: str
    rows: tuple[MatrixSpectrum, ...]

    def rank_for(self, energy: float) -> dict[str, int]:
        """Returns the rank that keeps this share of the energy for each layer, the largest of its matrices.

        It can be used as rules: `bayesianize(model, rules=spectrum(model).rank_for(0.9), init="svd", cap=True)`.
        """
        ranks: dict[str, int] = {}
        for row in self.rows:
            ranks[row.layer] = max(ranks.get(row.layer, 0), row.rank_for(energy))
        # The first rule that fits is taken, and "head" also fits "block/head": the longer path goes first.
        return dict(sorted(ranks.items(), key=lambda item: -item[0].count("/")))

    def table(self, energy: float = 0.9) -> str:
        """Returns the table: sizes, both effective ranks, and the rank that keeps this share of the energy."""
        _require_share(energy)
        head = ("matrix", "type", "size", "largest", "entropy rank", "stable rank", f"rank for {_percent(energy)}")
        rows = [head, *(_cells(row, energy) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:{'<' if i < 3 else '>'}{width}}" for i, (cell, width) in enumerate(pairs)).rstrip()
            for pairs in (zip(row, widths, strict=True) for row in rows)
        ]
        title = f"Spectrum of {self.model!r}"
        return "\n".join([title, lines[0], "─" * max(map(len, lines)), *lines[1:]])

    def __str__(self) -> str:
        return self.table()


def spectrum(model: keras.Model) -> Spectrum:
    """Returns the singular values of every weight matrix that has, or could have, a posterior.

    A Keras kernel is taken as the matrix that `bayesianize` would make of it: a convolution's is (positions · channels)
    × filters, that of an LSTM has its four gates side by side. Of a Bayesian layer it is the posterior mean.

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
            f"spectrum needs a model with at least one of {[cls.__name__ for cls in twins.TWINS]}; got {model.name!r}, "
            "which has none that is built."
        )
    # Of the layer itself there is no path.
    matrices = [
        (place.path or place.layer.name, type(place.layer).__name__, name, matrix)
        for place in found
        for name, matrix in twins.matrices(place.layer).items()
    ]
    rows = (_matrix_spectrum(*found) for found in track(matrices, len(matrices), "singular values"))
    return Spectrum(model.name, tuple(rows))


def _has_matrices(layer) -> bool:
    if twins.plain_class(layer) is not None:
        return True
    return twins.twin_class(layer) is not None and twins.refusal(layer) is None


def _matrix_spectrum(layer: str, kind: str, name: str, matrix: np.ndarray) -> MatrixSpectrum:
    twins.require_finite(matrix, f"{layer}/{name}")
    values = np.linalg.svd(matrix.astype("float64"), compute_uv=False)
    return MatrixSpectrum(layer, kind, name, (matrix.shape[0], matrix.shape[1]), values)


def _require_share(energy: float) -> None:
    if isinstance(energy, bool) or not isinstance(energy, (int, float)) or not 0 < energy <= 1:
        raise ValueError(f"rank_for needs 0 < energy <= 1; got energy={energy!r}.")


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def _cells(row: MatrixSpectrum, energy: float) -> tuple[str, ...]:
    return (
        row.name,
        row.kind,
        f"{row.shape[0]}×{row.shape[1]}",
        f"{row.values[0]:.3g}",
        f"{row.entropy_rank:.1f}",
        f"{row.stable_rank:.1f}",
        str(row.rank_for(energy)),
    )
