"""CIFAR-10: networks of recorded sizes, splits, corruptions by their constants, SGD whose scales take Adam steps."""

import json
import math

import keras
import numpy as np
import pytest
import tiny
from singularbayes_experiments import config, data, records, study
from singularbayes_experiments.methods import Weights
from singularbayes_experiments.methods.momentum import Momentum, UpAndDown
from singularbayes_experiments.problems import corruptions

import singularbayes as sb
from singularbayes.models import count_trained

EXPERIMENT = config.read("cifar10")
RANDOM = {"low_rank": "low_rank", "full_rank": "full_rank", "rank_one": "rank_one", "mixture": "low_rank"}
ONE = {"learning_rate": "rate", "beta": "beta", "eta": "eta", "weight_decay": "decay", "dropout": "dropout"}


ROUNDS = ("first round", "second round", "third round", "fourth round", "fifth round")


@pytest.fixture(scope="module")
def recorded():
    """Returns (task, method) → settings and parameters of the last round with results."""
    rows = records.connect().execute(
        "SELECT preset, task, method, settings, value FROM scores WHERE experiment = 'cifar10' AND stage = 'result' "
        "AND metric = 'parameters'"
    )
    ordered = sorted(rows.fetchall(), key=lambda row: ROUNDS.index(row[0]))
    return {(task, method): (json.loads(settings), value) for _, task, method, settings, value in ordered}


def pairs():
    tasks = EXPERIMENT.tasks_of("last_round")
    return [(task, method) for task in tasks for method in EXPERIMENT.methods("last_round", task)]


@pytest.mark.parametrize(("task", "method"), pairs())
def test_settings_are_those_of_the_last_recorded_round(task, method, recorded):
    (own,) = EXPERIMENT.grid("last_round", method, task)
    settings, _ = recorded[task, method]
    settings = {"decay": 5e-4, "dropout": 0.0} | settings
    if method == "swag":  # its rate is that of SGD after the training
        assert own.swag_rate == settings["rate"]
        settings["rate"] = own.learning_rate
    point = {"beta", "eta"} if settings["beta"] == 0 else set()
    for name, key in ONE.items():
        assert name in point or getattr(own, name) == settings[key], name
    if settings.get("width") is not None:
        assert own.prior_scale == settings["width"]
    epochs = settings.get("trained") or settings.get("epochs")
    if epochs is not None:
        assert (own.swag_epochs if method == "swag" else own.epochs) == epochs


@pytest.mark.parametrize("task", ["resnet9", "resnet20"])
@pytest.mark.parametrize("method", ["deterministic", *RANDOM])
def test_networks_have_the_recorded_parameters(task, method, recorded):
    (own,) = EXPERIMENT.grid("last_round", method, task)
    components = 4 if method == "mixture" else 1
    model = EXPERIMENT.problem.network(Weights(RANDOM.get(method, method), own, components), own)
    assert count_trained(model) == recorded[task, method][1]
    assert len(EXPERIMENT.problem.uses(own)) == len(own.ranks)


def made_up(count=60):
    """Returns noise whose brightness tells its class."""
    rng, y = np.random.default_rng(0), np.arange(count) % 10
    x = rng.integers(0, 40, (count, 32, 32, 3)) + 20 * y[:, None, None, None]
    return data.Images((x.astype("uint8"), y), (x[::-2].astype("uint8"), y[::-2]), tuple("0123456789"))


@pytest.fixture
def images(monkeypatch):
    found = made_up()
    monkeypatch.setattr(data, "cifar10", lambda: found)
    tiny.install(monkeypatch)
    return found


def quick(method, **changes):
    few = {"num_train": 60, "num_corrupted": 3, "num_other": 6, "width": 4, "batch_size": 32, "draws": 2, "epochs": 2}
    few |= {"ranks": [2] * 9, "svd_epochs": 1} | changes
    return EXPERIMENT.runs_of("quick", methods=[method], seeds=[3], changes=few)[0]


@pytest.mark.parametrize("method", ["deterministic", "mc_dropout", "mixture_svd", "swag"])
def test_methods_score_under_the_recorded_names(method, images):
    changes = {"swag": {"epochs": 4}}.get(method, {})
    (outcome,) = study.run(EXPERIMENT.problem, quick(method, **changes))
    found = outcome.metrics
    assert found.keys() >= {"nll", "corrupted/nll", "corrupted/nll/contrast/5", "clothes/auroc_entropy", "diverged"}
    assert ("letters/auroc_mi" in found) == (method != "deterministic")
    every = [value for name, value in found.items() if name.startswith("corrupted/nll/")]
    assert found["corrupted/nll"] == pytest.approx(np.mean(every)) and len(every) == 40


