"""Every bound that applies to a model, from the model: each equals the one from arrays; others give the reason."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST, set_factor
from scipy.integrate import quad

import singularbayes as sb
from singularbayes import FullRank, LowRank, Normal, bounds, bounds_report, layers
from singularbayes.evaluation import norm_bounds, small_variance_of_model
from singularbayes.evaluation.feed_forward import activation_name, factor_draws, read_dense_layers
from singularbayes.evaluation.norm_bounds import accepted_brier, margin_risk_of
from singularbayes.evaluation.small_variance import norm_limits

pytestmark = pytest.mark.on_torch

X = np.random.default_rng(0).normal(size=(120, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def _network(first=None, second=None, activation="relu", more=(), **options):
    options = {"use_bias": False, **options}
    prior = Normal(0.3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation, posterior=first or LowRank.paper(2, prior=prior), **options),
            *more,
            layers.Dense(2, posterior=second or FullRank(prior=prior), **options),
        ],
        name="net",
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _close(scale=1e-5):
    """Returns a network whose draws hardly differ from their mean."""
    model = _network()
    rng = np.random.default_rng(1)
    for posterior in sb.find_posteriors(model):
        (factor,) = posterior.factors
        set_factor(factor, rng.normal(0, 0.5, factor.shape), scale)
    return model


@pytest.fixture(scope="module")
def close():
    return _close()


@pytest.fixture(scope="module")
def report(close):
    return bounds_report(close, X, Y, draws=50)


@TORCH_FIRST
def test_the_table_has_a_row_for_every_bound_with_its_worth(report):
    assert [row.name for row in report] == [
        "PAC-Bayes, kl inverse",
        "PAC-Bayes, square root",
        "PAC-Bayes, quadratic",
        "PAC-Bayes, Catoni",
        "PAC-Bayes, published",
        "Complexity ratio",
        "Critical rank",
        "Gaussian complexity, explicit",
        "Gaussian complexity, sound",
        "Gaussian complexity, pinto",
        "Gaussian complexity, published",
        "Gaussian complexity, approach A",
        "Gaussian complexity, approach A, published",
        "Gaussian complexity, approach B",
        "Gaussian complexity, approach B, published",
        "Small variance, by draws",
        "Small variance, by budget",
        "Margin",
        "Truncation and learned rank",
    ]
    worth = {row.name: row.bound.is_certificate for row in report if row.bound}
    assert [name for name, certificate in worth.items() if not certificate] == [
        "PAC-Bayes, published",
        "Gaussian complexity, sound",
        "Gaussian complexity, pinto",
        "Gaussian complexity, published",
        "Gaussian complexity, approach A, published",
        "Gaussian complexity, approach B, published",
        "Margin",  # no radius was given
    ]
    kl, sqrt, quadratic = (report[f"PAC-Bayes, {form}"].bound for form in ("kl inverse", "square root", "quadratic"))
    assert kl.value <= min(sqrt.value, quadratic.value)
    assert kl.confidence == sqrt.confidence == pytest.approx(0.95)
    shown = repr(report)
    assert "Bounds of 'net' on 120 examples" in shown and "does not apply" in shown and "vacuous" in shown
    assert "mis-transcribed" in shown and max(map(len, shown.splitlines())) <= 120
    with pytest.raises(KeyError, match="BoundsReport has rows"):
        report["none"]


def test_complexity_is_that_of_the_norms_of_the_factors(close, report):
    found = report["Gaussian complexity, explicit"].bound
    norms = []
    for layer, failure in zip(close.layers, (0.01 / 3, 0.01 / 3), strict=True):
        posterior = layer.posterior
        loc, scale, _ = posterior.factors[0].float64_values()
        parts = zip(posterior.matrices(loc), posterior.matrices(scale), strict=True)
        norms.append(np.prod([bounds.gaussian_norm(m, s, failure).value for m, s in parts]))
    strata = bounds.stratify(norms)
    network = bounds.NetworkClass(strata.norms, [2, 2], [4, 6, 2])
    complexity = bounds.gaussian_complexity(network, float(np.linalg.norm(X)), 120)
    assert found.terms["gap"] == pytest.approx(np.sqrt(2 * np.pi) * np.sqrt(0.5) * complexity.value)
    mean = sb.predict(close, X, draws=50).mean  # no draw is rejected, and all are nearly the mean
    assert found.terms["empirical risk"] == pytest.approx(0.5 * sb.metrics.brier(mean, Y), rel=1e-4)
    assert found.terms["share of δ"] == strata.share


def test_the_score_of_a_draw_is_over_all_examples_also_where_they_come_in_batches(close):
    x, y = np.tile(X, (3, 1)), np.concatenate([Y, 1 - Y, Y])  # more than one batch of 256
    weights, _ = read_dense_layers(close)
    _, each = accepted_brier(close, weights, x, y, limits=norm_limits(weights, 0.01), draws=3, seed=0)
    draws = sb.predict(close, x, draws=3, keep_draws=True).draws
    np.testing.assert_allclose(each, [0.5 * sb.metrics.brier(p, y) for p in draws], rtol=1e-5)


def test_every_factor_has_an_equal_share_of_the_probability_to_exceed_its_norm(close):
    weights, _ = read_dense_layers(close)  # two factors of a low-rank weight, one of a full-rank one
    (a, b), (w, one) = norm_limits(weights, 0.03)
    expected = [bounds.gaussian_norm(*factor, 0.01).value for factor in (weights[0].a, weights[0].b, weights[1].a)]
    assert [a, b, w] == pytest.approx(expected) and one == 1


def test_approaches_a_and_b_are_the_bounds_from_numbers(close, report):
    delta, part = 0.05, 0.01
    weights, _ = read_dense_layers(close)
    limits = {"A": norm_limits(weights, part), "B": norm_limits(weights, part / 2)}
    _, each = accepted_brier(close, weights, X, Y, limits=limits["A"], draws=50, seed=0)
    draws = sb.predict(close, X, draws=50, keep_draws=True).draws
    np.testing.assert_allclose(each, [0.5 * sb.metrics.brier(p, Y) for p in draws], rtol=1e-5)
    risk = bounds.empirical_risk(each, part, method="betting").value
    for approach, pairs in limits.items():
        strata = bounds.stratify([first * second for first, second in pairs])
        network = bounds.NetworkClass(strata.norms, [2, 2], [4, 6, 2])
        complexity = bounds.gaussian_complexity(network, float(np.linalg.norm(X)), 120)
        expected = bounds.complexity_risk(risk, complexity, 120, 0.5 * 2**0.5, delta - part, strata.share)
        found = report[f"Gaussian complexity, approach {approach}"].bound
        assert found.terms["uncapped"] == pytest.approx(expected.terms["uncapped"] + part)
        assert found.deltas == pytest.approx({"data": 0.04, "Monte Carlo": 0.01})
        assert any("convex" in assumed for assumed in found.assumptions)
        printed = report[f"Gaussian complexity, approach {approach}, published"].bound
        assert "only constants are" in printed.defect and "√(πλ)" in printed.defect


def test_approach_b_spends_half_of_its_delta_on_norms_and_adds_all_of_it(close, monkeypatch):
    failures = []

    def spy(weights, failure):
        failures.append(failure)
        return norm_limits(weights, failure)

    monkeypatch.setattr(norm_bounds, "norm_limits", spy)
    weights, _ = read_dense_layers(close)
    question = norm_bounds.Question(close, X, Y, 0.05, 50, 0, 1, None)
    rows = {row.name: row.bound for row in norm_bounds._approaches(question, weights, np.full(50, 0.1))}
    assert failures == pytest.approx([0.01, 0.005])
    for approach in ("A", "B"):
        assert rows[f"Gaussian complexity, approach {approach}"].terms["probability of a bad draw"] == 0.01


def test_the_draws_of_approaches_a_and_b_pay_for_what_was_tried(close):
    weights, _ = read_dense_layers(close)
    each = np.random.default_rng(0).uniform(0, 0.3, 50)
    question = norm_bounds.Question(close, X, Y, 0.05, 50, 0, 7, None)
    rows = {row.name: row.bound for row in norm_bounds._approaches(question, weights, each)}
    paid = bounds.empirical_risk(each, 0.01 / 7, method="betting").value
    for approach in ("A", "B"):
        assert rows[f"Gaussian complexity, approach {approach}"].terms["empirical risk"] == pytest.approx(paid)


def test_one_layer_has_its_exact_complexity():
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(2, posterior=LowRank.paper(2, prior=Normal(0.3)), use_bias=False)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    exact = bounds_report(model, X, Y, draws=50)["Gaussian complexity, exact"].bound
    (limits,) = norm_limits(read_dense_layers(model)[0], 0.01)
    (norm,) = bounds.stratify([limits[0] * limits[1]]).norms
    complexity = bounds.linear_complexity(X, 2, 2, norm, 0.01, 50, np.random.default_rng(0))
    assert exact.terms["gap"] == pytest.approx((2 * np.pi) ** 0.5 * 0.5**0.5 * complexity.value)
    assert exact.is_certificate and exact.deltas == pytest.approx({"data": 0.04, "Monte Carlo": 0.01})


def _on_steps(*stack):
    model = keras.Sequential([keras.Input((2, 2)), *stack])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_a_layer_on_every_time_step_has_the_complexity_of_all_steps():
    steps, flattened = X.reshape(120, 2, 2), X.reshape(240, 2)
    posterior = LowRank.paper(1, prior=Normal(0.3))
    one = _on_steps(layers.Dense(1, posterior=posterior, use_bias=False), keras.layers.Flatten())
    exact = bounds_report(one, steps, Y, draws=50)["Gaussian complexity, exact"].bound
    (limits,) = norm_limits(read_dense_layers(one)[0], 0.01)
    (norm,) = bounds.stratify([limits[0] * limits[1]]).norms
    complexity = bounds.linear_complexity(flattened, 1, 1, norm, 0.01, 50, np.random.default_rng(0))
    # A mean over 240 rows, where there are 120 examples.
    assert exact.terms["gap"] == pytest.approx((2 * np.pi) ** 0.5 * 0.5**0.5 * complexity.value * 240 / 120)


def test_a_flatten_between_layers_counts_all_entries_of_the_second():
    dense = [layers.Dense(n, posterior=FullRank(prior=Normal(0.3)), use_bias=False) for n in (3, 2)]
    model = _on_steps(dense[0], keras.layers.Flatten(), dense[1])  # weights 2 × 3 and 6 × 2
    found = bounds_report(model, X.reshape(120, 2, 2), Y, draws=20)["Gaussian complexity, explicit"].bound
    norms = bounds.stratify([first * second for first, second in norm_limits(read_dense_layers(model)[0], 0.01)]).norms
    alone = bounds.gaussian_complexity(bounds.NetworkClass([np.prod(norms)], [1], [1, 1]), np.linalg.norm(X), 120)
    by_depth = quad(lambda s: np.sqrt(np.log1p(8 / s)), 0, 0.5)[0] / quad(lambda s: np.sqrt(np.log1p(4 / s)), 0, 0.5)[0]
    entries = 2 * (2 + 3) + 2 * (6 + 2)  # of matrices of rank 2, where one of rank 1 and shape 1 × 1 has 2
    gap = (2 * np.pi) ** 0.5 * 0.5**0.5 * alone.value * by_depth * (entries / 2) ** 0.5
    assert found.terms["gap"] >= gap * (1 - 1e-9)
    assert found.is_certificate


def test_planning_figures_are_those_of_the_shapes_and_the_kl(close, report):
    ratio = report["Complexity ratio"]
    assert ratio.figure == pytest.approx(bounds.complexity_ratio(4, 6, 2)) and "r < 2.4" in ratio.words
    certificate = report["PAC-Bayes, kl inverse"].bound
    kl, risk = close.layers[0].posterior.certified_kl()[1], certificate.terms["with their error"]
    assert report["Critical rank"].figure == bounds.critical_rank(risk, kl / 20, [(4, 6)], 120, 0.04)
    assert ratio.cells[-1] == "no bound"
    full = bounds_report(_network(first=FullRank(prior=Normal(0.3))), X, Y, draws=10)
    assert "the model has none" in full["Complexity ratio"].reason and full["Critical rank"].figure is not None


def test_curves_pass_through_the_bounds_of_the_models_own_rank():
    model = _network(second=LowRank.paper(2, prior=Normal(0.3)))
    report = bounds_report(model, X, Y, draws=20, tried=3)
    curves = report.curves
    assert curves.ranks == (1, 2, 4) and curves.own == 2 and curves.covered
    at = curves.ranks.index(2)
    assert curves.pac_bayes[at] == pytest.approx(report["PAC-Bayes, square root"].bound.terms["uncapped"])
    assert curves.complexity[at] == pytest.approx(report["Gaussian complexity, explicit"].bound.terms["uncapped"])
    assert all(np.diff(curves.pac_bayes) > 0) and all(np.diff(curves.complexity) > 0)


def relu(z):
    """Not Keras's: 3-Lipschitz, and 1 at 0."""
    return 3 * ops.relu(z) + 1


