"""A certificate is what its parts give by hand, holds as often as it promises, and is refused or says what it assumes.

Every sentence contains what the examples may have been used for.
"""

import re

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST, set_factor
from scipy.stats import beta

import singularbayes as sb
from singularbayes import (
    BoundedCrossentropy,
    BoundedError,
    Centred,
    FullRank,
    Laplace,
    LowRank,
    Normal,
    ScaleMixture,
    bounds,
    certify,
    layers,
)
from singularbayes.bounds import empirical_risk, kl_inverse
from singularbayes.evaluation.certify import Predictor, certified_kl, pac_bayes_bound
from singularbayes.prediction import drawn_risks, fresh_draw_losses
from singularbayes.prediction.bounded_loss import ERROR

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype("float32")
Y = ((X @ [1.0, -1.0, 0.5, 0.0] > 0) ^ (RNG.random(300) < 0.1)).astype("int64")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
FIRST, FIT = (X[:150], Y[:150]), {"verbose": 0, "callbacks": [sb.KLSchedule(150)]}
DRAWS = {"draws": 200, "likelihood": "categorical_logits"}


def _network(prior=None, middle=(), **options):
    prior = prior or Normal(0.5)
    bias = FullRank(prior=prior, **options)
    hidden = layers.Dense(5, "relu", posterior=LowRank.paper(2, prior=prior, **options), bias_posterior=bias)
    head = layers.Dense(2, posterior=FullRank(prior=prior, **options), use_bias=False)
    model = keras.Sequential([keras.Input((4,)), hidden, *middle, head])
    model.compile("adam", LOSS)
    return model


def _linear(outputs=2, prior=None):
    posterior = FullRank(prior=prior or Normal(0.5))
    return keras.Sequential([keras.Input((4,)), layers.Dense(outputs, posterior=posterior, use_bias=False)])


def _factor(model):
    return model.layers[0].posterior.factors[0]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    model = _linear()
    set_factor(_factor(model), np.outer([1.0, -1.0, 0.5, 0.0], [-1.0, 1.0]), 0.5)
    return model


@pytest.fixture(scope="module")
def draws(model):
    """Probabilities of the label, of 4000 networks for every example, from draws that no certificate has."""
    kept = sb.predict(model, X, draws=4000, seed=99, keep_draws=True, likelihood="categorical_logits").draws
    return np.take_along_axis(kept, np.broadcast_to(Y, kept.shape[:2])[..., None], axis=-1)[..., 0]


def _refused(model, message, x=X, y=Y, error=ValueError, **options):
    with pytest.raises(error, match=message):
        certify(model, x, y, **{"draws": 20, **options})


# -- the number ------------------------------------------------------------------------------------------------------


@pytest.mark.backend
def test_the_value_is_the_one_by_hand():
    model = _network()
    bound = certify(model, X, Y, delta=0.05, draws=100)
    nats = 0.0
    for posterior in sb.find_posteriors(model):
        for factor in posterior.factors:
            loc, scale = (ops.convert_to_numpy(v).astype("float64") for v in (factor.loc, factor.scale))
            nats += (np.log(0.5 / scale) + (scale**2 + loc**2) / (2 * 0.25) - 0.5).sum()
    assert bound.terms["KL"] == pytest.approx(nats, rel=1e-12)
    risks = drawn_risks(model, X, Y, 100)
    budget = (bound.terms["KL"] + np.log(2 * np.sqrt(300) / 0.04)) / 300
    assert bound.value == kl_inverse(empirical_risk(risks, 0.01).value, budget)
    assert bound.deltas == {"data": 0.04, "Monte Carlo": 0.01} and bound.is_certificate
    assert bound.terms["mistakes of the draws"] == risks.mean()


def test_catoni_is_the_one_by_hand(model):
    empirical = empirical_risk(drawn_risks(model, X, Y, **DRAWS), 0.01).value
    found = certify(model, X, Y, form="catoni", constant=0.7, **DRAWS)
    expected = -np.expm1(-0.7 * empirical - (certified_kl(model) + np.log(1 / 0.04)) / 300) / -np.expm1(-0.7)
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert any("C = 0.7 fixed without these examples" in assumed for assumed in found.assumptions)


