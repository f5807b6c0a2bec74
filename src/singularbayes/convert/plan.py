"""What a conversion would do, said before it is done: the decisions, and the table that shows them."""

import fnmatch
import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral

import keras
import numpy as np

from singularbayes import posteriors
from singularbayes.convert import surgery, twins
from singularbayes.posteriors import LowRank, Posterior

Choice = Posterior | int | str | None
Rules = Mapping[str | type, "Choice | Callable[[keras.layers.Layer], Choice]"]

# Their weights scale and shift, entry by entry, whatever the shape.
_ELEMENTWISE = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.Normalization,
    keras.layers.PReLU,
    keras.layers.RMSNormalization,
)
NO_MATRIX, NO_TWIN, BAYESIAN = "no weight matrix", "no twin", "Bayesian already"


@dataclass(frozen=True)
class Decision:
    """What becomes of one layer."""

    place: surgery.Place
    posteriors: Mapping[str, Posterior]  # by matrix; none when the layer is kept
    reason: str = ""  # why it is kept
    unsupported: bool = False  # whether it is kept because it cannot be converted

    @property
    def layer(self) -> keras.layers.Layer:
        return self.place.layer

    @property
    def frozen(self) -> bool:
        """Whether training leaves the layer as it is."""
        return not any(weight.trainable for weight in self.layer.weights)


def decide(
    model: keras.layers.Layer, posterior, rules: Rules | None = None, cap: bool = False, per_head: bool = False
) -> list[Decision]:
    """Returns what becomes of every layer of a built model; changes nothing."""
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(f"Conversion needs a Keras model; got {model!r}.")
    if not model.built:
        raise ValueError(
            f"Conversion needs a built model; got {type(model).__name__} {model.name!r}, which has no weights yet. "
            "Call it once on a batch, model(x[:1]), or build it: model.build((None, number_of_features))."
        )
    choose = _Chooser(posterior, dict(rules or {}))
    decisions = [_decide(place, choose, cap, per_head) for place in _candidates(model)]
    choose.require_every_rule_used(model)
    return decisions


def _candidates(model) -> list[surgery.Place]:
    """Returns the layers that are converted or kept as a whole: all but those that only hold others."""
    found = surgery.places(model, whole=_is_whole)
    holders = {id(place.parent) for place in found}
    kinds = (keras.layers.InputLayer, keras.Model)
    return [
        place
        for place in found
        if _has_matrix(place.layer) or not (id(place.layer) in holders or isinstance(place.layer, kinds))
    ]


def _is_whole(layer) -> bool:
    # The wrapper changes the kernel of its layer, which only a plain layer has.
    kept = isinstance(layer, keras.layers.SpectralNormalization)
    return kept or twins.twin_class(layer) is not None or surgery.is_ours(layer)


def _has_matrix(layer) -> bool:
    if isinstance(layer, _ELEMENTWISE):
        return False
    return any(sum(size > 1 for size in weight.shape) >= 2 for weight in layer._trainable_variables)


def _decide(place: surgery.Place, choose: "_Chooser", cap: bool, per_head: bool) -> Decision:
    layer = place.layer
    if surgery.is_ours(layer):
        return Decision(place, {}, BAYESIAN)
    if twins.twin_class(layer) is None and not _has_matrix(layer):
        return Decision(place, {}, NO_MATRIX)
    chosen, said = choose(place)
    if chosen is None:
        return Decision(place, {}, said)
    against = NO_TWIN if twins.twin_class(layer) is None else twins.refusal(layer)
    if against:
        return Decision(place, {}, against, unsupported=True)
    return Decision(place, _fitted(place, chosen, cap, per_head))


class _Chooser:
    """Finds the posterior of a layer: by the first rule that fits it or a layer around it, else the one for all."""

    def __init__(self, posterior, rules: dict):
        self.posterior, self.rules = posterior, rules
        self.used: set = set()
        self.before: dict = {}  # of a rule that fits a layer, the rule that came first
        self.names: list[str] = []

    def __call__(self, place: surgery.Place) -> tuple[Posterior | None, str]:
        """Returns the posterior, or None and who said so."""
        self.names.append(place.path or place.layer.name)
        fitting = [key for key in self.rules if _fits(key, place)]
        if fitting:
            self.used.add(fitting[0])
            self.before |= dict.fromkeys(fitting[1:], fitting[0])
            return _resolved(self.rules[fitting[0]], place), f"kept by the rule {_shown(fitting[0])}"
        return _resolved(self.posterior, place), "no posterior asked for"

    def require_every_rule_used(self, model) -> None:
        unused = [_shown(key) for key in self.rules if key not in self.used and key not in self.before]
        shadowed = {key: first for key, first in self.before.items() if key not in self.used}
        if shadowed:
            key, first = next(iter(shadowed.items()))
            raise ValueError(
                f"The first rule that fits is taken; got {_shown(key)} after {_shown(first)}, which fits the same "
                f"layers of {model.name!r}. Put {_shown(key)} before it."
            )
        if unused:
            raise ValueError(
                f"Every rule needs to match a layer with a weight matrix of {model.name!r}; got {', '.join(unused)}, "
                f"which match none. The layers are: {', '.join(self.names) or 'none'}."
            )


