"""Every form of a certificate is what its parts give by hand, names its predictor, and can be checked later."""

import json

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST, set_factor
from scipy.stats import beta

import singularbayes as sb
from singularbayes import BoundedCrossentropy, BoundedError, Centred, FullRank, LowRank, Normal, bounds, certify, layers
from singularbayes.evaluation.certificate_forms import Predictor, certified_kl, pac_bayes_bound, share_delta
from singularbayes.prediction.bounded_loss import ERROR
from singularbayes.prediction.randomized import drawn_risks, fresh_draw_losses, paired_risks

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype("float32")
Y = ((X @ [1.0, -1.0, 0.5, 0.0] > 0) ^ (RNG.random(300) < 0.1)).astype("int64")
DRAWS = {"draws": 200, "likelihood": "categorical_logits"}


def _network(outputs=2, prior=None, **options):
    posterior = FullRank(prior=prior or Normal(0.5))
    return keras.Sequential([keras.Input((4,)), layers.Dense(outputs, posterior=posterior, use_bias=False, **options)])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    model = _network()
    loc = np.outer([1.0, -1.0, 0.5, 0.0], [-1.0, 1.0])
    set_factor(model.layers[0].posterior.factors[0], loc, 0.5)
    return model


@pytest.fixture(scope="module")
def draws(model):
    """Probabilities of the label, of 4000 networks for every example, from draws that no certificate has."""
    kept = sb.predict(model, X, draws=4000, seed=99, keep_draws=True, likelihood="categorical_logits").draws
    return np.take_along_axis(kept, np.broadcast_to(Y, kept.shape[:2])[..., None], axis=-1)[..., 0]


def test_catoni_is_the_one_by_hand(model):
    risks = drawn_risks(model, X, Y, 200, likelihood="categorical_logits")
    empirical = bounds.empirical_risk(risks, 0.01, method="betting").value
    found = certify(model, X, Y, form="catoni", constant=0.7, **DRAWS)
    nats = certified_kl(model)[1]
    expected = -np.expm1(-0.7 * empirical - (nats + np.log(1 / 0.04)) / 300) / -np.expm1(-0.7)
    assert found.value == pytest.approx(expected, rel=1e-9) and found.form == "catoni"
    assert any("C = 0.7 fixed without these examples" in assumed for assumed in found.assumptions)
    assert "the randomised classifier, which draws a network for every prediction, errs" in found.sentence


def test_the_best_form_pays_for_all_that_were_compared(model):
    risks = drawn_risks(model, X, Y, 200, likelihood="categorical_logits")
    nats = certified_kl(model)[1]
    found = certify(model, X, Y, 0.06, unseen=True, tried=2, **DRAWS)
    assert sum(found.deltas.values()) == pytest.approx(0.06) and len(found.deltas) == 4
    empirical = bounds.empirical_risk(risks, 0.04 / 5, 0.5, "betting")
    mistakes = fresh_draw_losses(model, X, Y, likelihood="categorical_logits")
    each = {
        "kl": bounds.pac_bayes(empirical, nats, 300, 0.04 * 4 / 5 / 2, share=0.5).value,
        "catoni": bounds.catoni(empirical, nats, 300, 0.04 * 4 / 5 / 2, share=0.5).value,
        "holdout": bounds.mean_at_most(mistakes, 0.02 / 2).value,
    }
    assert found.value == pytest.approx(min(each.values()), rel=1e-9) and found.form == min(each, key=each.get)
    assert found.form == "holdout" and any("on the caller's word (unseen=True)" in a for a in found.assumptions)
    plain = certify(model, X, Y, 0.06, tried=2, **DRAWS)
    assert plain.form in ("kl", "catoni") and not any("caller's word" in assumed for assumed in plain.assumptions)


