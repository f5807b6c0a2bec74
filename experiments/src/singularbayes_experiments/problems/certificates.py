"""How small a risk can be certified on MNIST, by low-rank and full-rank networks with and without learned priors.

A prior without data is N(initial value, prior_scale²); all 60,000 training images certify its posterior. A learned
prior is the posterior that was fitted on a share of the images; the rest trains it one epoch further, and certifies.

What was chosen, and who pays. A certificate pays by a union bound for the priors that `chosen` has in
certificates.yaml. A learned prior takes from `rule` what makes the fewest mistakes on the last sixth of the images
that teach it, before any that certify is read, and pays for what is left, which a hand chose. What only steers
training (rate, epochs, start, p_min and penalty of a prior without data) is free: the bound holds for all posteriors.
That the best of a few trainings is shown is paid for too, because each spends the share of one prior on its draws.
Settings in no grid that shape a prior (units, rank, prior_scale of a learned one, rate, batches) have to be fixed
before; a run with others is no certificate.

Two tasks. `certificates`: a permutation by seed, the PAC-Bayes-kl bound of the randomised predictor. Strictly a grid
and a rule have to be fixed before the first certificate; these were written down while earlier ones were in sight. So
`sharp_certificates` fixed split, rule, form and δ in a commit (7910c80) before its first run, and all that came out is
reported: one permutation, shifted and rotated copies of the prior's images, Catoni's bound with the C that is best for
the mistakes on the last sixth and a KL of 1; beside it, each alone with δ, the averaged predictor by PAC-Bayes-kl (as
recorded, by the best of three forms that shared δ), and hold-out bounds of the prior, which has not seen the 18,000
images that certify. Limits: MLP low-rank at most 0.020, CNN low-rank at most 0.0150, prior without data at most 0.21.

Not an experiment of the paper. The network is its MLP 784-1200-1200-10 with ranks 25, 25 and 10, but biases are drawn.
The recorded runs drew the noise of dense layers example by example, which the library no longer does.
"""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import keras
import numpy as np
from scipy import ndimage

from singularbayes import bounds, layers
from singularbayes.evaluation import certify
from singularbayes.likelihoods import BoundedCrossentropy
from singularbayes.models import count_trained
from singularbayes.posteriors import Centred, FullRank, LowRank, Normal, inverse_softplus
from singularbayes.prediction import drawn_risks
from singularbayes.training import KLSchedule, PACBayesObjective, centre_prior, fit_many
from singularbayes_experiments import data, study
from singularbayes_experiments.problems.base import OwnRuns

Images = tuple[np.ndarray, np.ndarray]
Grid = Mapping[str, Sequence]  # values of settings, in all combinations
SIDE, SPLIT = 28, 20261117  # pixels; the seed of sharp certificates' permutation
_OTHER = 2**20  # from the seed of a certificate to that of the draws that choose


@dataclass(frozen=True)
class CertificateSettings:
    """The defaults are those of priors without data; what is not used there is told.

    Args:
        rank: None is full rank.
        share: of the images, for the prior; 0 is a prior without data.
        filters: slope of `SmoothFilters`; None is white noise. Without data only.
        penalty: of the KL weight, without data only: a near miss costs far less bounded cross-entropy than 1.
        beta, dropout: of training the prior.
        copies: of every image of the prior beside itself, moved by up to `shift` pixels and `angle` degrees.
        further_rate: of the epoch after the prior.
        form: of the bound; with "catoni" there are the averaged predictor of `average` draws and hold-out bounds too.
    """

    network: Literal["mlp", "cnn"] = "mlp"
    units: int = 1200
    rank: int | None = 25
    pixel_scale: float = 126.0  # as the paper has it: wide inputs need small changes of the first weight
    prior_scale: float = 0.03
    start: float = 0.03  # where posterior scales start
    p_min: float = 1e-5
    learning_rate: float = 1e-3  # of Adam, a cosine to 0
    batch_size: int = 256
    epochs: int = 80
    share: float = 0.0
    filters: float | None = None
    penalty: float = 0.25
    beta: float = 1e-3
    dropout: float = 0.2
    copies: int = 0
    shift: int = 0
    angle: float = 10.0
    further_rate: float = 1e-5
    form: Literal["kl", "catoni"] = "kl"
    average: int = 100
    delta: float = 0.05
    draws: int = 45_000