class _Namesake(layers.Dense):
    """Called Dense below; it adds a constant that no weight bounds."""

    def call(self, inputs):
        return super().call(inputs) + 1


_Namesake.__name__ = "Dense"


class _MyDropout(keras.layers.Dropout):
    def call(self, inputs, training=None):
        return 3 * inputs + 1


class _MySequential(keras.Sequential):
    def call(self, inputs, training=None, mask=None):
        return 3 * super().call(inputs, training, mask) + 1


def _around(cls, posterior="normal"):
    return cls(2, posterior=LowRank.paper(2, prior=posterior), use_bias=False)


@pytest.mark.parametrize(
    "model, message",
    [
        (lambda: _network(activation=relu), r"layer 1 \(Dense\): the Lipschitz constant of \"relu \(not Keras's\)\""),
        (lambda: _network(more=[keras.layers.Activation(relu)]), r"layer 2 \(Activation\).*relu \(not Keras's\)"),
        (lambda: _network(more=[_around(_Namesake)]), r"layer 2 \(test_bounds_report.Dense\) is not a dense layer"),
        (lambda: _network(more=[_MyDropout(0.5)]), r"layer 2 \(_MyDropout\) is not a dense layer"),
        (lambda: _network(more=[_MySequential([_around(layers.Dense)])]), r"layer 2 \(_MySequential\)"),
        (lambda: _MySequential([keras.Input((4,)), _around(layers.Dense)]), "_MySequential is not a keras.Sequential"),
        (lambda: _network(use_bias=True, bias_posterior=FullRank()), r"layer 1 \(Dense\) has a bias"),
        (lambda: _network(activation="sigmoid"), "sigmoid is 0.5 at 0"),
        (lambda: _network(more=[keras.layers.Dense(6, use_bias=False)]), r"layer 2 \(Dense\) has no posterior"),
        (lambda: _network(first=LowRank.paper(2, family="laplace")), "laplace family"),
        (lambda: _network(first=sb.RankOne()), "RankOne, whose norms"),
        (lambda: _network(more=[keras.layers.LayerNormalization()]), "LayerNormalization"),
        (lambda: keras.Model(*_chain()), "is not a keras.Sequential"),
    ],
)
def test_networks_outside_the_theorems_get_the_reason(model, message):
    model = model()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    report = bounds_report(model, X, Y, draws=10)
    for name in ("Gaussian complexity", "Small variance", "Margin"):
        assert report[name].bound is None
    with pytest.raises(ValueError, match=f"small_variance_of_model needs dense layers.*{message}"):
        small_variance_of_model(model, radius=1.0)
    assert "about feed-forward networks" in report["Margin"].reason


