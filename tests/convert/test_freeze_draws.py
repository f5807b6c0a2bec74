"""Frozen draws: a plain model with nothing random in it that predicts as `predict` does."""

import keras
import numpy as np
import pytest
from keras import ops
from networks import NETWORKS, ROWS, expected_outputs, mlp
from posterior_table import ON_TORCH, TORCH_FIRST, stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
DRAWS = 2 if keras.backend.backend() == "jax" else 5  # where compiling takes long


def _assert_is_predict(answer, model, x, draws, seed, likelihood=None, **arguments):
    p = sb.predict(model, x, draws=draws, seed=seed, likelihood=likelihood, **arguments)
    expectations = expected_outputs(p)
    assert set(answer) == set(expectations)
    for name, found in answer.items():
        expected = expectations[name]
        assert found.shape == expected.shape and found.dtype == "float32"
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    return p


@pytest.mark.parametrize("name", NETWORKS)
def test_frozen_draws_answer_as_predict_does(name):
    make, x = NETWORKS[name]
    model = make()
    frozen = sb.freeze_draws(model, DRAWS, seed=3, likelihood="categorical_logits")
    p = _assert_is_predict(frozen.predict(x, verbose=0), model, x, DRAWS, 3, "categorical_logits")
    assert p.mutual_information.min() > 1e-4


@pytest.mark.parametrize(
    ("units", "activation", "likelihood"),
    [
        (3, "softmax", "categorical"),
        (1, None, "bernoulli_logits"),
        (1, "sigmoid", "bernoulli"),
        (2, None, "gaussian"),
        (2, None, sb.Gaussian(0.3)),
        (1, None, sb.StudentTNoise(4.0, 0.3)),
        (2, None, "mean_scale"),
        (1, "softplus", "poisson"),
    ],
)
def test_so_they_do_whatever_the_outputs_mean(units, activation, likelihood):
    head = layers.Dense(units, activation, posterior=FullRank())
    model = stir(keras.Sequential([keras.Input((4,)), layers.Dense(5, "tanh", posterior=LowRank(2)), head]))
    frozen = sb.freeze_draws(model, 6, seed=1, likelihood=likelihood)
    answer = frozen.predict(ROWS, verbose=0)
    _assert_is_predict(answer, model, ROWS, 6, 1, likelihood)
    assert {name: spec.shape[1:] for name, spec in frozen.output.items()} == {n: a.shape[1:] for n, a in answer.items()}


@ON_TORCH
def test_what_the_outputs_mean_is_read_from_the_loss_of_the_output_that_is_named():
    x = {"left": keras.Input((4,), name="left"), "right": keras.Input((4,), name="right")}
    hidden = keras.layers.Add()([layers.Dense(5, "tanh", posterior=LowRank(2))(x[name]) for name in ("left", "right")])
    heads = {
        "kind": layers.Dense(3, posterior=FullRank())(hidden),
        "size": layers.Dense(1, posterior=FullRank())(hidden),
    }
    model = stir(keras.Model(x, heads))
    model.compile("sgd", {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"})
    arrays = {"left": ROWS, "right": -ROWS}
    for output in ("kind", "size"):
        answer = sb.freeze_draws(model, 4, output=output).predict(arrays, verbose=0)
        _assert_is_predict(answer, model, arrays, 4, 0, output=output)


def test_nothing_in_them_is_random_or_follows_the_model_they_came_from():
    model = mlp()
    frozen = sb.freeze_draws(model, 3, likelihood="categorical_logits")
    first = {name: ops.convert_to_numpy(value) for name, value in frozen(ROWS).items()}
    other = sb.freeze_draws(model, 3, seed=1, likelihood="categorical_logits")(ROWS)["mean"]
    assert np.abs(ops.convert_to_numpy(other) - first["mean"]).max() > 1e-3
    stir(model)
    for name, value in frozen(ROWS, training=True).items():
        np.testing.assert_array_equal(ops.convert_to_numpy(value), first[name])
    assert frozen.trainable_variables == [] and frozen.losses == []


@pytest.mark.parametrize("name", ["mlp", "transformer"])
@ON_TORCH
def test_a_file_of_them_holds_the_draws(name, tmp_path):
    make, x = NETWORKS[name]
    model = make()
    sb.freeze_draws(model, 3, seed=2, likelihood="categorical_logits").save(tmp_path / "frozen.keras")
    _assert_is_predict(sb.load(tmp_path / "frozen.keras").predict(x, verbose=0), model, x, 3, 2, "categorical_logits")


def _subclassed():
    class Mine(keras.Model):
        def call(self, x):
            return x

    return Mine(name="mine")


def _stateful():
    memory = layers.LSTM(3, stateful=True, posterior=LowRank(1), name="memory")
    return keras.Sequential([keras.Input(batch_shape=(2, 3, 4)), memory])


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (mlp, {"draws": 0}, r"freeze_draws needs draws to be an integer >= 1; got draws=0"),
        (mlp, {"level": 95}, r"freeze_draws needs 0 < level < 1; got level=95"),
        (mlp, {"seed": -1}, r"freeze_draws needs seed to be an integer >= 0; got seed=-1"),
        (mlp, {"likelihood": "mean_scale"}, r"two outputs for every target, .*; got outputs of shape .*3"),
        (mlp, {"likelihood": None}, r"^freeze_draws needs to know what the outputs mean.*ass likelihood="),
        (mlp, {"output": "odd"}, r"^freeze_draws needs output= to be one of .*got output='odd'"),
        (_subclassed, {}, r"needs a model that knows its inputs; got 'mine'.*keras\.Model\(x, model\(x\)\)"),
        (_stateful, {}, r"without state between batches; got stateful layers \['memory'\]"),
    ],
)
@TORCH_FIRST
def test_what_cannot_be_frozen_is_refused(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.freeze_draws(make(), **{"likelihood": "gaussian", **arguments})
