"""The settings that all methods share, and what is put on a weight."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import keras

from singularbayes.posteriors import (
    Anchored,
    Deterministic,
    FullRank,
    LowRank,
    Mixture,
    Normal,
    Posterior,
    Prior,
    RankOne,
    ScaleMixture,
)


@dataclass(frozen=True)
class Settings:
    """The settings that training and posteriors read; a problem's own add to them. Defaults are the paper's.

    Args:
        cosine: the learning rate falls along a cosine to `cosine_floor` times its start, by "step", or constant in an
            "epoch"; None is constant.
        rise: the share of the steps over which the learning rate rises linearly, before it falls linearly to 0; None is
            neither.
        optimizer: Adam, or SGD with Nesterov momentum, where posterior scales take steps of Adam, at `scale_rate`.
        weight_decay: of the kernels of deterministic networks; decoupled, but part of the gradient under SGD.
        beta: weight of the KL, after `zero_epochs` at zero and a linear rise over `warmup` epochs.
        prior: "scale_mixture" of `pi`, `sigma1` and `sigma2`; or N(centre, prior_scale²) around 0 ("normal") or
            around the start ("anchored").
        eta: initial posterior scales as a multiple of the scale of the means; `rho_start`, (low, high) of a uniform ρ,
            replaces it.
        rho_lr: learning rate of ρ as a multiple of the others'.
        start: what the means of a low-rank weight start with: "independent" entries of A and B with He's variance
            before a ReLU, "glorot" with Glorot's, or "orthogonal" columns with Glorot's.
        damping: factor of the initial means of low-rank weights.
        ranks: of all weights in their order.
        members: of an ensemble; components of a mixture.
        svd_epochs, svd_rate, svd_decay: of the deterministic networks at whose SVD low-rank ones start; a rate of None
            is `learning_rate`.
        swag_epochs: the last of `epochs`, in which SWAG collects weights.
    """

    learning_rate: float = 1e-3
    cosine: Literal["step", "epoch"] | None = None
    cosine_floor: float = 0.0
    rise: float | None = None
    optimizer: Literal["adam", "sgd"] = "adam"
    scale_rate: float = 0.02
    weight_decay: float = 0.0
    batch_size: int = 128
    epochs: int = 50
    beta: float = 1.0
    zero_epochs: int = 0
    warmup: int = 0
    prior: Literal["scale_mixture", "normal", "anchored"] = "scale_mixture"
    prior_scale: float = 1.0
    pi: float = 0.5
    sigma1: float = 1.0
    sigma2: float = math.exp(-6)
    eta: float = 0.1
    rho_start: tuple[float, float] | None = None
    rho_lr: float = 1.0
    start: Literal["independent", "glorot", "orthogonal"] = "independent"
    damping: float = 1.0
    ranks: tuple[int, ...] = ()
    overcomplete: bool = False
    rank_one_form: str = "scale"
    bayesian_bias: bool = False
    draws: int = 50
    members: int = 5
    svd_epochs: int = 10
    svd_rate: float | None = None
    svd_decay: float = 0.0
    swag_epochs: int = 20
    swag_rank: int = 20
    swag_rate: float = 0.01


def program_settings(settings: Settings) -> Settings:
    """Returns the settings with one value for all that members of a program may have of their own."""
    own: dict[str, Any] = {"beta": 0.0, "zero_epochs": 0, "warmup": 0}
    by_step = settings.cosine == "step" or settings.rise is not None or settings.optimizer == "sgd"
    return replace(settings, **own if by_step else own | {"learning_rate": 0.0})


@dataclass(frozen=True)
class Weights:
    """Given the rank of a weight, its posterior.

    Args:
        kind: "deterministic", "low_rank", "low_rank_laplace", "full_rank" or "rank_one"; "point" is deterministic, and
            has a posterior for a bias where a low-rank network has one, so that this can start at it.
        components: of a mixture on every weight.
        inputs: the shape of one example, for problems whose tasks differ in it.

    >>> Weights("low_rank", Settings(eta=0.03))(25).rank
    25
    """

    kind: str
    settings: Settings
    components: int = 1
    inputs: tuple[int, ...] = ()

    def __call__(self, rank: int) -> Posterior:
        """Returns the posterior of a weight matrix."""
        own, options = self.settings, self._options()
        independent = {"damping": own.damping, "overcomplete": own.overcomplete, "start": "independent", "loc_lr": 1.0}
        starts = {
            "independent": independent,
            "glorot": independent | {"initializer": keras.initializers.GlorotNormal()},
            "orthogonal": independent | {"start": "orthogonal"},
        }
        kinds: dict[str, Callable[[], Posterior]] = {
            "low_rank": lambda: LowRank(rank, **starts[own.start], **options),
            "low_rank_laplace": lambda: LowRank(rank, family="laplace", **starts[own.start], **options),
            "full_rank": lambda: FullRank(**options),
            "rank_one": lambda: RankOne(own.rank_one_form, **options),
            "deterministic": Deterministic,
            "point": Deterministic,
        }
        return self.mixed(kinds[self.kind]())

    def bias(self) -> Posterior | None:
        """Returns the posterior of a bias, or None for a plain one; rank-one networks have plain ones."""
        if not self.settings.bayesian_bias or self.kind in ("deterministic", "rank_one"):
            return None
        return Deterministic() if self.kind == "point" else self.mixed(FullRank(**self._options()))

    @property
    def random(self) -> bool:
        return self.kind not in ("deterministic", "point")

    def of(self, kind: str) -> "Weights":
        """Returns those of another kind for some weights of the same network."""
        return replace(self, kind=kind)

    def mixed(self, posterior: Posterior) -> Posterior:
        """Returns the posterior, or the mixture of such ones."""
        return posterior if self.components == 1 else Mixture(posterior, self.components)

    def _options(self) -> dict[str, Any]:
        own = self.settings
        priors: dict[str, Callable[[], Prior]] = {
            "scale_mixture": lambda: ScaleMixture(own.pi, own.sigma1, own.sigma2),
            "normal": lambda: Normal(own.prior_scale),
            "anchored": lambda: Anchored(own.prior_scale, anchor="start"),
        }
        rho = None if own.rho_start is None else keras.initializers.RandomUniform(*own.rho_start)
        return {"prior": priors[own.prior](), "eta": own.eta, "rho_lr": own.rho_lr, "rho_initializer": rho}