def _chain():
    x = keras.Input((4,))
    return x, layers.Dense(2, posterior=LowRank.paper(2), use_bias=False)(x)


def test_an_lstm_is_refused_by_feed_forward_bounds_and_taken_by_pac_bayes():
    posterior = LowRank.paper(2, prior="normal")
    model = keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.LSTM(3, posterior=posterior, bias_posterior=FullRank(), use_bias=False),
            layers.Dense(2, posterior=posterior, use_bias=False),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    report = bounds_report(model, np.repeat(X[:, None], 3, axis=1), Y, draws=10)
    assert report["PAC-Bayes, kl inverse"].bound.is_certificate
    assert "LSTM) is not a dense layer of a feed-forward network" in report["Gaussian complexity"].reason
    index = report["Gaussian complexity, published index"]
    assert index.figure > 0 and "bounds nothing" in index.words
    assert not report.curves.covered
    assert report.curves.complexity[report.curves.ranks.index(2)] == pytest.approx(index.figure)


def test_a_model_that_cannot_be_certified_says_so_in_its_row():
    model = _network(use_bias=True)
    row = bounds_report(model, X, Y, draws=10)["PAC-Bayes, kl inverse"]
    assert row.bound is None and "every trained weight inside a posterior" in row.reason


def test_sums_and_threshold_are_those_of_the_weights(close):
    found = small_variance_of_model(close, radius=2.0, margin=1.0, draws=30)
    weights, reasons = read_dense_layers(close)
    assert reasons == ()
    means = [ops.convert_to_numpy(layer.posterior.mean().dense()).astype("float64") for layer in close.layers]
    norms = [np.linalg.norm(mean, 2) for mean in means]
    assert found.threshold == pytest.approx(np.log1p(1.0 / (4 * 2.0 * np.prod(norms))), rel=1e-5)
    sums = []
    for draw in factor_draws(close, weights, 30, 0):
        moved = [
            np.linalg.norm(a @ b.T - mean, 2) / norm for (a, b), mean, norm in zip(draw, means, norms, strict=True)
        ]
        sums.append(sum(moved))
    assert found.sampled.terms["successes"] == sum(s <= found.threshold for s in sums)
    assert found.reached and found.analytic_reached


