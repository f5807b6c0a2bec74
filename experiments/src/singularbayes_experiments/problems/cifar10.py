"""CIFAR-10 with residual networks: the plan, written before its runs.

Networks: ResNet-9 (Page 2018: 64 to 512 channels, 6.6 M weights), whose matrices are wide enough for a low rank to
save, is the main comparison. ResNet-20 (He et al. 2016, 0.27 M) is there first to reproduce a published number, 91.7 to
92.5 % for one deterministic network, and then reported as it is. Batch normalisation follows every convolution, each
network and each component of a mixture with its own.

Training, alike for all methods: SGD with Nesterov momentum 0.9 and batches of 512, a rate that rises linearly over the
first fifth of the steps and falls linearly to 0, random crops of images padded by 4 reflected pixels, random flips; no
label smoothing. Products are computed in bfloat16, weights and updates in float32. The scales of posteriors train with
Adam, whose rate has the same schedule.

Methods. One deterministic network (weight decay 5·10⁻⁴ of kernels), and the deep ensemble of 4 of which it is the
first. Mean-field full-rank. Low-rank with W = A Bᵀ over all kernels, ranks by the spectrum of the deterministic network
of the tuning seed (ResNet-20: of seed 0): the least ranks that keep a common share of every layer's squared singular
values, the share as large as the stored parameters of a component allow (`SHARES`: 4 components have at most 29 % of
the deep ensemble's on ResNet-9). A mixture of 4: four such networks from starts of their own, trained on all images,
whose predictions are averaged; the single low-rank network is its first component. The SVD-initialised mixture of 4:
its components begin at the SVDs of the members of the deep ensemble and are trained for `epochs_svd` more. Rank-one:
one deterministic kernel per layer, scaled by random vectors on both sides (Dusenberry et al. 2020). The prior of a
weight is N(0, s²) with s² = β / (5·10⁻⁴ N): it pulls means as the weight decay of the deterministic network does,
whatever β is; that of the rank-one vectors is N(1, s²), β = 1. β weighs the KL of the ELBO.

Two rounds. The first (its plan and code are at commit 9c7b91b) had three configurations of every method, one seed and
half the epochs of the results; most choices lay at an edge. Only the rate was tuned for the deterministic network, only
β at one rate for the others. What follows is the second.

Tuning: five configurations of every family, one seed, 45,000 images. Four are trained for the 16 epochs of the results:
three rates, and the middle rate with another weight decay (deterministic), β (posteriors) or prior width (rank-one).
The best of them is then trained for 24 epochs (`LONGER`). The least NLL on 5,000 validation images (every tenth of the
training set) is chosen, of deterministic networks by their own and of components by a single one; an ensemble and a
mixture take the choice of their first network. SVD-initialised networks begin at the deterministic network that was
chosen and are trained for 16 or 24 more epochs, so they have seen more images in all than any other network; what they
hold is what is compared. ResNet-20 takes the choices of ResNet-9 but for its own epochs. This is less than
`docs/protocol.md` asks for, one tuning seed above all, because the run has about 24 minutes of a shared accelerator.

Why these values. A network before batch normalisation turns by √(2 · rate · decay) per step in the long run, whatever
its scale. A decay of both factors turns A Bᵀ by √2 as much, so a low-rank network at the first round's rate of 0.2 had
half the turn of the deterministic one at its chosen 0.8: rates of 0.4 to 1.6 are tried for both. The start of the
factors was balanced and orthogonal already. Random starts have η = 10⁻³ so that means learn before the KL opens the
scales (`docs/protocol.md`, fourth grid). β of 0.01 was the smallest that was tried, and best for full-rank: 0.003 and
0.01 are tried for all. Six epochs at a rate of 0.1 cannot repair what an SVD cuts off: now 16 or more at 0.2 to 0.8.
Ranks are the first round's.

Results: all 50,000 images train; accuracy, NLL, Brier score and ECE on the 10,000 test images, and on 2,000 of them
(the first) under eight corruptions at five severities with the constants of CIFAR-10-C. Predictions average 16 draws, 4
of each component of a mixture. Out-of-distribution detection on held-out classes: the same networks trained without
ships and trucks, whose test images are told from the other 8,000 by entropy and mutual information; beside them
max-softmax, energy and Mahalanobis distance of the deterministic network.

Seeds 0, 1 and 2. In the first round an epoch of ResNet-9 with its share of predictions took about a second beside other
work. Tuning is 350 epochs, the first three families of a seed 216 and predictions, low-rank 96. The order of work is
`WORK`; what does not fit into the time is left out from its end. ResNet-20 runs beside it as a process of its own once
tuning is done. MC dropout and SWAG were cut beforehand.

What came of it, added after the run: all low-rank networks with a random start diverged. The turn above is that of the
long run; at the start A Bᵀ moves by (‖A‖² + ‖B‖²) times the rate, about 8 times in the widest layers, which is the
likely reason. ResNet-20 waited for their tuning and did not start.
"""

from dataclasses import asdict, dataclass, fields
from typing import Literal

Kind = Literal["deterministic", "low_rank", "full_rank", "rank_one"]

