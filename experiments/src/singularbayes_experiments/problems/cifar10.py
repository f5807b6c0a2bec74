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

Tuning: three configurations of every method, one seed, half the epochs, 45,000 images; the one with the least NLL on
5,000 validation images (every tenth of the training set) is chosen, of deterministic networks by their own and of
components by a single one. Ensemble and mixture take the choices of their first network. ResNet-20 takes those of
ResNet-9. This is less than `docs/protocol.md` asks for (one tuning seed, three configurations, three result seeds),
because the run has about ten minutes of an accelerator.

Results: all 50,000 images train; accuracy, NLL, Brier score and ECE on the 10,000 test images, and on 2,000 of them
(the first) under eight corruptions at five severities with the constants of CIFAR-10-C. Predictions average 16 draws, 4
of each component of a mixture. Out-of-distribution detection on held-out classes: the same networks trained without
ships and trucks, whose test images are told from the other 8,000 by entropy and mutual information; beside them
max-softmax, energy and Mahalanobis distance of the deterministic network.

Seeds 0, 1 and 2. Estimated on one H200 alone, before any run: ResNet-9 has 0.11 PFLOP an epoch, about half a second, a
low-rank one less; so 40 s of tuning, 90 s for all methods of a seed with predictions, 70 s with classes held out, and
40 s for a deterministic ResNet-20; compiling a program takes 30 s beside what runs. The order of work is `WORK`; what
does not fit into the time is left out from its end. MC dropout and SWAG were cut beforehand.
"""

from dataclasses import asdict, dataclass
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
SHARES = {"resnet9": 0.29, "resnet20": 0.6}  # most stored parameters of a low-rank network, of a deterministic one's


@dataclass(frozen=True)
class Network:
    """Epochs of a network, from a random start and from an SVD."""

    name: str
    epochs: int
    epochs_svd: int


NETWORKS = {one.name: one for one in (Network("resnet9", 16, 6), Network("resnet20", 100, 20))}


@dataclass(frozen=True)
class Settings:
    """What is tuned.

    Args:
        rate: peak learning rate of means and plain weights.
        beta: weight of the KL.
        width: standard deviation of the prior; None is what `DECAY` and β give.
        eta: initial posterior scales as a multiple of the scale of the means; of rank-one vectors themselves.
        rho_rate: peak learning rate of Adam for ρ.
    """

    rate: float
    beta: float = 0.0
    width: float | None = None
    eta: float = 0.03
    rho_rate: float = 0.02

    def prior_width(self, num_data: int) -> float:
        """Returns the standard deviation of the prior.

        >>> round(Settings(0.4, beta=0.1).prior_width(50_000), 4)
        0.0632
        """
        return (self.beta / DECAY / num_data) ** 0.5 if self.width is None else self.width

    @property
    def name(self) -> str:
        """What differs from the defaults, short."""
        unset = {"beta": 0.0, "width": None, "eta": 0.03, "rho_rate": 0.02}
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

BETAS = (0.01, 0.03, 0.1)
CONFIGURATIONS: dict[str, tuple[Settings, ...]] = {
    "deterministic": tuple(Settings(rate) for rate in (0.2, 0.4, 0.8)),
    "low_rank": tuple(Settings(0.2, beta) for beta in BETAS),
    "svd": tuple(Settings(0.1, beta) for beta in BETAS),
    "full_rank": tuple(Settings(0.4, beta) for beta in BETAS),
    "rank_one": tuple(Settings(0.4, 1.0, width) for width in (0.05, 0.1, 0.2)),
}


@dataclass(frozen=True)
class Piece:
    """One piece of work: all methods of a family on a network with one seed; a seed of None is their tuning."""

    network: str
    family: str
    seed: int | None = None
    held_out: bool = False
    members: int = MEMBERS


def _main(seed: int, held_out: bool = False) -> list[Piece]:
    families = ("deterministic", "low_rank", "svd", "full_rank")
    return [Piece("resnet9", family, seed, held_out) for family in families]


TUNING = [Piece("resnet9", family) for family in ("deterministic", "full_rank", "low_rank", "svd")]
WORK = [
    *TUNING,
    *_main(0),
    Piece("resnet20", "deterministic", 0, members=1),
    *_main(1),
    *_main(0, held_out=True),
    *_main(2),
    Piece("resnet20", "deterministic", 1, members=1),
    Piece("resnet20", "deterministic", 2, members=1),
    Piece("resnet9", "rank_one"),
    *(Piece("resnet9", "rank_one", seed) for seed in RESULT_SEEDS),
    *_main(1, held_out=True),
    Piece("resnet20", "deterministic", 0),
    Piece("resnet20", "low_rank", 0),
    Piece("resnet20", "svd", 0),
    Piece("resnet20", "full_rank", 0),
    *_main(2, held_out=True),
]
