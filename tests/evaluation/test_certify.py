"""A certificate is what its parts give by hand, holds as often as it promises, and is refused where void."""

import re

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, set_factor

import singularbayes as sb
from singularbayes import Centred, FullRank, Laplace, LowRank, Normal, ScaleMixture, certify, layers
from singularbayes.bounds import empirical_risk, kl_inverse
from singularbayes.bounds.confidence import betting_mean
from singularbayes.evaluation.certificate_forms import (
    Predictor,
    certified_kl,
    pac_bayes_bound,
    share_delta,
    with_statement,
)
from singularbayes.prediction.bounded_loss import ERROR
from singularbayes.prediction.randomized import drawn_risks

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype("float32")
Y = (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype("int64")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _network(prior=None, middle=(), **options):
    prior = prior or Normal(0.5)
    stack = [
        keras.Input((4,)),
        layers.Dense(
            5,
            "relu",
            posterior=LowRank.paper(2, prior=prior, **options),
            bias_posterior=FullRank(prior=prior, **options),
        ),
        *middle,
        layers.Dense(2, posterior=FullRank(prior=prior, **options), use_bias=False),
    ]
    model = keras.Sequential(stack)
    model.compile("adam", LOSS)
    return model


def certificate(risks, kl, kl_in_gauge, num_data, delta=0.05, tried=1):
    predictor, shares = Predictor(ERROR, None, seed=0), share_delta(["kl"], delta)
    bound = pac_bayes_bound("kl", predictor, shares, risks=risks, kl=(kl, kl_in_gauge), num_data=num_data, tried=tried)
    return with_statement(bound, "kl", ("kl",), predictor, shares, num_data)


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = _network()
    model.fit(X, Y, epochs=30, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    return model


@pytest.mark.backend
def test_the_value_is_the_one_by_hand():
    model = _network()
    bound = certify(model, X, Y, delta=0.05, draws=100, form="kl")
    nats = 0.0
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            loc, scale = (ops.convert_to_numpy(v).astype("float64") for v in (factor.loc, factor.scale))
            nats += (np.log(0.5 / scale) + (scale**2 + loc**2) / (2 * 0.25) - 0.5).sum()
    assert bound.terms["KL before the gauge"] == pytest.approx(nats, rel=1e-12)
    assert bound.terms["KL"] <= nats
    risks = drawn_risks(model, X, Y, 100)
    empirical = empirical_risk(risks, 0.01, method="betting").value
    budget = (bound.terms["KL"] + np.log(2 * np.sqrt(300) / 0.04)) / 300
    assert bound.value == kl_inverse(empirical, budget)
    assert bound.deltas == {"data": 0.04, "Monte Carlo": 0.01} and bound.is_certificate
    assert bound.terms["mistakes of the draws"] == risks.mean()


@pytest.mark.backend
def test_draws_on_all_examples_make_the_mistakes_that_predict_shows():
    model = _network()
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            set_factor(factor, 0.3, 1.0)
    kept = sb.predict(model, X, draws=40, seed=3, keep_draws=True).draws
    expected = (kept.argmax(axis=-1) != Y).mean(axis=1)
    # The risk of a draw has a standard deviation of 0.115; that of 40 is below 0.05 less than once in 20,000 times.
    assert expected.std() > 0.05
    np.testing.assert_allclose(drawn_risks(model, X, Y, 40, examples=None, seed=3), expected)


@pytest.mark.backend
def test_the_certified_risk_is_that_of_draws_and_not_of_their_mean():
    """The mean network makes no mistake, while a draw errs on the angle between its weight and the mean's, over π."""
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(1, use_bias=False, posterior=FullRank(prior=Normal(1.0)))]
    )
    mean = np.array([0.5, 0.0, 0.0, 0.0])
    set_factor(model.layers[0].posterior.factors[0], mean[:, None], 1.0)
    x = np.random.default_rng(5).normal(size=(4000, 4)).astype("float32")
    bound = certify(model, x, (x[:, 0] > 0).astype(int), draws=400, likelihood="bernoulli_logits")
    w = mean + np.random.default_rng(6).normal(size=(100_000, 4))
    angles = np.arccos(w[:, 0] / np.linalg.norm(w, axis=1)) / np.pi
    error = np.sqrt(angles.var() / 400 + 0.25 / 4000)  # of 400 draws, on 4000 examples
    assert bound.terms["mistakes of the draws"] == pytest.approx(angles.mean(), abs=4 * error)
    assert 0.3 < angles.mean() < bound.value