@TORCH_FIRST
def test_the_draws_of_the_certificate_are_those_of_predict(close):
    weights, _ = read_dense_layers(close)
    kept = sb.predict(close, X, draws=3, seed=5, keep_draws=True).draws
    for draw, p in zip(factor_draws(close, weights, 3, 5), kept, strict=True):
        (a, b), (w, one) = draw
        outputs = np.maximum(X @ a @ b.T, 0) @ w @ one.T
        q = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(p, q, atol=1e-5)


def test_wide_posteriors_do_not_reach_one_half_and_the_margin_bound_says_so():
    model = _network()
    for posterior in sb.find_posteriors(model):
        set_factor(posterior.factors[0], 0.3, 1.0)
    assert not small_variance_of_model(model, radius=1.0, draws=50).reached
    margin = bounds_report(model, X, Y, draws=50)["Margin"].bound
    assert not margin.is_certificate and "γ/4" in margin.defect


def test_given_the_good_event_more_than_one_half_is_required(close):
    found = small_variance_of_model(close, radius=1.0, draws=50, failure=0.1)
    factors = 3
    total = 1 - (1 - 0.1 / factors) ** factors
    assert found.required == pytest.approx(0.5 / (1 - total))
    assert found.sampled.terms["draws"] == 50 and found.reached