def test_the_hold_out_draws_a_network_of_its_own_for_every_example(model, draws):
    found = certify(model, X, Y, form="holdout", **DRAWS)
    losses = fresh_draw_losses(model, X, Y, likelihood="categorical_logits")
    count = int(losses.sum())
    assert found.terms["mistakes"] == count and found.deltas == {"data": 0.05}
    assert found.value == pytest.approx(beta.ppf(0.95, count + 1, 300 - count))
    wrong = (draws < 0.5).mean(axis=0)  # of each example, over networks
    assert losses.mean() == pytest.approx(wrong.mean(), abs=4 * np.sqrt((wrong * (1 - wrong)).sum()) / 300)
    # With one network for all examples the mistakes of equal inputs would be equal.
    same = fresh_draw_losses(model, np.tile(X[:1], (300, 1)), np.tile(Y[:1], 300), likelihood="categorical_logits")
    assert same.mean() == pytest.approx(wrong[0], abs=4 * np.sqrt(wrong[0] * (1 - wrong[0]) / 300) + 0.01)
    assert same.std() > 0
    assert "the model neither trained, nor tuned, nor chosen on these examples" in repr(found)


@pytest.mark.parametrize("tried", [1, 3])
@pytest.mark.parametrize(
    ("form", "average"),
    [("kl", None), ("catoni", None), ("holdout", None), ("kl", 20), ("catoni", 20), ("tandem", 20), ("holdout", 20)],
)
def test_every_sentence_contains_what_the_examples_may_have_trained(model, form, average, tried, tmp_path):
    found = certify(model, X, Y, 0.5, form=form, average=average, tried=tried, **DRAWS)
    trained = "trained nothing" if form == "holdout" else "trained nothing but the posterior"
    chose = "selected nothing" if tried == 1 else "selected only among the 3 models tried"
    assert f", if these examples {trained} and {chose}, " in found.sentence
    found.save(tmp_path / "certificate.json")
    content = json.loads((tmp_path / "certificate.json").read_text())
    assert content["sentence"] == found.sentence
    printed = [line.strip() for line in repr(found).splitlines()]
    assert [line.strip() for line in content["statement"]] == printed
    assert (found.sentence in printed) != found.vacuous
    assert not (found.vacuous and form == "holdout")


def test_pairs_have_the_expectations_of_the_first_and_second_power_of_a_mean(model, draws):
    average = 3
    found = paired_risks(model, X, Y, 1000, average, seed=5, likelihood="categorical_logits")
    loss = 1 - draws
    mean, square = loss.mean(axis=0), (loss**2).mean(axis=0)
    expected = mean.mean(), ((1 - 1 / average) * mean**2 + square / average).mean()
    error = np.sqrt(found.var(axis=0) / len(found)) + 0.002
    assert found.shape == (500, 2) and (np.abs(found.mean(axis=0) - expected) < 4 * error).all()
    # The second number is the mean square of averages of three draws, as `predict(draws=3)` makes them.
    thirds = loss[:3999].reshape(-1, 3, 300).mean(axis=1)
    assert (thirds**2).mean() == pytest.approx(expected[1], rel=0.02)
    assert (thirds**2).mean() > 1.05 * (mean**2).mean()


def test_the_averaged_predictor_has_twice_the_bound_of_one_or_four_times_that_of_two(model):
    nats = certified_kl(model)[1]
    first = drawn_risks(model, X, Y, 200, loss="probability", likelihood="categorical_logits")
    empirical = bounds.empirical_risk(first, 0.01, method="betting")
    found = certify(model, X, Y, form="kl", average=20, **DRAWS)
    assert found.value == pytest.approx(2 * bounds.pac_bayes(empirical, nats, 300, 0.04).value)
    second = paired_risks(model, X, Y, 200, 20, likelihood="categorical_logits")[:, 1]
    empirical = bounds.empirical_risk(second, 0.01, method="betting")
    tandem = certify(model, X, Y, form="tandem", average=20, **DRAWS)
    assert tandem.value == pytest.approx(min(1, 4 * bounds.pac_bayes(empirical, 2 * nats, 300, 0.04).value))
    assert "`sb.predict(draws=20)` with draws made afresh errs on at most" in found.sentence
    assert "averaged (20 draws) predictor" in found.quantity
    best = certify(model, X, Y, average=20, **DRAWS)
    assert best.form in ("kl", "catoni", "tandem") and sum(best.deltas.values()) == pytest.approx(0.05)
    p = sb.predict(model, X, draws=20, seed=3, likelihood="categorical_logits")
    held = certify(model, X, Y, form="holdout", average=20, seed=3, **DRAWS)
    assert held.terms["mistakes"] == (p.mean.argmax(axis=1) != Y).sum()
    assert "`sb.predict(draws=20, seed=3)` errs on at most" in held.sentence


