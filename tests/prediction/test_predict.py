"""Draw s of `predict` is one function of the input: the same weights whatever the batch, its size and the chunks."""

import tracemalloc

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import LAYERS, PAIRS, alone
from posterior_table import (
    JAX_FIRST,
    POSTERIORS,
    RANDOM,
    assert_unbiased,
    assert_uncorrelated,
    jax_first,
    stirred_layer,
)
from scipy import special

import singularbayes as sb
from singularbayes import FullRank, LowRank, Normal, layers
from singularbayes.posteriors import draw_keys, draw_sources, noise, scope
from singularbayes.prediction import sampler

pytestmark = pytest.mark.backend
RNG = np.random.default_rng(4)
IDS = RNG.integers(0, 5, (11, 3)).astype("int32")
X = RNG.normal(size=(11, 5)).astype("float32")


def _network(posterior):
    """A net of tokens, with every kind of layer between: three classes."""
    return keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            layers.Embedding(5, 4, posterior=posterior),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            layers.Dense(4, "tanh", posterior=posterior, bias_posterior=FullRank()),
            layers.Dense(3, posterior=posterior),
        ]
    )


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return stirred_layer(_network(LowRank.paper(2)), IDS)


def _predict(model, x=IDS, draws=10, seed=0, **arguments):
    arguments = {"likelihood": "categorical_logits", "keep_draws": True, **arguments}
    return sb.predict(model, x, draws, seed, **arguments)


@pytest.fixture(scope="module")
def whole(model):
    """What all the others are compared with."""
    return _predict(model)


@pytest.fixture(scope="module")
def many(model):
    return _predict(model, draws=30)


def _function(model, seed, s, x):
    """Returns what draw s of `predict` gives for x, by an eager pass with its weights fixed."""
    posteriors = sb.find_posteriors(model)
    draw = draw_sources(posteriors, noise.as_keys(draw_keys(seed, s + 1)[s]))
    with scope.fix_draws({id(p): arrays for p, arrays in zip(posteriors, draw, strict=True)}):
        return special.softmax(ops.convert_to_numpy(model(x)).astype("float64"), axis=-1)


