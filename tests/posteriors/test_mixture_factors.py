"""What works on the arrays of random weights also works on those inside a mixture, component by component."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import RANDOM, TORCH_FIRST, built, set_factor, stirred

import singularbayes as sb
from singularbayes import layers
from singularbayes.training import learn_prior

pytestmark = pytest.mark.on_torch

K = 3
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(24, 4)).astype("float32"), RNG.integers(0, 3, 24)


def _numpy(x):
    return ops.convert_to_numpy(x)


def _model(inside, **arguments):
    posterior = sb.Mixture(inside, K)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, use_bias=False, posterior=posterior, **arguments)])
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@TORCH_FIRST
@pytest.mark.parametrize("name", RANDOM)
def test_components_have_the_values_of_the_mixture_and_it_keeps_what_they_assign(name):
    mixture = stirred(sb.Mixture(RANDOM[name](), K))
    (factor,) = mixture.factors
    for k, part in enumerate(mixture.parts()):
        for ours, theirs in zip(factor.float64_values()[:2], part.factors[0].float64_values()[:2], strict=True):
            np.testing.assert_allclose(ours[k], theirs, rtol=1e-6)
    before = _numpy(factor.values)
    numbers = iter(range(K))
    mixture.for_components(lambda part: set_factor(part.factors[0], 0.25, 0.5) if next(numbers) == K - 1 else None)
    np.testing.assert_allclose(factor.float64_values()[0][K - 1], 0.25)
    np.testing.assert_array_equal(_numpy(factor.values)[: K - 1], before[: K - 1])


def test_changes_of_one_component_stay_in_it():
    mixture, matrices = built(sb.Mixture(sb.LowRank.paper(4), K)), RNG.normal(size=(K, 5, 4))
    mixture.center_components(list(matrices))
    for k, matrix in enumerate(matrices):
        np.testing.assert_allclose(_numpy(mixture.component(k).mean().dense()), matrix, atol=1e-5)
    with pytest.raises(ValueError, match="one matrix for each of its 3 components; got 2"):
        mixture.center_components(list(matrices[:2]))


@TORCH_FIRST
def test_a_mixture_centres_its_prior_at_every_component():
    model = _model(sb.LowRank.paper(2, prior=sb.Centred("normal"), kl_weight=0.1))
    learn_prior(model, X[:12], Y[:12], verbose=0, callbacks=[sb.KLSchedule(12, beta=1.0)])
    assert sb.kl(model, "exact") == pytest.approx(0.0, abs=1e-4)
    (mixture,) = sb.find_posteriors(model)
    loc, _, (centres, _) = mixture.factors[0].float64_values()
    assert all(np.abs(centres[i] - centres[j]).max() > 1e-3 for i in range(K) for j in range(i))
    np.testing.assert_allclose(loc, centres, atol=1e-6)


def test_certify_sees_the_prior_of_a_mixture():
    model = _model(sb.LowRank.paper(2, prior=sb.Centred("normal"), kl_weight=0.1))
    learn_prior(model, X[:12], Y[:12], verbose=0, callbacks=[sb.KLSchedule(12, beta=1.0)])
    bound = sb.certify(model, X[12:], Y[12:], draws=10)
    assert any("that the prior was learned on" in assumed for assumed in bound.assumptions)
    (mixture,) = sb.find_posteriors(model)
    # The KL of a certificate is the mean over components, and each counts: one far off shows.
    loc, scale, _ = mixture.factors[0].float64_values()
    loc[1], scale[1] = 5.0, 0.1
    mixture.factors[0].set(loc, scale)
    parts = [mixture.component(k).certified_kl() for k in range(K)]
    assert mixture.certified_kl() == pytest.approx(np.mean(parts))
    assert parts[1] > 100 * max(parts[0], 1e-3)


def test_certify_assumes_an_anchor_at_the_start_of_a_mixture_to_be_learned_elsewhere():
    model = _model(sb.LowRank.paper(2, prior=sb.Anchored(0.1, anchor="start"), kl_weight=0.1))
    words = "the weights that the means started at, around which the prior lies"
    assert words not in repr(sb.certify(model, X, Y, draws=10))  # anchors are random as long as nothing was moved
    (mixture,) = sb.find_posteriors(model)
    mixture.center(RNG.normal(size=(4, 3)))
    assert words in repr(sb.certify(model, X, Y, draws=10))
