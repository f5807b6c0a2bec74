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
of the tuning seed: the least ranks that keep a common share of every layer's squared singular values, the share as
large as the stored parameters of a component allow (4 components have at most 29 % of the deep ensemble's on ResNet-9;
`RANKS`). A mixture of 4: four such networks from starts of their own, trained on all images, whose predictions are
averaged; the single low-rank network is its first component. The SVD-initialised mixture of 4: its components begin at
the SVDs of the members of the deep ensemble and are trained for `epochs_svd` more. Rank-one: one deterministic kernel
per layer, scaled by random vectors on both sides (Dusenberry et al. 2020). The prior of a weight is N(0, s²) with s² =
β / (5·10⁻⁴ N): it pulls means as the weight decay of the deterministic network does, whatever β is; that of the
rank-one vectors is N(1, s²), β = 1. β weighs the KL of the ELBO.

Rounds. The first (plan and code at commit 9c7b91b) had three configurations of every method, one seed and half the
epochs of the results; only the rate was tuned for the deterministic network, only β at one rate for the others. The
second (commit 2c37c22) had five configurations of a family on ResNet-9: three rates, one other weight decay, β or prior
width, and the best of the four with 24 epochs instead of 16. Low-rank networks with a random start diverged at all four
rates from 0.4 to 1.6: at the start A Bᵀ moves by (‖A‖² + ‖B‖²) times the rate, about 8 times in the widest layers,
which is the likely reason. ResNet-20 waited for their tuning and did not start. The third (commit 94b9826, `THIRD`) had
ResNet-20 with all methods, three configurations each, 12 epochs of tuning and 16 of results; held-out classes on
ResNet-9 over three seeds with 12 epochs; and the distilled mixture, SVD-initialised components that train for 32 epochs
on the mean probabilities of the deep ensemble of their seed, for one of 12 random crops of every image. The fourth
(commit d8f78484, `FOURTH`) had the family "tied" on ResNet-9: one scale for every column of A and of B, so that the
same number of parameters holds twice the rank (`TIED_RANKS`, 29.9 % of a deterministic network); SWAG; and two more
seeds of ResNet-20. What follows is the fifth, written with the results of all four in view. They were: on ResNet-9
every mixture of 4 had a higher test NLL than the deep ensemble, the latest with tied scales .257, .190 and .186 with
three seeds against .161; with the first of these seeds at least one component was bad. The networks of ResNet-20 had
trained for 16 epochs only, so its tables compared under-trained networks.

Fifth round: ResNet-20, all methods with 64 epochs, SVD-initialised ones with 24 more, three seeds. Settings and ranks
are those of the third round, found with 12 epochs; MC dropout and the rate of SWAG are tuned now, three configurations
each with 24 epochs. Held-out classes have 24 epochs. Four processes work at once: one tunes, and each seed has one. The
accelerator is there for about six minutes, so `WORK` begins with what `docs/protocol.md` never leaves out and ends with
MC dropout and SWAG, and no further configuration of ResNet-9 is tried.

Scores: accuracy, NLL, Brier score and ECE on the 10,000 test images and, of the first 2,000 of them (ResNet-20: 500),
under eight corruptions at five severities with the constants of CIFAR-10-C. Predictions average 16 draws, 4 of each
component of a mixture. Out-of-distribution detection by entropy and mutual information: held-out classes (networks
trained without ships and trucks, whose test images are told from the other 8,000); and other data against all test
images: 2,000 grey clothes (Fashion-MNIST), 2,000 grey letters (notMNIST), and 456 windows of two photographs in colour.
Beside them max-softmax, energy and Mahalanobis distance of the deterministic network, and four detectors that know no
network: mean saturation, mean brightness, contrast (the standard deviation of the brightness) and differences of
neighbouring pixels.

