"""The small-variance certificate: its inequality on thousands of networks, its threshold, and how it is reached."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from singularbayes.bounds import (
    ACTIVATIONS,
    GaussianLayer,
    LayerFacts,
    budget_probability,
    deviation,
    margin_risk,
    product_norm,
    reasons_outside,
    relative_perturbation,
    small_variance,
    sum_budget,
    sum_threshold,
)
from singularbayes.bounds.perturbation import LINEAR_LIMIT

FUNCTIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "leaky_relu": lambda z: np.where(z > 0, z, 0.2 * z),
    "tanh": np.tanh,
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
    "sigmoid": expit,
}


def _forward(weights, x, activation):
    for w in weights[:-1]:
        x = FUNCTIONS[activation](x @ w)
    return x @ weights[-1]


def _random_network(rng, depth):
    """Returns means and one draw of the factors of every layer, with perturbations of all sizes spread unevenly."""
    widths = rng.integers(1, 9, depth + 1)
    share = rng.dirichlet(np.full(depth, 0.3)) * np.exp(rng.uniform(-5, 1))
    layers = []
    for rows, columns, part in zip(widths, widths[1:], share, strict=False):
        rank = rng.integers(1, min(rows, columns) + 1)
        a, b = rng.normal(size=(rows, rank)), rng.normal(size=(columns, rank))
        u, v = rng.normal(size=(rows, rank)), rng.normal(size=(columns, rank))
        # Half of the draws move along the weight itself, where the bound is tight.
        layers.append((a, b, a * (1 + part), b) if rng.random() < 0.5 else (a, b, a + part * u, b + part * v))
    return layers


def _measured(layers, rng, activation, radius):
    """Returns the perturbations, the norms, and the largest distance found on the ball."""
    means = [a @ b.T for a, b, _, _ in layers]
    drawn = [a @ b.T for _, _, a, b in layers]
    perturbations = [relative_perturbation(a[None], b[None], m, n)[0] for m, n, a, b in layers]
    top = np.linalg.svd(means[0])[0][:, :1].T
    x = np.concatenate([rng.normal(size=(20, len(means[0]))), top, -top])
    x *= radius / np.linalg.norm(x, axis=1, keepdims=True)
    distance = np.linalg.norm(_forward(drawn, x, activation) - _forward(means, x, activation), axis=1).max()
    return perturbations, [np.linalg.norm(m, 2) for m in means], distance


def test_no_network_of_thousands_is_further_from_its_mean_than_the_bounds():
    rng = np.random.default_rng(0)
    ratios, uneven = [], 0
    for trial in range(2080):
        depth = trial % 8 + 1
        activation = ("relu", "leaky_relu", "tanh", "elu")[trial // 8 % 4]
        perturbations, norms, distance = _measured(_random_network(rng, depth), rng, activation, 1.7)
        total = sum(perturbations)
        forms = ["product", "mean", "exponential", *(["linear"] if total <= LINEAR_LIMIT else [])]
        bounds = [deviation(perturbations, norms, 1.7, form).value for form in forms]
        assert distance <= bounds[0] * (1 + 1e-9)
        assert all(low <= high * (1 + 1e-12) for low, high in pairwise(bounds))
        ratios.append(distance / bounds[0])
        uneven += total <= 1 and max(perturbations) > 1 / depth
    assert max(ratios) > 0.999  # it is tight
    assert uneven > 200  # what a rule per layer would have refused


def test_the_inequality_fails_for_an_activation_that_is_not_zero_at_zero():
    rng = np.random.default_rng(0)
    ratios = []
    for trial in range(400):
        perturbations, norms, distance = _measured(_random_network(rng, trial % 4 + 2), rng, "sigmoid", 0.1)
        ratios.append(distance / deviation(perturbations, norms, 0.1, "product").value)
    assert max(ratios) > 1.5


def test_the_certificate_is_the_paper_s(vectors):
    inputs, expected = (vectors["summed_perturbation_certificate"][key] for key in ("inputs", "expected"))
    means, moves = ([np.array(w) for w in inputs[key]] for key in ("Wbar", "U"))
    # Any matrix is a product with the identity.
    a = [
        float(relative_perturbation((w + u)[None], np.eye(w.shape[1])[None], w, np.eye(w.shape[1]))[0])
        for w, u in zip(means, moves, strict=True)
    ]
    norms = [np.linalg.norm(w, 2) for w in means]
    assert a == pytest.approx(expected["a"], rel=1e-9)
    keys = {"product": "product_bound", "mean": "amgm_bound", "exponential": "exp_bound", "linear": "e_S_bound"}
    for form, key in keys.items():
        bound = deviation(a, norms, inputs["B"], form)
        assert bound.value == pytest.approx(expected[key], rel=1e-9)
        assert bound.terms["S"] == pytest.approx(expected["S"], rel=1e-9)
        assert bound.terms["product of norms"] == pytest.approx(expected["P"], rel=1e-12)
        assert bound.value > expected["observed_sup_on_unit_circle"]
    thresholds = [sum_threshold(inputs["gamma"], norms, inputs["B"], form) for form in ("exponential", "linear")]
    assert thresholds == pytest.approx([expected["threshold_sharp"], expected["threshold_e_form"]], rel=1e-12)
    assert (sum(a) <= thresholds[0], sum(a) <= thresholds[1]) == (
        expected["certified_sharp"],
        expected["certified_e_form"],
    )
    assert pytest.approx(expected["S_max_for_e_form"], rel=1e-12) == LINEAR_LIMIT


def test_the_condition_is_on_the_sum_and_not_on_each_layer(vectors):
    case = vectors["sum_only_vs_per_layer"]
    a, expected = case["inputs"]["a"], case["expected"]
    assert sum(a) == expected["S"] and max(a) > 1 / case["inputs"]["D"]
    forms = [deviation(a, [1.0] * 4, 1.0, form).value for form in ("product", "exponential")]
    assert forms == pytest.approx([expected["product_minus_1"], expected["exp_minus_1"]], rel=1e-12)
    # A threshold that allows the sum allows it wherever it lies.
    margin = 4 * math.expm1(0.45)
    assert sum(a) <= sum_threshold(margin, [1.0] * 4, 1.0) + 1e-12


def test_at_the_threshold_the_bound_is_a_quarter_of_the_margin():
    norms, radius, margin = [0.7, 3.0, 1.2], 2.5, 0.9
    s = sum_threshold(margin, norms, radius)
    assert deviation([s, 0.0, 0.0], norms, radius).value == pytest.approx(margin / 4, rel=1e-12)
    linear = sum_threshold(margin, norms, radius, "linear")
    assert deviation([linear, 0.0, 0.0], norms, radius, "linear").value == pytest.approx(margin / 4, rel=1e-12)


def test_the_linear_form_is_false_beyond_its_limit_and_capped_in_its_threshold():
    depth = 500
    a = [3.0 / depth] * depth
    product, linear = (deviation(a, [1.0] * depth, 1.0, form) for form in ("product", "linear"))
    assert product.value == pytest.approx(18.9, abs=0.05) and linear.value == pytest.approx(8.15, abs=0.01)
    assert linear.value < product.value and not linear.is_certificate
    assert sum_threshold(1e6, [1.0], 1.0, "linear") == 1.0
    assert math.e * LINEAR_LIMIT == pytest.approx(math.expm1(LINEAR_LIMIT), rel=1e-12)


def test_a_huge_perturbation_has_an_infinite_bound():
    assert deviation([1000.0], [1.0], 1.0).value == math.inf


def test_norms_of_products_and_perturbations_are_those_of_the_matrices():
    rng = np.random.default_rng(5)
    for shape in ((7, 5, 2), (3, 9, 3), (2, 2, 2), (1, 6, 1)):
        rows, columns, rank = shape
        a, b = rng.normal(size=(4, rows, rank)), rng.normal(size=(4, columns, rank))
        m, n = rng.normal(size=(rows, rank)), rng.normal(size=(columns, rank))
        dense = a @ np.swapaxes(b, 1, 2)
        np.testing.assert_allclose(product_norm(a, b), np.linalg.norm(dense, 2, axis=(1, 2)))
        expected = np.linalg.norm(dense - m @ n.T, 2, axis=(1, 2)) / np.linalg.norm(m @ n.T, 2)
        np.testing.assert_allclose(relative_perturbation(a, b, m, n), expected)
        # The choice of factors of the same W does not matter.
        c = np.exp(rng.normal(size=rank))
        np.testing.assert_allclose(relative_perturbation(a * c, b / c, m / 3, n * 3), expected)


# -- how probable it is ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gaussian():
    """Two layers with small unequal scales: facts for the budget, and S of 2000 draws."""
    rng = np.random.default_rng(7)
    layers, sums = [], np.zeros(2000)
    for rows, columns in ((6, 5), (5, 3)):
        a, b = ((rng.normal(size=(n, 2)), rng.uniform(0.001, 0.01, (n, 2))) for n in (rows, columns))
        layers.append(GaussianLayer.from_factors(a, b))
        draws = [m + s * rng.standard_normal((2000, *m.shape)) for m, s in (a, b)]
        sums += relative_perturbation(*draws, a[0], b[0])
    return layers, sums


def test_the_budget_of_a_layer_is_the_sum_of_its_three_terms():
    layer = GaussianLayer(9, 16, 4, norm_a=2.0, norm_b=3.0, norm=5.0, scale_a=0.1, scale_b=0.2)
    a, b = 3 + 2 + 1.5, 4 + 2 + 1.5
    expected = (0.2 * b * 2.0 + 0.1 * a * 3.0 + 0.1 * 0.2 * a * b) / 5.0
    assert layer.perturbation(1.5) == pytest.approx(expected, rel=1e-12)


def test_the_budget_of_a_layer_has_the_largest_of_its_scales():
    """With one wide row, the mean scale would promise a budget that nearly every draw exceeds."""
    rng = np.random.default_rng(2)
    factors = []
    for rows in (40, 30):
        scale = np.full((rows, 2), 1e-4)
        scale[0] = 0.5
        factors.append((rng.normal(size=(rows, 2)), scale))
    layer = GaussianLayer.from_factors(*factors)
    assert (layer.scale_a, layer.scale_b) == (0.5, 0.5)
    draws = [m + s * rng.standard_normal((500, *m.shape)) for m, s in factors]
    moved = relative_perturbation(*draws, factors[0][0], factors[1][0])
    assert (moved > sum_budget([layer])).mean() <= 0.5
    means = replace(layer, scale_a=float(factors[0][1].mean()), scale_b=float(factors[1][1].mean()))
    assert (moved > sum_budget([means])).mean() > 0.5  # the test has force


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.999])
def test_the_budget_holds_with_its_probability_and_is_the_inverse_of_the_threshold(gaussian, probability):
    layers, sums = gaussian
    budget = sum_budget(layers, probability)
    assert (sums > budget).sum() <= binom.ppf(1 - 1e-4, len(sums), 1 - probability)
    assert probability <= budget_probability(layers, budget).value <= probability + 1e-9
    assert budget_probability(layers, budget * (1 - 1e-9)).value < probability  # and no smaller one will do
    at_its_threshold = small_variance(sums, budget, layers=layers)
    assert at_its_threshold.analytic_reached and at_its_threshold.deltas == {}


@pytest.mark.parametrize("rows", [1, 10**3, 10**6])
@pytest.mark.parametrize("depth", [1, 3, 50])
def test_a_budget_reaches_its_own_probability_at_all_sizes(rows, depth):
    layer = GaussianLayer(rows, 16, 4, norm_a=2.0, norm_b=3.0, norm=5.0, scale_a=1e-3, scale_b=0.2)
    for probability in (1e-3, 0.5, 0.99):
        assert budget_probability([layer] * depth, sum_budget([layer] * depth, probability)).value >= probability


def test_no_gaussian_budget_is_certain(gaussian):
    assert 0.999 < budget_probability(gaussian[0], 1e3).value < 1


def test_a_threshold_below_every_budget_has_no_analytic_probability(gaussian):
    assert budget_probability(gaussian[0], 1e-6).vacuous


def test_the_certificate_is_reached_by_draws_or_by_the_budget(gaussian):
    layers, sums = gaussian
    wide, narrow = sum_budget(layers, 0.9), float(np.quantile(sums, 0.6))
    both = small_variance(sums, wide, layers=layers)
    assert both.reached and both.analytic_reached and both.deltas == {}
    drawn = small_variance(sums, narrow, layers=layers)
    assert drawn.reached and not drawn.analytic_reached and drawn.deltas == {"Monte Carlo": 0.05}
    missed = small_variance(sums, float(np.quantile(sums, 0.4)), layers=layers)
    assert not missed.reached and "NOT reached" in repr(missed)


def test_accepted_draws_need_more_than_a_half(gaussian):
    _, sums = gaussian
    threshold = float(np.quantile(sums, 0.6))
    given_all, given_few = (small_variance(sums, threshold, failure=failure) for failure in (0.01, 0.2))
    assert given_all.required == pytest.approx(0.5 / 0.99) and given_all.reached
    assert given_few.required == pytest.approx(0.625) and not given_few.reached
    assert "given the good event" in repr(given_few)


def test_the_margin_bound_is_the_paper_s_and_needs_the_certificate(vectors, gaussian):
    inputs, expected = (vectors["neyshabur_margin_bound"][key] for key in ("inputs", "expected"))
    arguments = inputs["emp"], inputs["KL"], inputs["m"], inputs["delta"]
    bare = margin_risk(*arguments)
    assert bare.value == pytest.approx(expected["bound"], rel=1e-12)
    assert not bare.is_certificate and "probability ½" in bare.defect
    layers, sums = gaussian
    good = margin_risk(*arguments, small_variance(sums, float(np.quantile(sums, 0.6))))
    assert good.is_certificate and good.deltas == {"data": 0.05, "Monte Carlo": 0.05}
    assert margin_risk(*arguments, small_variance(sums, sum_budget(layers, 0.9), layers=layers)).confidence == 0.95
    assert not margin_risk(*arguments, small_variance(sums, float(sums.min()) / 2)).is_certificate


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_networks_outside_the_assumptions_get_the_reason():
    inside = [LayerFacts("Flatten", False), LayerFacts("Dense", False, "tanh"), LayerFacts("Dense", False)]
    assert reasons_outside(inside) == ()
    outside = [LayerFacts("LSTM", False), LayerFacts("Dense", True, "selu"), LayerFacts("Dense", False, "mine")]
    assert reasons_outside(outside) == (
        "layer 1 (LSTM) is not a dense layer of a feed-forward network",
        "layer 2 (Dense) has a bias",
        "layer 2 (Dense): selu is 1.76-Lipschitz, not 1-Lipschitz",
        "layer 3 (Dense): the Lipschitz constant of 'mine' is not known",
    )


def test_the_table_of_activations_is_that_of_keras():
    from keras import activations, ops

    z = np.linspace(-6, 6, 240_001, dtype="float32").astype("float64")
    for name, (lipschitz, at_zero) in ACTIVATIONS.items():
        values = ops.convert_to_numpy(getattr(activations, name)(ops.convert_to_tensor(z, "float32")))
        # Differences over 100 steps: float32 would blur those of one.
        steepest = np.abs((values[100:].astype("float64") - values[:-100]) / (z[100:] - z[:-100])).max()
        assert lipschitz - 0.02 < steepest <= lipschitz * (1 + 1e-3), name
        assert values[len(z) // 2] == pytest.approx(at_zero, abs=1e-3), name