def test_held_out_classes_are_in_no_part_but_their_own_and_tuning_sees_no_test_row(images):
    settings = quick("deterministic", held_out=True).settings[0]
    found = EXPERIMENT.problem.data("resnet9_held_out", 0, settings, "result")
    assert found.train.y.max() == found.test.y.max() == 7 and len(found.train.y) == 48
    assert len(found.ood["held_out"]) + len(found.test.y) == len(images.test[1]) and len(found.ood["held_out"]) == 6
    tuned = EXPERIMENT.problem.data("resnet9", 0, quick("deterministic").settings[0], "tuning")
    assert tuned.test is None and len(tuned.validation.y) == 6 and len(tuned.train.y) == 54
    np.testing.assert_array_equal(tuned.validation.x, images.train[0][::10])


# -- SGD ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", [sb.Deterministic(), sb.LowRank(2), sb.RankOne(), sb.Mixture(sb.LowRank(2), 2)])
def test_means_take_nesterov_steps_and_scales_those_of_adam(posterior):
    model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(4, posterior=posterior)])
    variables, rng = model.trainable_variables, np.random.default_rng(0)
    optimizer = Momentum(UpAndDown(0.4, 10, 0.2), 0.1, 0.3, model)
    optimizer.build(variables)
    w = [np.array(v, "float64") for v in variables]
    velocity, square = [np.zeros_like(v) for v in w], [np.zeros_like(v) for v in w]
    for step in range(4):
        rate = 0.4 * min(step / 2, (10 - step) / 8)
        slopes = [rng.normal(size=v.shape) for v in w]
        optimizer.apply([np.asarray(slope, "float32") for slope in slopes], variables)
        for i, slope in enumerate(slopes):
            kernel = w[i].shape[-2:] == (3, 4) and w[i].ndim == 2
            g = slope + 0.3 * w[i] * kernel
            velocity[i] = 0.9 * velocity[i] + g
            change = g + 0.9 * velocity[i]
            if w[i].ndim > 1 and not kernel and w[i].shape != (2, 4):  # all but biases
                square[i] = 0.99 * square[i] + 0.01 * g**2
                root = np.sqrt(square[i] / (1 - 0.99 ** (step + 1)))
                adam = 0.1 * 0.1 * velocity[i] / (1 - 0.9 ** (step + 1)) / root
                axis = int(posterior.components > 1)
                rho = np.expand_dims(np.array([False, True]), [a for a in range(w[i].ndim) if a != axis])
                change = np.where(rho, adam, change)
            w[i] -= rate * change
    for variable, expected in zip(variables, w, strict=True):
        np.testing.assert_allclose(np.asarray(variable), expected, rtol=1e-4, atol=1e-5)


# -- corruptions -------------------------------------------------------------------------------------------------------


def test_corruptions_do_what_their_constants_say():
    x = np.full((6, 32, 32, 3), 120, "uint8")
    x[:, 7:22, 9:26] = (20, 220, 20)  # far from 120, so that rounding to whole steps is small
    found = dict(zip(corruptions.NAMES, corruptions.corrupted(x).astype("float64"), strict=True))
    every = {function.__name__: constants for function, constants in corruptions.CONSTANTS.items()}
    measured = {
        "gaussian_noise": (lambda c: c, lambda new: (new - x)[:, :7].std() / 255, 0.03),
        "shot_noise": (lambda c: math.sqrt(120 / 255 / c), lambda new: (new - x)[:, :7].std() / 255, 0.04),
        "impulse_noise": (lambda c: c, lambda new: np.mean(new != x), 0.15),
        "contrast": (
            lambda c: c,
            lambda new: (new.std(axis=(1, 2)) / x.std(axis=(1, 2))).mean(),
            0.05,
        ),  # of whole steps
        "brightness": (lambda c: c, lambda new: new[0, 0, 0].max() / 255 - 120 / 255, 0.08),
    }
    for name, (wanted, measure, within) in measured.items():
        expected = [wanted(constant) for constant in every[name]]
        assert [measure(new) for new in found[name]] == pytest.approx(expected, rel=within), name
