"""Epochs without noise: they train the means alone, then W is the same in balanced factors and the noise is back."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST

import singularbayes as sb
from singularbayes import Anchored, FullRank, KLSchedule, LowRank, layers
from singularbayes.posteriors import Origin
from singularbayes.training.pretraining import switch_noise

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 5)).astype("float32")
Y = (X[:, 0] * X[:, 1] > 0).astype("int32")


def _network(posterior=None, seed=0):
    keras.utils.set_random_seed(seed)
    posterior = posterior or LowRank.paper(3)
    hidden = layers.Dense(6, "tanh", posterior=posterior, bias_posterior=FullRank(prior=posterior.prior))
    model = keras.Sequential([keras.Input((5,)), hidden, layers.Dense(2, use_bias=False, posterior=FullRank())])
    model.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _low_rank(model):
    return next(q for q in sb.find_posteriors(model) if q.fixed_rank)


class Watched(keras.callbacks.Callback):
    """What the weights are when an epoch begins, before and after the schedule has seen it."""

    def __init__(self):
        super().__init__()
        self.scales, self.w, self.ab, self.reference = [], [], [], []

    def on_epoch_begin(self, epoch, logs=None):
        posteriors = sb.find_posteriors(self.model)
        self.scales.append([ops.convert_to_numpy(q.factors[0].scale) for q in posteriors])
        self.w.append([ops.convert_to_numpy(q.mean().dense()) for q in posteriors])
        self.ab.append(_low_rank(self.model).factors[0].float64_values()[0])


def _fit(model, epochs=4, callbacks=(), **schedule):
    before, after = Watched(), Watched()
    every = [before, KLSchedule(len(X), **schedule), after, *callbacks]
    history = model.fit(X, Y, batch_size=12, epochs=epochs, verbose=0, callbacks=every)
    return before, after, history


@TORCH_FIRST
def test_noise_is_off_then_w_is_the_same_and_the_initial_scales_are_back():
    model = _network()
    before, after, history = _fit(model, pretrain_epochs=2)
    for first, off, on in zip(before.scales[0], after.scales[1], after.scales[2], strict=True):
        assert off.max() < 1e-10 * first.max()
        np.testing.assert_allclose(on, first, rtol=1e-4)
    for old, new in zip(before.w[2], after.w[2], strict=True):
        np.testing.assert_allclose(new, old, atol=2e-6)
    a, b = np.split(after.ab[2], [5])
    np.testing.assert_allclose(a.T @ a, b.T @ b, atol=1e-5)  # balanced, and diagonal
    np.testing.assert_allclose(a.T @ a, np.diag(np.diag(a.T @ a)), atol=1e-5)
    assert any(np.abs(old - new).max() > 0.01 for old, new in zip(before.w[0], before.w[2], strict=True))
    np.testing.assert_allclose(history.history["kl_weight"], [0, 0, 0.03 / 48, 0.03 / 48])


@TORCH_FIRST
def test_those_epochs_are_the_deterministic_network_of_the_same_rank():
    """Two networks whose noise differs train alike until it is on."""
    ends = []
    for seed in (1, 2):
        model = _network(LowRank.paper(2))
        values = [q.factors[0] for q in sb.find_posteriors(model)]
        for factor in values:
            factor.set_loc(np.linspace(-0.5, 0.5, factor.size).reshape(factor.shape).astype("float32"))
        keras.utils.set_random_seed(seed)
        for q in sb.find_posteriors(model):
            q.seed_generator.state.assign(np.array([seed, 0], "uint32"))
        with pytest.warns(UserWarning, match="before the KL weight was full"):
            model.fit(
                X, Y, batch_size=48, epochs=3, verbose=0, callbacks=[KLSchedule(len(X), pretrain_epochs=9, beta=1.0)]
            )
        ends.append([ops.convert_to_numpy(q.mean().dense()) for q in sb.find_posteriors(model)])
        assert all(ops.convert_to_numpy(f.scale).min() > 1e-6 for f in values)  # back at the end of training
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@TORCH_FIRST
def test_adam_forgets_directions_and_keeps_the_size_of_gradients():
    model = _network()

    class Looks(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                factor = _low_rank(model).factors[0]
                index = model.optimizer._get_variable_index(factor.values)
                self.m = ops.convert_to_numpy(model.optimizer._momentums[index])
                self.v = ops.convert_to_numpy(model.optimizer._velocities[index])
                self.slope = 1 / (1 + np.exp(-ops.convert_to_numpy(factor.rho)))

    looks = Looks()
    _fit(model, pretrain_epochs=2, callbacks=[looks])
    assert (looks.m == 0).all() and (looks.v[0] == looks.v[0, 0, 0]).all() and looks.v[0, 0, 0] > 0
    np.testing.assert_allclose(looks.v[1], looks.v[0] * looks.slope**2, rtol=1e-4)


def test_an_anchor_stays_or_follows_as_chosen():
    with pytest.raises(ValueError, match="Anchored needs anchor='random' or anchor='start'"):
        _fit(_network(LowRank.paper(3, prior="anchored")), pretrain_epochs=1)
    for anchor, origin in (("random", Origin.INITIAL), ("start", Origin.START)):
        model = _network(LowRank.paper(3, prior=Anchored(0.1, anchor=anchor)))
        first = [q.factors[0] for q in sb.find_posteriors(model)[:2]]
        centres = [factor.float64_values()[2][0] for factor in first]
        _, after, _ = _fit(model, pretrain_epochs=2)
        for factor, centre in zip(first, centres, strict=True):
            assert factor.prior_origin() == origin
            assert np.array_equal(factor.float64_values()[2][0], centre) == (anchor == "random")
        if anchor == "start":
            np.testing.assert_array_equal(_low_rank(model).factors[0].float64_values()[2][0], after.ab[2])


@JAX_FIRST
def test_many_seeds_train_as_one_program_with_it():
    def build(seed):
        return _network(seed=seed)

    def callbacks():
        return [KLSchedule(len(X), pretrain_epochs=2, beta=1.0)]

    together, alone = (
        sb.fit_many(build, X, Y, [3, 4], 4, 12, callbacks=callbacks, together=number) for number in (2, 1)
    )
    for one, other in zip(together, alone, strict=True):
        for name in ("loss", "kl"):
            np.testing.assert_allclose(one.history[name], other.history[name], rtol=2e-3)


def test_training_that_resumes_in_between_does_not_switch_twice():
    model = _network()
    start = [ops.convert_to_numpy(q.factors[0].scale) for q in sb.find_posteriors(model)]
    schedule = KLSchedule(len(X), pretrain_epochs=4, beta=1.0)
    switch_noise(model, on=False)  # as a checkpoint of such an epoch holds it
    with pytest.warns(UserWarning, match="from epoch 4 on"):
        model.fit(X, Y, initial_epoch=2, epochs=4, verbose=0, callbacks=[schedule])
    for q, scale in zip(sb.find_posteriors(model), start, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(q.factors[0].scale), scale, rtol=1e-4)


def test_components_of_a_mixture_switch_each_with_its_own_anchor():
    inside = LowRank.paper(3, prior=Anchored(0.1, anchor="random"))
    keras.utils.set_random_seed(0)
    dense = layers.Dense(4, posterior=sb.Mixture(inside, components=2))
    model = keras.Sequential([keras.Input((5,)), dense])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    parts = [dense.posterior.component(k) for k in range(2)]
    first = [part.factors[0].float64_values() for part in parts]
    assert (first[0][2][0] != first[1][2][0]).all()
    model.fit(
        X, Y, batch_size=12, epochs=1, verbose=0, callbacks=[KLSchedule(len(X), beta=1.0)]
    )  # builds the optimizer
    means = [ops.convert_to_numpy(dense.posterior.component(k).mean().dense()) for k in range(2)]
    switch_noise(model, on=False)
    assert all(dense.posterior.component(k).factors[0].noise_is_off() for k in range(2))
    switch_noise(model, on=True)
    for k in range(2):
        part = dense.posterior.component(k)
        np.testing.assert_allclose(ops.convert_to_numpy(part.mean().dense()), means[k], atol=2e-6)
        np.testing.assert_array_equal(part.factors[0].float64_values()[2], first[k][2])


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="KLSchedule needs pretrain_epochs"):
        KLSchedule(10, pretrain_epochs=-1, beta=1.0)
