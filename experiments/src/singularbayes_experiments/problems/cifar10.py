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
large as the stored parameters of a component allow (`SHARES`: 4 components have at most 29 % of the deep ensemble's on
ResNet-9). A mixture of 4: four such networks from starts of their own, trained on all images, whose predictions are
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
which is the likely reason. ResNet-20 waited for their tuning and did not start. What follows is the third.

ResNet-20, all methods. Tuning: three configurations of every family (`CONFIGURATIONS`), one seed, 45,000 images, 12
epochs; the least NLL on 5,000 validation images (every tenth of the training set) is chosen, of deterministic networks
by their own and of components by a single one; an ensemble and a mixture take the choice of their first network.
SVD-initialised networks begin at the deterministic network that was chosen. A configuration that diverges is a record
as others are; a family all of whose configurations diverge has no results. Results: seeds 0, 1 and 2, all 50,000
images. All methods train for the same epochs, SVD-initialised networks for half as many after those of the ensemble.
How many is decided once, after tuning, by the seconds that a step takes beside other work: the most of `EPOCHS` with
which the five main families on three seeds fit into four fifths of the time that is left. Then MC dropout (dropout
before every convolution but the first and before the head, in training and prediction), SWAG (snapshots after each of 8
more epochs at a constant rate from the first member of the ensemble; 16 draws, whose moments of batch normalisation are
those of one more epoch), and one deterministic network of 100 epochs with two more seeds, to repeat the published
number.

ResNet-9. Choices are those of the second round (`CHOSEN`). First held-out classes with three seeds, 12 epochs for all:
deterministic, deep ensemble, SVD-initialised, full-rank. Then what may bring the mixture of low-rank networks level
with the deep ensemble at 28 % of its parameters. In the second round one SVD-initialised component had an NLL of .220,
its deterministic network .206, and 24 instead of 16 epochs had lowered that of the validation images by .019:
components lose by what the SVD cuts off and had not recovered it yet. The distilled mixture of 4 is the SVD-initialised
one with two changes: its components train for 32 epochs, and their labels are the mean probabilities of the deep
ensemble of the same seed for the same crops. The probabilities come from 12 random crops of every image, of which an
epoch takes one at random. Nothing of it is tuned: rate and β are those chosen for SVD-initialised networks. The deep
ensemble is trained again with the same seeds. Last MC dropout and SWAG, three configurations each, tuned with 12 epochs
and run with the 24 of the others.

Scores: accuracy, NLL, Brier score and ECE on the 10,000 test images and, of the first 2,000 of them (ResNet-20: 500),
under eight corruptions at five severities with the constants of CIFAR-10-C. Predictions average 16 draws, 4 of each
component of a mixture. Out-of-distribution detection by entropy and mutual information: held-out classes (networks
trained without ships and trucks, whose test images are told from the other 8,000); and other data against all test
images: 2,000 grey clothes (Fashion-MNIST), 2,000 grey letters (notMNIST), and 456 windows of two photographs in colour.
Beside them max-softmax, energy and Mahalanobis distance of the deterministic network, and four detectors that know no
network: mean saturation, mean brightness, contrast (the standard deviation of the brightness) and differences of
neighbouring pixels.

