"""Which prior, initial scales, ρ learning rate, β and start should a newcomer get who sets nothing?

Every configuration of `CONFIGURATIONS`, the fourth grid, trains a low-rank network with Adam at its default rate,
without annealing, on each of `SETS`, for as many epochs as the deterministic network of the same width, which is
stopped early. It is scored twice: as it ends, and at the epoch in which the NLL of its mean network was least on the
rows that stop the deterministic network. Scores are of validation rows alone, paired by seed. Every configuration is
trained as a mixture of `COMPONENTS` components, the first of which is the single network. The choice is
`protocol.choose_default`, one among single networks and one among mixtures; both are confirmed with five fresh seeds.
Small tables have a split of their own per seed; images have one. Test rows are not read. `runs/defaults.py` has the
command.
"""

import itertools
import math
from dataclasses import dataclass

import jax
import keras
import numpy as np
from jax import numpy as jnp
from sklearn import datasets

from singularbayes import layers, metrics
from singularbayes.likelihoods import MeanScaleNLL
from singularbayes.posteriors import Centred, LowRank, Normal, ScaleMixture
from singularbayes_experiments import data
from singularbayes_experiments.methods.configured_fit import Configuration, Member
from singularbayes_experiments.methods.network_draws import NetworkDraws

TUNING_SEEDS, RESULT_SEEDS = (0, 1), (2, 3, 4, 5, 6)
MIN_SCALE = 1e-6  # that of MeanScaleNLL
RATE, DRAWS, PERTURBED = 1e-3, 20, 2000
# Widths and β of the priors: β/width², by which means are pulled to 0, is 3, 1, ⅓ and .03.
SCALES = {"normal": ((0.1, 0.03), (0.1, 0.01), (0.3, 0.03), (1.0, 0.03))}
# The third grid's least η was best where regression has little noise: posteriors start narrow, and the KL opens them.
ETAS = (3e-4, 1e-4)
VARIANTS = ((1.0, "glorot"), (1.0, "orthogonal"), (4.0, "orthogonal"))  # learning rate of ρ, start of the means
RANK = 32
COMPONENTS = 4
IMAGES = ("mnist", "fashion_mnist")
STOPPED = ", stopped"  # ends the name of a record: at its best epoch


@dataclass(frozen=True)
class DefaultsSet:
    """A data set: hidden units, batch size and epochs that its networks have."""

    name: str
    units: tuple[int, ...]
    batch_size: int
    epochs: int
    task: str = "regression"


_TABLE = (64, 64)
SETS = {
    one.name: one
    for one in (
        # The most work first.
        DefaultsSet("fashion_mnist", (1200, 1200), 128, 20, "classes"),
        DefaultsSet("mnist", (1200, 1200), 128, 20, "classes"),
        DefaultsSet("protein_tertiary_structure", (100, 100), 256, 40),
        DefaultsSet("kin8nm", _TABLE, 64, 60),
        DefaultsSet("naval_propulsion_plant", _TABLE, 64, 40),
        DefaultsSet("power_plant", _TABLE, 64, 40),
        DefaultsSet("digits", (128, 128), 32, 100, "classes"),
        DefaultsSet("energy", _TABLE, 32, 200),
        DefaultsSet("concrete", _TABLE, 32, 150),
        DefaultsSet("boston_housing", _TABLE, 32, 200),
        DefaultsSet("yacht", _TABLE, 32, 300),
        DefaultsSet("moons", _TABLE, 32, 150, "classes"),
        DefaultsSet("wine_quality_red", _TABLE, 32, 60),
        DefaultsSet("wine", _TABLE, 32, 200, "classes"),
    )
}


def configurations(method: str) -> list[Configuration]:
    """Returns the configurations of a prior, as many for each."""
    grid = itertools.product(SCALES[method], ETAS, VARIANTS)
    return [
        Configuration(method, scale, beta, eta, rho_lr, rank=RANK, components=COMPONENTS, start=start)
        for (scale, beta), eta, (rho_lr, start) in grid
    ]


CONFIGURATIONS = {one.name: one for method in SCALES for one in configurations(method)}


