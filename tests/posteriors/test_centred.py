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
from singularbayes.posteriors.prior_memory import Origin, PriorMemory
from singularbayes.training import hash_examples, seen_among

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
        factor.set_prior(centre, width, PriorMemory())
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
    sb.centre_prior(model, learned_on=X)
    for posterior in sb.find_posteriors(model):
        assert posterior.kl_exact() == pytest.approx(0, abs=1e-4)  # whatever scale its prior had
    sb.centre_prior(model, learned_on=None, scale=0.1)
    for posterior in sb.find_posteriors(model):
        assert posterior.kl_exact() == pytest.approx(posterior.factors[0].size * float(normal_kl(0.0, 2.0)), rel=1e-4)


@TORCH_FIRST
def test_a_file_keeps_centres_widths_and_what_they_were_learned_on(tmp_path):
    model = _network()
    sb.learn_prior(model, X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    assert sb.kl(again, "exact") == pytest.approx(sb.kl(model, "exact"), rel=1e-6) and sb.kl(model, "exact") > 0
    for ours, theirs in zip(sb.find_posteriors(model), sb.find_posteriors(again), strict=True):
        assert theirs.prior == ours.prior and theirs.factors[0].prior_memory().examples == 60
        assert theirs.factors[0].unchanged() == (True, False)
        for array in ("reference", "memory"):
            np.testing.assert_array_equal(
                *(ops.convert_to_numpy(getattr(q.factors[0], array)) for q in (ours, theirs)), strict=True
            )


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


def test_examples_that_come_back_are_noticed_whatever_their_type_and_order():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)).astype("float32")
    seen = hash_examples({"a": x, "b": x[:, :1]})
    shuffled = rng.permutation(1000)
    assert seen_among(seen, hash_examples({"a": x[shuffled].astype("float64"), "b": x[shuffled, :1]})).share == 1
    assert seen_among(seen, hash_examples({"a": x + 1, "b": x[:, :1]})).share == 0


def test_a_thousand_of_sixty_thousand_examples_are_noticed():
    """With 64 hashes one in three of such sets went unnoticed."""
    hashes = np.random.default_rng(0).integers(1, 2**64, 30 * 60_000, dtype="uint64").reshape(30, 60_000)
    for examples in hashes:
        memory = PriorMemory().with_examples(examples, Origin.LEARNED)
        assert memory.examples == 60_000 and seen_among(memory.hashes, examples[:1000]).count > 0
        halves = PriorMemory().with_examples(examples[:100], Origin.LEARNED).with_examples(examples[100:], Origin.NAMED)
        assert halves.origin == Origin.LEARNED | Origin.NAMED
        np.testing.assert_array_equal(halves.hashes, memory.hashes)


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: Centred(Centred()), "Centred needs a prior without centres"),
        (
            lambda: sb.centre_prior(_network(LowRank.paper(2)), learned_on=None),
            r"a Centred prior of one scale, built; got.*Make it LowRank",
        ),
        (lambda: sb.learn_prior(_network(FullRank()), X, Y), "needs posteriors with a Centred prior"),
        (lambda: sb.learn_prior(_network(FullRank(prior=Centred("scale_mixture"))), X, Y), "prior of one scale"),
        (lambda: sb.centre_prior(_network(), learned_on=None, scale=0.0), "centre_prior needs scale > 0"),
        (
            lambda: sb.centre_prior(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), learned_on=None),
            "centre_prior needs a model with posteriors",
        ),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_a_trained_model_has_to_say_what_it_has_seen():
    model = _network()
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    with pytest.raises(ValueError, match=r"needs learned_on.*was trained, its means or scales"):
        sb.centre_prior(model, learned_on=None)
    with pytest.raises(ValueError, match="learn_prior needs a model that was not trained on other"):
        sb.learn_prior(model, X, Y)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))  # forgets the steps
    with pytest.raises(ValueError, match="learn_prior needs a model that was not trained on other"):
        sb.learn_prior(model, X, Y)


def test_a_prior_remembers_all_that_it_has_seen_validation_and_earlier_lessons_too():
    model = _network()
    options = {"epochs": 1, "verbose": 0, "callbacks": [sb.KLSchedule(20, beta=1.0)]}
    sb.learn_prior(model, X[:20], Y[:20], validation_data=(X[20:30], Y[20:30]), **options)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    sb.learn_prior(model, X[30:40], Y[30:40], **options)
    sb.centre_prior(model, learned_on=None)  # nothing was learned since
    for posterior in sb.find_posteriors(model):
        memory = posterior.factors[0].prior_memory()
        assert memory.examples == 40 and memory.origin == Origin.LEARNED
        assert seen_among(memory.hashes, hash_examples(X[:40])).share == 1
        assert seen_among(memory.hashes, hash_examples(X[40:])).count == 0


def test_scales_that_were_learned_are_no_widths_without_data():
    model = _network()
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    for factor in (f for q in sb.find_posteriors(model) for f in q.factors):
        factor.set_loc(factor.float64_values()[2][0])  # means back to their centres
    with pytest.raises(ValueError, match=r"centre_prior needs learned_on.*means or scales"):
        sb.centre_prior(model, learned_on=None)
    with pytest.raises(ValueError, match="learn_prior needs a model that was not trained on other"):
        sb.learn_prior(model, X, Y)


class _Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return X[20 * i : 20 * i + 20], Y[20 * i : 20 * i + 20]


@pytest.mark.parametrize(
    "make", [_Batches, lambda: (batch for batch in [X[:20], X[20:]])], ids=["PyDataset", "generator"]
)
def test_examples_that_cannot_be_remembered_are_refused(make):
    with pytest.raises(TypeError, match="learn_prior needs arrays in memory"):
        sb.learn_prior(_network(), make(), None)
    with pytest.raises(TypeError, match="centre_prior needs arrays in memory"):
        sb.centre_prior(_network(), learned_on=make())
    with pytest.raises(TypeError, match=r"learn_prior needs validation_data=\(x, y\) as arrays in memory"):
        sb.learn_prior(_network(), X, Y, validation_data=make())
