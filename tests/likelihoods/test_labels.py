"""Labels out of range are an error in `fit` and `fit_many`, after the first step; the model's weights stay."""

import keras
import numpy as np
import pytest
from posterior_table import JAX_FIRST, TORCH_FIRST

import singularbayes as sb
from singularbayes import BoundedCrossentropy, LowRank, layers

pytestmark = pytest.mark.on_torch
X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = np.arange(12) % 3
SPARSE = keras.losses.SparseCategoricalCrossentropy
MESSAGE = r"needs labels from 0 to 2; got others in the training or validation data\. Look at y\.min"
# Elsewhere Keras's own loss raises an error of the backend; one-hot vectors are silent, on torch below 0.
SILENT = SPARSE if keras.backend.backend() == "jax" else BoundedCrossentropy


def _model(loss, units=3):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(units, posterior=LowRank(1))], name="net")
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=keras.backend.backend() == "jax")
    return model


def _fit(model, y, epochs=1, **options):
    return model.fit(X, y, 4, epochs, 0, shuffle=False, callbacks=[sb.KLSchedule(12, beta=1.0)], **options).history


def _last(label):
    return np.where(np.arange(12) == 11, label, Y)


@pytest.mark.parametrize("validation", [{}, {"validation_data": (X, Y)}])
@pytest.mark.parametrize("wrong", [Y + 1, Y - 1, _last(-1)], ids=["from 1", "below 0", "in the last batch"])
@TORCH_FIRST
def test_training_stops_with_the_error_and_the_weights_stay(wrong, validation):
    if keras.backend.backend() == "torch" and wrong.max() > 2:
        pytest.skip("torch raises an error of its own")
    model = _model(SILENT(from_logits=True))
    steps = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    seen: list = []
    with pytest.raises(ValueError, match=MESSAGE):
        model.fit(X, wrong, 4, 2, 0, shuffle=False, callbacks=[sb.KLSchedule(12, beta=1.0), steps], **validation)
    assert len(seen) == (3 if wrong[0] == Y[0] else 1)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert np.isfinite(_fit(model, Y)["nll"]).all()


def test_without_a_schedule_the_nll_of_labels_out_of_range_is_nan():
    model = _model(SILENT(from_logits=True))
    _fit(model, Y)
    evaluated = model.evaluate(X, Y - 1, verbose=0, return_dict=True)
    assert np.isnan(evaluated["nll"]) and np.isfinite(evaluated["loss"])
    sb.set_kl(model, 12)
    assert np.isnan(model.fit(X, Y - 1, verbose=0).history["nll"]).all()
    assert np.isfinite(_fit(model, Y)["nll"]).all()


def test_a_loss_that_is_nan_is_not_taken_for_wrong_labels():
    with pytest.warns(UserWarning, match="NaN or infinite in epoch 0"):
        _model(SILENT(from_logits=True)).fit(X * np.nan, Y, 4, 1, 0, callbacks=[sb.KLSchedule(12, beta=1.0)])


@JAX_FIRST
def test_set_kl_and_learn_prior_refuse_what_a_schedule_refuses():
    def model(activation):
        posterior = LowRank(1, prior=sb.Centred("normal"), kl_weight=0.0)
        made = keras.Sequential([keras.Input((3,)), layers.Dense(3, activation, posterior=posterior)], name="net")
        made.compile("sgd", SPARSE(from_logits=True))
        return made

    with pytest.raises(ValueError, match="went through a softmax"):
        sb.set_kl(model("softmax"), 12, beta=1.0)
    with pytest.raises(ValueError, match="went through a softmax"):
        sb.learn_prior(model("softmax"), X, Y)
    with pytest.raises(ValueError, match=r"learn_prior\(x, y\): 'net' needs labels from 0 to 2"):
        sb.learn_prior(model(None), X, Y + 1)
    with pytest.raises(ValueError, match=r"learn_prior\(validation_data\): 'net' needs labels from 0 to 2"):
        sb.learn_prior(model(None), X, Y, validation_data=(X, Y + 1))