# -- data --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Inputs and targets without the test rows, and which of them train, stop and validate, by seed."""

    x: np.ndarray
    y: np.ndarray
    shared: bool = False  # one split for all seeds

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the rows that train, those that stop the deterministic network, and those that validate."""
        order = np.random.default_rng([17, 0 if self.shared else seed]).permutation(len(self.x))
        count = len(order)
        validate, stop = count // 5, count // 10
        return order[validate + stop :], order[validate : validate + stop], order[:validate]


def rows_of(one: DefaultsSet) -> Rows:
    """Returns a data set without its test rows; tables are standardised."""
    if one.name in IMAGES:
        pixels, labels = getattr(data, one.name)().train
        return Rows((pixels.reshape(len(pixels), -1) / 255.0).astype("float32"), labels.astype("int32"), shared=True)
    if one.name in data.UCI_SETS:
        table = data.uci_regression(one.name)
        train, _ = table.splits[0]
        x, y = table.x[train], table.y[train][:, None]
        y = (y - y.mean()) / y.std()
    else:
        x, y = {
            "digits": lambda: datasets.load_digits(return_X_y=True),
            "moons": lambda: datasets.make_moons(1000, noise=0.25, random_state=0),
            "wine": lambda: datasets.load_wine(return_X_y=True),
        }[one.name]()
        kept = np.random.default_rng(0).permutation(len(x))[len(x) // 5 :]  # the others are test rows
        x, y = x[kept], y[kept].astype("int32")
    x = (x - x.mean(axis=0)) / np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    return Rows(x.astype("float32"), y if y.dtype.kind == "i" else y.astype("float32"))


# -- networks ----------------------------------------------------------------------------------------------------------


def network(one: DefaultsSet, rows: Rows, kind: str) -> keras.Model:
    """Returns a compiled network: "deterministic", or low-rank with the prior's form and the rank in `kind`."""
    classes = one.task == "classes"
    outputs = int(rows.y.max()) + 1 if classes else 1
    inputs = rows.x.shape[1]
    first = keras.Input((inputs,))
    hidden = first
    for fan_in, units in itertools.pairwise((inputs, *one.units, outputs)):
        activation = "relu" if units != outputs else None
        if kind == "deterministic":
            hidden = keras.layers.Dense(units, activation)(hidden)
            continue
        form, rank = kind.split()
        prior = Normal(1.0) if form == "gaussian" else ScaleMixture(sigma2=math.exp(float(form.removeprefix("e"))))
        posterior = LowRank.paper(min(int(rank), fan_in, units), prior=Centred(prior))  # what members change
        hidden = layers.Dense(units, activation, posterior=posterior)(hidden)
    if not classes:
        hidden = layers.LearnedNoise()(hidden)
    return compiled(keras.Model(first, hidden), one.task)


def compiled(model: keras.Model, task: str) -> keras.Model:
    """Returns the model with Adam at `RATE` and the loss of its task."""
    classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE), classes if task == "classes" else MeanScaleNLL())
    return model


def kind_of(configuration: Configuration | None) -> str:
    """Returns which program trains a configuration."""
    if configuration is None:
        return "deterministic"
    form = configuration.prior.split()[1] if " " in configuration.prior else "gaussian"
    return f"{form} {configuration.rank}"


# -- scores ------------------------------------------------------------------------------------------------------------


def moments(model: keras.Model, task: str, draws: int) -> NetworkDraws:
    """Returns averages over draws: probabilities (examples, classes); or mean, epistemic and noise variance (…, 3)."""

    def likelihood(outputs):
        return jax.nn.softmax(outputs) if task == "classes" else mean_and_noise(outputs)

    def summary(found):
        mean = found.mean(axis=0)
        if task == "classes":
            return mean
        return jnp.stack([mean[:, 0], found[:, :, 0].var(axis=0), mean[:, 1]], axis=1)

    return NetworkDraws(model, draws, likelihood, summary, together=16)


def mean_and_noise(outputs):
    """Returns mean and noise variance (examples, 2) of outputs of `LearnedNoise`."""
    return jnp.stack([outputs[:, 0], (jax.nn.softplus(outputs[:, 1]) + MIN_SCALE) ** 2], axis=1)


def pooled(task: str, p: np.ndarray) -> np.ndarray:
    """Returns the averages of a mixture from those of its components, on the first axis."""
    mean = p.mean(axis=0)
    if task != "classes":
        mean[:, 1] += p[:, :, 0].var(axis=0)
    return mean


def scores(task: str, p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Returns the NLL and what goes with it, of one member."""
    p = p.astype("float64")
    if task == "classes":
        return class_scores(p / p.sum(axis=1, keepdims=True), y)
    std = np.sqrt(p[:, 1] + p[:, 2])
    return {
        "nll": metrics.gaussian_nll(p[:, 0], std, y[:, 0]),
        "rmse": metrics.root_mean_square_error(p[:, 0], y[:, 0]),
    }


def class_scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Returns accuracy, NLL and ECE."""
    return {
        "accuracy": metrics.accuracy(probabilities, labels),
        "nll": metrics.negative_log_likelihood(probabilities, labels),
        "ece": metrics.expected_calibration_error(probabilities, labels),
    }


def uncertainty(task: str, p: np.ndarray) -> np.ndarray:
    """Returns predictive entropy, or the total standard deviation."""
    p = p.astype("float64")
    return metrics.entropy(p / p.sum(axis=1, keepdims=True)) if task == "classes" else np.sqrt(p[:, 1] + p[:, 2])


def nll_without_inputs(task: str, y: np.ndarray, known: np.ndarray) -> float:
    """Returns the NLL of class frequencies, or of one Gaussian."""
    if task == "classes":
        shares = np.bincount(known, minlength=int(known.max()) + 1) / len(known)
        return metrics.negative_log_likelihood(np.broadcast_to(shares, (len(y), len(shares))), y)
    return metrics.gaussian_nll(np.full(len(y), known.mean()), np.full(len(y), known.std()), y[:, 0])


def run_name(member: Member) -> str:
    """Returns what a member is called in records."""
    return "deterministic" if member.configuration is None else member.configuration.name
