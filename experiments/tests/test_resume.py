"""Training that was interrupted comes to the same numbers, bit for bit, as one that was not."""

import random
from dataclasses import dataclass

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST
from singularbayes_experiments.methods.methods import METHODS
from singularbayes_experiments.methods.pools import fit_swag
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.stopping import EarlyStop, Plateau
from singularbayes_experiments.methods.trainers import OneByOne, Training
from singularbayes_experiments.methods.training import Diverged, fit, train
from singularbayes_experiments.records.checkpoints import Keep

from singularbayes import FullRank, LowRank, layers, predict

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 2)).astype("float32")
Y = (X[:, :1] - X[:, 1:] + 0.3 * RNG.normal(size=(16, 1))).astype("float32")
HELD_OUT = X[:8] + 0.1, Y[:8]


@dataclass(frozen=True)
class Settings(TrainingSettings):
    epochs: int = 8
    batch_size: int = 8
    learning_rate: float = 0.05
    cosine: bool = True
    beta: float = 1.0
    warmup: int = 4
    members: int = 3


class Interrupted(Exception):
    pass


def after(epoch):
    """A watch that interrupts training in that epoch, before it is kept."""

    def watch(now, logs):
        if now == epoch:
            raise Interrupted

    return watch


def network():
    return keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(4, "tanh", posterior=LowRank(2)),
            keras.layers.Dropout(0.3),
            layers.Dense(1, posterior=FullRank()),
        ]
    )


def watchers():
    return [Plateau("val_nll", patience=1, factor=0.5), EarlyStop("val_nll", patience=6, start=1)]


def trained(keep=None, watch=None, settings=Settings(cosine=False), callbacks=watchers):
    keras.utils.set_random_seed(3)
    model = network()
    fit(model, "mse", X, Y, settings, watch=watch, keep=keep, validation=HELD_OUT, callbacks=callbacks())
    return model


@pytest.fixture(scope="module")
def whole():
    """The network of a training that was left in peace."""
    return trained()


def state(model):
    return [np.array(ops.convert_to_numpy(v)) for v in (*model.variables, *model.optimizer.variables)]


def assert_same(model, other):
    for one, two in zip(state(model), state(other), strict=True):
        np.testing.assert_array_equal(one, two)
    one, two = (predict(m, X, draws=5, likelihood="gaussian") for m in (model, other))
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.std, two.std)


@TORCH_FIRST
@pytest.mark.rows_on_torch
@pytest.mark.parametrize("epochs", [[1, 2, 5], [0], [7]])
def test_an_interrupted_training_goes_on_bit_for_bit(epochs, whole, tmp_path):
    """Weights, optimizer, seeds, KL weight, plateau, early stopping with its best weights, and order of examples."""
    keep = Keep(tmp_path, every=0)
    for epoch in epochs:
        with pytest.raises(Interrupted):
            trained(keep, after(epoch), Settings(cosine=False), watchers)
    seen = []
    went_on = trained(keep, lambda epoch, logs: seen.append(epoch))
    assert seen[0] == epochs[-1]
    assert_same(went_on, whole)


def test_so_it_does_with_a_cosine_rate_from_the_checkpoint_before_a_torn_one(tmp_path):
    keep = Keep(tmp_path, every=0)
    with pytest.raises(Interrupted):
        trained(keep, after(5), Settings(), list)
    newest = sorted(tmp_path.iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    seen = []
    went_on = trained(keep, lambda epoch, logs: seen.append(epoch), Settings(), list)
    assert seen == [4, 5, 6, 7]
    assert_same(went_on, trained(settings=Settings(), callbacks=list))


def test_a_finished_training_is_loaded_and_leaves_the_same_global_seeds(tmp_path):
    keep = Keep(tmp_path)
    first = trained(keep)
    left = random.random()

    def never(epoch, logs):
        raise AssertionError("trained again")

    second = trained(keep, never)
    assert random.random() == left
    assert_same(first, second)


def test_early_stopping_ends_with_the_best_weights():
    held_out = []
    keras.utils.set_random_seed(3)
    model, stop = network(), EarlyStop("val_loss", patience=2)
    weights = []

    def watch(epoch, logs):
        held_out.append(logs["val_loss"])
        weights.append([np.array(ops.convert_to_numpy(v)) for v in model.trainable_variables])

    fit(
        model,
        "mse",
        X,
        -100 * Y,
        Settings(epochs=30, learning_rate=3.0, cosine=False, warmup=0),
        watch=watch,
        validation=HELD_OUT,
        callbacks=[stop],
    )
    best = int(np.argmin(held_out))
    assert len(held_out) == best + 3 < 30
    for variable, value in zip(model.trainable_variables, weights[best], strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(variable), value)


def test_a_plateau_lowers_the_rate_after_its_patience():
    rates = []
    keras.utils.set_random_seed(3)
    model = network()
    plateau = Plateau("loss", patience=2, factor=0.1, start=1, min_delta=1e9, least=0.002)
    settings = Settings(cosine=False, warmup=0)

    def watch(epoch, logs):
        rates.append(float(ops.convert_to_numpy(model.optimizer.learning_rate)))

    fit(model, "mse", X, Y, settings, watch=watch, callbacks=[plateau])
    # Epoch 1 sets the best, 2 and 3 do not improve on it, then 4 and 5.
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.05, 0.005, 0.005, 0.002, 0.002, 0.002], rtol=1e-6)


