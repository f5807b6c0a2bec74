"""The small-variance certificate: its inequality on thousands of networks, its threshold, and how it is reached."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from singularbayes.bounds import (
    GaussianLayer,
    budget_probability,
    deviation,
    product_norm,
    relative_perturbation,
    small_variance,
    sum_threshold,
)

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
        product, exponential = (deviation(perturbations, norms, 1.7, form).value for form in ("product", "exponential"))
        assert distance <= product * (1 + 1e-9) and product <= exponential * (1 + 1e-12)
        ratios.append(distance / product)
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
    for form, key in {"product": "product_bound", "exponential": "exp_bound"}.items():
        bound = deviation(a, norms, inputs["B"], form)
        assert bound.value == pytest.approx(expected[key], rel=1e-9)
        assert bound.terms["S"] == pytest.approx(expected["S"], rel=1e-9)
        assert bound.terms["product of norms"] == pytest.approx(expected["P"], rel=1e-12)
        assert bound.value > expected["observed_sup_on_unit_circle"]
    threshold = sum_threshold(inputs["gamma"], norms, inputs["B"])
    assert threshold == pytest.approx(expected["threshold_sharp"], rel=1e-12)
    assert (sum(a) <= threshold) == expected["certified_sharp"]


def test_at_the_threshold_the_bound_is_a_quarter_of_the_margin():
    norms, radius, margin = [0.7, 3.0, 1.2], 2.5, 0.9
    s = sum_threshold(margin, norms, radius)
    assert deviation([s, 0.0, 0.0], norms, radius).value == pytest.approx(margin / 4, rel=1e-12)


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
    """With one wide row, the mean scale would promise what few draws keep."""
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
    threshold = float(np.quantile(moved, 0.4))
    means = replace(layer, scale_a=float(factors[0][1].mean()), scale_b=float(factors[1][1].mean()))
    assert budget_probability([layer], threshold).value <= 0.4
    assert budget_probability([means], threshold).value > 0.5  # the test has force


@pytest.mark.parametrize("threshold", [0.1, 0.2, 0.4])
def test_the_budget_is_below_the_share_of_draws_and_belongs_to_its_t(gaussian, threshold):
    layers, sums = gaussian
    bound = budget_probability(layers, threshold)
    share, t = (sums <= threshold).mean(), bound.terms["t"]
    assert bound.value <= share + 4 * math.sqrt(share * (1 - share) / len(sums)) + 1e-9
    if bound.value:
        assert sum(layer.perturbation(t) for layer in layers) <= threshold
        assert sum(layer.perturbation(t * (1 + 1e-9)) for layer in layers) > threshold * (1 - 1e-9)
        assert bound.value == pytest.approx(1 - 4 * math.exp(-(t**2) / 2), rel=1e-9)


def test_no_gaussian_budget_is_certain_and_a_small_threshold_has_none(gaussian):
    assert 0.999 < budget_probability(gaussian[0], 1e3).value < 1
    assert budget_probability(gaussian[0], 1e-6).vacuous


def test_the_certificate_is_reached_by_draws_or_by_the_budget(gaussian):
    layers, sums = gaussian
    assert small_variance(sums[:1], 1e3, layers=layers).reached  # one draw shows nothing, the budget all
    assert not small_variance(sums[:1], 1e3).reached
    drawn = small_variance(sums, float(np.quantile(sums, 0.6)), layers=layers)
    assert drawn.reached and drawn.analytic.value < 0.5 and drawn.sampled.deltas == {"Monte Carlo": 0.05}
    missed = small_variance(sums, float(np.quantile(sums, 0.4)), layers=layers)
    assert not missed.reached and "NOT reached" in repr(missed)