@JAX_FIRST
def test_draws_on_random_examples_have_the_same_mean(trained):
    whole = drawn_risks(trained, X, Y, 1500, examples=None, seed=1)
    some = drawn_risks(trained, X, Y, 1500, examples=16, seed=2)
    error = np.sqrt((whole.var() + some.var()) / 1500)
    assert abs(whole.mean() - some.mean()) < 4 * error
    assert abs(np.corrcoef(some[:-1], some[1:])[0, 1]) < 4 / np.sqrt(1500)


def test_one_output_is_right_when_its_side_is(trained):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(1, use_bias=False, posterior=FullRank())])
    (factor,) = model.layers[0].posterior.factors
    set_factor(factor, np.array([[1.0], [-1.0], [0.5], [0.0]]), 1e-6)
    assert drawn_risks(model, X, Y, 3, None, likelihood="bernoulli_logits").max() < 0.01
    assert drawn_risks(model, X, 1 - Y, 3, None, likelihood="bernoulli_logits").min() > 0.99


@JAX_FIRST
def test_it_fails_at_most_as_often_as_it_says():
    """Labels are sign(x₁), a tenth of them flipped, and Q is fitted to the data; the true risk is an angle.

    Without KL and Monte Carlo terms the risk on the data is too small in most repetitions: the test has force.
    """
    repetitions, n, delta, scale = 150, 40, 0.2, 0.3
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(1, use_bias=False, posterior=FullRank(prior=Normal(0.5)))]
    )
    (factor,) = model.layers[0].posterior.factors
    rng = np.random.default_rng(1)
    noise = scale * rng.normal(size=(4000, 6))
    failed = naive = 0
    for repetition in range(repetitions):
        x = rng.normal(size=(n, 6)).astype("float32")
        y = ((x[:, 0] > 0) ^ (rng.random(n) < 0.1)).astype(int)
        loc = np.linalg.lstsq(x, 2.0 * y - 1, rcond=None)[0]
        set_factor(factor, loc[:, None], scale)
        w = loc + noise
        truth = 0.1 + 0.8 * np.arccos(w[:, 0] / np.linalg.norm(w, axis=1)).mean() / np.pi
        bound = certify(model, x, y, delta, 200, form="kl", seed=repetition, likelihood="bernoulli_logits")
        failed += bound.value < truth
        naive += bound.terms["mistakes of the draws"] < truth
    assert failed <= delta * repetitions
    assert naive > 0.5 * repetitions


def test_it_grows_with_kl_and_tried_and_falls_with_examples_delta_and_draws():
    def value(risks=np.full(1000, 0.1), kl=100.0, num_data=1000, delta=0.05, tried=1):
        return certificate(risks, kl, kl, num_data, delta, tried).value

    assert value() < value(kl=200.0) < value(kl=400.0)
    assert value() < value(tried=4) < value(tried=64)
    assert value() > value(num_data=2000) > value(num_data=20_000)
    assert value() > value(delta=0.1) > value(delta=0.5)
    assert value() > value(risks=np.full(10_000, 0.1))
    assert certificate(np.full(100, 0.9), 1e4, 1e4, 100).vacuous


def test_the_gauge_undoes_a_scaling_that_leaves_the_networks():
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(2, prior="normal"), use_bias=False)]
    )
    posterior = model.layers[0].posterior
    (factor,) = posterior.factors
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=factor.shape), rng.uniform(0.1, 0.5, factor.shape)
    scaled = np.where(np.arange(7)[:, None] < 4, 3.0, 1 / 3.0)
    found = []
    for by in (1.0, scaled):
        set_factor(factor, by * loc, by * scale)
        found.append(certified_kl(model))
    assert found[1][0] > found[0][0] + 10
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-5) and found[0][1] <= found[0][0]


@pytest.mark.parametrize("tried", [1, 7])
def test_both_parts_of_delta_are_shared_by_what_was_tried(tried):
    risks = np.random.default_rng(0).uniform(0, 0.2, 300)
    bound = certificate(risks, 60.0, 50.0, 1000, 0.05, tried)
    with_error = betting_mean(risks, 0.01 / tried)
    assert bound.terms["with their error"] == with_error
    assert bound.value == pytest.approx(
        kl_inverse(with_error, (50 + np.log(2 * np.sqrt(1000) / (0.04 / tried))) / 1000), rel=1e-12
    )