def test_pairs_pay_twice_the_kl_and_share_the_delta_of_draws_with_single_ones():
    forms, numbers = ("kl", "catoni", "tandem"), np.full(1000, 0.03)
    predictor, shares = Predictor(ERROR, 20, seed=0), share_delta(forms, 0.05)
    found = {
        form: pac_bayes_bound(form, predictor, shares, risks=numbers, kl=(60.0, 50.0), num_data=10_000, tried=2)
        for form in forms
    }
    risk = bounds.betting_mean(numbers, 0.01 / 2 / 2)  # of 0.01 half for pairs and half for single draws, and two tried
    budget = (100 + np.log(2 * np.sqrt(10_000) / (0.04 / 3 / 2))) / 10_000
    tandem = found["tandem"].value
    assert tandem == pytest.approx(4 * bounds.kl_inverse(risk, budget), rel=1e-9) and tandem < 1  # not cut at 1
    assert {bound.terms["with their error"] for bound in found.values()} == {risk}


def test_a_mean_over_draws_errs_only_where_its_loss_is_a_half():
    """1{wrong} ≤ 2 ℓ̄ and ≤ 4 ℓ̄² for any probabilities, ties included; the risk of draws is no bound of it."""
    p = RNG.dirichlet(np.full(4, 0.3), size=(5, 2000))
    p = np.concatenate([p, np.broadcast_to([0.5, 0.5, 0.0, 0.0], (5, 1, 4))], axis=1).mean(axis=0)
    for label in range(4):
        loss, wrong = 1 - p[:, label], (p >= p[:, [label]]).sum(axis=1) > 1
        assert (wrong <= np.minimum(2 * loss, 4 * loss**2) + 1e-12).all()
    draws = np.array([[0.51, 0.49]] * 9 + [[0.0, 1.0]])
    assert (draws.argmax(axis=1) != 0).mean() == 0.1 and draws.mean(axis=0).argmax() == 1


@TORCH_FIRST
def test_bounded_losses_are_certified(model):
    found = certify(model, X, Y, form="kl", loss=BoundedCrossentropy(0.01), **DRAWS)
    kept = sb.predict(model, X, draws=3000, keep_draws=True, seed=7, likelihood="categorical_logits").draws
    chosen = np.take_along_axis(kept, np.broadcast_to(Y, kept.shape[:2])[..., None], axis=-1)
    risk = (np.log(np.maximum(chosen, 0.01)) / np.log(0.01)).mean()
    assert found.terms["loss of the draws"] == pytest.approx(risk, abs=0.03)
    assert "clipped at p = 0.01" in found.quantity and any("level of the loss" in a for a in found.assumptions)
    keras_loss = BoundedCrossentropy(0.01)(Y[:5], np.log(kept[0, :5]).astype("float32"))
    assert float(keras_loss) == pytest.approx((np.log(np.maximum(chosen[0, :5], 0.01)) / np.log(0.01)).mean(), rel=1e-4)
    with pytest.raises(ValueError, match=r"form='holdout' for the mean cross-entropy.*not convex"):
        certify(model, X, Y, average=20, loss=BoundedCrossentropy(0.01), **DRAWS)
    linear = certify(model, X, Y, form="kl", average=20, loss="probability", **DRAWS)
    twice = certify(model, X, Y, form="kl", average=20, **DRAWS)
    assert 2 * linear.value == pytest.approx(twice.value)  # of the mean of 1 − p itself there is no factor


