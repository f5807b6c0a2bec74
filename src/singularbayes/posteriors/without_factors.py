"""What a posterior answers about random factors, their rank and their norms; here without factors."""

from typing import Any

import keras
import numpy as np

from singularbayes.posteriors import scope
from singularbayes.posteriors.factor import Factor
from singularbayes.posteriors.moments import Moments


class WithoutFactors(scope.Source, keras.layers.Layer):
    """The part of `Posterior` that is about W = A Bᵀ and its factors, for the posteriors that have none."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of W, once built."""
        rows, columns = self.get_build_config()["input_shape"]
        return rows, columns

    @property
    def factors(self) -> list[Factor]:
        """The arrays of random weights, once built."""
        return []

    @property
    def fixed_rank(self) -> int | None:
        """The rank that was requested for its random factors, or None; a smaller matrix lowers it."""
        return None

    @property
    def learned_rank(self) -> int | None:
        """How many columns are in use where training chooses the rank, or None."""
        return None

    def num_columns(self, shape) -> int | None:
        """Returns how many columns A and B have for a weight of that shape; None where W has no such factors."""
        return self.fixed_rank

    @property
    def effective_rank(self) -> int | None:
        """How many columns of A and B are in use, once built: the requested rank, lowered to min(m, n); else None."""
        if not self.built:
            return None
        return self.num_columns(self.shape) if self.learned_rank is None else self.learned_rank

    def label(self, *ranks: int | None) -> str:
        """Returns class and rank, as plans and summaries show them, for matrices of these effective ranks.

        >>> from singularbayes import LowRank
        >>> LowRank(16).label(16), LowRank(16).label(2)
        ('LowRank(16)', 'LowRank(16 → 2)')
        """
        requested, found = self.fixed_rank, sorted({rank for rank in ranks if rank is not None})
        shown = ", ".join(map(str, found))
        if requested is not None:
            shown = str(requested) if found in ([], [requested]) else f"{requested} → {shown}"
        return f"{type(self).__name__}({shown})"

    def with_rank(self, rank: int) -> Any:
        """Returns a copy that is not built and has another rank."""
        return type(self).from_config({**self.get_config(), "rank": rank})

    def factor_moments(self) -> list[Moments]:
        """Returns means and variances of the independent factors whose product is W: A and B, or W alone.

        Empty where W has other parts.
        """
        return []

    def squared_column_norms(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns ‖E a_k E b_kᵀ‖² and E‖a_k b_kᵀ‖² of every column of A and B, or None."""
        return None