@pytest.mark.parametrize("tried", [1, 7])
def test_both_parts_of_delta_are_shared_by_what_was_tried(tried):
    risks = np.random.default_rng(0).uniform(0, 0.2, 300)
    bound = pac_bayes_bound(Predictor(ERROR, None, 0, "kl"), risks, 50.0, 1000, 0.05, tried)
    with_error = bounds.betting_mean(risks, 0.01 / tried)
    expected = kl_inverse(with_error, (50 + np.log(2 * np.sqrt(1000) / (0.04 / tried))) / 1000)
    assert bound.terms["with their error"] == with_error and bound.value == pytest.approx(expected, rel=1e-12)


def test_the_hold_out_draws_a_network_of_its_own_for_every_example(model, draws):
    found = certify(model, X, Y, form="holdout", tried=2, **DRAWS)
    losses = fresh_draw_losses(model, X, Y, likelihood="categorical_logits")
    count = int(losses.sum())
    assert found.terms["mistakes"] == count and found.deltas == {"data": 0.05}
    assert found.value == pytest.approx(beta.ppf(1 - 0.05 / 2, count + 1, 300 - count))
    wrong = (draws < 0.5).mean(axis=0)  # of each example, over networks
    assert losses.mean() == pytest.approx(wrong.mean(), abs=4 * np.sqrt((wrong * (1 - wrong)).sum()) / 300)
    # With one network for all examples the mistakes of equal inputs would be equal.
    same = fresh_draw_losses(model, np.tile(X[:1], (300, 1)), np.tile(Y[:1], 300), likelihood="categorical_logits")
    assert same.mean() == pytest.approx(wrong[0], abs=4 * np.sqrt(wrong[0] * (1 - wrong[0]) / 300) + 0.01)
    assert same.std() > 0


def test_the_averaged_predictor_has_twice_the_bound_of_one(model):
    first = drawn_risks(model, X, Y, 200, loss="probability", likelihood="categorical_logits")
    found = certify(model, X, Y, average=20, **DRAWS)
    expected = 2 * bounds.pac_bayes(empirical_risk(first, 0.01), certified_kl(model), 300, 0.04).value
    assert found.value == pytest.approx(expected) and "averaged (20 draws) predictor" in found.quantity
    linear = certify(model, X, Y, average=20, loss="probability", **DRAWS)
    assert 2 * linear.value == pytest.approx(found.value)  # of the mean of 1 − p itself there is no factor
    p = sb.predict(model, X, draws=20, seed=3, likelihood="categorical_logits")
    held = certify(model, X, Y, form="holdout", average=20, seed=3, **DRAWS)
    assert held.terms["mistakes"] == (p.mean.argmax(axis=1) != Y).sum()
    assert "`sb.predict(draws=20, seed=3)` errs on at most" in held.sentence


def test_a_mean_over_draws_errs_only_where_its_loss_is_a_half():
    """1{wrong} ≤ 2 ℓ̄ for any probabilities, ties included; the risk of draws is no bound of it."""
    p = RNG.dirichlet(np.full(4, 0.3), size=(5, 2000))
    p = np.concatenate([p, np.broadcast_to([0.5, 0.5, 0.0, 0.0], (5, 1, 4))], axis=1).mean(axis=0)
    for label in range(4):
        loss, wrong = 1 - p[:, label], (p >= p[:, [label]]).sum(axis=1) > 1
        assert (wrong <= 2 * loss + 1e-12).all()
    draws = np.array([[0.51, 0.49]] * 9 + [[0.0, 1.0]])
    assert (draws.argmax(axis=1) != 0).mean() == 0.1 and draws.mean(axis=0).argmax() == 1