def test_draw_s_is_the_model_with_weights_that_depend_on_the_seed_and_s_alone(model):
    draws = _predict(model, draws=4, seed=7).draws
    for s in (0, 3):
        np.testing.assert_allclose(draws[s], _function(model, 7, s, IDS), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_size", jax_first([1, 4, 11, 500], [4]))
def test_draws_do_not_depend_on_the_batch_size(model, whole, batch_size):
    ours = _predict(model, batch_size=batch_size)
    np.testing.assert_allclose(ours.draws, whole.draws, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.mutual_information, whole.mutual_information, rtol=1e-3, atol=1e-6)


CHUNKS = [pytest.param(1, 4, 1, marks=JAX_FIRST), (3, 4, 3), (10, 3, 2), pytest.param(8, 11, 4, marks=JAX_FIRST)]


@pytest.mark.parametrize(("chunk", "batch", "group"), CHUNKS)
def test_draws_do_not_depend_on_how_they_are_chunked(model, whole, monkeypatch, chunk, batch, group):
    monkeypatch.setattr(sampler, "sizes", lambda *_: (chunk, group, batch))
    _assert_same(_predict(model), whole)


@pytest.mark.parametrize("budget", jax_first([1 << 30, 1 << 18, 0], [0]))
def test_draws_do_not_depend_on_the_memory_there_is(model, whole, monkeypatch, budget):
    monkeypatch.setattr(sampler, "BUDGET", budget)
    _assert_same(_predict(model, batch_size=4), whole)


def _assert_same(ours, theirs):
    np.testing.assert_allclose(ours.draws, theirs.draws, rtol=1e-5, atol=1e-6)
    for name in ("mean", "std", "entropy", "mutual_information"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-6)


def test_examples_do_not_depend_on_their_company(model, whole):
    # A network with an embedding: the same tokens have the same vectors in every batch.
    np.testing.assert_allclose(_predict(model, IDS[::-1]).draws, whole.draws[:, ::-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(_predict(model, IDS[5:6]).draws, whole.draws[:, 5:6], rtol=1e-5, atol=1e-6)


def test_a_seed_says_the_draws_and_another_seed_says_others(model):
    first, again, other = (_predict(model, seed=seed).draws for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first[:, None] - other[None]).max(axis=(-1, -2)).min() > 1e-4


def test_more_draws_begin_with_the_same_draws(model, whole):
    more = _predict(model, draws=20).draws
    np.testing.assert_allclose(more[:10], whole.draws, rtol=1e-5, atol=1e-6)
    assert len(np.unique(more[:, 0, 0].round(6))) == 20


def test_predict_leaves_the_model_s_own_randomness_alone(model):
    before = [ops.convert_to_numpy(v) for v in model.variables]
    _predict(model)
    for ours, theirs in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(ours, ops.convert_to_numpy(theirs))


@pytest.mark.parametrize(("layer", "name"), [pair for pair in PAIRS if pair.values[1] in RANDOM])
def test_coherent_for_every_layer_and_posterior(layer, name):
    model, x = alone(LAYERS[layer], RANDOM[name]())
    whole = sb.predict(model, x, 3, likelihood="gaussian", keep_draws=True).draws
    parts = sb.predict(model, x, 3, likelihood="gaussian", keep_draws=True, batch_size=2).draws
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)
    assert np.abs(whole[0] - whole[1]).max() > 1e-3


def test_moments_of_predictions_are_those_of_the_posterior():
    layer = layers.Dense(2, use_bias=False, posterior=LowRank.paper(2))
    model = stirred_layer(keras.Sequential([keras.Input((5,)), layer]), X)
    truth = X @ ops.convert_to_numpy(layer.posterior.mean().dense())
    num = 1000
    predicted = sb.predict(model, X[:2], draws=num, likelihood="gaussian", keep_draws=True)
    assert np.abs((predicted.mean - truth[:2]) / (predicted.std / np.sqrt(num))).max() < 4.5
    w = layer.posterior
    covariance = [[[w.covariance((i, j), (k, j)) for k in range(5)] for i in range(5)] for j in range(2)]
    variance = np.einsum("ni,jik,nk->nj", X[:2], np.array(covariance), X[:2])
    squares = (predicted.draws - truth[:2]) ** 2
    assert np.abs((squares.mean(0) - variance) / (squares.std(0) / np.sqrt(num))).max() < 4.5


def test_noise_is_standard_and_independent_across_posteriors_draws_and_seeds():
    """With one key for all of them, posteriors of one shape would have the same noise."""
    x = keras.Input((2,))
    dense = [layers.Dense(2, posterior=FullRank(), bias_posterior=FullRank()) for _ in range(2)]
    model = stirred_layer(keras.Model(x, keras.layers.Concatenate()([layer(x) for layer in dense])), X[:, :2])
    points = np.array([[0, 0], [1, 0], [0, 1]], "float32")  # at 0 the outputs are the biases
    predicted = [sb.predict(model, points, 50, seed, likelihood="gaussian", keep_draws=True) for seed in range(20)]
    draws = np.stack([p.draws for p in predicted])  # (seeds, draws, points, 4)
    eps = []
    for layer, own in zip(dense, np.split(draws, 2, axis=-1), strict=True):
        for posterior, w in [(layer.bias_posterior, own[:, :, :1]), (layer.posterior, own[:, :, 1:] - own[:, :, :1])]:
            loc, scale = (ops.convert_to_numpy(v) for v in (posterior.factors[0].loc, posterior.factors[0].scale))
            eps.append((w - loc.reshape(w.shape[2:])) / scale.reshape(w.shape[2:]))
    others = [(one, other) for i, one in enumerate(eps) for other in eps[:i]]
    for e in eps:  # neighbouring draws, neighbouring seeds, and draws whose keys would be equal if both were counted up
        others += [(e[:, 1:], e[:, :-1]), (e[1:], e[:-1]), (e[1:, :-1], e[:-1, 1:])]
    for e in eps:
        flat = e.reshape(-1, 2)
        assert_unbiased(np.stack([flat, flat**2], axis=1), [[0, 0], [1, 1]])
    for one, other in others:
        one, other = one.reshape(-1, *one.shape[2:]), other.reshape(-1, *other.shape[2:])
        assert_uncorrelated(one, other)
        assert_uncorrelated(one**2, other**2)


REDUCED = ["gaussian", "mean_scale", "categorical_logits", "bernoulli_logits"]


@pytest.mark.parametrize("likelihood", jax_first(REDUCED, ["mean_scale", "categorical_logits"]))
def test_draws_are_reduced_in_float64(likelihood):
    # A spread far below the size of the outputs is lost in sums of float32.
    dense = layers.Dense(1 if likelihood == "bernoulli_logits" else 2, posterior=FullRank(eta=0.01))
    model = keras.Sequential([keras.Input((5,)), dense])
    dense.bias.assign(np.full(dense.bias.shape, 1e3))
    predicted = sb.predict(model, X, 50, likelihood=likelihood, keep_draws=True)
    assert {a.dtype.name for a in (predicted.mean, predicted.std, predicted.draws)} == {"float64"}
    np.testing.assert_allclose(predicted.mean, predicted.draws.mean(0), rtol=1e-13)
    np.testing.assert_allclose(predicted.std, predicted.draws.std(0), rtol=1e-9, atol=1e-300)


def test_probabilities_are_averaged_not_logits(model, many):
    np.testing.assert_allclose(many.draws.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(many.mean, many.draws.mean(0), rtol=1e-6)
    np.testing.assert_allclose(many.std, many.draws.std(0), rtol=1e-5, atol=1e-9)
    logits = sb.predict(model, IDS, 30, likelihood="gaussian").mean
    assert np.abs(special.softmax(logits, axis=-1) - many.mean).max() > 0.01


@pytest.mark.parametrize("plain", [True, False], ids=["keras", "deterministic_posterior"])
def test_a_deterministic_model_has_no_mutual_information_at_all(plain):
    posterior = POSTERIORS["deterministic"]()
    dense = keras.layers.Dense(3) if plain else layers.Dense(3, posterior=posterior, bias_posterior=posterior)
    model = keras.Sequential([keras.Input((5,)), dense])
    predicted = sb.predict(model, X, draws=50, likelihood="categorical_logits")
    assert (predicted.mutual_information == 0).all() and (predicted.std == 0).all()
    expected = special.softmax(ops.convert_to_numpy(model(X)).astype("float64"), axis=-1)
    np.testing.assert_allclose(predicted.mean, expected, rtol=1e-5)


def test_frozen_posteriors_are_still_random_in_prediction(model):
    model.trainable = False
    try:
        assert _predict(model).std.max() > 1e-3
    finally:
        model.trainable = True


class TestInputsAndOutputs:
    def _model(self, inputs):
        a, b = keras.Input((5,), name="a"), keras.Input((2,), name="b")
        hidden = layers.Dense(4, posterior=LowRank.paper(1))(keras.layers.Concatenate()([a, b]))
        outputs = {
            "label": layers.Dense(3, posterior=LowRank.paper(1), name="label")(hidden),
            "value": layers.Dense(1, posterior=LowRank.paper(1), name="value")(hidden),
        }
        return keras.Model({"a": a, "b": b} if inputs is dict else [a, b], list(outputs.values()))

    @pytest.mark.parametrize("inputs", [list, dict])
    def test_several_of_both(self, inputs):
        model = self._model(inputs)
        b = X[:, :2]
        x = {"a": X, "b": b} if inputs is dict else [X, b]
        arguments = {"draws": 6, "keep_draws": True, "batch_size": 4}
        label = sb.predict(model, x, output=0, likelihood="categorical_logits", **arguments)
        value = sb.predict(model, x, output=1, likelihood="gaussian", **arguments)
        assert label.draws.shape == (6, 11, 3) and value.draws.shape == (6, 11)
        named = sb.predict(model, x, output=model.output_names[1], likelihood="gaussian", **arguments)
        np.testing.assert_array_equal(named.draws, value.draws)

    @JAX_FIRST
    def test_which_output_must_be_said(self):
        model = self._model(list)
        with pytest.raises(ValueError, match=r"needs output= to be one of \[.*\] or a position; got output=None"):
            sb.predict(model, [X, X[:, :2]], likelihood="gaussian")
        with pytest.raises(ValueError, match=r"one of \[.*\] or a position; got output='score'"):
            sb.predict(model, [X, X[:, :2]], output="score", likelihood="gaussian")
        with pytest.raises(ValueError, match=r"output= .* got output=2"):
            sb.predict(model, [X, X[:, :2]], output=2, likelihood="gaussian")

    @pytest.mark.parametrize("outputs", [list, dict], ids=["list", "dict"])
    @pytest.mark.parametrize("losses", [list, dict], ids=["losses_in_order", "losses_by_name"])
    @JAX_FIRST
    def test_an_output_and_its_loss_are_found_by_name_and_by_position(self, outputs, losses):
        x = keras.Input((5,))
        parts = {
            "one": keras.layers.Dense(3, name="one")(x),
            "two": layers.Dense(2, name="two", posterior=FullRank())(x),
        }
        model = keras.Model(x, parts if outputs is dict else list(parts.values()))
        loss = {"one": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "two": sb.Gaussian(0.5)}
        if outputs is dict and losses is list:
            pytest.skip("Keras takes no list of losses for a dict of outputs")
        model.compile(loss=loss if losses is dict else list(loss.values()))
        for position, name in enumerate(parts):
            by_name, by_position = (sb.predict(model, X, 3, output=output) for output in (name, position))
            np.testing.assert_array_equal(by_name.mean, by_position.mean)
        np.testing.assert_allclose(by_name.variance("total") - by_name.variance("epistemic"), 0.25)

    def test_a_subclassed_model_and_one_that_is_not_built(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = layers.Dense(2, posterior=LowRank.paper(1, prior=Normal()))

            def call(self, x):
                return self.dense(x)

        assert sb.predict(Net(), X, draws=3, likelihood="gaussian").mean.shape == (11, 2)


def test_memory_does_not_grow_with_the_number_of_draws(monkeypatch):
    if keras.backend.backend() != "jax":
        pytest.skip("the same stream of chunks; slow under tracemalloc")
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3, posterior=LowRank.paper(2))])
    x = np.repeat(X, 100, axis=0)
    monkeypatch.setattr(sampler, "BUDGET", 16 << 20)

    def peak(draws):
        tracemalloc.start()
        try:
            sb.predict(model, x, draws, likelihood="categorical_logits", batch_size=len(x))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(632)  # compiles
    few, many = peak(632), peak(1580)  # in chunks of 158 both
    # 1,580 draws of 1,100 × 3 probabilities alone would be 42 MB.
    assert many < few + 1e6
