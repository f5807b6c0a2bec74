"""Taking the columns that are switched off out of a model."""

from collections.abc import Mapping
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes import posteriors
from singularbayes.checks import require_below_one
from singularbayes.convert import counterparts, surgery
from singularbayes.posteriors import Posterior, find_posteriors, flat_layers
from singularbayes.text_table import text_table

Kept = Mapping[int, np.ndarray]  # of a posterior, by id, whether each column stays


@dataclass(frozen=True)
class PrunedMatrix:
    """One matrix: its columns before and after, ‖E W‖₂, and ‖ΔW‖₂ of the mean that was taken out."""

    name: str
    before: int
    rank: int
    norm: float
    removed: float


@dataclass(frozen=True)
class Pruned:
    """The smaller model, and what was taken out of each matrix.

    >>> import keras, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((6,)), sb.layers.Dense(5, posterior=sb.AdaptiveLowRank(max_rank=4))])
    >>> model.compile("adam", sb.Gaussian(1.0))
    >>> pruned = prune(model)
    >>> pruned.model.count_params() <= model.count_params()
    True
    """

    model: keras.Model
    rows: tuple[PrunedMatrix, ...]

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of every matrix by its name."""
        return {row.name: row.rank for row in self.rows}

    def __str__(self) -> str:
        cells = [(row.name, row.before, row.rank, f"{row.norm:.3g}", f"{row.removed:.3g}") for row in self.rows]
        before, now = sum(row.before for row in self.rows), sum(self.ranks.values())
        table = text_table(("matrix", "columns", "rank", "‖E W‖", "‖ΔW‖ removed"), cells)
        return f"Pruned {self.model.name!r}: {before} columns, now {now}\n{table}"


def prune(model: keras.Model, tolerance: float | None = None) -> Pruned:
    """Returns a copy of a model without the columns of its `AdaptiveLowRank` weights that are noise, and what changed.

    The copy is compiled like the model, with a fresh optimizer, and trains on at the smaller rank: its weights are
    `AdaptiveLowRank(max_rank=…)` with what is left as `max_rank`. Matrices of one layer that are made from one
    posterior, as those of attention, get the largest rank among them; the columns that one of them does not use stay
    switched off. Where nothing is to be pruned, the copy predicts the same, bit for bit.

    Args:
        tolerance: a column goes when its mean has less than this share of E‖a_k b_kᵀ‖²; None takes that of the
            posterior. 0 takes out what training has switched off, and then the mean network stays what it is.

    >>> import keras, singularbayes as sb
    >>> layer = sb.layers.Dense(5, posterior=sb.AdaptiveLowRank(max_rank=4), name="head")
    >>> model = keras.Sequential([keras.Input((6,)), layer])
    >>> model.compile("adam", sb.Gaussian(1.0))
    >>> prune(model, tolerance=0.0).ranks
    {'head/posterior': 4}
    """
    if not isinstance(model, keras.layers.Layer) or not model.built:
        raise ValueError(f"prune needs a built Keras model; got {model!r}. Call it once on a batch first.")
    if tolerance is not None:
        require_below_one("prune", tolerance=tolerance)
    copy = surgery.copied(model)
    mixed = [q for q in _adaptive(copy) if q.components > 1]
    if mixed:
        raise ValueError(
            f"prune needs weights of one component; got {mixed[0]!r} in {mixed[0].path}. Prune the networks of the "
            "mixture one by one: prune(take_components(model, 0)), …."
        )
    kept = {id(q): q.live_columns(q.tolerance if tolerance is None else tolerance) for q in _adaptive(copy)}
    if not kept:
        raise ValueError(
            f"prune needs a model with AdaptiveLowRank weights; got {model.name!r}, which has none. A trained model of "
            "fixed ranks can be judged by its spectrum: ranks.by_spectrum(model)."
        )
    rows, new = [], {}
    for place in surgery.places(copy, surgery.is_ours):
        if surgery.is_ours(place.layer) and _adaptive(place.layer):
            rows += [_row(posterior, kept) for posterior in _adaptive(place.layer)]
            smaller = _smaller(place.layer, kept)
            if smaller is not None:
                new[id(place.layer)] = smaller
    surgery.exchange(copy, new)
    surgery.compile_like(copy, model)
    return Pruned(copy, tuple(rows))


def _adaptive(layer) -> list:
    return [q for q in find_posteriors(layer) if q.learned_rank is not None]


def _row(posterior: Posterior, kept: Kept) -> PrunedMatrix:
    ((a, _), (b, _)), gone = posterior.factor_moments(), ~kept[id(posterior)]
    norm, removed = _norm(a, b), _norm(a[:, gone], b[:, gone])
    return PrunedMatrix(posterior.path, a.shape[1], int((~gone).sum()), norm, removed)


def _norm(a: np.ndarray, b: np.ndarray) -> float:
    """Returns ‖A Bᵀ‖₂, without A Bᵀ; 0 for no columns."""
    if not a.shape[1]:
        return 0.0
    return float(np.linalg.norm(np.linalg.qr(a)[1] @ np.linalg.qr(b)[1].T, 2))


def _smaller(layer, kept: Kept):
    """Returns the layer with the columns that stay, or None where all do."""
    if all(kept[id(q)].all() for q in _adaptive(layer)):
        return None
    config = layer.get_config()
    for argument in ("posterior", "recurrent_posterior", "bias_posterior"):
        # A posterior was made from the argument of its own name, or from that of all the layer's kernels.
        made = [q for q in _adaptive(layer) if (q.name if q.name in config else "posterior") == argument]
        if made:
            rank = max(int(kept[id(q)].sum()) for q in made)
            config[argument] = posteriors.serialize(made[0].with_rank(rank))
    new = counterparts.built_like(type(layer).from_config(config), layer)
    inside = {id(part) for q in _adaptive(layer) for part in flat_layers(q)[1:]}
    for before, after in zip(flat_layers(layer), flat_layers(new), strict=True):
        if id(before) in kept:
            after.take_columns(before, kept[id(before)])
            after.take_kl_weight(before)
        elif id(before) not in inside:
            _carry_state(before, after)
    return new


def _carry_state(old, new) -> None:
    store: dict = {}
    old.save_own_variables(store)
    if store:
        new.load_own_variables({key: np.array(ops.convert_to_numpy(value)) for key, value in store.items()})