@JAX_FIRST
def test_it_fails_at_most_as_often_as_it_says():
    """Labels are sign(x₁), a tenth of them flipped, and Q is fitted to the data; the true risk is an angle.

    Without KL and Monte Carlo terms the risk on the data is too small in most repetitions: the test has force.
    """
    repetitions, n, delta, scale = 150, 40, 0.2, 0.3
    layer = layers.Dense(1, use_bias=False, posterior=FullRank(prior=Normal(0.5)))
    model = keras.Sequential([keras.Input((6,)), layer])
    rng = np.random.default_rng(1)
    noise = scale * rng.normal(size=(4000, 6))
    failed = naive = 0
    for repetition in range(repetitions):
        x = rng.normal(size=(n, 6)).astype("float32")
        y = ((x[:, 0] > 0) ^ (rng.random(n) < 0.1)).astype(int)
        loc = np.linalg.lstsq(x, 2.0 * y - 1, rcond=None)[0]
        set_factor(_factor(model), loc[:, None], scale)
        w = loc + noise
        truth = 0.1 + 0.8 * np.arccos(w[:, 0] / np.linalg.norm(w, axis=1)).mean() / np.pi
        bound = certify(model, x, y, delta, 200, seed=repetition, likelihood="bernoulli_logits")
        failed += bound.value < truth
        naive += bound.terms["mistakes of the draws"] < truth
    assert failed <= delta * repetitions
    assert naive > 0.5 * repetitions


# -- the draws -------------------------------------------------------------------------------------------------------


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
    model = _linear(1, Normal(1.0))
    mean = np.array([0.5, 0.0, 0.0, 0.0])
    set_factor(_factor(model), mean[:, None], 1.0)
    x = np.random.default_rng(5).normal(size=(4000, 4)).astype("float32")
    bound = certify(model, x, (x[:, 0] > 0).astype(int), draws=400, likelihood="bernoulli_logits")
    w = mean + np.random.default_rng(6).normal(size=(100_000, 4))
    angles = np.arccos(w[:, 0] / np.linalg.norm(w, axis=1)) / np.pi
    error = np.sqrt(angles.var() / 400 + 0.25 / 4000)  # of 400 draws, on 4000 examples
    assert bound.terms["mistakes of the draws"] == pytest.approx(angles.mean(), abs=4 * error)
    assert 0.3 < angles.mean() < bound.value


@JAX_FIRST
def test_draws_on_random_examples_have_the_same_mean(model):
    options = {"likelihood": "categorical_logits"}
    whole = drawn_risks(model, X, Y, 1500, examples=None, seed=1, **options)
    some = drawn_risks(model, X, Y, 1500, examples=16, seed=2, **options)
    error = np.sqrt((whole.var() + some.var()) / 1500)
    assert abs(whole.mean() - some.mean()) < 4 * error
    assert abs(np.corrcoef(some[:-1], some[1:])[0, 1]) < 4 / np.sqrt(1500)


def test_one_output_is_right_when_its_side_is():
    model, labels = _linear(1), (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype(int)
    set_factor(_factor(model), np.array([[1.0], [-1.0], [0.5], [0.0]]), 1e-6)
    assert drawn_risks(model, X, labels, 3, None, likelihood="bernoulli_logits").max() < 0.01
    assert drawn_risks(model, X, 1 - labels, 3, None, likelihood="bernoulli_logits").min() > 0.99


# -- the KL ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_variance", [False, True])
def test_the_certified_kl_to_the_mixture_has_the_width_that_was_set(vectors, is_variance):
    case = vectors["kl_gauss_scale_mixture"]
    reading, expected = ("variance_reading", "kl_variance_is_e_minus_6")
    if not is_variance:
        reading, expected = ("std_reading", "kl_sigma2_is_std_e_minus_6")
    narrow = case["inputs"][f"sigma2_{reading}"]
    given = narrow**2 if is_variance else narrow
    prior = ScaleMixture(case["inputs"]["pi"], case["inputs"]["sigma1"], given, "sampled", is_variance)
    model = _linear(prior=prior)
    for (loc, scale), nats in zip(case["inputs"]["cases_mu_sigma"], case["expected"][expected], strict=True):
        set_factor(_factor(model), loc, scale)
        assert certified_kl(model) == pytest.approx(8 * nats, rel=1e-5, abs=8 * 5e-4)


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
    found, exact = certified_kl(model), sb.kl(model, "exact")
    assert exact * (1 - 1e-9) <= found + 1e-6
    mixture = isinstance(getattr(prior, "prior", prior), ScaleMixture)
    slack = 0.7 if family == "laplace" else 0.002  # nats a weight; a Laplace family has Jensen's bound alone
    assert found - exact <= (slack * weights if mixture else 1e-6 * abs(exact))


def test_a_prior_of_ones_own_needs_a_bound():
    @keras.saving.register_keras_serializable("test")
    class Mine(Normal):
        kl_upper = sb.posteriors.Prior.kl_upper

    for prior in (Mine(1.0), Centred(Mine(1.0))):
        _refused(_network(prior), "certify needs priors whose KL has a bound, kl_upper; .*Mine.* of")


def test_a_mixture_pays_the_mean_of_its_components():
    mixed = _linear()
    posterior = sb.Mixture(FullRank(prior=Normal(0.5)), 3)
    mixed = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=posterior, use_bias=False)])
    each = [certified_kl(sb.take_components(mixed, [k])) for k in range(3)]
    found = certify(mixed, X, Y, **DRAWS)
    assert found.terms["KL"] == pytest.approx(np.mean(each)) and np.ptp(each) > 0
    kept = sb.predict(mixed, X, draws=999, keep_draws=True, likelihood="categorical_logits").draws
    risks = (kept.argmax(axis=-1) != Y).mean(axis=1)
    numbers = drawn_risks(mixed, X, Y, 600, likelihood="categorical_logits")
    error = np.sqrt(risks.var() / 999 + numbers.var() / 600)
    assert numbers.mean() == pytest.approx(risks.mean(), abs=4 * error)