This is less than `docs/protocol.md` asks for, one tuning seed above all, because the run has about 24 minutes of a
shared accelerator. Each network runs as a process of its own, in the order of `WORK`; what does not fit into the time
is left out from its end. The plan was written with the results of both earlier rounds in view.
"""

from dataclasses import asdict, dataclass, fields
from typing import Literal

Kind = Literal["deterministic", "low_rank", "full_rank", "rank_one", "dropout", "distilled"]

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
SHARES = {"resnet20": 0.6}  # most stored parameters of a low-rank network, of a deterministic one's
RANKS = {"resnet9": (8, 16, 16, 24, 32, 56, 56, 72, 8)}  # found with a share of 0.29 in the first round
TUNING_EPOCHS = 12
HELD_OUT_EPOCHS = 12
EPOCHS = (60, 40, 30, 24, 16)  # of ResNet-20: the most that fit
TIME_SHARE = 0.8  # of what is left after tuning, for the five main families
PUBLISHED_EPOCHS = 100
SWAG_EPOCHS = 8  # snapshots
VIEWS = 12  # crops of an image that the ensemble labels


@dataclass(frozen=True)
class Network:
    """Epochs of a network, from a random start and from an SVD; None where the time decides."""

    name: str
    epochs: int | None
    epochs_svd: int | None


NETWORKS = {one.name: one for one in (Network("resnet9", 24, 24), Network("resnet20", None, None))}


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
class Method:
    """A family of networks: how many, of which kind, and where they start."""

    kind: Kind
    members: int
    svd: bool = False
    swag: bool = False

    @property
    def draws(self) -> int:
        """Draws of every member."""
        return 1 if self.kind == "deterministic" and not self.swag else DRAWS // self.members


# What is tuned and trained as one → its methods: the single network, then those that average several.
FAMILIES: dict[str, dict[str, Method]] = {
    "deterministic": {
        "deterministic": Method("deterministic", 1),
        "deep_ensemble": Method("deterministic", MEMBERS),
    },
    "low_rank": {"low_rank": Method("low_rank", 1), "mixture": Method("low_rank", MEMBERS)},
    "svd": {"low_rank_svd": Method("low_rank", 1, svd=True), "mixture_svd": Method("low_rank", MEMBERS, svd=True)},
    "distilled": {
        "low_rank_distilled": Method("distilled", 1, svd=True),
        "mixture_distilled": Method("distilled", MEMBERS, svd=True),
    },
    "full_rank": {"full_rank": Method("full_rank", 1)},
    "rank_one": {"rank_one": Method("rank_one", 1)},
    "dropout": {"mc_dropout": Method("dropout", 1)},
    "swag": {"swag": Method("deterministic", 1, swag=True)},
}
METHODS = {name: method for family in FAMILIES.values() for name, method in family.items()}

_NARROW = 1e-3  # η of a random start
CONFIGURATIONS: dict[str, dict[str, tuple[Settings, ...]]] = {
    "resnet20": {
        "deterministic": (Settings(0.4), Settings(0.8), Settings(0.8, decay=2 * DECAY)),
        "svd": tuple(Settings(rate, 0.01) for rate in (0.1, 0.2, 0.4)),
        "full_rank": (
            Settings(0.4, 0.003, eta=_NARROW),
            Settings(0.8, 0.003, eta=_NARROW),
            Settings(0.4, 0.01, eta=_NARROW),
        ),
        "rank_one": (Settings(0.4, 1.0, 0.05), Settings(0.8, 1.0, 0.05), Settings(0.4, 1.0, 0.025)),
        "low_rank": (Settings(0.1, 0.01, eta=_NARROW), Settings(0.2, 0.01, eta=_NARROW), Settings(0.2, 0.03)),
        "dropout": tuple(Settings(0.8, dropout=share) for share in (0.02, 0.05, 0.1)),
        "swag": tuple(Settings(rate) for rate in (0.05, 0.1, 0.2)),
    },
    "resnet9": {
        "dropout": tuple(Settings(0.8, decay=2 * DECAY, dropout=share) for share in (0.05, 0.1, 0.2)),
        "swag": tuple(Settings(rate, decay=2 * DECAY) for rate in (0.05, 0.1, 0.2)),
    },
}
# The choices of the second round; those of the distilled mixture are not tuned.
CHOSEN: dict[str, dict[str, Settings]] = {
    "resnet9": {
        "deterministic": Settings(0.8, decay=2 * DECAY),
        "svd": Settings(0.4, 0.01),
        "full_rank": Settings(0.4, 0.003, eta=_NARROW),
        "distilled": Settings(0.4, 0.01, epochs=32),
    }
}


@dataclass(frozen=True)
class Piece:
    """One piece of work: all methods of a family on a network with one seed; a seed of None is their tuning.

    With `epochs` it is one network of that many, to compare with a published number.
    """

    network: str
    family: str
    seed: int | None = None
    held_out: bool = False
    members: int = MEMBERS
    epochs: int | None = None


MAIN = ("deterministic", "full_rank", "svd", "rank_one", "low_rank")  # families of ResNet-20
WORK = [
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
