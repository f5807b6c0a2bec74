"""What outputs mean is read from the compiled loss, said by name, or an error."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import special, stats

import singularbayes as sb
from singularbayes import Bernoulli, Categorical, Gaussian, GaussianNLL, MeanScale, MeanScaleNLL
from singularbayes.likelihoods import likelihood
from singularbayes.models.outputs import loss_of

LOSSES = [
    (keras.losses.SparseCategoricalCrossentropy(from_logits=True), Categorical(True)),
    (keras.losses.SparseCategoricalCrossentropy(), Categorical(False)),
    (keras.losses.CategoricalCrossentropy(from_logits=True), Categorical(True)),
    (keras.losses.BinaryCrossentropy(from_logits=True), Bernoulli(True)),
    (keras.losses.BinaryCrossentropy(), Bernoulli(False)),
    ("sparse_categorical_crossentropy", Categorical(False)),
    ("categorical_crossentropy", Categorical(False)),
    ("binary_crossentropy", Bernoulli(False)),
    (keras.losses.binary_crossentropy, Bernoulli(False)),
    ("mse", Gaussian()),
    ("mean_absolute_error", Gaussian()),
    (keras.losses.MeanSquaredError(), Gaussian()),
    (GaussianNLL(0.3), Gaussian(0.3)),
    (MeanScaleNLL(), MeanScale()),
    (sb.BoundedCrossentropy(), Categorical(True)),
    (sb.BoundedCrossentropy(from_logits=False), Categorical(False)),
]


def _model(loss=None, classes=3):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(classes)])
    if loss is not None:
        model.compile(loss=loss)
    return model


@pytest.mark.parametrize(("loss", "expected"), LOSSES)
def test_the_compiled_loss_says_what_outputs_mean(loss, expected):
    assert likelihood.get(None, loss_of(_model(loss), None), "net") == expected


def test_the_loss_says_so_too_after_a_fit_with_a_schedule():
    model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(1, posterior=sb.LowRank(1))])
    model.compile(loss=GaussianNLL(0.3))
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[sb.KLSchedule(4)])
    assert likelihood.get(None, loss_of(model, None)) == Gaussian(0.3)


def test_names_and_objects_go_before_the_loss():
    model = _model("mse")
    assert likelihood.get("categorical_logits", model.loss) == Categorical(True)
    assert likelihood.get(Gaussian(0.1), model.loss) == Gaussian(0.1)


def _own(base, name, **arguments):
    return type(name, (base,), {"call": lambda self, y, p: ops.mean(p)})(**arguments)


def mean_squared_error(y, p):
    return ops.mean(p)


NAMESAKES = [
    mean_squared_error,
    _own(keras.losses.Loss, "MeanSquaredError"),
    _own(keras.losses.MeanSquaredError, "MeanSquaredError"),
    _own(keras.losses.BinaryCrossentropy, "BinaryCrossentropy", from_logits=True),
    _own(GaussianNLL, "GaussianNLL", scale=0.1),
    _own(sb.BoundedCrossentropy, "BoundedCrossentropy"),
]


@pytest.mark.parametrize("loss", [None, "hinge", keras.losses.Huber(), lambda y, p: ops.mean(p), *NAMESAKES])
def test_a_loss_that_does_not_say_is_an_error_with_the_choices(loss):
    with pytest.raises(ValueError, match=r"the loss of .* does not say; got loss=.*ass likelihood= one of \['bern"):
        likelihood.get(None, loss_of(_model(loss), None), "net")


def test_an_unknown_name_is_an_error_with_the_choices():
    with pytest.raises(ValueError, match=r"one of \['bernoulli', .*\]; got likelihood='softmax'"):
        likelihood.get("softmax")


def test_logits_become_probabilities():
    z = np.random.default_rng(0).normal(size=(4, 5, 3))
    np.testing.assert_allclose(Categorical().probabilities(z), special.softmax(z, -1))
    p = Bernoulli().probabilities(z[..., :1])
    np.testing.assert_allclose(p, np.concatenate([special.expit(-z[..., :1]), special.expit(z[..., :1])], -1))
    np.testing.assert_allclose(Bernoulli(False).probabilities(p[..., 1:]), p)
    np.testing.assert_allclose(Categorical(False).probabilities(p), p)


@pytest.mark.parametrize(("meaning", "name"), [(Categorical(False), "categorical"), (Bernoulli(False), "bernoulli")])
def test_logits_where_probabilities_were_declared_are_an_error_with_the_fix(meaning, name):
    logits = np.array([[[3.0], [-2.0]]]) if name == "bernoulli" else np.array([[[3.0, -2.0]]])
    with pytest.raises(ValueError, match=rf"got values from -2 to 3\. .*from_logits=True .*'{name}_logits'"):
        meaning.probabilities(logits)


def test_a_softmax_where_logits_were_declared_is_an_error_with_the_fix():
    p = special.softmax(np.random.default_rng(0).normal(size=(2, 5, 3)), -1).astype("float32")
    with pytest.raises(ValueError, match=r"outputs are logits; got numbers >= 0 that sum to 1.*from_logits=False"):
        Categorical().probabilities(p)
    shifted = p + np.eye(5, 3)  # of one example alone the numbers sum to 1 by chance
    np.testing.assert_allclose(Categorical().probabilities(shifted), special.softmax(shifted, -1), rtol=1e-6)


@pytest.mark.parametrize("from_logits", [True, False])
def test_one_class_is_no_classification(from_logits):
    with pytest.raises(ValueError, match=r"two or more; got outputs of shape \(examples, …, 1\).*BinaryCrossentropy"):
        Categorical(from_logits).probabilities(np.ones((2, 4, 1)))


def test_bernoulli_needs_one_output_a_row():
    with pytest.raises(ValueError, match=r"one output a row; got outputs of shape \(examples, 3\)"):
        Bernoulli().probabilities(np.zeros((2, 4, 3)))


@pytest.mark.backend
def test_gaussian_nll_is_minus_the_log_density_summed_over_outputs():
    y, prediction = np.random.default_rng(0).normal(size=(2, 6, 3)).astype("float32")
    expected = -stats.norm(prediction, 0.4).logpdf(y).sum(-1)
    loss = GaussianNLL(0.4, reduction=None)
    np.testing.assert_allclose(ops.convert_to_numpy(loss(y, prediction)), expected, rtol=1e-5)
    assert float(ops.convert_to_numpy(GaussianNLL(0.4)(y, prediction))) == pytest.approx(expected.mean(), rel=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(again, GaussianNLL) and again.scale == 0.4


@pytest.mark.parametrize("scale", [0, -1.0, float("inf"), float("nan")])
def test_gaussian_nll_needs_a_positive_scale(scale):
    with pytest.raises(ValueError, match=f"GaussianNLL needs scale > 0.*got scale={scale}"):
        GaussianNLL(scale)
