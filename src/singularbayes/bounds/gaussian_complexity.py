"""Gaussian complexity Ĝ of feed-forward networks with bounded spectral norms and ranks.

Ĝ(F) = E sup_f (1/N) Σ_j ⟨γ_j, f(x_j)⟩ over standard Gaussian γ_j. The class F holds the networks without biases, with a
1-Lipschitz activation that is 0 at 0, ‖W_i‖₂ ≤ C_i and rank W_i ≤ r_i. Its Ĝ is unchanged when C₁ is multiplied by c
and C₂ divided by it, so a valid bound depends on the product of *all* norms; the paper's does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.linalg import svdvals

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_finite, require_integer, require_positive, require_share

_CLASS = (
    "feed-forward network without biases",
    "1-Lipschitz activation with φ(0) = 0",
    "norms and ranks hold for every network of the class",
)


@dataclass(frozen=True)
class NetworkClass:
    """Networks with ‖W_i‖₂ ≤ norms[i] and rank W_i ≤ ranks[i].

    Args:
        widths: h₀, …, h_D: the inputs' dimension and the width of every layer, one more than there are layers.

    >>> two_layers = NetworkClass(norms=[2.0, 1.5], ranks=[4, 2], widths=[8, 16, 2])
    >>> gaussian_complexity(two_layers, 30.0, 1000).is_certificate
    True
    """

    norms: Sequence[float]
    ranks: Sequence[int]
    widths: Sequence[int]

    def __post_init__(self):
        if not len(self.norms) == len(self.ranks) == len(self.widths) - 1 >= 1:
            raise ValueError(
                "NetworkClass needs a norm and a rank for each layer and the widths before and after it; got "
                f"{len(self.norms)} norms, {len(self.ranks)} ranks and {len(self.widths)} widths."
            )
        require_positive("NetworkClass", norms=self.norms)
        for rank in self.ranks:
            require_integer("NetworkClass", rank=rank)
        for width in self.widths:
            require_integer("NetworkClass", width=width)

    @property
    def depth(self) -> int:
        return len(self.norms)

    @property
    def norm(self) -> float:
        """∏ C_i, which bounds the Lipschitz constant of every network."""
        return math.prod(self.norms)

    @property
    def true_ranks(self) -> tuple[int, ...]:
        """The ranks that matrices of these widths can have."""
        return tuple(map(min, self.ranks, self.widths[:-1], self.widths[1:]))


def gaussian_complexity(network: NetworkClass, input_norm: float, num_data: int) -> Bound:
    """Returns an upper bound of Ĝ of the class, on inputs with ‖X‖_F = `input_norm`.

    By chaining over covers of the class, Ĝ ≤ 12 ‖X‖_F ∏C_i/N √(Σ r_i (h_i + h_(i−1))) ∫₀^½ √ln(1 + 4D/s) ds: all its
    constants are known. The paper peels layer by layer, with constants that nobody has computed.

    >>> one = NetworkClass(norms=[0.1], ranks=[1], widths=[1, 1])
    >>> gaussian_complexity(one, input_norm=3.0, num_data=9).value > 0.1 * math.sqrt(2 / math.pi) * 3.0 / 9
    True
    """
    require_positive("gaussian_complexity", input_norm=input_norm)
    require_integer("gaussian_complexity", num_data=num_data)
    # Unit balls of rank r are covered by (1 + 4D/s)^(r(h + h')) matrices.
    sizes = zip(network.true_ranks, network.widths, network.widths[1:], strict=False)
    entries = sum(rank * (before + after) for rank, before, after in sizes)
    integral, error = quad(lambda s: math.sqrt(math.log1p(4 * network.depth / s)), 0, 0.5, epsabs=1e-12)
    return Bound(
        "Gaussian complexity",
        "Ĝ of the class",
        12 * input_norm / num_data * network.norm * math.sqrt(entries) * (integral + error),
        assumptions=_CLASS,
        terms={"‖X‖": input_norm, "N": num_data, "product of norms": network.norm},
    )


def linear_complexity(
    inputs: np.ndarray,
    width: int,
    rank: int,
    norm: float,
    delta: float = 0.05,
    draws: int = 1000,
    rng: np.random.Generator | None = None,
) -> Bound:
    """Returns Ĝ of one linear layer from above: its exact value by Monte Carlo, plus what that may be off by.

    Ĝ = (C/N) E[s₁ + … + s_r], the largest singular values of ΓX (Ky Fan). The sum is √r ‖X‖₂-Lipschitz in Γ, so the
    mean over draws is below its expectation by more than √r ‖X‖₂ √(2 ln(1/δ)/draws) with probability at most δ.

    Args:
        inputs: X (examples, …, features). The layer acts on the last axis, so with axes between, such as the time
            steps of a sequence, all their rows are rows of X, while N stays the number of examples.
        rng: NumPy generator; a fixed seed where not given.

    >>> found = linear_complexity(np.eye(4), width=2, rank=1, norm=1.0)
    >>> 0.5 < found.value < 1 and found.is_certificate
    True
    """
    inputs = np.asarray(inputs, "float64")
    require_finite("linear_complexity", inputs=inputs)
    if inputs.ndim < 2:
        raise ValueError(f"linear_complexity needs inputs (examples, …, features); got shape {inputs.shape}.")
    require_integer("linear_complexity", width=width, rank=rank, draws=draws)
    require_positive("linear_complexity", norm=norm)
    require_share("linear_complexity", delta=delta)
    rng = rng or np.random.default_rng(0)
    rank = min(rank, width, inputs.shape[-1])
    # ΓX has the distribution of Z R for X = QR: its size does not depend on the number of examples.
    root = np.linalg.qr(inputs.reshape(-1, inputs.shape[-1]), mode="r")
    noise = (rng.standard_normal((width, len(root))) for _ in range(draws))  # one at a time: it may be large
    estimate = float(np.mean([svdvals(z @ root)[:rank].sum() for z in noise]))
    error = math.sqrt(rank) * np.linalg.norm(root, 2) * math.sqrt(2 * math.log(1 / delta) / draws)
    factor = norm / len(inputs)
    return Bound(
        "Gaussian complexity of one linear layer",
        "Ĝ of the class",
        float(factor * (estimate + error)),
        assumptions=("one linear layer without bias", *_CLASS[2:]),
        deltas={"Monte Carlo": delta},
        terms={"estimate": factor * estimate, "Monte Carlo error": float(factor * error), "draws": draws},
    )