# -- other losses ----------------------------------------------------------------------------------------------------


@TORCH_FIRST
def test_bounded_losses_are_certified(model):
    found = certify(model, X, Y, loss=BoundedCrossentropy(0.01), **DRAWS)
    kept = sb.predict(model, X, draws=3000, keep_draws=True, seed=7, likelihood="categorical_logits").draws
    chosen = np.take_along_axis(kept, np.broadcast_to(Y, kept.shape[:2])[..., None], axis=-1)
    risk = (np.log(np.maximum(chosen, 0.01)) / np.log(0.01)).mean()
    assert found.terms["loss of the draws"] == pytest.approx(risk, abs=0.03)
    assert "clipped at p = 0.01" in found.quantity and any("level of the loss" in a for a in found.assumptions)
    keras_loss = BoundedCrossentropy(0.01)(Y[:5], np.log(kept[0, :5]).astype("float32"))
    assert float(keras_loss) == pytest.approx((np.log(np.maximum(chosen[0, :5], 0.01)) / np.log(0.01)).mean(), rel=1e-4)
    message = r"form='holdout' for the mean cross-entropy.*not convex"
    _refused(model, message, average=20, loss=BoundedCrossentropy(0.01), **DRAWS)


def test_a_regression_is_certified_with_a_bounded_error():
    model = _linear(1)
    set_factor(_factor(model), np.array([[1.0], [-1.0], [0.5], [0.0]]), 0.1)
    y = X @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(0, 0.3, 300)
    for loss in (BoundedError(1.0), BoundedError(2.0, power=2)):
        model.compile("adam", loss)
        found = certify(model, X, y, loss=loss, draws=200)
        means = sb.predict(model, X, draws=500, seed=8, keep_draws=True).draws
        values = np.minimum(np.abs(means - y) / loss.limit, 1) ** loss.power
        assert found.terms["loss of the draws"] == pytest.approx(values.mean(), abs=0.02)
        assert float(loss(y, means[0][:, None])) == pytest.approx(values[0].mean(), rel=1e-5)
        level = float(found.sentence.split(" in the units of the target")[0].split()[-1])
        assert found.value * loss.limit**loss.power <= level < found.value * loss.limit**loss.power * 1.001
    held = certify(model, X, y[:, None], form="holdout", average=50, loss=loss, draws=200)
    losses = np.minimum(np.abs(sb.predict(model, X, draws=50).mean - y) / 2, 1) ** 2
    assert held.terms["mean"] == pytest.approx(losses.mean())
    assert held.value == pytest.approx(bounds.betting_mean(losses, 0.05))
    _refused(model, r"needs a classifier.*BoundedError", y=y)
    _refused(model, "a loss that fits the outputs", y=y, loss=BoundedCrossentropy())
    _refused(model, r"targets of shape \(300, 1\)", y=np.stack([y, y], axis=1), loss=loss)


