"""Ranks by a bound: what a truncation can cost in loss, plus what a rank costs in a PAC-Bayes bound."""

import math
from dataclasses import dataclass, replace

import keras
import numpy as np
from keras import ops

from singularbayes.bounds import loss_constants, pac_bayes, truncation_bound
from singularbayes.checks import require_integer, require_positive, require_share
from singularbayes.convert import MatrixSpectrum, spectrum
from singularbayes.evaluation import flat_layers_in_order
from singularbayes.models import as_arrays
from singularbayes.posteriors import scope
from singularbayes.ranks import change
from singularbayes.ranks.recommendation import Recommendation, Row


@dataclass(frozen=True)
class _Matrix:
    """One matrix: its singular values, and how far a unit of its norm moves the output: E‖h‖ times the norms behind."""

    spectrum: MatrixSpectrum
    radius: float

    @property
    def cost(self) -> int:
        return sum(self.spectrum.shape)

    def loss(self, rank: int, lipschitz: float) -> float:
        return truncation_bound(self.spectrum.values, rank, lipschitz, self.radius).value

    def losses(self, lipschitz: float) -> np.ndarray:
        """Returns the loss term of the ranks 1, 2, …"""
        return np.array([self.loss(rank, lipschitz) for rank in range(1, len(self.spectrum.values) + 1)])


_OF_LOGITS = ("softmax_ce", "bce_logit")  # losses whose Lipschitz constant is in logits


def by_bound(
    model: keras.Model,
    x,
    *,
    num_data: int | None = None,
    loss: str = "softmax_ce",
    weight_kl: float = 1.0,
    delta: float = 0.05,
) -> Recommendation:
    """Returns the ranks with the least sum of a bound of the truncation's loss and a PAC-Bayes term.

    Cutting matrix l to rank r changes the mean loss over `x` by at most L R_l s_{r+1}, where R_l is the mean norm of
    what the layer is given times the norms of the layers behind it; the layers' terms add up. A rank costs
    √((C Σ r (m + n) + ln(2√N/δ))/(2N)) in the square-root form of the bound, with C nats for every weight. The
    first falls with the rank and the second rises.

    A planning figure and no certificate: it takes C to be the same for all weights, adds the bound of one loss to a
    bound that is about losses in [0, 1], and has seen `x`. Both terms are loose for deep networks, where norms
    multiply.

    Args:
        model: a `keras.Sequential` of dense and convolutional layers, plain or Bayesian, trained.
        x: examples, from which the norms of the inputs of every layer are measured.
        num_data: N, the size of the training set; None is the number of examples.
        loss: a name of `bounds.loss_constants` with a Lipschitz constant.
        weight_kl: C, nats of KL a weight: sb.kl(model, "exact") over the number of weights, where it is known.

    >>> import keras
    >>> keras.utils.set_random_seed(0)
    >>> hidden, head = keras.layers.Dense(5, name="hidden"), keras.layers.Dense(2, name="head")
    >>> model = keras.Sequential([keras.Input((6,)), hidden, head])
    >>> list(by_bound(model, np.ones((40, 6)), weight_kl=0.1).ranks)
    ['hidden', 'head']
    """
    require_positive("by_bound", weight_kl=weight_kl)
    require_share("by_bound", delta=delta)
    lipschitz = loss_constants(loss).lipschitz
    if lipschitz is None:
        raise ValueError(f"by_bound needs a loss with a Lipschitz constant; got loss={loss!r}, which has none.")
    x = as_arrays(x, "by_bound")
    num_data = len(x) if num_data is None else num_data
    require_integer("by_bound", num_data=num_data)
    matrices = _matrices(model, x, loss)
    ranks = _best(matrices, lipschitz, weight_kl, num_data, delta)
    lost = [matrix.loss(rank, lipschitz) for matrix, rank in zip(matrices, ranks, strict=True)]
    rows = [
        Row(m.spectrum.layer, m.spectrum.matrix, m.spectrum.shape, rank, f"about {term:.3g} of the loss")
        for m, rank, term in zip(matrices, ranks, lost, strict=True)
    ]
    complexity = _complexity(matrices, ranks, weight_kl, num_data, delta)
    how = (
        f"Least sum of loss {sum(lost):.3g} and PAC-Bayes {complexity:.3g} with {weight_kl:g} nats per weight and "
        f"{num_data:,} examples: a planning figure, no certificate."
    )
    return Recommendation(model.name, tuple(rows), how)


def _matrices(model, x: np.ndarray, loss: str) -> list[_Matrix]:
    steps, reasons = change.read_steps(model, {})
    if reasons:
        raise ValueError(
            f"by_bound needs dense and convolutional layers in a row, whose norms multiply; got {'; '.join(reasons)}. "
            "ranks.by_spectrum takes any network."
        )
    if loss in _OF_LOGITS and _gives_probabilities(model):
        steps = (*steps[:-1], replace(steps[-1], slope=1.0))  # the constant of the loss has the last step in it
    sizes = _input_norms(model, x)
    spectra = iter(spectrum(model).rows)
    found = []
    for i, (step, size) in enumerate(zip(steps, sizes, strict=True)):
        if step.patches is not None:
            behind = math.prod(later.slope * later.norm for later in steps[i + 1 :]) * step.slope
            found.append(_Matrix(next(spectra), size * step.patches * behind))
    return found


def _gives_probabilities(model) -> bool:
    *_, last = filter(change.has_step, flat_layers_in_order(model))
    return getattr(last, "activation", None) in (keras.activations.softmax, keras.activations.sigmoid)


def _input_norms(model, x: np.ndarray) -> list[float]:
    """Returns the mean norm of what every layer with a step is given, at the mean weights."""
    norms, h = [], x
    with scope.at_means():
        for layer in flat_layers_in_order(model):
            if change.has_step(layer):
                rows = ops.convert_to_numpy(h).reshape(len(x), -1).astype("float64")
                norms.append(float(np.linalg.norm(rows, axis=1).mean()))
            h = layer(h)
    return norms


def _complexity(matrices: list[_Matrix], ranks: list[int], weight_kl: float, num_data: int, delta: float) -> float:
    kl = weight_kl * sum(rank * matrix.cost for rank, matrix in zip(ranks, matrices, strict=True))
    return pac_bayes(0.0, kl, num_data, delta, form="sqrt").terms["uncapped"]


def _best(matrices: list[_Matrix], lipschitz: float, weight_kl: float, num_data: int, delta: float) -> list[int]:
    """Returns the ranks with the least sum among those that are best for some price of a weight."""
    losses = [matrix.losses(lipschitz) for matrix in matrices]
    largest = max(float(loss[0]) for loss in losses) or 1.0
    choices = {tuple(_at_price(matrices, losses, price)) for price in largest * np.logspace(-9, 1, 400)}

    def total(ranks: tuple[int, ...]) -> float:
        lost = sum(float(loss[rank - 1]) for loss, rank in zip(losses, ranks, strict=True))
        return lost + _complexity(matrices, list(ranks), weight_kl, num_data, delta)

    return list(sorted(choices, key=total)[0])


def _at_price(matrices: list[_Matrix], losses: list[np.ndarray], price: float) -> list[int]:
    """Returns the rank of every matrix with the least loss + price · rank · (m + n): a sum, so each for itself."""
    return [
        int(np.argmin(loss + price * matrix.cost * np.arange(1, len(loss) + 1))) + 1
        for matrix, loss in zip(matrices, losses, strict=True)
    ]
