"""Several modes in one model: deep ensembles, single posteriors and mixtures of low-rank ones, tuned alike.

Every method of `METHODS` has eight configurations on every data set of `SETS`, all of them here and committed before
the run. Two tuning seeds score them on validation rows, `protocol.choose` takes one, and fresh seeds score that one on
test rows and out-of-distribution inputs, which nothing has read before. `runs/modes.py` has the command,
`modes_data.py` the data, networks and scores.

- Images: 784-1200-1200-10, ranks 25, 25 and 10, 50,000 images train and 10,000 validate (`images.py`).
- Toy: that of `toy.py`, with a noise that is learned.
- UCI: two hidden layers of 64 units, ranks up to 32, one learned noise; deterministic networks start as Keras's do,
  low-rank ones with orthogonal columns, which trials for the defaults found better (`docs/protocol.md`). Tuning seeds
  have two validation parts of the training rows of split 0, and a result seed has a split of its own; rows that test
  there may have trained or validated in tuning, as in all work with these splits.

IVON is compared with Adam on one low-rank network (`ivon` and `low_rank`) on the sets of `NEWTON_SETS`.
"""

import itertools
from dataclasses import dataclass, replace

from singularbayes_experiments.methods.network_fit import Settings
from singularbayes_experiments.methods.protocol import ROUND

TUNING_SEEDS, RESULT_SEEDS = (0, 1), (2, 3, 4, 5, 6)
DRAWS = 50  # of a run, over all its components together; rounded up
IMAGES = ("fashion_mnist", "mnist")
TOY = "toy"
NEWTON_SETS = ("fashion_mnist", "mnist", "toy", "concrete", "energy")


@dataclass(frozen=True)
class Set:
    """A data set: hidden units, ranks of all weights, batch size, and epochs of variational networks."""

    name: str
    units: tuple[int, ...]
    ranks: tuple[int, ...]
    batch_size: int
    epochs: int

    @property
    def family(self) -> str:
        """Returns which grid it has: "images", "toy" or "uci"."""
        return "images" if self.name in IMAGES else TOY if self.name == TOY else "uci"

    @property
    def task(self) -> str:
        return "classes" if self.name in IMAGES else "regression"


_TABLE = ((64, 64), (32, 32, 1))
SETS = {
    one.name: one
    for one in (
        Set("fashion_mnist", (1200, 1200), (25, 25, 10), 128, 20),
        Set("mnist", (1200, 1200), (25, 25, 10), 128, 20),
        Set(TOY, (100, 100), (1, 16, 1), 128, 400),
        Set("concrete", *_TABLE, 32, 150),
        Set("energy", *_TABLE, 32, 200),
        Set("boston_housing", *_TABLE, 32, 150),
        Set("yacht", *_TABLE, 32, 300),
        Set("wine_quality_red", *_TABLE, 32, 60),
        Set("kin8nm", *_TABLE, 64, 40),
        Set("power_plant", *_TABLE, 64, 40),
        Set("naval_propulsion_plant", *_TABLE, 64, 40),
        Set("protein_tertiary_structure", (100, 100), (32, 32, 1), 256, 30),
    )
}


