"""MNIST certificates with grid, split, rule, form and δ written down before the first run.

    singularbayes-experiments sharp-certificates --out runs/sharp_certificates

This plan was committed (7910c80) before its first run. `runs/sharp_certificates.py` carried it out as it was.
All that came out is reported, five methods and both seeds: experiments/results/certificates/sharp.jsonl.

- **Split.** One permutation of the 60,000 training images, of seed `SPLIT`: 42,000 teach the prior, the last sixth of
  them chooses, and 18,000 certify. The method `low_rank_initial` has a prior without data; all 60,000 certify it.
- **Rule.** Every combination of `RULE` is fitted on five sixths of the prior's images, with shifted and rotated copies
  of these alone. The one whose draws make the fewest mistakes on the last sixth, the first of equals, is fitted on all
  42,000: that is the prior. One epoch on the 18,000, at a small rate and without copies, makes the posterior.
- **Form.** Catoni's bound of the randomised predictor; its C is the best one for the mistakes on the last sixth and a
  KL of 1. Beside it, each alone with δ: the averaged predictor by the best form, and, of the prior, which has not seen
  the 18,000 images, the hold-out bounds of both predictors.
- **δ** = 0.05 for each number. What shapes the prior and earlier certificates on these images might have suggested
  (`PAID`) is paid by a union bound; the rest of the settings is as in `certificates`.

Limits fixed beforehand: MLP low-rank at most 0.020, CNN low-rank at most 0.0150, prior without data at most 0.21.
"""

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from singularbayes import bounds, layers
from singularbayes.evaluation import certify
from singularbayes.likelihoods import BoundedCrossentropy
from singularbayes.models import count_trained
from singularbayes.posteriors import Centred, FullRank, LowRank, Normal, inverse_softplus
from singularbayes.prediction import drawn_risks
from singularbayes.training import KLSchedule, PACBayesObjective, centre_prior, fit_many
from singularbayes_experiments.methods.training import require_method
from singularbayes_experiments.problems import certificates
from singularbayes_experiments.problems.image_copies import CopiesFolder, Moves
from singularbayes_experiments.records.record import Record, plain

SPLIT = 20261117
SEEDS = (0, 1)
METHODS = {  # network, rank; None is full
    "low_rank_25": ("mlp", 25),
    "low_rank_50": ("mlp", 50),
    "full_rank": ("mlp", None),
    "cnn_low_rank": ("cnn", 25),
    "low_rank_initial": ("initial", 25),
}
RULE: dict[str, tuple] = {"beta": (1e-3, 1e-2), "dropout": (0.0, 0.2), "shift": (1, 2)}
PAID: dict[str, tuple] = {
    "share": (0.5, 0.6, 0.7, 0.8),
    "epochs": (5, 10, 20, 40),
    "estimator": ("shared", "local"),
    "pixel_scale": (126.0, 255.0),
}
INITIAL = replace(certificates.TUNED["low_rank_initial"], epochs=300)  # pays for all of `certificates.INITIAL`
_OTHER = 2**20  # from the seed of a certificate to that of the draws that choose


@dataclass(frozen=True)
class SharpSettings:
    """The same for all methods with a learned prior; `RULE` replaces its three."""

    share: float = 0.7  # of the images, for the prior
    epochs: int = 20  # over the images and their copies
    estimator: str = "local"  # of dense layers
    pixel_scale: float = 126.0
    beta: float = 1e-3
    dropout: float = 0.2
    shift: int = 2  # pixels, in both directions
    angle: float = 10.0  # degrees
    copies: int = 5  # of every image of the prior, beside itself
    units: int = 1200
    prior_scale: float = 0.03
    start: float = 3e-3
    learning_rate: float = 1e-3  # of Adam, a cosine to 0
    batch_size: int = 256
    further_rate: float = 1e-5
    p_min: float = 1e-5
    average: int = 100
    delta: float = 0.05
    draws: int = 45_000


QUICK = SharpSettings(epochs=5, copies=1, units=16, batch_size=100, average=5, draws=100)