CLASSES = 10
HELD_OUT = (8, 9)  # ship, truck
BATCH = 512
DECAY = 5e-4
WARM_UP = 0.2  # share of the steps
MEMBERS = 4  # of an ensemble, or components of a mixture
DRAWS = 16
TUNING_SEED, RESULT_SEEDS = 100, (0, 1, 2)
VALIDATION = 10  # every tenth image
CORRUPTED = 2000  # test images that are corrupted
LONGER = 24  # epochs of the last configuration of a family
SHARES = {"resnet20": 0.6}  # most stored parameters of a low-rank network, of a deterministic one's
RANKS = {"resnet9": (8, 16, 16, 24, 32, 56, 56, 72, 8)}  # found with a share of 0.29 in the first round


@dataclass(frozen=True)
class Network:
    """Epochs of a network, from a random start and from an SVD."""

    name: str
    epochs: int
    epochs_svd: int


NETWORKS = {one.name: one for one in (Network("resnet9", 16, 16), Network("resnet20", 100, 20))}


@dataclass(frozen=True)
class Settings:
    """What is tuned.

    Args:
        rate: peak learning rate of means and plain weights.
        beta: weight of the KL.
        width: standard deviation of the prior; None is what `DECAY` and β give.
        eta: initial posterior scales as a multiple of the scale of the means; of rank-one vectors themselves.
        rho_rate: peak learning rate of Adam for ρ.
        decay: weight decay of kernels without a posterior, and what the prior of others pulls with.
        epochs: of ResNet-9; None is its own.
    """

    rate: float
    beta: float = 0.0
    width: float | None = None
    eta: float = 0.03
    rho_rate: float = 0.02
    decay: float = DECAY
    epochs: int | None = None

    def prior_width(self, num_data: int) -> float:
        """Returns the standard deviation of the prior.

        >>> round(Settings(0.4, beta=0.1).prior_width(50_000), 4)
        0.0632
        """
        return (self.beta / self.decay / num_data) ** 0.5 if self.width is None else self.width

    @property
    def name(self) -> str:
        """What differs from the defaults, short."""
        unset = {each.name: each.default for each in fields(self)}
        mine = {key: value for key, value in asdict(self).items() if key == "rate" or value != unset[key]}
        return ", ".join(f"{key} {value:g}" for key, value in mine.items())


@dataclass(frozen=True)
class Method:
    """A family of networks: how many, of which kind, and where they start."""

    kind: Kind
    members: int
    svd: bool = False

    @property
    def draws(self) -> int:
        """Draws of every member."""
        return 1 if self.kind == "deterministic" else DRAWS // self.members


# What is tuned and trained as one → its methods: the single network, then those that average several.
FAMILIES: dict[str, dict[str, Method]] = {
    "deterministic": {
        "deterministic": Method("deterministic", 1),
        "deep_ensemble": Method("deterministic", MEMBERS),
    },
    "low_rank": {"low_rank": Method("low_rank", 1), "mixture": Method("low_rank", MEMBERS)},
    "svd": {"low_rank_svd": Method("low_rank", 1, svd=True), "mixture_svd": Method("low_rank", MEMBERS, svd=True)},
    "full_rank": {"full_rank": Method("full_rank", 1)},
    "rank_one": {"rank_one": Method("rank_one", 1)},
}
METHODS = {name: method for family in FAMILIES.values() for name, method in family.items()}

_NARROW = 1e-3  # η of a random start
# The first four of a family; the fifth is the best of them with `LONGER` epochs.
CONFIGURATIONS: dict[str, tuple[Settings, ...]] = {
    "deterministic": (*(Settings(rate) for rate in (0.4, 0.8, 1.6)), Settings(0.8, decay=2 * DECAY)),
    "low_rank": (
        *(Settings(rate, 0.01, eta=_NARROW) for rate in (0.4, 0.8, 1.6)),
        Settings(0.8, 0.003, eta=_NARROW),
    ),
    "svd": (*(Settings(rate, 0.01) for rate in (0.2, 0.4, 0.8)), Settings(0.4, 0.003)),
    "full_rank": (
        *(Settings(rate, 0.003, eta=_NARROW) for rate in (0.4, 0.8, 1.6)),
        Settings(0.8, 0.01, eta=_NARROW),
    ),
    "rank_one": (*(Settings(rate, 1.0, 0.05) for rate in (0.4, 0.8, 1.6)), Settings(0.8, 1.0, 0.025)),
}


@dataclass(frozen=True)
class Piece:
    """One piece of work: all methods of a family on a network with one seed; a seed of None is their tuning."""

    network: str
    family: str
    seed: int | None = None
    held_out: bool = False
    members: int = MEMBERS


def _main(seed: int, held_out: bool = False, families=("deterministic", "svd", "full_rank")) -> list[Piece]:
    return [Piece("resnet9", family, seed, held_out) for family in families]


TUNING = [Piece("resnet9", family) for family in ("deterministic", "svd", "full_rank", "low_rank")]
WORK = [
    *TUNING,
    *_main(0),
    Piece("resnet9", "low_rank", 0),
    *_main(1),
    *_main(2),
    *(Piece("resnet9", "low_rank", seed) for seed in RESULT_SEEDS[1:]),
    Piece("resnet9", "rank_one"),
    *(Piece("resnet9", "rank_one", seed) for seed in RESULT_SEEDS),
    *(piece for seed in RESULT_SEEDS for piece in _main(seed, held_out=True)),
    *(Piece("resnet9", "low_rank", seed, held_out=True) for seed in RESULT_SEEDS),
    *(Piece("resnet20", family, 0, members=1) for family in ("deterministic", "full_rank", "svd", "low_rank")),
    *(Piece("resnet20", family, 0) for family in ("deterministic", "svd", "low_rank")),
]
