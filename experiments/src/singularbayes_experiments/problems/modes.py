"""Several modes in one model: deep ensembles, single posteriors and mixtures of low-rank ones, tuned alike.

Every method of a data set of `SETS` has as many configurations (`modes_grids.py`), all of them committed before the
run: eight a round, of text four. Two tuning seeds score them on validation rows, `protocol.choose` takes one, and fresh
seeds score that one on test rows and out-of-distribution inputs, which nothing has read before. `runs/modes.py` has the
command, `modes_data.py` the data, networks and scores.

- Images: 784-1200-1200-10, ranks 25, 25 and 10, in the third round 36, 36 and 10; 50,000 images train and 10,000
  validate (`images.py`).
- Toy: that of `toy.py`, with a noise that is learned.
- UCI: two hidden layers of 64 units, ranks up to 32, one learned noise; deterministic networks start as Keras's do,
  low-rank ones with orthogonal columns, which trials for the defaults found better (`docs/protocol.md`). Tuning seeds
  have two validation parts of the training rows of split 0, and a result seed has a split of its own; rows that test
  there may have trained or validated in tuning, as in all work with these splits.
- Text: SST-2 by the Transformer of `reviews.py`, rank 16, without positions. 435 whole sentences validate. The prior is
  the scale mixture of that experiment, with σ₁ = 1 and σ₂ = e⁻³. Training texts are cut to 48 pieces (0.6 % of them are
  longer) and batched by length; predictions see 64.
- Air: Beijing by the two-layer LSTM of `forecast.py`, which predicts the value, not the change from the last hour. The
  noise grows with the last value and the changes of a window, with weights that are fitted to the validation windows.
- Intensive care: the network of `mortality.py` on PhysioNet 2012, features in [0, 1], no class weights. Tuned with
  coronary care held out; what is chosen serves all five shifts.
- CNN: that of `cnn.py` on Fashion-MNIST.

Biases are plain but on the toy, and all of this holds for every method alike. IVON is compared with Adam on one
low-rank network (`ivon` and `low_rank`) on the sets of `NEWTON_SETS`.
"""

from dataclasses import dataclass, replace
from typing import Literal

from singularbayes_experiments.methods.protocol import ROUND

TUNING_SEEDS, RESULT_SEEDS = (0, 1), (2, 3, 4, 5, 6)
DRAWS = 50  # of a run, over all its components together; rounded up
IMAGES = ("fashion_mnist", "mnist")
TOY: Literal["toy"] = "toy"
NEWTON_SETS = ("fashion_mnist", "mnist", "toy", "concrete", "energy")
SHIFTS = ("coronary", "cardiac", "medical", "surgical", "eicu")


@dataclass(frozen=True)
class ModesSet:
    """A data set: hidden units, ranks of all weights, batch size, and epochs of variational networks.

    Args:
        family: which grid it has.
        rounds: of configurations, with `per_round` of every method in each.
        far_behind: methods more than two standard errors behind the best, whose last round is cut first.
        seeds: how many of the result seeds it has.
        tuned_on: the set whose choices it takes.
        together: how many networks are trained as one program at most.
        tiny: few rows and a small network, to see that it works.
    """

    name: str
    units: tuple[int, ...]
    ranks: tuple[int, ...]
    batch_size: int
    epochs: int
    family: Literal["images", "toy", "uci", "text", "air", "icu", "cnn"] = "uci"
    rounds: int = 1
    per_round: int = ROUND
    far_behind: tuple[str, ...] = ()
    seeds: int = 5
    tuned_on: "ModesSet | None" = None
    together: int = 80
    tiny: bool = False

    @property
    def task(self) -> str:
        """Returns "classes"; "regression", with a learned noise; or "forecast", with one fitted to validation rows."""
        return {"uci": "regression", TOY: "regression", "air": "forecast"}.get(self.family, "classes")

    @property
    def classes(self) -> int:
        return 2 if self.family in ("text", "icu") else 10

    @property
    def methods(self) -> tuple[str, ...]:
        """Returns the methods in the order of a run: what is cut first when the minutes run out comes last."""
        if self.family in ("images", TOY, "uci"):
            every = (*SECOND, *(method for method in METHODS if method not in SECOND))
        else:
            every = LARGE if self.family == "text" else SECOND
        return tuple(sorted(every, key=lambda method: method in self.far_behind))

    @property
    def compared(self) -> tuple[str, ...]:
        """Returns the methods that must have a later round whole before it counts."""
        return tuple(method for method in SECOND if method in self.methods and method not in self.far_behind)


