"""Draws and KLs in few operations are those of the plain formulas, with their gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from singularbayes.posteriors import families, fused, noise, priors

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
BACKEND = keras.backend.backend()
RNG = np.random.default_rng(2)
# Means inside the spike, on its flank and in the slab; scales from far below the spike's to the slab's.
VALUES = np.stack([RNG.normal(size=60) * np.repeat([1e-3, 0.02, 1.0], 20), RNG.uniform(-4, 1, 60)]).astype("float32")
KEY = np.array([5, 7])
PRIORS = {
    "scale_mixture": priors.ScaleMixture(),
    "swapped": priors.ScaleMixture(pi=0.3, sigma1=0.01, sigma2=0.5),
    "bound": priors.ScaleMixture(estimate="bound"),
    "normal": priors.Normal(0.3),
}


def _value_and_gradient(function, values):
    """Returns function(values), a number, and its gradient; compiled on TensorFlow, as `fit` does."""
    if BACKEND == "jax":
        import jax

        return jax.value_and_grad(function)(values)
    if BACKEND == "torch":
        import torch

        x = torch.tensor(values, requires_grad=True)
        value = function(x)
        value.backward()
        return value.detach(), x.grad
    import tensorflow as tf

    @tf.function
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return value, tape.gradient(value, x)

    return both(tf.constant(values))


def _assert_same(found, expected, rtol):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(one), ops.convert_to_numpy(other), rtol=rtol, atol=1e-4)


RATES = [fused.Rates(), fused.Rates(1.0, 4.0), fused.Rates(0.4, 3.0)]


def _plain(values, rates):
    # Not the module's own function: log(1 + e^ρ) as it is written down.
    return rates.loc * values[0], ops.log1p(ops.exp(rates.rho * values[1]))


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_a_draw_is_loc_plus_scale_times_noise(name, rates):
    family, key = families.get_family(name), noise.as_keys(KEY)
    weights = ops.convert_to_tensor(RNG.normal(size=60), "float32")

    def plain(values):
        loc, scale = _plain(values, rates)
        return ops.sum(weights * (loc + scale * family.noise((60,), key)))

    found = _value_and_gradient(lambda values: ops.sum(weights * fused.draw(family, values, rates, key)), VALUES)
    _assert_same(found, _value_and_gradient(plain, VALUES), rtol=1e-4)


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", PRIORS)
def test_a_kl_is_that_of_the_prior(name, rates):
    prior, family, key = PRIORS[name], families.get_family("gaussian"), noise.as_keys(KEY)

    def plain(values):
        return prior.kl(family, *_plain(values, rates), lambda: key)

    found = _value_and_gradient(lambda values: 2.0 * fused.kl(prior, family, values, rates, lambda: key), VALUES)
    value, gradient = _value_and_gradient(plain, VALUES)
    _assert_same(found, (2.0 * value, 2.0 * gradient), rtol=1e-3)


class _Twice(priors.Normal):
    def each_kl(self, family, loc, scale, xp=ops):
        return 2.0 * super().each_kl(family, loc, scale, xp)


def test_the_kl_of_a_subclass_of_a_prior_is_its_own():
    family, values = families.get_family("gaussian"), ops.convert_to_tensor(VALUES)
    once, twice = (fused.kl(prior(0.3), family, values, fused.Rates(), None) for prior in (priors.Normal, _Twice))
    np.testing.assert_allclose(ops.convert_to_numpy(twice), 2.0 * ops.convert_to_numpy(once), rtol=1e-5)


@pytest.mark.skipif(BACKEND != "torch", reason="the others have their own gradients")
@pytest.mark.parametrize("what", ["draw", "kl"])
def test_a_second_derivative_is_an_error(what):
    import torch

    x, key, family = torch.tensor(VALUES, requires_grad=True), noise.as_keys(KEY), families.get_family("gaussian")
    rates = fused.Rates()
    drawn = (
        fused.draw(family, x, rates, key)
        if what == "draw"
        else fused.kl(PRIORS["normal"], family, x, rates, lambda: key)
    )
    (first,) = torch.autograd.grad((drawn**2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.skipif(BACKEND == "jax", reason="JAX compiles a step as a whole")
@pytest.mark.parametrize("name", ["scale_mixture", "normal"])
def test_arrays_that_are_drawn_together_are_drawn_as_alone(name):
    prior, sizes, weights = PRIORS[name], [20, 39, 1], [1.0, -3.0, 0.5]
    eps = noise.normal((60,), noise.as_keys(KEY))
    starts = np.cumsum([0, *sizes[:-1]])

    def split(array, axis):
        return [array[(slice(None),) * axis + (slice(i, i + n),)] for i, n in zip(starts, sizes, strict=True)]

    def loss(groups):
        parts = [(s, kl) for group in groups for s, kl in zip(group.samples(), group.kls(prior), strict=True)]
        return sum(w * (ops.sum(ops.square(s)) + kl) for w, (s, kl) in zip(weights, parts, strict=True))

    def alone(values):
        pairs = zip(split(values, 1), split(eps, 0), strict=True)
        return loss([fused.gaussian_arrays([part], RATES[2], noise_of_part) for part, noise_of_part in pairs])

    found = _value_and_gradient(lambda values: loss([fused.gaussian_arrays(split(values, 1), RATES[2], eps)]), VALUES)
    _assert_same(found, _value_and_gradient(alone, VALUES), rtol=1e-5)


def test_keys_come_as_keras_gives_them():
    seeds, same = (keras.random.SeedGenerator(3) for _ in range(2))
    for _ in range(3):
        expected = ops.convert_to_numpy(same.next())
        np.testing.assert_array_equal(ops.convert_to_numpy(noise.next_key(seeds)), expected)
    np.testing.assert_array_equal(ops.convert_to_numpy(seeds.state), ops.convert_to_numpy(same.state))
    with keras.StatelessScope() as scope:
        noise.next_key(seeds)
    assert int(ops.convert_to_numpy(scope.get_current_value(seeds.state))[1]) == 4
    assert int(ops.convert_to_numpy(seeds.state)[1]) == 3


@pytest.mark.skipif(BACKEND != "torch", reason="the others hash")
def test_noise_on_torch_is_that_of_keras_for_a_key():
    seeds = keras.random.SeedGenerator(11)
    expected = keras.random.normal((40,), seed=seeds)
    np.testing.assert_array_equal(noise.normal((40,), noise.next_key(keras.random.SeedGenerator(11))), expected)
