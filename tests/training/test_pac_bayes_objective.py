"""Training on a bound: the loss lies in [0, 1], and a step's direction is the gradient of the bound."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import BoundedCrossentropy, Centred, FullRank, LowRank, Normal, PACBayesObjective, layers
from singularbayes.bounds import pac_bayes
from singularbayes.training.pac_bayes_objective import FORMS, bound_slope

pytestmark = pytest.mark.on_torch

X = np.random.default_rng(0).normal(size=(200, 4)).astype("float32")
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype("int32")


def _network(prior=None, classes=2):
    prior = prior or Centred(Normal(0.2))
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, "relu", posterior=LowRank.paper(2, prior=prior), bias_posterior=FullRank(prior=prior)),
            layers.Dense(classes, posterior=FullRank(prior=prior), use_bias=False),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), BoundedCrossentropy(1e-3))
    return model


@TORCH_FIRST
def test_the_loss_is_the_cut_and_scaled_cross_entropy():
    rng = np.random.default_rng(0)
    logits, labels = 6 * rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for p_min in (1e-2, 1e-5):
        expected = (np.log(np.maximum(p[np.arange(50), labels], p_min)) / np.log(p_min)).mean()
        for shape in ((50,), (50, 1)):
            found = BoundedCrossentropy(p_min)(labels.reshape(shape), logits.astype("float32"))
            assert float(ops.convert_to_numpy(found)) == pytest.approx(expected, rel=1e-5)
        probabilities = BoundedCrossentropy(p_min, from_logits=False)(labels, p.astype("float32"))
        assert float(ops.convert_to_numpy(probabilities)) == pytest.approx(expected, rel=1e-5)
    assert expected < 1 and (p[np.arange(50), labels] < 1e-2).any()  # some were cut


@pytest.mark.parametrize("form", FORMS)
def test_the_weight_of_the_kl_is_the_ratio_of_the_slopes_of_the_bound(form):
    rng = np.random.default_rng(0)
    for _ in range(20):
        risk, kl, num_data = rng.uniform(0.01, 0.4), rng.uniform(10, 3000), int(rng.integers(5000, 60_000))

        def bound(risk=risk, kl=kl, num_data=num_data):
            return pac_bayes(risk, kl, num_data, 0.05, form).terms["uncapped"]

        by_risk = (bound(risk=risk + 1e-5) - bound(risk=risk - 1e-5)) / 2e-5
        by_kl = (bound(kl=kl + 1e-2) - bound(kl=kl - 1e-2)) / 2e-2
        assert bound_slope(form, risk, kl, num_data) == pytest.approx(by_kl / by_risk, rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_with_that_weight_the_loss_lies_above_the_bound_and_touches_it(form):
    # F is concave in (L̂, KL): its tangent at the last epoch is above it everywhere.
    def bound(risk, kl):
        return pac_bayes(risk, kl, 10_000, 0.05, form).terms["uncapped"]

    at = 0.1, 800.0
    weight = bound_slope(form, *at, 10_000)
    slope = (bound(at[0] + 1e-6, at[1]) - bound(at[0] - 1e-6, at[1])) / 2e-6
    rng = np.random.default_rng(0)
    for risk, kl in zip(rng.uniform(0.001, 0.5, 50), rng.uniform(1, 4000, 50), strict=True):
        assert bound(risk, kl) <= bound(*at) + slope * (risk - at[0] + weight * (kl - at[1])) + 1e-9


@TORCH_FIRST
def test_fit_follows_the_bound_and_logs_it():
    model = _network()
    objective = PACBayesObjective(len(X), 0.05)
    history = model.fit(X, Y, epochs=15, batch_size=50, verbose=0, callbacks=[objective]).history
    assert history["kl_weight"][0] == pytest.approx(1 / len(X))
    for epoch in range(1, 15):
        last = history["nll"][epoch - 1], history["kl"][epoch - 1]
        assert history["kl_weight"][epoch] == pytest.approx(bound_slope("quadratic", *last, len(X), 0.05))
        expected = pac_bayes(history["nll"][epoch], history["kl"][epoch], len(X), 0.05, "quadratic").value
        assert history["bound"][epoch] == pytest.approx(expected)
    assert history["bound"][-1] < history["bound"][0]
    posterior = sb.find_posteriors(model)[0]
    assert float(ops.convert_to_numpy(posterior.kl_scale)) == pytest.approx(history["kl_weight"][-1], rel=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_data": 0}, "num_data to be an integer >= 1"),
        ({"delta": 1.0}, "0 < delta < 1"),
        ({"form": "best"}, "form to be one of"),
        ({"penalty": 0.0}, "penalty > 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PACBayesObjective(**{"num_data": 100, **arguments})


def test_a_loss_above_one_and_a_model_without_posterior_are_refused():
    model = _network()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match=r"needs a loss in \[0, 1\]"):
        model.fit(100 * X, 1 - Y, verbose=0, callbacks=[PACBayesObjective(len(X))])
    plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    plain.compile("sgd", BoundedCrossentropy())
    with pytest.raises(ValueError, match="needs a model with a posterior"):
        plain.fit(X, Y, verbose=0, callbacks=[PACBayesObjective(len(X))])
    with pytest.raises(ValueError, match="0 < p_min < 1"):
        BoundedCrossentropy(0.0)