def _shown(key) -> str:
    return repr(key) if isinstance(key, str) else key.__name__


def _fits(key, place: surgery.Place) -> bool:
    """Whether a rule is for a layer or for a layer that holds it: by class, name or pattern of a name or path."""
    if isinstance(key, type):
        return any(isinstance(layer, key) for layer in (place.layer, *place.holders))
    if not isinstance(key, str):
        raise ValueError(f"A rule needs a name, a pattern or a class of layers; got {key!r}.")
    paths = ["/".join(place.names[: depth + 1]) for depth in range(len(place.names))]
    return any(name == key or fnmatch.fnmatchcase(name, key) for name in (*place.names, *paths))


def _resolved(choice, place: surgery.Place) -> Posterior | None:
    if not isinstance(choice, Posterior) and callable(choice):
        choice = choice(place.layer)
    if choice is None:
        return None
    if isinstance(choice, Integral):
        return LowRank(choice)
    return posteriors.get(choice)


def _fitted(place: surgery.Place, chosen: Posterior, cap: bool, per_head: bool) -> dict[str, Posterior]:
    """Returns a posterior for each matrix of a layer; its rank capped at min(m, n) when asked."""
    shapes = {name: slot.shape for name, slot in twins.slots(place.layer, per_head).items() if not slot.is_bias}
    if cap and hasattr(chosen, "rank"):
        limits = {name: min(shape) for name, shape in shapes.items()}
        if isinstance(place.layer, keras.layers.MultiHeadAttention):  # which has one posterior for all its matrices
            limits = dict.fromkeys(limits, min(limits.values()))
        return {name: _of_rank(chosen, min(chosen.rank, limit)) for name, limit in limits.items()}
    for name, shape in shapes.items():
        try:
            chosen.check(shape, f"{place.path or place.layer.name}/{name}")
        except ValueError as error:
            raise ValueError(f"{error} cap=True lowers the rank where a matrix is smaller.") from error
    return dict.fromkeys(shapes, chosen)


def _of_rank(posterior, rank: int) -> Posterior:
    return type(posterior).from_config({**posterior.get_config(), "rank": rank})


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """One matrix of a converted layer. Residual and energy are of an SVD start."""

    name: str
    shape: tuple[int, int]
    rank: int | None  # of the random part; None where it has no rank
    norm: float  # ‖W‖_F
    residual: float | None = None  # ‖W − W_r‖_F

    @property
    def energy(self) -> float | None:
        """The share of ‖W‖_F² that the start keeps."""
        return None if self.residual is None else _energy(self.norm, self.residual)


def _energy(norm: float, residual: float) -> float:
    return 1.0 - (residual / norm) ** 2 if norm else 1.0


@dataclass(frozen=True)
class Row:
    """One layer of a plan."""

    path: str
    kind: str  # its class
    posterior: str  # "" when it is kept
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
    def energy(self) -> float | None:
        """The share of ‖W‖_F² over all matrices of the layer that an SVD start keeps."""
        residual = self.residual
        return None if residual is None else _energy(math.hypot(*(m.norm for m in self.matrices)), residual)

    @property
    def cells(self) -> list[str]:
        """The row as it is printed."""
        shapes: dict[tuple[int, int], int] = {}
        for matrix in self.matrices:
            shapes[matrix.shape] = shapes.get(matrix.shape, 0) + 1
        shown = ", ".join(f"{f'{n} of ' if n > 1 else ''}{m}×{k}" for (m, k), n in shapes.items())
        start = [] if self.residual is None else [f"{self.residual:.3g}", f"{self.energy:.1%}"]
        return [self.path, self.kind, shown, self.posterior, f"{self.before:,}", f"{self.after:,}", *start, self.reason]