@pytest.mark.parametrize("is_variance", [False, True])
def test_the_certified_kl_to_the_mixture_has_the_width_that_was_set(vectors, is_variance):
    case = vectors["kl_gauss_scale_mixture"]
    reading, expected = ("variance_reading", "kl_variance_is_e_minus_6")
    if not is_variance:
        reading, expected = ("std_reading", "kl_sigma2_is_std_e_minus_6")
    narrow = case["inputs"][f"sigma2_{reading}"]
    prior = ScaleMixture(
        case["inputs"]["pi"], case["inputs"]["sigma1"], narrow**2 if is_variance else narrow, "sampled", is_variance
    )
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, use_bias=False, posterior=FullRank(prior=prior))])
    for (loc, scale), nats in zip(case["inputs"]["cases_mu_sigma"], case["expected"][expected], strict=True):
        set_factor(model.layers[0].posterior.factors[0], loc, scale)
        assert certified_kl(model)[0] == pytest.approx(8 * nats, rel=1e-5, abs=8 * 5e-4)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    "prior", [Normal(0.5), Laplace(0.5), ScaleMixture(), Centred(Normal(0.3)), Centred(ScaleMixture(0.3))], ids=repr
)
def test_the_kl_is_never_below_the_exact_one_and_close_to_it(prior, family):
    model = _network(prior, family=family)
    rng = np.random.default_rng(0)
    weights = 0
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            set_factor(factor, rng.normal(0, 0.3, factor.shape), rng.uniform(0.001, 0.3, factor.shape))
            weights += factor.size
    before, after = certified_kl(model)
    exact = sb.kl(model, "exact")
    assert exact * (1 - 1e-9) <= before + 1e-6 and after <= before
    mixture = isinstance(getattr(prior, "prior", prior), ScaleMixture)
    slack = 0.7 if family == "laplace" else 0.002  # nats a weight; a Laplace family has Jensen's bound alone
    assert before - exact <= (slack * weights if mixture else 1e-6 * abs(exact))


def test_a_prior_of_ones_own_needs_a_bound():
    @keras.saving.register_keras_serializable("test")
    class Mine(Normal):
        kl_upper = sb.posteriors.Prior.kl_upper

    with pytest.raises(TypeError, match="kl_upper; Mine has none"):
        certified_kl(_network(Mine(1.0)))
    for prior in (Mine(1.0), Centred(Mine(1.0))):
        _refused(_network(prior), "certify needs priors whose KL has a bound, kl_upper; .*Mine.* of")


@pytest.mark.backend
def test_a_loaded_model_has_the_same_certificate(tmp_path):
    model = _network(Centred(Normal(0.2)))
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    assert certify(again, X, Y, draws=100).value == pytest.approx(certify(model, X, Y, draws=100).value, abs=1e-9)


def _refused(model, message, x=X, y=Y, error=ValueError, **options):
    with pytest.raises(error, match=message):
        certify(model, x, y, **{"draws": 20, **options})


@pytest.mark.parametrize(("kl", "loose"), [(630.0, True), (99.0, False)])
def test_a_certificate_whose_kl_exceeds_the_examples_says_what_makes_it_tighter(kl, loose):
    shown = repr(sb.Certificate("PAC-Bayes-kl", "risk", 0.99, terms={"KL": kl, "N": 100}))
    assert ("loose: the KL is 6.3 nats per example. Train with sb.KLSchedule(beta=1)" in shown) == loose


def test_weights_that_no_posterior_draws_are_refused_unless_frozen():
    bias = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=LowRank.paper(2))])
    bias.compile("sgd", LOSS)
    _refused(bias, r'every trained weight inside a posterior.*dense.*/bias.*pass form="holdout"')
    _refused(bias, "every trained weight inside a posterior", frozen=True)
    _refused(_network(middle=[keras.layers.LayerNormalization()]), "layer_normalization")
    deterministic = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=sb.Deterministic())])
    _refused(deterministic, "needs a model with posteriors.*sb.bayesianize.*bounds.mean_at_most")
    _refused(deterministic, "needs a model with posteriors.*sb.bayesianize", form="holdout")
    mixed = _network(middle=[layers.Dense(5, posterior=sb.Deterministic(), use_bias=False)])
    _refused(mixed, "every trained weight inside a posterior")
    mixed.layers[1].trainable = False
    _refused(mixed, "fixed before the certifying examples.*frozen=True")
    bound = certify(mixed, X, Y, draws=20, frozen=True)
    assert bound.is_certificate and any("frozen=True" in assumed for assumed in bound.assumptions)
    _refused(_network(middle=[layers.Dense(5, posterior=sb.RankOne(), use_bias=False)]), "w0")
    _refused(_network(middle=[layers.Dense(5, posterior=sb.Adapter(2), use_bias=False)]), "w0.*frozen=True")


def test_layers_with_a_memory_are_refused():
    _refused(_network(middle=[keras.layers.BatchNormalization(center=False, scale=False)]), "took its statistics")
    recurrent = keras.Sequential(
        [keras.Input((3, 4), batch_size=10), layers.LSTM(2, posterior=LowRank.paper(1), stateful=True)]
    )
    _refused(recurrent, "stateful")