def network(kind: str, rank: int | None, settings: SharpSettings) -> keras.Model:
    """Returns the paper's MLP, or two convolutions and two dense layers: all weights drawn, on flat images."""
    options: dict[str, Any] = {
        "prior": Centred(Normal(settings.prior_scale)),
        "rho_initializer": keras.initializers.Constant(inverse_softplus(settings.start)),
    }

    def drawn(rows: int, units: int) -> dict:
        posterior = FullRank(**options) if rank is None else LowRank.paper(min(rank, rows, units), **options)
        return {"posterior": posterior, "bias_posterior": FullRank(**options)}

    def dense(rows: int, units: int, activation: str | None = None) -> keras.layers.Layer:
        return layers.Dense(units, activation, estimator=settings.estimator, **drawn(rows, units))

    units = settings.units
    dropout = [keras.layers.Dropout(settings.dropout) for _ in range(2)]
    if kind == "mlp":
        hidden = [dense(784, units, "relu"), dropout[0], dense(units, units, "relu"), dropout[1]]
        return keras.Sequential([keras.Input((784,)), *hidden, dense(units, 10)])
    filters = max(8, units // 20)
    convolutions = []
    for rows in (9, 9 * filters):
        convolutions += [
            layers.Conv2D(filters, 3, activation="relu", **drawn(rows, filters)),
            keras.layers.MaxPooling2D(),
        ]
    flat = 25 * filters
    hidden = [keras.layers.Flatten(), dropout[0], dense(flat, units // 8, "relu"), dropout[1]]
    image = keras.layers.Reshape((28, 28, 1))
    return keras.Sequential([keras.Input((784,)), image, *convolutions, *hidden, dense(units // 8, 10)])


@dataclass(frozen=True)
class Configuration:
    """A prior to be fitted: its settings, and the seed of its network, its copies and its noise."""

    settings: SharpSettings
    seed: int

    @property
    def moves(self) -> Moves:
        one = self.settings
        return Moves(self.seed, one.copies, one.shift, one.angle)


@dataclass(frozen=True)
class CertificateSplit:
    """The images of the prior, of which the last sixth chooses, those that certify, and those that test."""

    prior: tuple[np.ndarray, np.ndarray]
    certifying: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, settings: SharpSettings, images=None) -> "CertificateSplit":
        (x, y), test = images or certificates.mnist(settings.pixel_scale)
        order = np.random.default_rng(SPLIT).permutation(len(x))
        first = int(settings.share * len(x))
        prior, certifying = ((x[rows], y[rows]) for rows in (order[:first], order[first:]))
        return cls(prior, certifying, test)

    @property
    def fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """What the rule fits configurations on."""
        x, y = self.prior
        rest = len(x) - len(x) // 6
        return x[:rest], y[:rest]

    @property
    def choosing(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.prior
        rest = len(x) - len(x) // 6
        return x[rest:], y[rest:]


def run(method: str, seed: int, settings: SharpSettings = SharpSettings(), images=None) -> Record:
    """Returns the record of one method: prior by the rule, posterior, and certificates.

    Args:
        images: (x, y) to train and certify and (x, y) to test; MNIST where not given.
    """
    require_method(method, METHODS)
    if METHODS[method][0] == "initial":
        return run_initial(seed, images)
    require_paid(settings)
    split, start = CertificateSplit.of(settings, images), time.perf_counter()
    configurations = [Configuration(one, seed) for one in combinations(settings)]
    mistakes = [
        count_mistakes(model, split, seed, settings) for model in fit_priors(method, configurations, *split.fitted)
    ]
    best = int(np.argmin(mistakes))
    spent = time.perf_counter() - start
    return certified(method, configurations[best], mistakes[best], split, settings, spent)


def run_initial(seed: int, images=None) -> Record:
    """Returns the record of the method whose prior has seen no data."""
    found = certificates.run("low_rank_initial", seed, INITIAL, images=images)
    return replace(found, experiment="sharp_certificates")


def require_paid(settings: SharpSettings) -> None:
    """Raises for settings that a certificate does not pay for."""
    for name, values in PAID.items():
        if getattr(settings, name) not in values:
            raise ValueError(f"A certificate pays for {name} among {values}; got {getattr(settings, name)!r}.")


def certified(
    method: str,
    chosen: Configuration,
    mistakes: float,
    split: CertificateSplit,
    settings: SharpSettings,
    spent: float = 0.0,
    copies: CopiesFolder | None = None,
) -> Record:
    """Returns the record of the chosen configuration, fitted on all images of the prior, trained further and certified.

    Args:
        mistakes: of the configuration, on the images that chose it.
        spent: seconds of the rule.
    """
    used, seed, start = chosen.settings, chosen.seed, time.perf_counter()
    (model,) = fit_priors(method, [chosen], *split.prior, copies)
    centre_prior(model, learned_on=_with_copies(chosen.moves, split.prior[0], copies))
    x, y = split.certifying
    paid: dict[str, Any] = {"delta": settings.delta, "tried": count_paid(), "seed": seed}
    held_out = {
        average: certify(model, x, y, form="holdout", average=average, **paid) for average in (None, used.average)
    }
    objective = PACBayesObjective(num_data=len(x), delta=settings.delta)
    _compile(model, BoundedCrossentropy(settings.p_min), settings.further_rate, len(x), 1, settings)
    model.fit(x, y, epochs=1, batch_size=settings.batch_size, verbose=0, callbacks=[objective])
    seconds = spent + time.perf_counter() - start
    constant = bounds.catoni_constant(mistakes, 1.0, len(x), 0.8 * settings.delta / count_paid())
    bound = certify(model, x, y, draws=settings.draws, form="catoni", constant=constant, **paid)
    averaged = certify(model, x, y, draws=settings.draws, average=used.average, **paid)
    metrics = {
        "certificate": bound.value,
        "is_certificate": float(bound.is_certificate),
        **{name: float(value) for name, value in bound.terms.items()},
        **{f"δ {name}": value for name, value in bound.deltas.items()},
        "averaged certificate": averaged.value,
        "hold-out": held_out[None].value,
        "averaged hold-out": held_out[used.average].value,
        "mistakes that chose": mistakes,
        **{f"chosen {name}": float(getattr(used, name)) for name in RULE},
        "test error": float(drawn_risks(model, *split.test, min(settings.draws, 2000), seed=seed).mean()),
    }
    return Record("sharp_certificates", method, seed, plain(settings), metrics, count_trained(model), seconds)


def count_paid() -> int:
    """Returns how many priors a certificate pays for.

    >>> count_paid()
    64
    """
    return math.prod(len(values) for values in PAID.values())


def combinations(settings: SharpSettings) -> list[SharpSettings]:
    """Returns the settings with every combination of `RULE`, in the order in which the first of equals is taken."""
    products = itertools.product(*RULE.values())
    return [replace(settings, **dict(zip(RULE, values, strict=True))) for values in products]


def count_mistakes(model: keras.Model, split: CertificateSplit, seed: int, settings: SharpSettings) -> float:
    """Returns the share of mistakes of a configuration on the last sixth of the prior's images."""
    # With draws of its own: those of the certificate have to know nothing of the choice.
    return float(drawn_risks(model, *split.choosing, max(20, settings.draws // 15), seed=seed + _OTHER).mean())


def fit_priors(
    method: str, wanted: Sequence[Configuration], x: np.ndarray, y: np.ndarray, copies: CopiesFolder | None = None
) -> list[keras.Model]:
    """Returns a model for each configuration, fitted on these images and their copies.

    Configurations with one dropout are one program (`fit_many`), but convolutions train alone: those of many members
    are convolutions in groups, which accelerators are slow at.
    """
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, one in enumerate(wanted):
        groups[i if METHODS[method][0] == "cnn" else one.settings.dropout].append(i)
    models: dict[int, keras.Model] = {}
    for places in groups.values():
        models |= zip(places, _fit_together(method, [wanted[i] for i in places], x, y, copies), strict=True)
    return [models[i] for i in range(len(wanted))]


def _fit_together(method: str, wanted: list[Configuration], x, y, copies: CopiesFolder | None) -> list[keras.Model]:
    """Returns the models of configurations with one network, each with its own images."""
    settings = wanted[0].settings
    size = len(x) * (settings.copies + 1)
    sources = list(dict.fromkeys(one.moves for one in wanted))
    moved = np.concatenate([_with_copies(moves, x, copies) for moves in sources])
    rows = np.stack([np.arange(size) + size * sources.index(one.moves) for one in wanted])
    built: list[Configuration] = []

    def build(seed: int) -> keras.Model:
        built.append(wanted[seed])
        keras.utils.set_random_seed(built[-1].seed)
        model = network(*METHODS[method], built[-1].settings)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        _compile(model, loss, settings.learning_rate, size, settings.epochs, settings)
        return model

    def callbacks() -> list[keras.callbacks.Callback]:  # of the model that was built last
        return [KLSchedule(num_data=size, beta=built[-1].settings.beta)]

    labels = np.tile(y, (settings.copies + 1) * len(sources))
    members = range(len(wanted))
    runs = fit_many(build, moved, labels, members, settings.epochs, settings.batch_size, callbacks=callbacks, rows=rows)
    return [one.model for one in runs]


def _with_copies(moves: Moves, x: np.ndarray, copies: CopiesFolder | None) -> np.ndarray:
    return moves.apply(x) if copies is None else copies.read(moves, x)


def _compile(model: keras.Model, loss, rate: float, num_data: int, epochs: int, settings: SharpSettings) -> None:
    steps = math.ceil(num_data / settings.batch_size)
    together = 1 if keras.backend.backend() == "torch" else min(steps, 100)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps * epochs)
    model.compile(keras.optimizers.Adam(schedule), loss, steps_per_execution=together)