def test_a_part_that_is_finished_is_not_trained_again_and_the_others_are_the_same(tmp_path):
    def ensemble(keep, watch=None):
        training = Training(X, Y, loss=lambda: "mse")
        trainer = OneByOne(lambda weights: network(), training, Settings(epochs=4, warmup=2), watch=watch, keep=keep)
        (pool,) = METHODS["low_rank_ensemble"].train(trainer, [7])
        return pool.models

    keep = Keep(tmp_path, every=0)
    with pytest.raises(Interrupted):
        ensemble(keep, after(6))  # the second member's third epoch
    seen = []
    went_on = ensemble(keep, lambda epoch, logs: seen.append(epoch))
    assert seen == list(range(6, 12))
    for one, other in zip(went_on, ensemble(None), strict=True):
        assert_same(one, other)


def test_swag_goes_on_with_the_snapshots_that_it_had(tmp_path):
    def swag(keep, watch=None):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        return fit_swag(model, "mse", X, Y, rank=3, learning_rate=0.01, epochs=6, batch_size=8, watch=watch, keep=keep)[
            0
        ]

    keep = Keep(tmp_path, every=0)
    for epoch in (1, 4):
        with pytest.raises(Interrupted):
            swag(keep, after(epoch))
    went_on, whole = swag(keep), swag(None)
    assert went_on.snapshots.collected == 6 == whole.snapshots.collected
    for _ in range(2):  # the second time it is loaded
        for name, array in whole.snapshots.arrays().items():
            np.testing.assert_array_equal(went_on.snapshots.arrays()[name], array)
        one, other = (s.predict(X, draws=4, likelihood="gaussian").mean for s in (went_on, whole))
        np.testing.assert_array_equal(one, other)
        went_on = swag(keep)


def test_numbers_that_are_not_finite_end_training_with_the_last_good_checkpoint(tmp_path):
    keep = Keep(tmp_path, every=0)
    with pytest.raises(Interrupted):
        trained(keep, after(2), callbacks=list)
    good = keep.load()
    y = Y.copy()
    y[3] = np.inf
    keras.utils.set_random_seed(3)
    with pytest.raises(Diverged, match=r"the loss became (inf|nan) in epoch 3\..*Try a lower learning_rate, a longer"):
        fit(network(), "mse", X, y, Settings(cosine=False), keep=keep)
    kept = keep.load()
    assert kept.epoch == good.epoch == 2
    assert all(np.isfinite(array).all() for array in kept.arrays.values())


def test_a_rule_of_keras_is_refused_where_its_state_would_be_lost(tmp_path):
    keras.utils.set_random_seed(3)
    stop = keras.callbacks.EarlyStopping("loss")
    with pytest.raises(ValueError, match=r"needs callbacks that are Resumable.*; got EarlyStopping"):
        fit(network(), "mse", X, Y, Settings(), keep=Keep(tmp_path), callbacks=[stop])


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    trained(Keep(tmp_path))
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    with pytest.raises(ValueError, match=r"unfinished run in .* needs the network.*Remove that folder"):
        train(model, X, Y, epochs=8, batch_size=8, keep=Keep(tmp_path))


@pytest.mark.parametrize("wrong", [{"monitor": "acc"}, {"patience": 0}])
def test_rules_say_what_they_need(wrong):
    message = "needs 'acc' among the logs" if "monitor" in wrong else "needs patience >= 1"
    keras.utils.set_random_seed(3)
    with pytest.raises(ValueError, match=message):
        fit(network(), "mse", X, Y, Settings(), callbacks=[EarlyStop(**{"monitor": "loss", **wrong})])