This is less than `docs/protocol.md` asks for, one tuning seed above all, because a run has 6 to 20 minutes of an
accelerator. Processes do their work in the order of `WORK`; what does not fit into the time is left out from its
end.
"""

from dataclasses import asdict, dataclass, fields
from typing import Literal

Kind = Literal["deterministic", "low_rank", "full_rank", "rank_one", "dropout", "distilled", "tied"]

CLASSES = 10
HELD_OUT = (8, 9)  # ship, truck
BATCH = 512
DECAY = 5e-4
WARM_UP = 0.2  # share of the steps
MEMBERS = 4  # of an ensemble, or components of a mixture
DRAWS = 16
TUNING_SEED, RESULT_SEEDS = 100, (0, 1, 2)
VALIDATION = 10  # every tenth image
CORRUPTED = {"resnet9": 2000, "resnet20": 500}  # test images that are corrupted
OTHER = 2000  # images of other data
RANKS = {
    "resnet9": (8, 16, 16, 24, 32, 56, 56, 72, 8),  # found with a share of 0.29 in the first round
    "resnet20": (8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 8, 16, 16, 16, 16, 16, 8, 8),  # and of 0.6 in the third
}
TIED_RANKS = {"resnet9": (16, 48, 48, 56, 80, 128, 112, 144, 10)}
TUNING_EPOCHS = 24
PUBLISHED_EPOCHS = 100
SWAG_EPOCHS = 8  # snapshots


@dataclass(frozen=True)
class Network:
    """Epochs of a network: from a random start, from an SVD, and from either with classes held out."""

    name: str
    epochs: int
    epochs_svd: int
    epochs_held_out: int


NETWORKS = {one.name: one for one in (Network("resnet9", 24, 24, 12), Network("resnet20", 64, 24, 24))}


@dataclass(frozen=True)
class Settings:
    """What is tuned.

    Args:
        rate: peak learning rate of means and plain weights; of SWAG the constant one.
        beta: weight of the KL.
        width: standard deviation of the prior; None is what `DECAY` and β give.
        eta: initial posterior scales as a multiple of the scale of the means; of rank-one vectors themselves.
        rho_rate: peak learning rate of Adam for ρ.
        decay: weight decay of kernels without a posterior, and what the prior of others pulls with.
        dropout: share of activations that MC dropout drops.
        epochs: None is what the network has.
    """

    rate: float
    beta: float = 0.0
    width: float | None = None
    eta: float = 0.03
    rho_rate: float = 0.02
    decay: float = DECAY
    dropout: float = 0.0
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
class ImageMethod:
    """A family of networks: how many, of which kind, and where they start."""

    kind: Kind
    members: int
    svd: bool = False
    swag: bool = False

    @property
    def starts_at_trained(self) -> bool:
        """Whether its networks start at trained ones and train on."""
        return self.svd or self.swag

    @property
    def draws(self) -> int:
        """Draws of every member."""
        return 1 if self.kind == "deterministic" and not self.swag else DRAWS // self.members


# What is tuned and trained as one → its methods: the single network, then those that average several. "distilled" and
# "tied" are of earlier rounds: the report shows their records, and the code that trained them is at their commits.
FAMILIES: dict[str, dict[str, ImageMethod]] = {
    "deterministic": {
        "deterministic": ImageMethod("deterministic", 1),
        "deep_ensemble": ImageMethod("deterministic", MEMBERS),
    },
    "low_rank": {"low_rank": ImageMethod("low_rank", 1), "mixture": ImageMethod("low_rank", MEMBERS)},
    "svd": {
        "low_rank_svd": ImageMethod("low_rank", 1, svd=True),
        "mixture_svd": ImageMethod("low_rank", MEMBERS, svd=True),
    },
    "distilled": {
        "low_rank_distilled": ImageMethod("distilled", 1, svd=True),
        "mixture_distilled": ImageMethod("distilled", MEMBERS, svd=True),
    },
    "tied": {
        "low_rank_tied": ImageMethod("tied", 1, svd=True),
        "mixture_tied": ImageMethod("tied", MEMBERS, svd=True),
    },
    "full_rank": {"full_rank": ImageMethod("full_rank", 1)},
    "rank_one": {"rank_one": ImageMethod("rank_one", 1)},
    "dropout": {"mc_dropout": ImageMethod("dropout", 1)},
    "swag": {"swag": ImageMethod("deterministic", 1, swag=True)},
}
METHODS = {name: method for family in FAMILIES.values() for name, method in family.items()}

_NARROW = 1e-3  # η of a random start
CONFIGURATIONS: dict[str, dict[str, tuple[Settings, ...]]] = {
    "resnet20": {
        "dropout": tuple(Settings(0.8, dropout=share) for share in (0.02, 0.05, 0.1)),
        "swag": tuple(Settings(rate) for rate in (0.05, 0.1, 0.2)),
    },
}
# The choices of the third round.
CHOSEN: dict[str, dict[str, Settings]] = {
    "resnet20": {
        "deterministic": Settings(0.8),
        "svd": Settings(0.2, 0.01),
        "full_rank": Settings(0.8, 0.003, eta=_NARROW),
        "rank_one": Settings(0.8, 1.0, width=0.05),
        "low_rank": Settings(0.2, 0.01, eta=_NARROW),
    },
}


@dataclass(frozen=True)
class Piece:
    """One piece of work: all methods of a family on a network with one seed; a seed of None is their tuning.

    In the third round, those with `epochs` were one network of that many, to compare with a published number.
    """

    network: str
    family: str
    seed: int | None = None
    held_out: bool = False
    members: int = MEMBERS
    epochs: int | None = None


_ALL = ("deterministic", "low_rank", "svd", "full_rank")
_RESNET9 = [
    Piece("resnet9", family, seed, held_out) for seed in RESULT_SEEDS for held_out in (False, True) for family in _ALL
]
FIRST = [  # at commit 9c7b91b; results alone
    *_RESNET9,
    *(Piece("resnet9", "rank_one", seed) for seed in RESULT_SEEDS),
    *(Piece("resnet20", "deterministic", seed, members=1) for seed in RESULT_SEEDS),
    *(Piece("resnet20", family, 0) for family in _ALL),
]
SECOND = [  # at commit 2c37c22; results alone
    *_RESNET9,
    *(Piece("resnet9", "rank_one", seed) for seed in RESULT_SEEDS),
    *(Piece("resnet20", family, 0) for family in _ALL),
]
MAIN = ("deterministic", "full_rank", "svd", "rank_one", "low_rank")  # families of ResNet-20 in the third round
THIRD = [
    *(Piece("resnet20", family) for family in ("deterministic", "full_rank", "rank_one", "svd", "low_rank")),
    *(Piece("resnet20", family, seed) for seed in RESULT_SEEDS for family in MAIN),
    *(Piece("resnet20", "dropout", seed) for seed in (None, *RESULT_SEEDS)),
    *(Piece("resnet20", "swag", seed) for seed in (None, *RESULT_SEEDS)),
    *(Piece("resnet20", "deterministic", seed, members=1, epochs=PUBLISHED_EPOCHS) for seed in RESULT_SEEDS[1:]),
    *(
        Piece("resnet9", family, seed, held_out=True)
        for seed in RESULT_SEEDS
        for family in ("deterministic", "svd", "full_rank")
    ),
    *(Piece("resnet9", family, seed) for seed in RESULT_SEEDS for family in ("deterministic", "distilled")),
    *(Piece("resnet9", "dropout", seed) for seed in (None, *RESULT_SEEDS)),
    *(Piece("resnet9", "swag", seed) for seed in (None, *RESULT_SEEDS)),
]
FOURTH = [
    *(Piece("resnet9", family) for family in ("deterministic", "tied")),
    *(Piece("resnet9", family, seed) for seed in RESULT_SEEDS for family in ("deterministic", "tied")),
    *(Piece("resnet9", "dropout", seed, held_out=True) for seed in RESULT_SEEDS),
    *(Piece("resnet9", "swag", seed) for seed in (None, *RESULT_SEEDS)),
    *(Piece("resnet20", family, seed) for seed in RESULT_SEEDS[1:] for family in ("deterministic", "svd", "low_rank")),
]

# Families of the fifth round by the order in which they are cut, the last ones first.
_FIRST, _THEN, _LAST = (
    ("deterministic", "svd", "full_rank", "low_rank", "rank_one"),
    ("deterministic", "svd", "full_rank"),
    ("dropout", "swag"),
)
WORK = [
    *(Piece("resnet20", family) for family in _LAST),
    *(Piece("resnet20", family, seed) for seed in RESULT_SEEDS for family in _FIRST),
    *(Piece("resnet20", family, seed, held_out=True) for seed in RESULT_SEEDS for family in _THEN),
    *(Piece("resnet20", family, seed) for seed in RESULT_SEEDS for family in _LAST),
    *(Piece("resnet20", family, seed, held_out=True) for seed in RESULT_SEEDS for family in ("rank_one", "dropout")),
]