def test_a_regression_is_certified_with_a_bounded_error():
    model = _network(1)
    set_factor(model.layers[0].posterior.factors[0], np.array([[1.0], [-1.0], [0.5], [0.0]]), 0.1)
    y = X @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(0, 0.3, 300)
    for loss in (BoundedError(1.0), BoundedError(2.0, power=2)):
        model.compile("adam", loss)
        found = certify(model, X, y, form="kl", loss=loss, draws=200)
        values = np.minimum(np.abs(_means(model) - y) / loss.limit, 1) ** loss.power
        assert found.terms["loss of the draws"] == pytest.approx(values.mean(), abs=0.02)
        assert float(loss(y, _means(model)[0][:, None])) == pytest.approx(values[0].mean(), rel=1e-5)
        level = float(found.sentence.split(" in the units of the target")[0].split()[-1])
        assert found.value * loss.limit**loss.power <= level < found.value * loss.limit**loss.power * 1.001
    held = certify(model, X, y[:, None], form="holdout", average=50, loss=loss, draws=200)
    mean = sb.predict(model, X, draws=50).mean
    losses = np.minimum(np.abs(mean - y) / 2, 1) ** 2
    assert held.terms["mean"] == pytest.approx(losses.mean()) and held.value == pytest.approx(
        bounds.betting_mean(losses, 0.05)
    )
    with pytest.raises(ValueError, match=r"needs a classifier.*BoundedError"):
        certify(model, X, y, draws=20)
    with pytest.raises(ValueError, match="a loss that fits the outputs"):
        certify(model, X, y, draws=20, loss=BoundedCrossentropy())
    with pytest.raises(ValueError, match=r"targets of shape \(300, 1\)"):
        certify(model, X, np.stack([y, y], axis=1), draws=20, loss=loss)


def _means(model):
    return sb.predict(model, X, draws=500, seed=8, keep_draws=True).draws


@TORCH_FIRST
def test_a_certificate_is_saved_loaded_and_verified(model, tmp_path):
    found = certify(model, X, Y, average=10, loss="error", **DRAWS)
    found.save(tmp_path / "certificate.json")
    again = sb.Certificate.load(tmp_path / "certificate.json")
    assert again == found and repr(again) == repr(found)
    assert again.verify(model, X, Y).value == found.value
    content = json.loads((tmp_path / "certificate.json").read_text())
    assert content["call"]["seed"] == 0 and content["versions"]["backend"] == keras.backend.backend()
    assert sum(content["deltas"].values()) == pytest.approx(0.05)
    for change, message in (
        ({"value": 0.9 * found.value}, "the value is .*, recomputed"),
        ({"assumptions": ["none"]}, "assumptions: .*recomputed"),
        ({"deltas": {"data": 0.001}}, "deltas"),
        ({"value": float("nan")}, "the value is nan, recomputed"),
        ({"sentence": "It errs on at most 1 % of new examples."}, "sentence: 'It errs"),
        ({"value": found.value - 1e-12, "sentence": "It never errs."}, "sentence: 'It never errs"),
        ({"terms": {**content["terms"], "KL": 0.1}}, "terms: "),
        ({"side": "≥"}, "side: "),
    ):
        (tmp_path / "forged.json").write_text(json.dumps({**content, **change}))
        with pytest.raises(ValueError, match=message):
            sb.Certificate.load(tmp_path / "forged.json").verify(model, X, Y)
    with pytest.raises(ValueError, match="the data differ"):
        again.verify(model, X[::-1].copy(), Y[::-1].copy())
    other = _network()
    with pytest.raises(ValueError, match="the weights differ"):
        again.verify(other, X, Y)
    for text in ("{}", "[]", "", "no certificate"):
        (tmp_path / "none.json").write_text(text)
        with pytest.raises(ValueError, match="a file that `save` wrote"):
            sb.Certificate.load(tmp_path / "none.json")


def test_a_saved_certificate_has_its_loss_and_asks_for_prior_data(tmp_path):
    model = _network()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    loss = BoundedCrossentropy(0.05)
    found = certify(model, X, Y, form="catoni", draws=50, loss=loss, prior_data=X[:50] + 1, likelihood=sb.Categorical())
    found.save(tmp_path / "c.json")
    again = sb.Certificate.load(tmp_path / "c.json")
    with pytest.raises(ValueError, match="verify needs prior_data="):
        again.verify(model, X, Y)
    assert again.verify(model, X, Y, prior_data=X[:50] + 1).value == found.value