@pytest.mark.parametrize("options", [{"form": "kl"}, {"form": "holdout"}, {"form": "holdout", "average": 5}], ids=str)
def test_several_predictions_for_an_example_are_refused(model, options):
    """Labels that do not exclude each other are no classes, and steps of a sequence no examples."""
    message = r"certify needs one prediction per example.*of shape \(2, 2\)"
    _refused(model, message, likelihood="bernoulli_logits", **options)
    steps = keras.Sequential([keras.Input((2, 4)), layers.Dense(2, posterior=FullRank(), use_bias=False)])
    _refused(steps, message, x=np.stack([X, X + 1], axis=1), likelihood="categorical_logits", **options)


# -- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tried", [1, 3])
@pytest.mark.parametrize("average", [None, 20])
@pytest.mark.parametrize("form", ["kl", "catoni", "holdout"])
def test_every_sentence_contains_what_the_examples_may_have_trained(model, form, average, tried):
    found = certify(model, X, Y, 0.5, form=form, average=average, tried=tried, **DRAWS)
    trained = "trained nothing" if form == "holdout" else "trained nothing but the posterior"
    chose = "selected nothing" if tried == 1 else "selected only among the 3 models tried"
    assert f", if these examples {trained} and {chose}, " in found.sentence
    assert (found.sentence in [line.strip() for line in repr(found).splitlines()]) != found.vacuous
    assert not (found.vacuous and form == "holdout")
    who = {
        (False, False): "the randomised classifier, which draws a network for every prediction, errs on at most",
        (True, False): "`sb.predict(draws=20)` with draws made afresh errs on at most",
        (True, True): "`sb.predict(draws=20, seed=0)` errs on at most",
    }[average is not None, average is not None and form == "holdout"]
    assert who in found.sentence
    assert ("this number does not bound its error" in found.sentence) == (average is None)


def test_it_prints_every_number_and_rounds_to_the_safe_side(model):
    found = certify(model, X, Y, 0.5, tried=3, **DRAWS)
    shown = repr(found)
    for part in ("0-1 risk of the randomised predictor ≤", "certificate", "data 0.4", "Monte Carlo 0.1", "draws 200"):
        assert part in shown
    for part in ("mistakes of the draws", "with their error", "KL ", "N 300", "tried 3", "probability ≥ 0.5"):
        assert part in shown
    (stated,) = re.findall(r"errs on at most (.*) % of new examples", found.sentence)
    assert found.value <= float(stated) / 100 < found.value * 1.001
    assert "errs on at most" not in repr(found.with_defect("the prior saw these examples"))


@pytest.mark.parametrize(
    ("centre", "words"),
    [
        (lambda model: model.fit(*FIRST, **FIT), None),
        (lambda model: sb.learn_prior(model, *FIRST, **FIT), "the prior was learned on drawn independently of these"),
        (
            lambda model: (model.fit(*FIRST, **FIT), sb.centre_prior(model)),
            "the prior was learned on drawn independently of these",
        ),
    ],
    ids=["initial", "learned", "centred"],
)
@pytest.mark.backend
def test_it_assumes_what_the_prior_was_learned_on_also_of_a_file(centre, words, tmp_path):
    model = _network(Centred(Normal(1.0)))
    centre(model)
    model.save(tmp_path / "model.keras")
    found, again = (certify(one, X, Y, draws=100) for one in (model, sb.load(tmp_path / "model.keras")))
    assert again.value == pytest.approx(found.value, abs=1e-9)
    for bound in (found, again):
        assumed = "; ".join(bound.assumptions)
        assert words in assumed if words else "the prior learned" not in assumed


def test_a_prior_around_given_arrays_carries_the_assumption():
    start = keras.initializers.Constant(np.ones((4, 2), "float32"))
    posterior = FullRank(prior=Centred(Normal(0.1)), initializer=start)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, use_bias=False, posterior=posterior)])
    words = "the arrays or the code that initialise the prior's centres chosen without these examples"
    assert words in repr(certify(model, X, Y, **DRAWS))
    assert words not in repr(certify(_linear(prior=Centred(Normal(0.1))), X, Y, **DRAWS))


# -- what it refuses -------------------------------------------------------------------------------------------------


