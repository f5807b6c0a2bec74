"""Every likelihood of the table, and one of the user's own; which one is meant is read from the compiled loss."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST
from scipy import special, stats

import singularbayes as sb
from singularbayes import Bernoulli, Categorical, Gaussian, MeanScale
from singularbayes.likelihoods import COUNTS, LIKELIHOODS, Regression, RunningMoments, find_likelihood, why_no_elbo
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
    (keras.losses.BinaryFocalCrossentropy(from_logits=True), Bernoulli(True)),
    ("binary_focal_crossentropy", Bernoulli(False)),
    (keras.losses.CategoricalFocalCrossentropy(), Categorical(False)),
    (sb.Bernoulli(), Bernoulli(True)),
    ("mse", Gaussian()),
    ("huber", Gaussian()),
    (keras.losses.Huber(delta=2.0), Gaussian()),
    (keras.losses.MeanSquaredError, Gaussian()),
    (keras.losses.MeanAbsoluteError(), Gaussian()),
    ("poisson", sb.Poisson(log_rate=False)),
    (keras.losses.Poisson(), sb.Poisson(log_rate=False)),
    (sb.Poisson(), sb.Poisson()),
    (sb.Poisson, sb.Poisson()),
    (sb.NegativeBinomial(), sb.NegativeBinomial()),
    (sb.NegativeBinomial(0.5), sb.NegativeBinomial(0.5)),
    (sb.LaplaceNoise(), sb.LaplaceNoise()),
    (sb.LaplaceNoise(0.5), sb.LaplaceNoise(0.5)),
    (sb.StudentTNoise(df=3), sb.StudentTNoise(3)),
    (sb.StudentTNoise(df=5, scale=2.0), sb.StudentTNoise(5, 2.0)),
    ("mean_absolute_error", Gaussian()),
    (keras.losses.MeanSquaredError(), Gaussian()),
    (Gaussian(0.3), Gaussian(0.3)),
    (MeanScale(), MeanScale()),
    (sb.BoundedCrossentropy(from_logits=False), sb.BoundedCrossentropy(from_logits=False)),
]


# Outputs of 6 draws for 5 examples, as each likelihood of the table takes them.
RNG = np.random.default_rng(0)
OUTPUTS = {
    "categorical_logits": RNG.normal(size=(6, 5, 3)),
    "categorical": RNG.dirichlet(np.ones(3), (6, 5)),
    "bernoulli_logits": RNG.normal(size=(6, 5, 1)),
    "bernoulli": RNG.uniform(size=(6, 5, 1)),
    "gaussian": RNG.normal(size=(6, 5, 2)),
    "mean_scale": RNG.normal(size=(6, 5, 4)),
    "laplace": RNG.normal(size=(6, 5, 4)),
    "student_t": RNG.normal(size=(6, 5, 4)),
    "poisson_log": RNG.normal(size=(6, 5, 2)),
    "poisson": RNG.gamma(2.0, size=(6, 5, 2)),
    "negative_binomial": RNG.normal(size=(6, 5, 4)),
}


class Doubles(Regression):
    """Counts of pairs, whose rate is the exponential of the output: a likelihood that a user writes."""

    predicts_noise = True
    family = COUNTS

    def statistics(self, outputs):
        rate = np.exp(np.asarray(outputs, "float64"))
        return {"prediction": 2 * rate, "noise_variance": 4 * rate}


def _model(loss=None, classes=3):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(classes)])
    if loss is not None:
        model.compile(loss=loss)
    return model


@pytest.mark.parametrize(("loss", "expected"), LOSSES)
def test_the_compiled_loss_determines_the_likelihood(loss, expected):
    assert find_likelihood(None, loss_of(_model(loss), None), "net") == expected


@pytest.mark.parametrize(("loss", "expected"), LOSSES[::3])
def test_losses_of_several_outputs_are_read_from_lists_and_dicts(loss, expected):
    x = keras.Input((2,))
    heads = {name: keras.layers.Dense(4, name=name)(x) for name in ("a", "b")}
    for outputs, losses in ((heads, {"a": "mse", "b": loss}), (list(heads.values()), ["mse", loss])):
        model = keras.Model(x, outputs)
        model.compile(loss=losses)
        assert find_likelihood(None, loss_of(model, 0)) == Gaussian()
        assert find_likelihood(None, loss_of(model, 1)) == expected


def test_what_is_no_likelihood_has_no_elbo():
    for loss in ("binary_focal_crossentropy", keras.losses.CategoricalFocalCrossentropy, sb.BoundedCrossentropy()):
        assert "is no negative log-likelihood, so the objective of training was no ELBO" in why_no_elbo(loss)
    assert "label_smoothing=0.1" in why_no_elbo(keras.losses.CategoricalCrossentropy(label_smoothing=0.1))
    assert "mean_squared_error is not known to be a log-likelihood" in why_no_elbo(mean_squared_error)
    for loss in (None, "mse", "sparse_categorical_crossentropy", sb.Poisson(), "poisson"):
        assert why_no_elbo(loss) is None


def test_the_noise_that_an_error_implies_is_stated():
    for loss, words in (("mse", "√½"), ("huber", "deviation 1 "), ("mae", "Laplace noise of scale 1")):
        assert words in repr(find_likelihood(None, loss)) and not find_likelihood(None, loss).specifies_noise


def test_names_and_objects_go_before_the_loss():
    model = _model("mse")
    assert find_likelihood("categorical_logits", model.loss) == Categorical(True)
    assert find_likelihood(Gaussian(0.1), model.loss) == Gaussian(0.1)


def _own(base, name, **arguments):
    return type(name, (base,), {"call": lambda self, y, p: ops.mean(p)})(**arguments)


def mean_squared_error(y, p):
    return ops.mean(p)


NAMESAKES = [
    mean_squared_error,
    _own(keras.losses.Loss, "MeanSquaredError"),
    _own(keras.losses.MeanSquaredError, "MeanSquaredError"),
    _own(keras.losses.BinaryCrossentropy, "BinaryCrossentropy", from_logits=True),
]


@pytest.mark.parametrize("loss", [None, "hinge", keras.losses.Dice(), lambda y, p: ops.mean(p), *NAMESAKES])
def test_a_loss_that_does_not_specify_it_is_an_error_with_the_choices(loss):
    with pytest.raises(ValueError, match=r"the loss of .* does not specify it; got .*ass likelihood= one of \['bern"):
        find_likelihood(None, loss_of(_model(loss), None), "net")


def test_an_unknown_name_is_an_error_with_the_choices():
    with pytest.raises(ValueError, match=r"one of \['bernoulli', .*\]; got likelihood='softmax'"):
        find_likelihood("softmax")


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
    with pytest.raises(ValueError, match=r"outputs that are logits; got numbers >= 0 that sum to 1.*from_logits=False"):
        Categorical().probabilities(p)
    shifted = p + np.eye(5, 3)  # of one example alone the numbers sum to 1 by chance
    np.testing.assert_allclose(Categorical().probabilities(shifted), special.softmax(shifted, -1), rtol=1e-6)


@pytest.mark.parametrize("from_logits", [True, False])
def test_one_class_is_no_classification(from_logits):
    with pytest.raises(ValueError, match=r"two or more outputs.* of shape \(examples, …, 1\).*BinaryCrossentropy"):
        Categorical(from_logits).probabilities(np.ones((2, 4, 1)))


def test_several_outputs_of_a_bernoulli_are_labels_of_their_own():
    z = RNG.normal(size=(6, 5, 3))
    p, one = _predictive(Bernoulli(), z, 2), special.expit(z)
    np.testing.assert_allclose(p.mean, one.mean(axis=0))
    np.testing.assert_allclose(p.std, one.std(axis=0))
    np.testing.assert_array_equal(p.predicted_labels, one.mean(axis=0) > 0.5)
    for k in range(3):  # each label is the Bernoulli of its output alone
        alone = _predictive(Bernoulli(), z[..., k : k + 1], 1)
        np.testing.assert_allclose(p.label(k).mean, alone.mean)
        np.testing.assert_allclose(p.label(k).std, alone.std)
        np.testing.assert_allclose(p.entropy[:, k], alone.entropy)
        np.testing.assert_allclose(p.mutual_information[:, k], alone.mutual_information)
    assert sb.Bernoulli(False).statistics(one)["prediction"] is not None
    exported = Bernoulli().export(ops.convert_to_tensor(z.astype("float32")))
    np.testing.assert_allclose(ops.convert_to_numpy(exported["mean"]), p.mean, rtol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(exported["mutual_information"]), p.mutual_information, atol=1e-6)


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_probability_that_rounding_puts_above_1_is_1(outputs):
    z = np.full((4, 5, outputs), 1 + 1e-7)  # as a sum of probabilities in single precision may be
    p = _predictive(Bernoulli(from_logits=False), z, 1)
    assert p.mean.max() == 1 and p.mean.min() >= 0
    np.testing.assert_array_equal(p.mutual_information, 0)


def _predictive(likelihood, outputs, parts):
    """Returns the predictive of draws that arrive in so many parts, for two halves of the examples."""
    moments = {}
    for draws in np.array_split(outputs, parts):
        for where in (np.array([0, 2]), np.array([1, 3, 4])):
            for name, values in likelihood.statistics(draws[:, where]).items():
                moments.setdefault(name, RunningMoments(5)).update(where, values)
    return likelihood.predictive(moments, len(outputs), None)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_parts_of_the_draws_have_the_moments_of_all(name):
    likelihood = LIKELIHOODS[name]
    p = _predictive(likelihood, OUTPUTS[name], 3)
    statistics = likelihood.statistics(OUTPUTS[name])
    np.testing.assert_allclose(p.mean, statistics["prediction"].mean(axis=0))
    np.testing.assert_allclose(p.std, statistics["prediction"].std(axis=0))
    assert p.task == likelihood.task
    if p.task == "classification":
        np.testing.assert_allclose(p.expected_entropy, special.entr(statistics["prediction"]).sum(-1).mean(axis=0))
    elif likelihood.predicts_noise:
        np.testing.assert_allclose(p.noise**2, statistics["noise_variance"].mean(axis=0))


@TORCH_FIRST
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_what_is_exported_is_the_predictive_in_single_precision(name):
    p = _predictive(LIKELIHOODS[name], OUTPUTS[name], 1)
    exported = LIKELIHOODS[name].export(ops.convert_to_tensor(OUTPUTS[name].astype("float32")))
    assert "mean" in exported
    for key, tensor in exported.items():
        np.testing.assert_allclose(ops.convert_to_numpy(tensor), getattr(p, key), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("likelihood", [*LIKELIHOODS.values(), Gaussian(0.3)], ids=str)
def test_a_likelihood_is_serialized_as_keras_objects_are(likelihood):
    config = keras.saving.serialize_keras_object(likelihood)
    assert keras.saving.deserialize_keras_object(config) == likelihood


def test_a_likelihood_of_the_users_own_predicts_and_is_evaluated():
    model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(1, posterior=sb.LowRank(1))])
    x = np.ones((7, 2), "float32")
    p = sb.predict(model, x, draws=30, likelihood=Doubles(), keep_draws=True)
    rates = np.exp(sb.predict(model, x, draws=30, likelihood="gaussian", keep_draws=True).draws)
    np.testing.assert_allclose(p.mean, 2 * rates.mean(axis=0))
    np.testing.assert_allclose(p.variance("aleatoric"), 4 * rates.mean(axis=0))
    counts = np.arange(7.0)
    found = sb.evaluate(model, (x, counts), draws=30, likelihood=Doubles())
    m, v = (np.ravel(part) for part in (p.mean, p.variance("total")))
    exact = stats.nbinom(m**2 / (v - m), m / v)  # it has that mean and variance
    np.testing.assert_allclose(found.value("nll_total"), -exact.logpmf(counts).mean())
    inside = (exact.ppf(0.025) <= counts) & (counts <= exact.ppf(0.975))
    assert found.task == "regression" and found.value("picp_95_total") == pytest.approx(inside.mean())
    with pytest.raises(NotImplementedError, match="freeze_draws needs a likelihood with the method `export`; Doubles"):
        sb.freeze_draws(model, 2, likelihood=Doubles())
