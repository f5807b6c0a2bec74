"""The table that shows what a conversion would do, before it is done."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes import posteriors
from singularbayes.convert import counterparts
from singularbayes.convert.decisions import Decision, Rules, bias_of, decide, weights_at
from singularbayes.convert.layer_matrices import Slot, find_slots, require_finite
from singularbayes.convert.members import Models
from singularbayes.models import count_stored
from singularbayes.models.progress import track
from singularbayes.posteriors import Posterior
from singularbayes.text_table import text_table


@dataclass(frozen=True)
class Matrix:
    """One matrix of a converted layer."""

    name: str
    shape: tuple[int, int]
    rank: int | None  # of the random part, lowered to min(shape); None where it has no rank
    norm: float  # ‖W‖_F
    residual: float | None = None  # ‖W − W_r‖_F, of an SVD start


@dataclass(frozen=True)
class Row:
    """One layer of a plan."""

    path: str
    kind: str  # its class
    posterior: str  # with its rank, and the effective ranks where matrices lower it; "" when it is kept
    matrices: tuple[Matrix, ...]
    before: int  # parameters
    after: int
    reason: str = ""  # why it is kept, or what is lost
    unsupported: bool = False

    @property
    def residual(self) -> float | None:
        """‖W − W_r‖_F over all matrices of the layer, of an SVD start."""
        parts = [matrix.residual for matrix in self.matrices if matrix.residual is not None]
        return math.hypot(*parts) if parts else None

    @property
    def explained(self) -> float | None:
        """The share of ‖W‖_F² over all matrices of the layer that an SVD start keeps."""
        if self.residual is None:
            return None
        norm = math.hypot(*(matrix.norm for matrix in self.matrices))
        return 1.0 - (self.residual / norm) ** 2 if norm else 1.0

    def cells(self, svd: bool) -> list[str]:
        """Returns the row as it is printed, with two columns for an SVD start."""
        shapes: dict[tuple[int, int], int] = {}
        for matrix in self.matrices:
            shapes[matrix.shape] = shapes.get(matrix.shape, 0) + 1
        shown = ", ".join(f"{f'{n} of ' if n > 1 else ''}{m}×{k}" for (m, k), n in shapes.items())
        start = ["", ""] if self.residual is None else [f"{self.residual:.3g}", f"{self.explained:.1%}"]
        start = start if svd else []
        return [self.path, self.kind, shown, self.posterior, f"{self.before:,}", f"{self.after:,}", *start, self.reason]


@dataclass(frozen=True)
class Plan:
    """What a conversion would do, layer by layer. Printed, it is a table.

    >>> import keras
    >>> found = plan(keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)]), 4)
    >>> found.before, found.after
    (210, 250)
    """

    model: str
    rows: tuple[Row, ...]
    svd: bool = False

    @property
    def before(self) -> int:
        """The number of parameters of the model, trainable or not."""
        return sum(row.before for row in self.rows)

    @property
    def after(self) -> int:
        """The number of parameters of the converted model: means, scales, and what is kept."""
        return sum(row.after for row in self.rows)

    @property
    def converted(self) -> list[Row]:
        return [row for row in self.rows if row.posterior]

    @property
    def unsupported(self) -> list[Row]:
        """The layers with weight matrices that have no Bayesian counterpart: they need `unsupported="keep"`."""
        return [row for row in self.rows if row.unsupported]

    @property
    def truncated(self) -> list[Row]:
        """The layers whose start keeps less than half of ‖W‖_F²: it predicts other than the trained model."""
        return [row for row in self.rows if row.explained is not None and row.explained < 0.5]

    def __str__(self) -> str:
        start = ["residual", "explained"] if self.svd else []
        head = ["layer", "type", "matrices", "posterior", "before", "after", *start, "reason"]
        total = ["total", "", "", f"{len(self.converted)} converted", f"{self.before:,}", f"{self.after:,}"]
        rows = [*(row.cells(self.svd) for row in self.rows), [*total, *[""] * (len(head) - len(total))]]
        align = "<<<<".ljust(len(head) - 1, ">") + "<"
        return "\n".join([f"Plan for {self.model!r}", text_table(head, rows, align), *self._hint()])

    def _hint(self) -> list[str]:
        """Returns a line on the layers that have to be kept and one on those that lose most of their weights."""
        kept, cut = len(self.unsupported), len(self.truncated)
        lines = []
        if kept:
            lines.append(f'Layers that cannot be converted: {kept}; unsupported="keep" leaves them as they are.')
        if cut:
            lines.append(
                f"Layers that keep less than half of ‖W‖_F²: {cut} of {len(self.converted)}; expect other predictions "
                "until the model is trained further. Take a higher rank, or sb.Adapter, which keeps W."
            )
        return lines


def plan(
    model: Models,
    posterior=None,
    rules: Rules | None = None,
    init: str = "svd",
    unsupported: str = "keep",
    *,
    bias_posterior: Posterior | None = None,
    per_head: bool = False,
) -> Plan:
    """Returns what `bayesianize` with the same arguments would do; print it. Nothing is changed.

    Where the means start at the trained weights the rows also have the Eckart–Young residual ‖W − W_r‖_F and the kept
    share of ‖W‖_F². Layers that cannot be converted are named, whatever `unsupported` is. Of several models, the
    members of an ensemble, a row has the matrices of all of them.

    >>> import keras
    >>> hidden, head = keras.layers.Dense(10, name="hidden"), keras.layers.Dense(2, name="head")
    >>> model = keras.Sequential([keras.Input((20,)), hidden, head], name="small")
    >>> print(plan(model, 16, rules={"head": None}))
    Plan for 'small'
    layer   type   matrices  posterior         before  after  residual  explained  reason
    ──────────────────────────────────────────────────────────────────────────────────────────────────────
    hidden  Dense  20×10     LowRank(16 → 10)     210    610         0     100.0%
    head    Dense                                  22     22                       kept by the rule 'head'
    total                    1 converted          232    632
    """
    decisions = decide(model, posterior, rules, init, unsupported, per_head)
    first = model[0] if isinstance(model, Sequence) else model
    counts: dict = {}
    rows = [
        _row(decision, init == "svd", bias_posterior, per_head, counts)
        for decision in track(decisions, len(decisions), "layers")
    ]
    return Plan(first.name, tuple(rows), init == "svd")


def _row(decision: Decision, svd: bool, bias_posterior, per_head: bool, counts: dict) -> Row:
    layer, path, given = decision.layer, decision.place.path, decision.given
    kind, before = type(layer).__name__, sum(math.prod(weight.shape) for weight in weights_at(layer))
    if not decision.posteriors:
        reason = f"{decision.reason}; one for each component" if decision.components > 1 else decision.reason
        after = before * decision.components
        return Row(path, kind, "", (), before * len(given), after, reason, decision.unsupported)
    bias, copies = bias_of(decision, bias_posterior), next(iter(decision.posteriors.values())).components
    after, matrices, slots = 0, [], [find_slots(one, per_head) for one in given]
    for name, slot in slots[0].items():
        if slot.is_matrix:
            chosen = decision.posteriors[name]
            after += _count(chosen, slot.shape, counts)
            matrices += [_matrix(path, name, own[name], chosen, svd) for own in slots]
        elif name.endswith("bias") and bias is not None:
            after += _count(bias, slot.shape, counts) * (copies // bias.components if bias.random else 1)
        else:  # a plain weight, once for every component
            after += math.prod(slot.shape) * copies
    notes = counterparts.changes(layer)
    if decision.part == "base":
        notes.append("W₀ and biases frozen")
    if decision.frozen:
        notes.append("frozen: starts at its weights and stays there")
    label = next(iter(decision.posteriors.values())).label(*(matrix.rank for matrix in matrices))
    return Row(path, kind, label, tuple(matrices), before * len(given), after, "; ".join(notes))


def _matrix(layer: str, name: str, slot: Slot, chosen: Posterior, svd: bool) -> Matrix:
    values = slot.read().astype("float64")
    require_finite(values, f"{layer}/{name}")
    residual = chosen.residual(values) if svd else None
    return Matrix(name, slot.shape, chosen.num_columns(slot.shape), float(np.linalg.norm(values)), residual)


def _count(posterior: Posterior, shape: tuple[int, int], counts: dict) -> int:
    """Returns the number of parameters that a posterior over a matrix of that shape predicts from."""
    key = (repr(posterior), shape)
    if key not in counts:
        made = posteriors.get_posterior(posterior)
        with posteriors.initializers.leaving_out("values"):
            made.build(shape)
        counts[key] = count_stored(made)
    return counts[key]
