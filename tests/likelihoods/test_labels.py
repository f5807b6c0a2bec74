"""Labels out of range are an error that names them; JAX would train without them, or on classes off by one."""

import keras
import numpy as np
import pytest

import singularbayes as sb
from singularbayes import BoundedCrossentropy, LowRank, layers
from singularbayes.likelihoods import require_labels

X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = np.arange(12) % 3
SPARSE = keras.losses.SparseCategoricalCrossentropy


def _model(loss, units=3):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(units, posterior=LowRank(1))], name="net")
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def _last(label):
    return np.where(np.arange(12) == 11, label, Y)


@pytest.mark.parametrize("loss", [SPARSE(from_logits=True), BoundedCrossentropy(), sb.Categorical()])
@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (Y + 1, "3 to 3 among 4"),
        (Y - 1, "-1 to -1 among 4"),
        (_last(-1), "-1 to -1 among 1"),
        (_last(9)[:, None], "9 to 9"),
    ],
)
def test_the_error_names_the_labels(loss, wrong, got):
    with pytest.raises(ValueError, match=f"here: 'net' needs labels from 0 to 2; got {got}"):
        require_labels("here", _model(loss), wrong)


@pytest.mark.parametrize("wrong", [2 * (Y > 0) - 1, 1 + (Y > 0)])
def test_binary_labels_are_from_0_to_1(wrong):
    for loss in (keras.losses.BinaryCrossentropy(from_logits=True), sb.Bernoulli()):
        with pytest.raises(ValueError, match=r"labels from 0 to 1; got .*\(y \+ 1\) / 2 of labels -1 and 1; for more"):
            require_labels("here", _model(loss, 1), wrong.astype("float32"))


def test_labels_in_range_or_that_do_not_count_are_taken():
    require_labels("here", _model(SPARSE(from_logits=True, ignore_class=-1)), _last(-1))
    for weight in (_last(-7) == Y, (_last(-7) == Y)[:, None]):
        require_labels("here", _model(SPARSE(from_logits=True)), _last(-7), weight)
    require_labels("here", _model(SPARSE(from_logits=True)), Y[:, None].astype("uint8"))
    require_labels("here", _model(keras.losses.BinaryCrossentropy(from_logits=True), 1), np.linspace(0, 1, 12))
    for loss, targets in ((keras.losses.CategoricalCrossentropy(), np.eye(3)[Y] * 9), ("mse", 9.0 * np.eye(3)[Y])):
        require_labels("here", _model(loss), targets)  # which are no labels


def test_each_of_several_outputs_has_labels_of_its_own():
    x = keras.Input((3,))
    heads = {"b": layers.Dense(2, posterior=LowRank(1))(x), "a": layers.Dense(3, posterior=LowRank(1))(x)}
    model = keras.Model(x, heads, name="net")
    model.compile("sgd", {"a": SPARSE(from_logits=True), "b": "mse"})
    right = {"a": Y, "b": np.full((12, 2), 9.0, "float32")}
    require_labels("here", model, right)
    with pytest.raises(ValueError, match=r"needs labels from 0 to 2; got 3 to 3 among 4 out of range"):
        require_labels("here", model, {**right, "a": Y + 1})


def test_what_trains_or_evaluates_names_the_labels():
    def build():
        return _model(SPARSE(from_logits=True))

    with pytest.raises(
        ValueError, match=r"fit_many\(x, y\): 'net' needs labels from 0 to 2; got 3 to 3 among 4 out of"
    ):
        sb.fit_many(build, X, Y + 1, range(2), 1)
    with pytest.raises(ValueError, match=r"fit_many\(validation_data\): .* got -1 to 3 among 2 out of range"):
        sb.fit_many(build, X, Y, range(2), 1, validation_data=(X[:3], np.array([-1, 0, 3])))
    with pytest.raises(ValueError, match=r"evaluate needs labels .* from 0 to 2; got int64 from 1 to 3"):
        sb.evaluate(build(), (X, Y + 1), draws=2)
    with pytest.raises(ValueError, match=r"^predict needs plain arrays"):
        sb.predict(build(), np.ma.masked_greater(X, 0), draws=2)