class Certificates(OwnRuns):
    """The name of a method tells the posterior and, where both kinds are there, the prior; settings are in YAML."""

    Settings = CertificateSettings
    methods = (
        *(f"{posterior}_{prior}" for posterior in ("low_rank", "full_rank") for prior in ("initial", "learned")),
        *("low_rank_25", "low_rank_50", "full_rank", "cnn_low_rank"),
    )

    def __init__(self, chosen: Mapping[str, Mapping[str, Grid]], rule: Mapping[str, Grid]):
        self.chosen, self.rule = chosen, rule

    def run(self, task) -> Iterator[study.Outcome]:
        for seed, settings in zip(task.seeds, task.settings, strict=True):
            paid, rule = self.count_paid(task.task, settings), self.rule[task.task]
            learned = partial(of_learned_prior, task=task.task, rule=rule)
            yield study.Outcome((learned if settings.share else of_initial_prior)(seed, settings, paid))

    def count_paid(self, task: str, settings: CertificateSettings) -> int:
        """Returns how many priors a certificate pays for; raises unless what a grid names is among its values."""
        grid = self.chosen[task]["learned" if settings.share else "initial"]
        for name, values in grid.items():
            if (got := getattr(settings, name, values[0])) not in values:
                raise ValueError(f"A certificate pays for {name} among {values}, which it must be; got {got!r}.")
        by_rule = self.rule[task] if settings.share else {}
        return math.prod(len(values) for name, values in grid.items() if name not in by_rule)


# -- runs --------------------------------------------------------------------------------------------------------------


def mnist(pixel_scale: float) -> tuple[Images, Images]:
    """Returns the images to train and certify, and those to test, flat and divided by `pixel_scale`."""
    images: Any = data.mnist()
    train, test = (
        (x.reshape(len(x), -1).astype("float32") / pixel_scale, y.astype("int32"))
        for x, y in (images.train, images.test)
    )
    return train, test


def of_initial_prior(seed: int, settings: CertificateSettings, paid: int) -> dict[str, float]:
    (x, y), test = mnist(settings.pixel_scale)
    keras.utils.set_random_seed(seed)
    order = np.random.default_rng(seed).permutation(len(x))
    begun, model = time.perf_counter(), network(settings)
    _train_on_bound(model, (x[order], y[order]), settings, settings.epochs, settings.learning_rate, settings.penalty)
    seconds = time.perf_counter() - begun
    bound = certify(model, x[order], y[order], settings.delta, settings.draws, form="kl", tried=paid, seed=seed)
    return told(bound) | _about(model, test, seed, settings, seconds)


def of_learned_prior(seed: int, settings: CertificateSettings, tried: int, task: str, rule: Grid) -> dict[str, float]:
    """Takes the configuration of the rule, fits it on all images of the prior, trains it further and certifies."""
    (x, y), test = mnist(settings.pixel_scale)
    order = np.random.default_rng(SPLIT if task == "sharp_certificates" else seed).permutation(len(x))
    prior, certifying = ((x[rows], y[rows]) for rows in np.split(order, [int(settings.share * len(x))]))
    begun = time.perf_counter()
    mistakes = apply_rule(rule, prior, seed, settings)
    used = min(mistakes, key=mistakes.__getitem__)
    (model,) = fit_priors([used], seed, prior)
    centre_prior(model)
    (x, y), more = certifying, {}
    paid: dict[str, Any] = {"delta": settings.delta, "tried": tried, "seed": seed}
    if settings.form == "catoni":
        more["hold-out"] = certify(model, x, y, form="holdout", **paid).value
        more["averaged hold-out"] = certify(model, x, y, form="holdout", average=settings.average, **paid).value
    _train_on_bound(model, certifying, settings, 1, settings.further_rate)
    seconds, draws = time.perf_counter() - begun, settings.draws
    if settings.form == "catoni":
        constant = bounds.catoni_constant(mistakes[used], 1.0, len(x), 0.8 * settings.delta / tried)
        bound = certify(model, x, y, draws=draws, form="catoni", constant=constant, **paid)
        more["averaged certificate"] = certify(model, x, y, draws=draws, average=settings.average, **paid).value
        more["mistakes that chose"] = mistakes[used]
    else:
        bound = certify(model, x, y, draws=draws, form="kl", **paid)
    learned = "learned_" if task == "certificates" else ""  # as records have it
    chosen = {f"chosen {learned}{name}": float(getattr(used, name)) for name in rule}
    return told(bound) | more | chosen | _about(model, test, seed, settings, seconds)