@dataclass(frozen=True)
class Method:
    """How the weights are distributed and trained.

    Args:
        examples: what of a batch each component trains on: "repeat" all of it, "split" its share, "own" another batch.
        svd: components start at the SVD of the members of the deep ensemble that was chosen.
        newton: trained by IVON.
    """

    words: str
    kind: str = "low_rank"
    prior: str = "normal"
    components: int = 1
    examples: str = "repeat"
    svd: bool = False
    newton: bool = False

    @property
    def draws(self) -> int:
        """Draws of each component."""
        return 1 if self.kind == "deterministic" else -(-DRAWS // self.components)


# In the order of a run: what is cut first when the minutes run out comes last.
METHODS = {
    "deterministic": Method("deterministic", "deterministic"),
    "deep_ensemble": Method("deep ensemble of 5", "deterministic", components=5, examples="own"),
    "mixture_repeat_anchored": Method("mixture of 5, repeat, anchored", prior="anchored", components=5),
    "mixture_repeat": Method("mixture of 5, repeat", components=5),
    "low_rank": Method("low-rank"),
    "low_rank_anchored": Method("low-rank, anchored", prior="anchored"),
    "mixture_split_anchored": Method("mixture of 4, split, anchored", prior="anchored", components=4, examples="split"),
    "mixture_split": Method("mixture of 4, split", components=4, examples="split"),
    "full_rank": Method("full-rank", "full_rank"),
    "ivon": Method("low-rank by IVON", newton=True),
    "mixture_svd_anchored": Method("mixture of 5 from an SVD, anchored", prior="anchored", components=5, svd=True),
    "mixture_svd": Method("mixture of 5 from an SVD", components=5, svd=True),
}

# -- the grids ---------------------------------------------------------------------------------------------------------


def configurations(one: Set, method: str) -> dict[str, Settings]:
    """Returns the eight configurations of a method on a data set."""
    own, kind = METHODS[method], METHODS[method].kind
    if kind == "deterministic":
        found = _deterministic(one)
    else:
        found = _newton(one) if own.newton else _variational(one, own)
        found = [replace(settings, prior=own.prior) for settings in found]
    assert len(found) == ROUND
    return {f"{method} {number}": settings for number, settings in enumerate(found)}


def _deterministic(one: Set) -> list[Settings]:
    """Learning rate, epochs and weight decay. Where an earlier choice lay at an edge, the grid begins beyond it."""
    if one.family == "images":  # a deterministic network on MNIST had chosen 3 epochs of 3 to 50
        grid = itertools.product((2, 4, 8, 16), (1e-3,), (0.0, 0.1))
    elif one.family == TOY:  # and the rate 0.005 of 0.0005 to 0.005
        grid = itertools.product((400, 800), (5e-3, 1e-2), (0.0, 0.1))
    else:
        grid = itertools.product((one.epochs // 2, one.epochs), (3e-3, 1e-2), (0.0, 0.1))
    return [Settings(epochs, rate, decay) for epochs, rate, decay in grid]


def _variational(one: Set, method: Method) -> list[Settings]:
    """β and the scale of the prior, and the learning rate, the initial scale or the spread of the start."""
    if one.family == "images":
        rates = (3e-4, 1e-3) if method.kind == "full_rank" else (1e-3, 3e-3)
        grid = itertools.product((0.1, 0.3), (0.03, 0.1), rates)
        return [Settings(one.epochs, rate, 0.0, "", scale, beta, 0.03, 4.0) for scale, beta, rate in grid]
    if one.family == "uci":
        grid = itertools.product((0.1, 0.3), (0.01, 0.03), (3e-4, 0.03))
        start = "orthogonal" if method.kind == "low_rank" and not method.svd else "he"
        return [Settings(one.epochs, 3e-3, 0.0, "", scale, beta, eta, 1.0, start) for scale, beta, eta in grid]
    if method.prior == "anchored" and not method.svd:  # the spread of the anchors is the prior over functions
        spreads = itertools.product((0.1, 0.3), (0.1, 1.0), ((3.0, 0.15, 0.15), (6.0, 0.2, 0.3)))
        return [
            Settings(one.epochs, 5e-3, 0.0, "", scale, beta, 0.03, 4.0, "he", spread) for scale, beta, spread in spreads
        ]
    grid = itertools.product((0.3, 1.0), (0.1, 1.0), (5e-3, 1e-2))
    return [Settings(one.epochs, rate, 0.0, "", scale, beta, 0.03, 4.0) for scale, beta, rate in grid]


def _newton(one: Set) -> list[Settings]:
    """The same as for Adam: β, the scale of the prior and the learning rate, epochs as there."""
    scales, betas = {"images": ((0.1, 0.3), (0.03, 0.1)), TOY: ((0.3, 1.0), (0.1, 1.0))}.get(
        one.family, ((0.1, 0.3), (0.01, 0.03))
    )
    start = "orthogonal" if one.family == "uci" else "he"
    grid = itertools.product(scales, betas, (0.03, 0.1))
    return [Settings(one.epochs, rate, 0.0, "", scale, beta, 0.03, 1.0, start) for scale, beta, rate in grid]