@dataclass(frozen=True)
class Plan:
    """What a conversion would do, layer by layer. Printed, it is a table; in a notebook too."""

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
        """The layers with weight matrices that have no twin: they need `unsupported="keep"`."""
        return [row for row in self.rows if row.unsupported]

    def _table(self) -> list[list[str]]:
        start = ["residual", "energy"] if self.svd else []
        head = ["layer", "type", "matrices", "posterior", "before", "after", *start, "reason"]
        rows = [
            cells if len(cells) == len(head) else [*cells[:-1], *[""] * len(start), cells[-1]]
            for cells in (row.cells for row in self.rows)
        ]
        total = ["total", "", "", f"{len(self.converted)} converted", f"{self.before:,}", f"{self.after:,}"]
        return [head, *rows, [*total, *[""] * (len(head) - len(total))]]

    def __str__(self) -> str:
        table = self._table()
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        numbers = range(4, len(widths) - 1)
        lines = [
            "  ".join(
                cell.rjust(width) if i in numbers else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        return "\n".join([f"Plan for {self.model!r}", *lines[:1], "─" * max(map(len, lines)), *lines[1:]])

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = lambda row, tag: "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)  # noqa: E731
        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
        return f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def plan(
    model: keras.Model,
    posterior=None,
    rules: Rules | None = None,
    init: str = "random",
    unsupported: str = "keep",
    *,
    bias_posterior: Posterior | None = None,
    per_head: bool = False,
    cap: bool = False,
) -> Plan:
    """Returns what `bayesianize` with the same arguments would do; print it. Nothing is changed.

    With `init="svd"` the rows also have the Eckart–Young residual ‖W − W_r‖_F and the kept share of ‖W‖_F². Layers that
    cannot be converted are named, whatever `unsupported` says.

    >>> import keras
    >>> hidden, head = keras.layers.Dense(10, name="hidden"), keras.layers.Dense(2, name="head")
    >>> model = keras.Sequential([keras.Input((20,)), hidden, head], name="small")
    >>> print(plan(model, 4, rules={"head": None}))
    Plan for 'small'
    layer   type   matrices  posterior    before  after  reason
    ────────────────────────────────────────────────────────────────────────────
    hidden  Dense  20×10     LowRank(4)      210    250
    head    Dense                             22     22  kept by the rule 'head'
    total                    1 converted     232    272
    """
    require_start(init, unsupported)
    decisions = decide(model, posterior, rules, cap, per_head)
    counts: dict = {}
    rows = tuple(_row(decision, init == "svd", bias_posterior, per_head, counts) for decision in decisions)
    return Plan(model.name, rows, init == "svd")


def require_start(init: str, unsupported: str) -> None:
    for name, value, known in (("init", init, ("random", "svd")), ("unsupported", unsupported, ("error", "keep"))):
        if value not in known:
            raise ValueError(f"Conversion needs {name} to be one of {known}; got {name}={value!r}.")


def _row(decision: Decision, svd: bool, bias_posterior, per_head: bool, counts: dict) -> Row:
    layer, path = decision.layer, decision.place.path or decision.layer.name
    own = layer.weights if _is_whole(layer) else [*layer._trainable_variables, *layer._non_trainable_variables]
    before = sum(math.prod(weight.shape) for weight in own)
    if not decision.posteriors:
        return Row(path, type(layer).__name__, "", (), before, before, decision.reason, decision.unsupported)
    after, matrices = 0, []
    for name, slot in twins.slots(layer, per_head).items():
        if not slot.is_bias:
            chosen = decision.posteriors[name]
            after += _count(chosen, slot.shape, counts)
            matrices.append(_matrix(path, name, slot, chosen, svd))
        elif bias_posterior is None:
            after += math.prod(slot.shape)
        else:
            after += _count(bias_posterior, slot.shape, counts)
    lost = [f"{name} dropped: the prior takes its place" for name in twins.dropped(layer)]
    if decision.frozen:
        lost.append("frozen: starts at its weights and stays there")
    return Row(path, type(layer).__name__, _called(decision), tuple(matrices), before, after, "; ".join(lost))


def _called(decision: Decision) -> str:
    kinds = {type(chosen).__name__: chosen for chosen in decision.posteriors.values()}
    ranks = sorted({chosen.rank for chosen in decision.posteriors.values() if hasattr(chosen, "rank")})
    (kind,) = kinds
    return f"{kind}({', '.join(map(str, ranks))})"


def _matrix(layer: str, name: str, slot: twins.Slot, chosen: Posterior, svd: bool) -> Matrix:
    rank = getattr(chosen, "rank", None)
    values = slot.read().astype("float64")
    twins.require_finite(values, f"{layer}/{name}")
    residual = None
    if svd:
        cut = rank if isinstance(chosen, LowRank) else None  # every other posterior starts at W itself
        residual = 0.0 if cut is None else float(np.linalg.norm(np.linalg.svd(values, compute_uv=False)[cut:]))
    return Matrix(name, slot.shape, rank, float(np.linalg.norm(values)), residual)


def _count(posterior: Posterior, shape: tuple[int, int], counts: dict) -> int:
    """Returns the number of parameters of a posterior over a matrix of that shape."""
    key = (type(posterior), getattr(posterior, "rank", None), shape)
    if key not in counts:
        made = posteriors.get(posterior)
        made.build(shape)
        counts[key] = sum(math.prod(weight.shape) for weight in made.weights if len(weight.shape))
    return counts[key]