def told(bound) -> dict[str, float]:
    """Returns the certificate, what it was made of, and how δ was shared."""
    found = {"certificate": bound.value, "is_certificate": float(bound.is_certificate)}
    found |= {name: float(value) for name, value in bound.terms.items()}
    return found | {f"δ {name}": value for name, value in bound.deltas.items()}


def _about(model: keras.Model, test: Images, seed: int, settings: CertificateSettings, seconds: float) -> dict:
    error = float(drawn_risks(model, *test, min(settings.draws, 2000), seed=seed).mean())
    return {"test error": error, "parameters": count_trained(model), "seconds": seconds}


def _train_on_bound(
    model, images: Images, settings: CertificateSettings, epochs: int, rate: float, penalty=1.0
) -> None:
    size = len(images[0])
    _compile(model, BoundedCrossentropy(settings.p_min), rate, size, epochs, settings)
    objective = PACBayesObjective(size, settings.delta, "quadratic", penalty)
    model.fit(*images, epochs=epochs, batch_size=settings.batch_size, callbacks=[objective], verbose=0)


def _compile(model: keras.Model, loss, rate: float, size: int, epochs: int, settings: CertificateSettings) -> None:
    steps = math.ceil(size / settings.batch_size)
    together = 1 if keras.backend.backend() == "torch" else min(steps, 100)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps * epochs)
    model.compile(keras.optimizers.Adam(schedule), loss, steps_per_execution=together)


# -- priors ------------------------------------------------------------------------------------------------------------