@JAX_FIRST
def test_labels_of_validation_data_are_checked_too():
    with pytest.raises(ValueError, match=MESSAGE):
        _fit(_model(SILENT(from_logits=True)), Y, validation_data=(X, Y - 1))


@pytest.mark.parametrize("wrong", [2 * (Y > 0) - 1, 1 + (Y > 0)])
@JAX_FIRST
def test_binary_labels_are_from_0_to_1(wrong):
    with pytest.raises(
        ValueError, match=r"labels from 0 to 1; got others .*\(y \+ 1\) / 2 of labels -1 and 1; for more"
    ):
        _fit(_model(keras.losses.BinaryCrossentropy(from_logits=True), 1), wrong.astype("float32"))


def test_labels_in_range_or_that_do_not_count_are_taken():
    assert np.isfinite(_fit(_model(SPARSE(from_logits=True, ignore_class=-1)), _last(-1))["nll"]).all()
    assert np.isfinite(_fit(_model(SILENT(from_logits=True)), _last(-7), sample_weight=_last(-7) == Y)["nll"]).all()
    assert np.isfinite(_fit(_model(SILENT(from_logits=True)), Y[:, None].astype("uint8"))["nll"]).all()
    soft = np.linspace(0, 1, 12, dtype="float32")
    assert np.isfinite(_fit(_model(keras.losses.BinaryCrossentropy(from_logits=True), 1), soft)["nll"]).all()


@JAX_FIRST
def test_each_of_several_outputs_has_labels_of_its_own():
    def model():
        x = keras.Input((3,))
        heads = {"b": layers.Dense(2, posterior=LowRank(1))(x), "a": layers.Dense(3, posterior=LowRank(1))(x)}
        made = keras.Model(x, heads, name="net")
        made.compile("sgd", {"a": SILENT(from_logits=True), "b": "mse"})
        return made

    right = {"a": Y, "b": np.full((12, 2), 9.0, "float32")}
    assert np.isfinite(_fit(model(), right)["nll"]).all()
    with pytest.raises(ValueError, match=MESSAGE):
        _fit(model(), {**right, "a": Y - 1})
    with pytest.raises(ValueError, match=r"needs labels from 0 to 2; got 3 to 3 among 4 out of range"):
        sb.fit_many(model, X, {**right, "a": Y + 1}, [0], 1)


@JAX_FIRST
def test_fit_many_names_the_labels_before_any_step():
    def build():
        return _model(SPARSE(from_logits=True))

    with pytest.raises(
        ValueError, match=r"fit_many\(x, y\): 'net' needs labels from 0 to 2; got 3 to 3 among 4 out of"
    ):
        sb.fit_many(build, X, Y + 1, range(2), 1)
    with pytest.raises(ValueError, match=r"fit_many\(validation_data\): .* got -1 to 3 among 2 out of range"):
        sb.fit_many(build, X, Y, range(2), 1, validation_data=(X[:3], np.array([-1, 0, 3])))


@JAX_FIRST
def test_evaluate_names_the_labels():
    with pytest.raises(ValueError, match=r"evaluate needs labels .* from 0 to 2; got int64 from 1 to 3"):
        sb.evaluate(_model(SPARSE(from_logits=True)), (X, Y + 1), draws=2)


@JAX_FIRST
def test_the_error_of_masked_entries_names_the_function():
    model = _model(SPARSE(from_logits=True))
    with pytest.raises(ValueError, match=r"^predict needs plain arrays"):
        sb.predict(model, np.ma.masked_greater(X, 0), draws=2)
    with pytest.raises(ValueError, match=r"^recalibrate needs plain arrays"):
        sb.recalibrate(sb.predict(model, X, draws=2), np.ma.masked_greater(Y, 1))
