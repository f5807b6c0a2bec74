"""Mixtures: K networks in one model, each of which trains on every example."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, ON_TORCH, TORCH_FIRST, assert_uncorrelated, gradient, over_keys, stir

import singularbayes as sb
from singularbayes import layers
from singularbayes.posteriors import in_blocks, noise

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]

K, BATCH = 3, 12
X = np.random.default_rng(1).normal(size=(BATCH, 5)).astype("float32")


def _numpy(x):
    return ops.convert_to_numpy(x)


def _dense(inside=None, components=K, **arguments):
    """Returns a built dense layer with weights of order one that differ in every entry and component."""
    inside = inside or sb.LowRank(2, prior=sb.Normal(0.5), kl_weight=0.1)
    layer = layers.Dense(4, posterior=sb.Mixture(inside, components), **arguments)
    layer.build((None, 5))
    return stir(layer)


KEY = noise.as_keys(np.array([12345, 678]))


def _trained_pass(layer, x=X):
    """Returns the outputs of a training pass with the noise of `KEY`, (components, examples, units)."""
    state = layer.posterior.seed_generator.state
    state.assign(ops.cast(KEY, state.dtype))
    with in_blocks(K):
        return ops.reshape(layer(ops.tile(x, (K, 1)), training=True), (K, len(x), 4))


# -- K separate networks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [sb.LowRank(2), sb.FullRank(), sb.RankOne(), sb.Adapter(2)], ids=repr)
def test_outputs_and_gradients_are_those_of_separate_networks(inside):
    config = inside.get_config()
    layer = _dense(type(inside).from_config({**config, "kl_weight": 0.1}))
    outputs, bias, factor = _numpy(_trained_pass(layer)), _numpy(layer.bias), layer.posterior.factors[0]
    drawn = _numpy(factor.sample(KEY))
    slopes = gradient(lambda: ops.mean(ops.square(_trained_pass(layer))), factor.values)
    bias_slopes = gradient(lambda: ops.mean(ops.square(_trained_pass(layer))), layer.bias)
    for k in range(K):
        alone = layer.posterior.component(k)
        own = alone.factors[0]
        eps = (drawn[k] - _numpy(own.loc)) / _numpy(own.scale)
        eps = ops.convert_to_tensor(eps, "float32")
        own.sample = lambda key, component=None, own=own, eps=eps: own.loc + own.scale * eps

        def outputs_alone(alone=alone, k=k):
            return alone.weight(alone.draw(KEY)).apply(ops.convert_to_tensor(X)) + ops.convert_to_tensor(bias[k])

        np.testing.assert_allclose(outputs[k], _numpy(outputs_alone()), rtol=1e-4, atol=1e-4)
        slope = gradient(lambda f=outputs_alone: ops.mean(ops.square(f())), own.values)
        np.testing.assert_allclose(slopes[k], slope / K, rtol=2e-3, atol=1e-4)
        np.testing.assert_allclose(bias_slopes[k], 2 * outputs[k].sum(axis=0) / outputs.size, rtol=1e-4, atol=1e-5)


def test_components_start_apart_and_draw_independent_noise():
    layer = layers.Dense(4, posterior=sb.Mixture(sb.LowRank(2), K), bias_initializer="random_normal")
    layer.build((None, 5))
    for weight in layer.trainable_weights:
        values = _numpy(weight)
        assert all(np.abs(values[i] - values[j]).max() > 0 for i in range(K) for j in range(i))
    found = over_keys(_dense().posterior.factors[0].sample, 1500)
    assert_uncorrelated(found[:, 0], found[:, 1])
    assert_uncorrelated(found[:, 1], found[:, 2])


@pytest.mark.parametrize(
    "inside", [sb.LowRank(2, prior=sb.Normal(0.5)), sb.LowRank(2, prior=sb.Centred(sb.Normal(0.5))), sb.Adapter(2)]
)
def test_the_kl_is_the_mean_of_the_components_and_counted_once(inside):
    layer = _dense(type(inside).from_config({**inside.get_config(), "kl_weight": 0.1}))
    parts = [layer.posterior.component(k) for k in range(K)]
    exact = np.mean([part.kl_exact() for part in parts])
    assert layer.posterior.kl_exact() == pytest.approx(exact)
    _trained_pass(layer), _trained_pass(layer)
    kls = [float(_numpy(part.kl())) for part in parts]
    assert len(set(kls)) == K
    assert float(_numpy(layer.posterior.kl())) == pytest.approx(np.mean(kls), rel=1e-5 if inside.adapts is False else 1)
    if isinstance(inside.prior, (sb.Normal, sb.Centred)):
        assert float(_numpy(sum(layer.losses))) == pytest.approx(0.1 * exact, rel=1e-5)
    assert layer.posterior.certified_kl() == pytest.approx(np.mean([part.certified_kl() for part in parts]))


@JAX_FIRST
def test_moments_are_those_of_the_mixture():
    mixture = _dense().posterior
    draws = over_keys(lambda key: mixture.weight(mixture.draw(key)).dense(), 5000)
    centred = draws - draws.mean(axis=0)
    error = (centred**2).std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.var(axis=0) - mixture.variance()) < 4.5 * error).all()
    product = centred[:, 0, 1] * centred[:, 2, 3]
    assert abs(product.mean() - mixture.covariance((0, 1), (2, 3))) < 4.5 * product.std() / np.sqrt(len(draws))
    assert mixture.covariance((0, 1), (0, 1)) == pytest.approx(mixture.variance()[0, 1])


def test_one_component_is_the_plain_posterior():
    mixture = _dense(components=1, bias_posterior=sb.FullRank(kl_weight=0.1))
    plain = layers.Dense(
        4,
        posterior=sb.LowRank(2, prior=sb.Normal(0.5), kl_weight=0.1),
        bias_posterior=sb.FullRank(kl_weight=0.1),
    )
    plain.build((None, 5))
    for ours, theirs in ((mixture.posterior, plain.posterior), (mixture.bias_posterior, plain.bias_posterior)):
        theirs.random_weights[0].assign(_numpy(ours.random_weights[0]))
        theirs.seed_generator.state.assign(_numpy(ours.seed_generator.state))
    for _ in range(2):
        np.testing.assert_array_equal(_numpy(mixture(X, training=True)), _numpy(plain(X, training=True)))
        np.testing.assert_allclose(_numpy(sum(mixture.losses)), _numpy(sum(plain.losses)), rtol=1e-6)
    np.testing.assert_array_equal(_numpy(mixture(X)), _numpy(plain(X)))


def test_outside_training_the_first_component_predicts_with_its_mean():
    layer = _dense()
    w = _numpy(layer.posterior.component(0).mean().dense())
    np.testing.assert_allclose(_numpy(layer(X[:1])), X[:1] @ w + _numpy(layer.bias)[0], rtol=1e-5)


# -- a model -----------------------------------------------------------------------------------------------------------


def _model(components=K, kl_weight=None):
    def posterior(rank):
        return sb.Mixture(sb.LowRank(rank, prior=sb.Normal(1.0), kl_weight=kl_weight), components)

    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(6, "tanh", posterior=posterior(2)),
            layers.Dense(
                2, posterior=posterior(1), bias_posterior=sb.FullRank(prior=sb.Normal(1.0), kl_weight=kl_weight)
            ),
        ]
    )
    model.compile(keras.optimizers.AdamW(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_fit_trains_all_components_and_a_file_holds_them(tmp_path):
    model, y = _model(), (X[:, 0] > 0).astype("int32")
    before = [_numpy(weight) for weight in model.trainable_weights]
    x, y = np.concatenate([X, X[:2]]), np.concatenate([y, y[:2]])  # the last batch is smaller
    model.fit(x, y, batch_size=6, epochs=2, verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    for old, weight in zip(before, model.trainable_weights, strict=True):
        changed = np.abs(_numpy(weight) - old).reshape(K, -1).max(axis=1)
        assert (changed > 0).all()
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    for seed in range(2):
        ours, theirs = (sb.predict(m, X, draws=5, seed=seed, keep_draws=True).draws for m in (model, again))
        assert ours.shape[0] == 6  # a multiple of the components
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_draw_is_one_component_in_every_layer_whatever_the_batch():
    model = stir(_model())
    for posterior in sb.find_posteriors(model):
        for variable in posterior.random_weights:  # next to no noise
            values = np.array(_numpy(variable))
            values[:, 1] = -20.0
            variable.assign(values)
    draws = sb.predict(model, X, draws=2 * K, keep_draws=True).draws
    np.testing.assert_allclose(sb.predict(model, X, draws=2 * K, keep_draws=True, batch_size=5).draws, draws, rtol=1e-4)
    np.testing.assert_allclose(sb.predict(model, X[:1], draws=K, keep_draws=True).draws, draws[:K, :1], rtol=1e-4)
    first, second = model.layers
    for s, draw in enumerate(draws):
        k = s % K
        h = np.tanh(X @ _numpy(first.posterior.component(k).mean().dense()) + _numpy(first.bias)[k])
        bias = _numpy(second.bias_posterior.component(k).mean().dense())
        logits = h @ _numpy(second.posterior.component(k).mean().dense()) + bias
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(draw, expected, rtol=1e-3, atol=1e-4)


def test_weight_decay_spares_means_and_scales():
    model = _model()
    model.optimizer.build(model.trainable_variables)
    sb.set_kl(model, num_data=10, beta=1.0)
    spared = [not model.optimizer._use_weight_decay(v) for v in model.trainable_variables]
    assert spared == [v.path.rpartition("/")[2] != "bias" for v in model.trainable_variables]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("components", [0, -1, 2.0, True, "4"])
@TORCH_FIRST
def test_a_number_of_components_that_is_none_is_refused(components):
    with pytest.raises(ValueError, match="components to be an integer >= 1"):
        sb.Mixture(sb.LowRank(2), components)


@JAX_FIRST
def test_what_makes_no_mixture_is_refused():
    with pytest.raises(ValueError, match="random weights that is not a mixture"):
        sb.Mixture(sb.Deterministic())
    with pytest.raises(ValueError, match="random weights that is not a mixture"):
        sb.Mixture(sb.Mixture(sb.LowRank(2)))
    with pytest.raises(ValueError, match="same number of components"):
        layers.Dense(4, posterior=sb.LowRank(2), bias_posterior=sb.Mixture(sb.FullRank()))
    with pytest.raises(ValueError, match="number from 0 to 2"):
        _dense().posterior.component(3)


def test_a_pass_that_draws_uses_one_component_in_all_layers():
    # Components whose weights are k + 1 and noise of 0: outputs are (k + 1)² where both layers use component k.
    one = {"use_bias": False, "posterior": sb.Mixture(sb.FullRank(), K)}
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, **one), layers.Dense(1, **one)])
    for posterior in sb.find_posteriors(model):
        (values,) = posterior.random_weights
        loc = np.arange(1.0, K + 1).reshape(K, 1, 1)
        values.assign(np.stack([loc, np.full_like(loc, -30.0)], axis=1))
    with sb.draw_weights(model):
        seen = {round(float(_numpy(model(np.ones((1, 1))))[0, 0]), 3) for _ in range(30)}
    assert seen == {float((k + 1) ** 2) for k in range(K)}
    assert _numpy(model(np.ones((1, 1)))) == 1.0


# -- every example for every component -------------------------------------------------------------------------------


def _repeating(**arguments):
    keras.utils.set_random_seed(1)
    posterior = sb.Mixture(sb.LowRank(1, prior=sb.Normal(1.0), rho_initializer=keras.initializers.Constant(-30.0)), K)
    x = keras.Input((5,))
    model = keras.Model(x, layers.Dense(5, "tanh", posterior=posterior)(x) + x)  # a sum with the inputs themselves
    model.compile(keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError(), **arguments)
    return model


def test_repeated_examples_train_every_component_as_a_network_of_its_own():
    model, y = _repeating(weighted_metrics=["mae"]), np.tanh(X)
    weight = np.linspace(0.5, 2.0, BATCH).astype("float32")
    dense = model.layers[1]
    start = [_numpy(dense.posterior.component(k).mean().dense()) for k in range(K)]
    history = model.fit(
        X, y, batch_size=BATCH, sample_weight=weight, verbose=0, callbacks=[sb.KLSchedule(BATCH, beta=0)]
    ).history
    losses, errors = [], []
    for k in range(K):  # the first step's loss, and the gradient of the bias, in NumPy
        h = np.tanh(X @ start[k])
        residual = h + X - y
        losses.append((weight[:, None] * residual**2).mean())
        errors.append((weight * np.abs(residual).mean(axis=1)).sum() / weight.sum())
        slope = (weight[:, None] * 2 * residual * (1 - h**2)).sum(axis=0) / (5 * BATCH)
        np.testing.assert_allclose(_numpy(dense.bias)[k], -0.1 * slope / K, rtol=1e-3, atol=1e-6)
    assert history["nll"][0] == pytest.approx(np.mean(losses), rel=1e-4)
    assert history["mae"][0] == pytest.approx(np.mean(errors), rel=1e-4)
    assert model.predict(X, verbose=0).shape == X.shape


@ON_TORCH
def test_repeated_examples_keep_steps_validation_and_a_batch_smaller_than_the_components():
    model = _repeating(steps_per_execution=1 if keras.backend.backend() == "torch" else 2)
    history = model.fit(
        X, X, batch_size=2, epochs=2, verbose=0, validation_data=(X, X), callbacks=[sb.KLSchedule(BATCH, beta=1.0)]
    ).history
    assert np.isfinite(history["val_nll"]).all() and model.evaluate(X, X, verbose=0) >= 0
    assert sb.predict(model, X, draws=4, likelihood="gaussian").mean.shape == X.shape


@ON_TORCH
def test_a_repeating_layer_without_blocks_is_refused_with_what_to_do():
    model = _repeating()
    for posterior in sb.find_posteriors(model):
        posterior.set_kl_weight(0.1)
    with pytest.raises(ValueError, match="trains each of them on every example"):
        model(X, training=True)
    sb.set_kl(model, BATCH, beta=1.0)
    assert model(X, training=True).shape == (K * BATCH, 5)
    assert np.isfinite(model.train_on_batch(X, X)).all()


@ON_TORCH
def test_repeated_examples_that_are_concatenated_along_the_batch_are_refused():
    """Blocks of both halves would meet other components than their own."""
    posterior = sb.Mixture(sb.LowRank(1), K)
    both = [keras.Input((5,)), keras.Input((5,))]
    halves = ops.split(layers.Dense(4, posterior=posterior)(ops.concatenate(both, axis=0)), 2)
    model = keras.Model(both, layers.Dense(1, posterior=posterior)(ops.concatenate(halves, axis=1)))
    sb.set_kl(model, BATCH)
    with pytest.raises(ValueError, match=f"got first axes of {K * BATCH} and {2 * K * BATCH} in one"):
        model([X, X], training=True)
    assert model([X, X]).shape == (BATCH, 1)


@ON_TORCH
def test_fit_refuses_a_mixture_whose_first_axis_is_never_the_batch():
    """The halves of an example would meet different components; no other mixture shows the size of the batch."""
    both = [keras.Input((5,)), keras.Input((5,))]
    halves = ops.split(layers.Dense(4, posterior=sb.Mixture(sb.LowRank(1), K))(ops.concatenate(both, axis=0)), 2)
    model = keras.Model(both, keras.layers.Dense(1)(ops.concatenate(halves, axis=1)))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=f"got first axes of {K * BATCH} and {2 * K * BATCH}"):
        model.fit([X, X], X[:, :1], batch_size=BATCH, verbose=0, callbacks=[sb.KLSchedule()])


@ON_TORCH
def test_batch_normalisation_would_mix_components_and_is_refused():
    x = keras.Input((5,))
    model = keras.Model(
        x, layers.Dense(1, posterior=sb.Mixture(sb.LowRank(1), K))(keras.layers.BatchNormalization()(x))
    )
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="statistics are of examples of all components"):
        model.fit(X, X[:, :1], verbose=0, callbacks=[sb.KLSchedule(BATCH, beta=1.0)])
    model.layers[1].trainable = False
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], verbose=0, callbacks=[sb.KLSchedule(BATCH, beta=1.0)])