def apply_rule(rule: Grid, prior: Images, seed: int, settings: CertificateSettings) -> dict[CertificateSettings, float]:
    """Returns the share of mistakes that every combination of the rule makes on the last sixth of the prior's images.

    Each is fitted on the rest of them, with copies of these alone; the first of equals is taken.
    """
    rest = len(prior[0]) - len(prior[0]) // 6
    products = itertools.product(*rule.values())
    tried = [replace(settings, **dict(zip(rule, values, strict=True))) for values in products]
    models = fit_priors(tried, seed, (prior[0][:rest], prior[1][:rest]))
    # With draws of its own: those of the certificate have to know nothing of the choice.
    count = partial(drawn_risks, x=prior[0][rest:], y=prior[1][rest:], draws=max(20, settings.draws // 15))
    return {own: float(count(model, seed=seed + _OTHER).mean()) for own, model in zip(tried, models, strict=True)}


def fit_priors(wanted: Sequence[CertificateSettings], seed: int, images: Images) -> list[keras.Model]:
    """Returns a model for each configuration, fitted on these images and their copies.

    Those of one network train as one program, but convolutions alone: those of many members are convolutions in
    groups, which accelerators are slow at.
    """
    models: dict[CertificateSettings, keras.Model] = {}
    for dropout in dict.fromkeys(one.dropout for one in wanted):
        group = [one for one in wanted if one.dropout == dropout]
        models |= zip(group, _fit_together(group, seed, images), strict=True)
    return [models[one] for one in wanted]


def _fit_together(wanted: list[CertificateSettings], seed: int, images: Images) -> list[keras.Model]:
    one = wanted[0]
    size, shifts = len(images[0]) * (one.copies + 1), list(dict.fromkeys(own.shift for own in wanted))
    x = np.concatenate([copied(images[0], replace(one, shift=shift), seed) for shift in shifts])
    y = np.tile(images[1], (one.copies + 1) * len(shifts))
    rows = np.stack([np.arange(size) + size * shifts.index(own.shift) for own in wanted])

    def build(member: int) -> keras.Model:
        model = network(wanted[member])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        _compile(model, loss, one.learning_rate, size, one.epochs, one)
        return model

    runs = fit_many(
        build,
        x,
        y,
        [seed] * len(wanted),
        one.epochs,
        one.batch_size,
        callbacks=lambda member: [KLSchedule(num_data=size, beta=wanted[member].beta)],
        rows=rows,
        together=1 if one.network == "cnn" else None,
    )
    return [run.model for run in runs]


def copied(x: np.ndarray, settings: CertificateSettings, seed: int) -> np.ndarray:
    """Returns flat images and, behind them, copy after copy of all, turned and then shifted."""
    rng = np.random.default_rng([seed, settings.shift])
    widths = np.array([settings.angle, settings.shift, settings.shift], "float64")
    found = [x]
    for amounts in -widths + 2 * widths * rng.random((settings.copies, len(x), 3)):
        moved = np.empty_like(x)
        for i, (angle, *shift) in enumerate(amounts):
            turned = ndimage.rotate(x[i].reshape(SIDE, SIDE), angle, reshape=False, order=1)
            moved[i] = ndimage.shift(turned, shift, order=1).reshape(-1)
        found.append(moved)
    return np.concatenate(found)


def network(settings: CertificateSettings) -> keras.Model:
    """Returns the paper's MLP, or two convolutions and two dense layers: all weights drawn, priors around the start."""
    options: dict[str, Any] = {
        "prior": Centred(Normal(settings.prior_scale)),
        "rho_initializer": keras.initializers.Constant(inverse_softplus(settings.start)),
    }

    def drawn(rows: int, units: int, filters=None) -> dict:
        low = {"eta": 0.1, "start": "independent", "loc_lr": 1.0, "initializer": filters}
        rank = settings.rank
        posterior = (
            FullRank(initializer=filters, **options)
            if rank is None
            else LowRank(min(rank, rows, units), **low, **options)
        )
        return {"posterior": posterior, "bias_posterior": FullRank(**options)}

    units, dropout = settings.units, keras.layers.Dropout(settings.dropout if settings.share else 0.0)
    if settings.network == "cnn":
        filters = max(8, units // 20)
        stack: list[keras.layers.Layer] = [keras.layers.Reshape((SIDE, SIDE, 1))]
        for rows in (9, 9 * filters):
            stack += [layers.Conv2D(filters, 3, activation="relu", **drawn(rows, filters)), keras.layers.MaxPooling2D()]
        sizes = [25 * filters, units // 8, 10]
        stack += [keras.layers.Flatten(), dropout]
    else:
        sizes, stack = [SIDE**2, units, units, 10], []
    start = None if settings.filters is None or settings.share else SmoothFilters(settings.rank or 25, settings.filters)
    for i, (rows, out) in enumerate(itertools.pairwise(sizes)):
        last = i == len(sizes) - 2
        stack.append(layers.Dense(out, None if last else "relu", **drawn(rows, out, start if i == 0 else None)))
        stack += [] if last else [keras.layers.Dropout(dropout.rate)]
    return keras.Sequential([keras.Input((SIDE**2,)), *stack])


@keras.saving.register_keras_serializable(package="singularbayes")
class SmoothFilters(keras.initializers.Initializer):
    """W = F G with the `rank` slowest cosines of a square image in F and normal noise in G, of He's variance 2/pixels.

    Neighbouring pixels of an image are alike, so slow cosines hold most of it, and white filters very little. Their
    strength in images falls with frequency: `slope` 1 undoes a fall like 1/frequency.

    >>> w = SmoothFilters(rank=3, slope=0.0, seed=0)((16, 5))
    >>> tuple(w.shape), int(np.linalg.matrix_rank(np.asarray(w)))
    ((16, 5), 3)
    """

    def __init__(self, rank: int, slope: float = 1.0, seed: int | None = None):
        self.rank, self.slope, self.seed = rank, slope, seed
        self._noise = keras.initializers.RandomNormal(stddev=1.0, seed=seed)

    def __call__(self, shape, dtype=None):
        pixels, units = shape
        filters = cosines(pixels, self.rank, self.slope)
        filters *= math.sqrt(2.0) / np.linalg.norm(filters)
        noise = self._noise((self.rank, units), dtype)
        return keras.ops.matmul(keras.ops.convert_to_tensor(filters, noise.dtype), noise)

    def get_config(self):
        return {"rank": self.rank, "slope": self.slope, "seed": self.seed}


def cosines(pixels: int, count: int, slope: float) -> np.ndarray:
    """Returns the slowest two-dimensional cosines of a flat square image, (pixels, count), the constant one left out.

    >>> f = cosines(784, 25, 0.0)
    >>> bool(np.allclose(f.T @ f, np.eye(25))), bool(np.allclose(f.sum(axis=0), 0))
    (True, True)
    """
    side = math.isqrt(pixels)
    places = (np.arange(side) + 0.5) * math.pi / side
    waves = np.cos(np.outer(np.arange(side), places))
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    pairs = [(u, v) for u in range(side) for v in range(side) if u + v > 0]
    slowest = sorted(pairs, key=lambda pair: (math.hypot(*pair), pair))[:count]
    return np.stack([np.outer(waves[u], waves[v]).ravel() * math.hypot(u, v) ** slope for u, v in slowest], axis=1)
