"""What a method is, the settings that all share, what it puts on a weight, and who trains its networks."""

import importlib
import math
import pkgutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np

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
    find_posteriors,
)
from singularbayes.training import KLSchedule, fit_many

if TYPE_CHECKING:
    from singularbayes_experiments.new.problems.base import Data, Problem


@dataclass(frozen=True)
class Settings:
    """The settings that training and posteriors read; a problem's own add to them. Defaults are the paper's.

    Args:
        cosine: the learning rate falls to 0 along a cosine, by "step", or constant in an "epoch"; None is constant.
        weight_decay: decoupled, of the kernels of deterministic networks.
        beta: weight of the KL, after `zero_epochs` at zero and a linear rise over `warmup` epochs.
        prior: "scale_mixture" of `pi`, `sigma1` and `sigma2`; or N(centre, prior_scale²) with the centre 0 ("normal") or
            at the start ("anchored").
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
    rho_start: tuple[float, ...] | None = None
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
    return replace(settings, **own if settings.cosine == "step" else own | {"learning_rate": 0.0})


# -- what is put on a weight -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """Given the rank of a weight, its posterior.

    Args:
        kind: "deterministic", "low_rank", "low_rank_laplace", "full_rank" or "rank_one"; "point" is deterministic, and
            has a posterior for a bias where a low-rank network has one, so that this can start at it.
        components: of a mixture on every weight.

    >>> Weights("low_rank", Settings(eta=0.03))(25)
    LowRank(25)
    """

    kind: str
    settings: Settings
    components: int = 1

    def __call__(self, rank: int) -> Posterior:
        """Returns the posterior of a weight matrix."""
        own, options = self.settings, self._options()
        independent = {"damping": own.damping, "overcomplete": own.overcomplete, "start": "independent"}
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
        return self._mixed(kinds[self.kind]())

    def bias(self) -> Posterior | None:
        """Returns the posterior of a bias, or None for a plain one; rank-one networks have plain ones."""
        if not self.settings.bayesian_bias or self.kind in ("deterministic", "rank_one"):
            return None
        return Deterministic() if self.kind == "point" else self._mixed(FullRank(**self._options()))

    @property
    def random(self) -> bool:
        return self.kind not in ("deterministic", "point")

    def of(self, kind: str) -> "Weights":
        """Returns those of another kind for some weights of the same network."""
        return replace(self, kind=kind)

    def _mixed(self, posterior: Posterior) -> Posterior:
        return posterior if self.components == 1 else Mixture(posterior, self.components, examples="repeat")

    def _options(self) -> dict[str, Any]:
        own = self.settings
        priors: dict[str, Callable[[], Prior]] = {
            "scale_mixture": lambda: ScaleMixture(own.pi, own.sigma1, own.sigma2),
            "normal": lambda: Normal(own.prior_scale),
            "anchored": lambda: Anchored(own.prior_scale, anchor="start"),
        }
        rho = None if own.rho_start is None else keras.initializers.RandomUniform(*own.rho_start)
        return {"prior": priors[own.prior](), "eta": own.eta, "rho_lr": own.rho_lr, "rho_initializer": rho}


# -- who trains --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """One network to train, or one run: its seed, its settings, and the data of its run."""

    seed: int
    settings: Settings
    data: "Data"


class Trainer:
    """Trains the networks of the runs of a task, on JAX as one program.

    It counts the seconds and the multiplications of all matrix products: three times those of the forward passes.
    """

    def __init__(self, problem: "Problem"):
        self.problem, self.seconds, self.products = problem, 0.0, 0.0

    def fit(
        self,
        kind: str,
        members: Sequence[Member],
        *,
        components: int = 1,
        start: Callable[[keras.Model, int], None] | None = None,
        **changes: Any,
    ) -> list[keras.Model]:
        """Returns the trained network of every member.

        Args:
            kind, components: as in `Weights`.
            start: is given a new model and the number of its member, and sets the weights that it starts with.
            changes: settings that are other than the members'.
        """
        begun = time.perf_counter()
        own = [replace(member.settings, **changes) for member in members]

        def build(member: int) -> keras.Model:
            weights = Weights(kind, own[member], components)
            model = self.problem.network(weights, own[member])
            if start is not None:
                start(model, member)
            steps = math.ceil(len(members[member].data.train.x) / own[member].batch_size)
            model.compile(adam(model, own[member], steps), self.problem.loss(own[member]))
            return model

        x, y, weight, rows = together([member.data for member in members])
        validation = members[0].data.validation if self.problem.watched else None
        runs = fit_many(
            build,
            x,
            y,
            [member.seed for member in members],
            own[0].epochs,
            min(own[0].batch_size, len(members[0].data.train.x)),
            callbacks=lambda member: [*callbacks(kind, own[member]), *self.problem.callbacks(own[member])],
            sample_weight=weight,
            rows=rows,
            validation_data=None if validation is None else (validation.x, validation.y),
        )
        self.seconds += time.perf_counter() - begun
        examples = len(members) * components * len(members[0].data.train.x) * own[0].epochs
        self.products += 3.0 * examples * self.problem.products(runs[0].model, own[0])
        return [run.model for run in runs]


def together(data: Sequence["Data"]) -> tuple[Any, Any, np.ndarray | None, np.ndarray | None]:
    """Returns inputs, targets and weights that train, and the rows of every member where these differ."""
    different = list({id(one): one for one in data}.values())
    if len(different) == 1:
        train = different[0].train
        return train.x, train.y, train.weight, None
    x, y = (np.concatenate([getattr(one.train, part) for one in different]) for part in ("x", "y"))
    weights = [one.train.weight for one in different]
    weight = None if weights[0] is None else np.concatenate(weights)
    ends = np.cumsum([len(one.train.x) for one in different])
    rows = {id(one): np.arange(end - len(one.train.x), end) for one, end in zip(different, ends, strict=True)}
    return x, y, weight, np.stack([rows[id(one)] for one in data])


def adam(model: keras.Model, settings: Settings, steps: int) -> keras.optimizers.Optimizer:
    """Returns Adam; with the decay of a network without random weights, of its kernels alone."""
    rate: Any = settings.learning_rate
    if settings.cosine == "step":
        rate = keras.optimizers.schedules.CosineDecay(rate, steps * settings.epochs)
    if not settings.weight_decay or any(posterior.random for posterior in find_posteriors(model)):
        return keras.optimizers.Adam(rate)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=settings.weight_decay)
    optimizer.exclude_from_weight_decay([v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def callbacks(kind: str, settings: Settings) -> list[keras.callbacks.Callback]:
    """Returns what sets learning rate and KL weight epoch by epoch."""
    found: list[keras.callbacks.Callback] = []
    if settings.cosine == "epoch":
        rate, epochs = settings.learning_rate, settings.epochs
        fall = lambda epoch: rate * 0.5 * (1 + math.cos(math.pi * epoch / epochs))  # noqa: E731
        found.append(keras.callbacks.LearningRateScheduler(fall))
    if kind not in ("deterministic", "point"):
        found.append(KLSchedule(beta=settings.beta, zero_epochs=settings.zero_epochs, warmup=settings.warmup))
    return found


# -- the registry ------------------------------------------------------------------------------------------------------

# Trains all members of a task, and returns for each a Keras model or what has `predict(x, draws, seed)`.
Train = Callable[[Trainer, list[Member]], list]


@dataclass(frozen=True)
class Method:
    name: str
    description: str
    train: Train


METHODS: dict[str, Method] = {}


def method(name: str, description: str) -> Callable[[Train], Train]:
    """Registers a function as the method of that name."""

    def register(train: Train) -> Train:
        METHODS[name] = Method(name, description, train)
        return train

    return register


def find_method(name: str) -> Method:
    """Returns a method by its name; a rank after `low_rank_`, as in low_rank_50, is that of the hidden weights."""
    rank = name.removeprefix("low_rank_")
    if name not in METHODS and rank.isdecimal() and rank != name:
        return Method(name, f"low_rank with ranks of {rank}", METHODS["low_rank"].train)
    if name not in METHODS:
        raise ValueError(f"A method must be one of {sorted(METHODS)}, or low_rank_<rank>; got {name!r}.")
    return METHODS[name]


def with_named_rank(name: str, settings: Settings) -> Settings:
    """Returns the settings with the rank of the hidden weights that a method's name has, as low_rank_50."""
    rank = name.removeprefix("low_rank_")
    if not rank.isdecimal():
        return settings
    return replace(settings, ranks=(*[int(rank)] * (len(settings.ranks) - 1), settings.ranks[-1]))


def load_methods(folder: str, package: str) -> None:
    """Imports every module of a folder, whose methods register themselves."""
    for module in pkgutil.iter_modules([folder]):
        importlib.import_module(f"{package}.{module.name}")