def test_the_drawn_network_stays_as_close_as_the_certificate_says():
    """The inequality itself, on the model: ‖f_w(x) − f_w̄(x)‖ ≤ γ/4 whenever S ≤ s*."""
    close = _close(0.02)
    radius, margin = float(np.linalg.norm(X, axis=1).max()), 2.0
    found = small_variance_of_model(close, radius, margin, draws=40)
    weights, _ = read_dense_layers(close)
    mean = ops.convert_to_numpy(close(X))
    checked = 0
    for draw in factor_draws(close, weights, 40, 0):
        (a, b), (w, _) = draw
        moved = np.linalg.norm(np.maximum(X @ a @ b.T, 0) @ w - mean, axis=1).max()
        parts = zip(draw, weights, strict=True)
        s = sum(np.linalg.norm(p @ q.T - v.a[0] @ v.b[0].T, 2) / v.norm for (p, q), v in parts)
        assert moved <= radius * np.prod([v.norm for v in weights]) * np.expm1(s) + 1e-4
        checked += s <= found.threshold
        assert s > found.threshold or moved <= margin / 4 + 1e-4
    assert checked == found.sampled.terms["successes"]


def test_the_risk_at_a_margin_counts_small_leads(close):
    outputs = ops.convert_to_numpy(close(X))
    lead = np.where(Y == 1, outputs[:, 1] - outputs[:, 0], outputs[:, 0] - outputs[:, 1])
    for margin in (0.1, 0.5):
        assert margin_risk_of(close, X, Y, margin) == pytest.approx((lead <= margin).mean())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"delta": 0.0}, "bounds_report needs.*delta"),
        ({"draws": 0}, "bounds_report needs.*draws"),
        ({"margin": 0}, "bounds_report needs.*margin"),
        ({"tried": 0}, "bounds_report needs.*tried"),
        ({"prior_data": "disjunct"}, "prior_data='disjunct'"),
        ({"likelihood": "categorial"}, "likelihood='categorial'"),
        ({"likelihood": "gaussian"}, "needs a classifier"),
    ],
)
def test_bad_options_are_errors_and_no_rows(options, message):
    with pytest.raises(ValueError, match=message):
        bounds_report(_network(), X, Y, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'prior_dat'"):
        bounds_report(_network(), X, Y, prior_dat=X)


def test_the_margin_bound_needs_a_radius_and_a_prior_that_has_not_seen_the_examples(close, report):
    largest = float(np.linalg.norm(X, axis=1).max())
    guessed = report["Margin"].bound
    assert not guessed.is_certificate and guessed.terms["R"] == pytest.approx(largest)
    assert bounds_report(close, X, Y, draws=50, radius=2 * largest)["Margin"].bound.is_certificate
    saw = bounds_report(close, X, Y, draws=50, radius=2 * largest, prior_data=X, allow_seen=True)["Margin"].bound
    assert not saw.is_certificate and "learned on these examples" in saw.defect
    with pytest.raises(ValueError, match="bounds_report needs examples that count the same"):
        bounds_report(close, [(X, Y, np.ones(len(X)))].__iter__(), None)
    with pytest.raises(ValueError, match="bounds_report needs labels y; got y=None"):
        bounds_report(close, X, None)
    with pytest.raises(ValueError, match="bounds_report needs radius"):
        bounds_report(close, X, Y, draws=50, radius=largest / 2)


def test_all_bounds_pay_for_what_was_tried(close, report):
    many = bounds_report(close, X, Y, draws=50, tried=100)
    for name in ("PAC-Bayes, kl inverse", "Gaussian complexity, explicit", "Gaussian complexity, approach A", "Margin"):
        one, paid = report[name].bound, many[name].bound
        assert paid.terms != one.terms and paid.value >= one.value


def test_rows_carry_what_the_certificate_assumes_and_what_it_refuses(close):
    x, y = np.tile(X[:6], (20, 1)), np.tile(Y[:6], 20)
    report = bounds_report(close, x, y, draws=50, radius=100.0)
    assert report["PAC-Bayes, kl inverse"].bound is None
    for name in ("explicit", "approach A", "approach B"):
        assert "114 of these 120 examples" in report[f"Gaussian complexity, {name}"].bound.defect
    assert "114 of these 120 examples" in report["Margin"].bound.defect
    word = "114 of these 120 examples equal to an earlier one and drawn independently nevertheless"
    trusted = bounds_report(close, x, y, draws=50, radius=100.0, duplicates="independent")
    names = ("PAC-Bayes, kl inverse", "PAC-Bayes, square root", "PAC-Bayes, quadratic")
    for name in (*names, "Gaussian complexity, explicit", "Gaussian complexity, approach A", "Margin"):
        assert word in trusted[name].bound.assumptions and trusted[name].bound.is_certificate


def test_operations_of_keras_are_activations_too():
    assert read_dense_layers(_network(activation=ops.relu))[1] == ()
    assert activation_name(ops.tanh) == "tanh"


def test_a_risk_that_is_shown_as_one_is_vacuous():
    assert bounds.Bound("PAC-Bayes", "risk", 0.99999, trivial=1.0).vacuous
    assert not bounds.Bound("PAC-Bayes", "risk", 0.9998, trivial=1.0).vacuous