def test_a_constant_from_the_prior_is_refused_the_examples_it_was_chosen_on():
    model = _network(prior=Centred(Normal(0.5)))
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    options = {"epochs": 2, "verbose": 0, "callbacks": [sb.KLSchedule(num_data=100, beta=1.0)]}
    sb.learn_prior(model, X[:100], Y[:100], **options)
    before = certified_kl(model)
    constant = sb.catoni_constant(model, X[100:150], Y[100:150], num_data=150, draws=200)
    risk = drawn_risks(model, X[100:150], Y[100:150], 200).mean()
    assert constant == bounds.catoni_constant(risk, 1.0, 150, 0.04) and certified_kl(model) == before
    found = certify(model, X[150:], Y[150:], form="catoni", constant=constant, draws=200)
    assert found.is_certificate and found.terms["C"] == constant
    grid = certify(model, X[150:], Y[150:], form="catoni", draws=200)
    assert found.value < grid.value
    for seen in (slice(100, 150), slice(50, 200)):
        with pytest.raises(ValueError, match="the prior was learned on these examples"):
            certify(model, X[seen], Y[seen], form="catoni", constant=constant, draws=20)
    with pytest.raises(ValueError, match="the prior was learned on these examples: 150 of 150"):
        certify(model, X, Y, form="holdout", draws=20)
    (factor,) = model.layers[0].posterior.factors
    kept = factor.float64_values()[2].astype("float32")
    factor.reference.assign(kept + 1)  # by hand: not made good by the memory of more examples
    with pytest.raises(ValueError, match="catoni_constant needs a model as learn_prior or centre_prior left it"):
        sb.catoni_constant(model, X[100:150], Y[100:150], num_data=150)
    factor.reference.assign(kept)
    model.fit(X[150:250], Y[150:250], **options)
    with pytest.raises(ValueError, match="catoni_constant needs a model as learn_prior or centre_prior left it"):
        sb.catoni_constant(model, X[150:], Y[150:], num_data=150)


def test_a_hold_out_speaks_about_models_with_trained_weights_outside_posteriors():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(5, "relu"), layers.Dense(2, posterior=LowRank.paper(2), use_bias=False)]
    )
    with pytest.raises(ValueError, match="every trained weight inside a posterior"):
        certify(model, X, Y, **DRAWS)
    assert certify(model, X, Y, form="holdout", average=5, **DRAWS).is_certificate


def test_a_mixture_pays_the_mean_of_its_components(model):
    posterior = sb.Mixture(FullRank(prior=Normal(0.5)), components=3)
    mixed = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=posterior, use_bias=False)])
    posterior = mixed.layers[0].posterior
    each = [posterior.component(k).certified_kl()[1] for k in range(3)]
    found = certify(mixed, X, Y, form="kl", **DRAWS)
    assert found.terms["KL"] == pytest.approx(np.mean(each)) and np.ptp(each) > 0
    kept = sb.predict(mixed, X, draws=999, keep_draws=True, likelihood="categorical_logits").draws
    risks = (kept.argmax(axis=-1) != Y).mean(axis=1)
    numbers = drawn_risks(mixed, X, Y, 600, likelihood="categorical_logits")
    error = np.sqrt(risks.var() / 999 + numbers.var() / 600)
    assert numbers.mean() == pytest.approx(risks.mean(), abs=4 * error)


@pytest.mark.parametrize("options", [{"form": "kl"}, {"form": "holdout"}, {"form": "holdout", "average": 5}], ids=str)
def test_several_predictions_for_an_example_are_refused(model, options):
    """Labels that do not exclude each other are no classes, and steps of a sequence no examples."""
    with pytest.raises(ValueError, match=r"certify needs one prediction per example.*of shape \(2, 2\)"):
        certify(model, X, Y, **{**options, "draws": 20, "likelihood": "bernoulli_logits"})
    steps = keras.Sequential([keras.Input((2, 4)), layers.Dense(2, posterior=FullRank(), use_bias=False)])
    x = np.stack([X, X + 1], axis=1)
    with pytest.raises(ValueError, match=r"certify needs one prediction per example.*of shape \(2, 2\)"):
        certify(steps, x, Y, **{**options, **DRAWS, "draws": 20})


@pytest.mark.parametrize(
    "options, message",
    [
        ({"form": "tandem"}, "average= and the 0-1 loss for form='tandem'"),
        ({"form": "sqrt"}, "form to be one of"),
        ({"constant": 0.0}, "constant"),
        ({"average": 0}, "average to be an integer"),
        ({"loss": "mse"}, "BoundedError"),
    ],
)
def test_bad_options_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        certify(model, X, Y, **{**DRAWS, "draws": 20, **options})