@pytest.mark.backend
def test_a_prior_that_saw_the_examples_is_refused_or_marked():
    model = _network(Centred(Normal(1.0)))
    sb.learn_prior(model, X[:150], Y[:150], epochs=1, verbose=0, callbacks=[sb.KLSchedule(150, beta=1.0)])
    assert certify(model, X[150:], Y[150:], draws=20).is_certificate
    _refused(model, "the prior was learned on these examples: 150 of 150 that it knows are here.*prior_data='disjoint'")
    _refused(model, "the prior was learned on these examples", X[100:], Y[100:])
    marked = certify(model, X, Y, draws=20, allow_seen=True)
    assert not marked.is_certificate and "the prior was learned on these" in marked.defect
    assert "NOT a certificate" in repr(marked)
    words = "150 of 150 that it remembers are here, and only 0 of these equal an earlier one"
    _refused(model, words, prior_data="disjoint")
    apart = certify(model, X[150:], Y[150:], draws=20, prior_data="disjoint")
    assert apart.is_certificate and any("on the caller's word" in assumed for assumed in apart.assumptions)


def test_examples_that_look_the_same_may_have_been_drawn_apart():
    """Four bits a row: sixteen kinds, so that those of the prior come back in any other draw."""
    bits = np.random.default_rng(0).integers(0, 2, (300, 4)).astype("float32")
    model = _network(Centred(Normal(1.0)))
    sb.learn_prior(model, bits[:150], Y[:150], epochs=1, verbose=0, callbacks=[sb.KLSchedule(150, beta=1.0)])
    alike = {"duplicates": "independent"}
    _refused(model, "the prior was learned on these examples", bits[150:], Y[150:], **alike)
    apart = certify(model, bits[150:], Y[150:], draws=20, prior_data="disjoint", **alike)
    assert any("16 of 16 that it remembers are here" in assumed for assumed in apart.assumptions)
    untaught = certify(_network(), bits, Y, draws=20, prior_data="disjoint", **alike)
    assert any("the prior remembers none" in assumed for assumed in untaught.assumptions)


def test_prior_data_can_be_said_where_nobody_remembered(trained):
    _refused(trained, "the prior was learned on these examples", prior_data=X)
    assert certify(trained, X[150:], Y[150:], draws=20, prior_data=X[:150]).is_certificate
    _refused(trained, "prior_data as inputs", prior_data="other")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"delta": 0.0}, "0 < delta < 1"),
        ({"delta": 1.5}, "0 < delta < 1"),
        ({"draws": 0}, "draws to be an integer"),
        ({"tried": 0}, "tried to be an integer"),
        ({"y": Y[:-1]}, "one label per example"),
        ({"y": Y + 1}, "integers from 0 to 1"),
        ({"y": np.eye(2)[Y]}, "one-hot"),
        ({"x": X[:, :3]}, "inputs of shape"),
        ({"likelihood": "gaussian"}, "a classifier"),
    ],
)
def test_bad_input_is_refused(trained, options, message):
    _refused(trained, message, **options)


def test_what_is_no_model_is_refused():
    _refused(np.ones(3), "needs a Keras model", error=TypeError)


def test_it_prints_every_number_it_is_made_of(trained):
    shown = repr(certify(trained, X, Y, draws=500, tried=3, form="kl"))
    for part in ("0-1 risk of the randomised predictor ≤", "certificate", "data 0.04", "Monte Carlo 0.01", "draws 500"):
        assert part in shown
    for part in ("mistakes of the draws", "with their error", "KL ", "N 300", "tried 3", "probability ≥ 0.95"):
        assert part in shown


def test_it_says_in_a_sentence_what_is_certified_and_to_whom():
    bound = certificate(np.full(4000, 0.01), kl=100.0, kl_in_gauge=100.0, num_data=30_000)
    message = re.search(
        r"95 % over the draw of these 30,000 examples .* errs on at most (.*) % of new examples", repr(bound)
    )
    assert bound.value <= float(message[1]) / 100 < bound.value * 1.001
    assert "the randomised classifier, which draws a network for every prediction, errs on" in repr(bound)
    assert "`sb.predict`, which averages draws, is another classifier: this number does not bound" in repr(bound)
    assert "errs on at most" not in repr(bound.with_defect("the prior saw these examples"))
    vacuous = certificate(np.full(4000, 0.5), kl=1e9, kl_in_gauge=1e9, num_data=30_000)
    assert vacuous.vacuous and "errs on at most" not in repr(vacuous)