_FAR_BEHIND = ("low_rank", "full_rank", "mixture_split")
_TABLE = ((64, 64), (32, 32, 1))
_CARE = ModesSet("icu_coronary", (128, 128), (15, 15, 1), 64, 60, "icu", seeds=4)
SETS = {
    one.name: one
    for one in (
        ModesSet(
            "sst2", (), (16,), 64, 8, "text", rounds=2, per_round=4, far_behind=("full_rank",), seeds=4, together=20
        ),
        ModesSet("beijing", (64, 64), (14, 20, 20, 20, 1), 256, 20, "air", seeds=4),
        ModesSet("fashion_mnist", (1200, 1200), (25, 25, 10), 128, 20, "images", rounds=3, far_behind=_FAR_BEHIND),
        ModesSet("mnist", (1200, 1200), (25, 25, 10), 128, 20, "images", rounds=3, far_behind=_FAR_BEHIND),
        ModesSet(TOY, (100, 100), (1, 16, 1), 128, 400, TOY, rounds=2),
        _CARE,
        *(replace(_CARE, name=f"icu_{shift}", tuned_on=_CARE) for shift in SHIFTS[1:]),
        ModesSet("cnn", (64,), (8, 12, 16, 10), 128, 10, "cnn", rounds=2, far_behind=_FAR_BEHIND, seeds=4, together=40),
        ModesSet("concrete", *_TABLE, 32, 150, rounds=2),
        ModesSet("energy", *_TABLE, 32, 200, rounds=2),
        ModesSet("boston_housing", *_TABLE, 32, 150, rounds=2),
        ModesSet("yacht", *_TABLE, 32, 300, rounds=2),
        ModesSet("wine_quality_red", *_TABLE, 32, 60, rounds=2),
        ModesSet("kin8nm", *_TABLE, 64, 40, rounds=2),
        ModesSet("power_plant", *_TABLE, 64, 40, rounds=2),
        ModesSet("naval_propulsion_plant", *_TABLE, 64, 40, rounds=2),
        ModesSet(
            "protein_tertiary_structure", (100, 100), (32, 32, 1), 256, 30, rounds=2, seeds=4
        ),  # it has five splits
    )
}


@dataclass(frozen=True)
class ModesMethod:
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


METHODS = {
    "deterministic": ModesMethod("deterministic", "deterministic"),
    "deep_ensemble": ModesMethod("deep ensemble of 5", "deterministic", components=5, examples="own"),
    "mixture_repeat_anchored": ModesMethod("mixture of 5, repeat, anchored", prior="anchored", components=5),
    "mixture_repeat": ModesMethod("mixture of 5, repeat", components=5),
    "low_rank": ModesMethod("low-rank"),
    "low_rank_anchored": ModesMethod("low-rank, anchored", prior="anchored"),
    "mixture_split_anchored": ModesMethod(
        "mixture of 4, split, anchored", prior="anchored", components=4, examples="split"
    ),
    "mixture_split": ModesMethod("mixture of 4, split", components=4, examples="split"),
    "full_rank": ModesMethod("full-rank", "full_rank"),
    "ivon": ModesMethod("low-rank by IVON", newton=True),
    "mixture_svd_anchored": ModesMethod(
        "SVD-initialised mixture of 5, anchored", prior="anchored", components=5, svd=True
    ),
    "mixture_svd": ModesMethod("SVD-initialised mixture of 5", components=5, svd=True),
}
# On large data sets, and what a second round needs to be complete.
LARGE = (
    "deterministic",
    "deep_ensemble",
    "mixture_repeat",
    "mixture_svd",
    "low_rank",
    "full_rank",
    "mixture_split",
)
SECOND = (*LARGE, "mixture_repeat_anchored")