def test_learning_by_heart_certifies_nothing():
    """Labels are coin tosses, and there are more inputs than examples: no classifier errs on less than half."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 120)).astype("float32"), rng.integers(0, 2, 100)
    posterior = FullRank(prior=Centred(Normal(0.1)))
    model = keras.Sequential([keras.Input((120,)), layers.Dense(2, use_bias=False, posterior=posterior)])
    set_factor(_factor(model), np.linalg.lstsq(x, 2.0 * np.eye(2)[y] - 1, rcond=None)[0], 1e-3)
    found = certify(model, x, y, **DRAWS)
    assert found.value > 0.5 and found.terms["mistakes of the draws"] < 0.05


def test_weights_that_no_posterior_draws_are_refused_unless_frozen():
    bias = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=LowRank.paper(2))])
    bias.compile("sgd", LOSS)
    _refused(bias, r'every trained weight inside a posterior.*dense.*/bias.*pass form="holdout"')
    _refused(bias, "every trained weight inside a posterior", frozen=True)
    assert certify(bias, X, Y, form="holdout", average=5, draws=20).is_certificate
    _refused(_network(middle=[keras.layers.LayerNormalization()]), "layer_normalization")
    _refused(_network(middle=[keras.layers.BatchNormalization(center=False, scale=False)]), "moving_mean.*frozen=True")
    deterministic = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=sb.Deterministic())])
    for form in ("kl", "holdout"):
        _refused(deterministic, "needs a model with posteriors.*sb.bayesianize.*bounds.mean_at_most", form=form)
    mixed = _network(middle=[layers.Dense(5, posterior=sb.Deterministic(), use_bias=False)])
    _refused(mixed, "every trained weight inside a posterior")
    mixed.layers[1].trainable = False
    _refused(mixed, "fixed before the certifying examples.*frozen=True")
    bound = certify(mixed, X, Y, draws=20, frozen=True)
    assert bound.is_certificate and any("frozen=True" in assumed for assumed in bound.assumptions)
    _refused(_network(middle=[layers.Dense(5, posterior=sb.RankOne(), use_bias=False)]), "w0")
    _refused(_network(middle=[layers.Dense(5, posterior=sb.Adapter(2), use_bias=False)]), "w0.*frozen=True")


def test_a_stateful_layer_is_refused():
    layer = layers.LSTM(2, posterior=LowRank.paper(1), stateful=True)
    _refused(keras.Sequential([keras.Input((3, 4), batch_size=10), layer]), "stateful")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"delta": 1.5}, "0 < delta < 1"),
        ({"draws": 0}, "draws to be an integer"),
        ({"tried": 0}, "tried to be an integer"),
        ({"average": 0}, "average to be an integer"),
        ({"form": "sqrt"}, "form to be one of"),
        ({"constant": 0.0}, "constant"),
        ({"loss": "mse"}, "BoundedError"),
        ({"y": Y[:-1]}, "one label per example|labels"),
        ({"y": Y + 1}, "integers from 0 to 1"),
        ({"y": np.eye(2)[Y]}, "one-hot"),
        ({"x": X[:, :3]}, "inputs of shape"),
        ({"likelihood": "gaussian"}, "a classifier"),
    ],
)
def test_bad_input_is_refused(model, options, message):
    _refused(model, message, **{**DRAWS, "draws": 20, **options})


def test_what_is_no_model_is_refused():
    _refused(np.ones(3), "needs a Keras model", error=TypeError)


def test_the_constant_is_the_best_one_for_the_risk_of_the_prior_on_other_examples():
    model = _linear(prior=Centred(Normal(0.5)))
    model.compile(keras.optimizers.Adam(0.05), LOSS)
    options = {"epochs": 2, "verbose": 0, "callbacks": [sb.KLSchedule(num_data=100, beta=1.0)]}
    sb.learn_prior(model, X[:100], Y[:100], **options)
    constant = sb.catoni_constant(model, X[100:150], Y[100:150], num_data=150, draws=200)
    risk = drawn_risks(model, X[100:150], Y[100:150], 200).mean()
    assert constant == bounds.catoni_constant(risk, 1.0, 150, 0.04)
    found = certify(model, X[150:], Y[150:], form="catoni", constant=constant, draws=200)
    assert found.is_certificate and found.terms["C"] == constant
    assert found.value < certify(model, X[150:], Y[150:], form="catoni", draws=200).value
