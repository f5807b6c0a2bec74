"""A prior around given values: its KL is that of shifted and scaled numbers, and files and training keep it."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import SCALAR_PRIOR, TORCH_FIRST, one_row_each, set_factor

import singularbayes as sb
from singularbayes import Centred, FullRank, LowRank, Normal, layers
from singularbayes.bounds import normal_kl
from singularbayes.models import count_stored, count_trained
from singularbayes.posteriors import Origin

pytestmark = pytest.mark.on_torch

X = np.random.default_rng(0).normal(size=(60, 5)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")


def _network(posterior=None, **compiled):
    posterior = posterior or LowRank.paper(2, prior=Centred(Normal(0.5)))
    bias = FullRank(prior=Centred(Normal(0.5)))
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(4, "tanh", posterior=posterior, bias_posterior=bias),
            layers.Dense(2, posterior=posterior, bias_posterior=bias),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **compiled)
    return model


@TORCH_FIRST
@pytest.mark.parametrize("name", one_row_each(SCALAR_PRIOR))
@pytest.mark.rows_on_torch
def test_the_kl_is_that_of_numbers_less_their_centres_over_their_widths(name):
    rng = np.random.default_rng(1)
    for base in (Normal(0.7), sb.Laplace(0.7), sb.ScaleMixture(0.4, 1.0, 0.1, estimate="bound")):
        posterior = SCALAR_PRIOR[name](prior=Centred(base))
        posterior.build((5, 4))
        (factor,) = posterior.factors
        loc, scale, reference = factor.float64_values()
        np.testing.assert_array_equal(reference[0], loc)  # centres start at the initial means, widths at 1
        assert (reference[1] == 1).all()
        centre, width = rng.normal(size=loc.shape), rng.uniform(0.5, 2.0, loc.shape)
        factor.set_prior(centre, width, Origin.LEARNED)
        seen = factor.family, (loc - centre) / width, scale / width
        tensors = (ops.convert_to_tensor(array, "float32") for array in seen[1:])
        bound = float(ops.convert_to_numpy(base.kl_bound(factor.family, *tensors)))
        exact = base.kl_exact(*seen).sum()
        assert posterior.kl_exact() == pytest.approx(exact, rel=1e-6)
        assert float(ops.convert_to_numpy(posterior.kl_bound())) == pytest.approx(bound, rel=1e-4)
        trained = float(ops.convert_to_numpy(posterior.kl()))
        assert trained == pytest.approx(bound, rel=1e-4)  # all three train on a closed form


@TORCH_FIRST
def test_centring_makes_the_kl_zero_and_training_starts_from_there():
    model = _network(LowRank.paper(2, prior=Centred("normal")))
    for factor in (f for q in sb.find_posteriors(model) for f in q.factors):
        set_factor(factor, np.full(factor.shape, 0.3), np.full(factor.shape, 0.2))
    sb.centre_prior(model)
    for posterior in sb.find_posteriors(model):
        assert posterior.kl_exact() == pytest.approx(0, abs=1e-4)  # whatever scale its prior had
    sb.centre_prior(model, scale=0.1)
    for posterior in sb.find_posteriors(model):
        assert posterior.kl_exact() == pytest.approx(posterior.factors[0].size * float(normal_kl(0.0, 2.0)), rel=1e-4)


@TORCH_FIRST
def test_a_file_keeps_centres_widths_and_that_they_were_learned(tmp_path):
    model = _network()
    sb.learn_prior(model, X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    assert sb.kl(again, "exact") == pytest.approx(sb.kl(model, "exact"), rel=1e-6) and sb.kl(model, "exact") > 0
    for ours, theirs in zip(sb.find_posteriors(model), sb.find_posteriors(again), strict=True):
        assert theirs.prior == ours.prior and theirs.factors[0].prior_origin() == Origin.LEARNED
        references = (ops.convert_to_numpy(q.factors[0].reference) for q in (ours, theirs))
        np.testing.assert_array_equal(*references, strict=True)


@TORCH_FIRST
def test_training_leaves_centres_and_widths():
    model = _network()
    before = [q.factors[0].float64_values()[2] for q in sb.find_posteriors(model)]
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    for posterior, reference in zip(sb.find_posteriors(model), before, strict=True):
        np.testing.assert_array_equal(posterior.factors[0].float64_values()[2], reference)
        assert (posterior.factors[0].float64_values()[0] != reference[0]).any()


def test_centres_are_not_counted_among_the_numbers_that_predict():
    assert count_stored(_network()) == count_trained(_network())


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: Centred(Centred()), "Centred needs a prior without centres"),
        (
            lambda: sb.centre_prior(_network(LowRank.paper(2))),
            r"a Centred prior of one scale, built; got.*Make it LowRank",
        ),
        (lambda: sb.learn_prior(_network(FullRank()), X, Y), "needs posteriors with a Centred prior"),
        (lambda: sb.learn_prior(_network(FullRank(prior=Centred("scale_mixture"))), X, Y), "prior of one scale"),
        (lambda: sb.centre_prior(_network(), scale=0.0), "centre_prior needs scale > 0"),
        (
            lambda: sb.centre_prior(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])),
            "centre_prior needs a model with posteriors",
        ),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()
