"""Plain Keras training maximises the ELBO: mean negative log-likelihood + β KL / num_data, the KL counted once."""

import copy
import warnings

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, gradient, set_factor, stirred_layer

import singularbayes as sb
from singularbayes import FullRank, LowRank, Normal, layers

pytestmark = pytest.mark.backend
RNG = np.random.default_rng(7)
X = RNG.normal(size=(32, 3)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")


def _posterior(**arguments):
    return LowRank.paper(1, prior=Normal(0.5), **arguments)


def _sequential(posterior):
    return keras.Sequential(
        [keras.Input((3,)), layers.Dense(2, "tanh", posterior=posterior), layers.Dense(1, posterior=posterior)]
    )


def _functional(posterior):
    x = keras.Input((3,))
    hidden = layers.Dense(2, "tanh", posterior=posterior)(x)
    return keras.Model(x, layers.Dense(1, posterior=posterior, bias_posterior=FullRank(prior=Normal(2.0)))(hidden))


def _nested(posterior):
    x = keras.Input((3,))
    return keras.Model(x, layers.Dense(1, posterior=posterior)(_functional(posterior)(x)))


class Subclassed(keras.Model):
    def __init__(self, posterior):
        super().__init__()
        self.hidden = [layers.Dense(2, "tanh", posterior=posterior)]
        self.head = layers.Dense(1, posterior=posterior)

    def call(self, x, training=None):
        return self.head(self.hidden[0](x, training=training), training=training)


class CalledTwice(keras.Model):
    """One layer in two calls of a pass, with a training flag each."""

    def __init__(self, posterior, flags):
        super().__init__()
        self.head, self.flags = layers.Dense(1, posterior=posterior), flags

    def call(self, x, training=None):
        first, second = (self.head(x, training=training and flag) for flag in self.flags)
        return first + second


MODELS = {"sequential": _sequential, "functional": _functional, "nested": _nested, "subclassed": Subclassed}


def _compiled(model, optimizer="sgd", loss="mse", **arguments):
    # XLA takes seconds a model on TensorFlow; Keras's battery trains every layer with it.
    model.compile(optimizer, loss, jit_compile=keras.backend.backend() == "jax", **arguments)
    return model


def _interrupt(model, *callbacks):
    """Ends a `fit` as Ctrl-C does."""

    def interrupt(batch, logs):
        raise KeyboardInterrupt

    stop = keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, 8, verbose=0, callbacks=[*callbacks, stop])


def _standing(model, **arguments):
    """Returns the model compiled so that training moves nothing, and what it logs can be checked exactly."""
    return _compiled(stirred_layer(model, X), keras.optimizers.SGD(0.0), **arguments)


def _sum(losses):
    return sum(float(ops.convert_to_numpy(loss)) for loss in losses)


def _exact(model):
    return sb.kl(model, "exact")


class TestKLIsCountedOnce:
    def _twice(self, layer, x):
        return keras.Model(x, layer(layer(x)))

    def _branches(self, layer, x):
        return keras.Model(x, keras.layers.Add()([layer(x), keras.layers.ReLU()(layer(x))]))

    def _nested(self, layer, x):
        inner = keras.Model(x, layer(x))
        return keras.Model(x, keras.Sequential([keras.Input((3,)), inner, inner])(inner(x)))

    def _time_distributed(self, layer, x):
        return keras.Model(x, keras.layers.TimeDistributed(layer)(keras.layers.RepeatVector(4)(x)))

    @pytest.mark.parametrize("uses", ["_twice", "_branches", "_nested", "_time_distributed"])
    def test_however_often_and_wherever_the_layer_is_called(self, uses):
        layer = layers.Dense(3, posterior=_posterior(), bias_posterior=FullRank(prior=Normal()))
        model = stirred_layer(getattr(self, uses)(layer, keras.Input((3,))), X)
        sb.set_kl(model, num_data=50, beta=0.5)
        exact = layer.posterior.kl_exact() + layer.bias_posterior.kl_exact()
        for batch in (1, 32):
            model(X[:batch], training=True)
            assert _sum(model.losses) == pytest.approx(0.5 / 50 * exact, rel=1e-5)
        assert float(ops.convert_to_numpy(sb.kl(model))) == pytest.approx(exact, rel=1e-5)

    def test_it_is_a_sum_over_weights(self):
        small, large = (layers.Dense(n, posterior=FullRank(prior=Normal(2.0), kl_weight=1.0)) for n in (3, 30))
        for layer, n in ((small, 3), (large, 30)):
            layer.build((None, n))
            set_factor(layer.posterior.w, 0.3, 0.2)
            layer(X[:2, :1] * np.ones(n, "float32"), training=True)
        # KL(N(0.3, 0.2²) ‖ N(0, 2²)) of one weight.
        one = np.log(2 / 0.2) + (0.2**2 + 0.3**2) / (2 * 2**2) - 0.5
        assert _sum(small.losses) == pytest.approx(9 * one, rel=1e-5)
        assert _sum(large.losses) == pytest.approx(900 * one, rel=1e-5)


class TestFit:
    @pytest.mark.parametrize("kind", MODELS)
    def test_the_loss_is_nll_plus_weighted_kl_and_all_are_logged_apart(self, kind):
        model = _standing(MODELS[kind](_posterior()))
        schedule = sb.KLSchedule(num_data=32, beta=0.5, warmup=2)
        history = model.fit(X, Y, 10, 3, 0, callbacks=[schedule], validation_data=(X[:5], Y[:5])).history
        assert set(history) == {"loss", "nll", "kl", "kl_weight", "val_loss", "val_nll"}
        np.testing.assert_allclose(history["kl"], _exact(model), rtol=1e-5)
        np.testing.assert_allclose(history["kl_weight"], [0, 0.25 / 32, 0.5 / 32], rtol=1e-6)
        added = np.multiply(history["kl_weight"], history["kl"])
        np.testing.assert_allclose(history["loss"], history["nll"] + added, rtol=1e-5)
        nll = float(np.mean((ops.convert_to_numpy(model(X[:5])) - Y[:5]) ** 2))
        assert history["val_loss"] == history["val_nll"] and len({nll, *history["val_nll"]}) == 4  # of draws
        assert model.evaluate(X[:5], Y[:5], verbose=0, return_dict=True)["loss"] == pytest.approx(nll, rel=1e-5)

    @JAX_FIRST
    def test_the_nll_is_without_regularizers_of_other_layers_too(self):
        plain = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(0.7))
        model = _standing(keras.Sequential([keras.Input((3,)), layers.Dense(2, posterior=_posterior()), plain]))
        history = model.fit(
            X, Y, 10, 2, 0, callbacks=[sb.KLSchedule(32, beta=0.5)], validation_data=(X[:5], Y[:5])
        ).history
        penalty = 0.7 * float(np.sum(ops.convert_to_numpy(plain.kernel) ** 2))
        added = np.subtract(history["loss"], history["nll"]) - np.multiply(history["kl_weight"], history["kl"])
        np.testing.assert_allclose(added, penalty, rtol=1e-4)
        np.testing.assert_allclose(np.subtract(history["val_loss"], history["val_nll"]), penalty, rtol=1e-4)

    def _refuses_to_train(self, model):
        """Checks that training is an error that says the fix and harms nothing, and that all else works."""
        before, mean = model.get_weights(), ops.convert_to_numpy(model(X))
        with pytest.raises(ValueError, match=r"KLSchedule\(\)"):
            model.fit(X, Y, verbose=0)
        with pytest.raises(ValueError, match=r"set_kl\(model, num_data=len\(x\)\)"):
            model.train_on_batch(X, Y)
        with pytest.raises(ValueError, match="KL weight is not set"):
            model(X, training=True)
        for ours, theirs in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(model.predict(X, verbose=0), mean, rtol=1e-5, atol=1e-6)
        nll = float(np.mean((mean - Y) ** 2))
        assert model.evaluate(X, Y, verbose=0, return_dict=True)["loss"] == pytest.approx(nll, rel=1e-5)
        assert model.test_on_batch(X, Y, return_dict=True)["loss"] == pytest.approx(nll, rel=1e-5)

    @pytest.mark.parametrize("kind", MODELS)
    def test_without_a_kl_weight_it_says_the_fix_and_harms_nothing_and_after_it_again(self, kind):
        model = _compiled(stirred_layer(MODELS[kind](_posterior()), X))
        self._refuses_to_train(model)
        history = model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)]).history
        assert np.isfinite(history["loss"]).all()
        self._refuses_to_train(model)

    @pytest.mark.parametrize("way", ["load_weights", "deepcopy", "load_model"])
    def test_a_copy_after_a_fit_has_no_kl_weight_and_keeps_the_one_that_it_is_given(self, way, tmp_path):
        model = _standing(_sequential(_posterior()))
        model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
        path = tmp_path / "model.weights.h5"
        model.save_weights(path)
        model.save(tmp_path / "model.keras")
        again = {"deepcopy": copy.deepcopy, "load_weights": lambda model: model}.get(
            way, lambda _: keras.saving.load_model(tmp_path / "model.keras")
        )(model)
        if way == "load_weights":
            again.load_weights(path)
        with pytest.raises(ValueError, match="KL weight is not set"):
            again.fit(X, Y, verbose=0)
        sb.set_kl(again, num_data=50, beta=0.5)
        again.load_weights(path)
        again(X, training=True)
        assert _sum(again.losses) == pytest.approx(0.5 / 50 * _exact(again), rel=1e-5)

    @JAX_FIRST
    def test_the_weight_of_an_objective_is_unset_when_its_fit_ends(self):
        model = _compiled(stirred_layer(_sequential(_posterior()), X), loss=lambda y, p: ops.mean(0.5 + 0.1 * (y - p)))
        model.fit(X, Y, verbose=0, callbacks=[sb.PACBayesObjective(32)])
        with pytest.raises(ValueError, match="KL weight is not set"):
            model.fit(X, Y, verbose=0)

    def test_a_weight_that_set_kl_gave_is_back_when_the_fit_of_a_schedule_ends(self):
        model = _standing(_sequential(_posterior()))
        sb.set_kl(model, num_data=50, beta=0.5)
        model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
        model.fit(X, Y, verbose=0)
        model(X, training=True)
        assert _sum(model.losses) == pytest.approx(0.5 / 50 * _exact(model), rel=1e-5)

    @JAX_FIRST
    def test_weights_of_posteriors_come_back_to_each(self):
        x = keras.Input((3,))
        first, second = (layers.Dense(3, posterior=_posterior(kl_weight=weight)) for weight in (0.1, 0.2))
        model = _standing(keras.Model(x, second(first(x))))
        model.fit(X, X, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
        model(X, training=True)
        kls = [layer.posterior.kl_exact() for layer in (first, second)]
        assert _sum(model.losses) == pytest.approx(np.dot([0.1, 0.2], kls), rel=1e-5)

    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("after", [True, False])
    @pytest.mark.parametrize("scheduled", [True, False])
    @JAX_FIRST
    def test_a_fit_that_was_interrupted_leaves_only_what_set_kl_gave(self, before, after, scheduled):
        model = _standing(_sequential(_posterior()))
        if before:
            sb.set_kl(model, num_data=40, beta=0.3)
        _interrupt(model, sb.KLSchedule(32, beta=1.0))
        if after:
            sb.set_kl(model, num_data=50, beta=0.5)
        if scheduled:
            model.fit(X, Y, 8, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
        if not (before or after):
            with pytest.raises(ValueError, match="KL weight is not set"):
                model.fit(X, Y, verbose=0)
            return
        model.fit(X, Y, verbose=0)
        model(X, training=True)
        assert _sum(model.losses) == pytest.approx((0.5 / 50 if after else 0.3 / 40) * _exact(model), rel=1e-5)

    @JAX_FIRST
    def test_a_weight_of_a_file_stays_where_its_fit_was_interrupted(self, tmp_path):
        model = _standing(_sequential(_posterior()))
        sb.set_kl(model, num_data=40, beta=0.3)
        model.save(tmp_path / "model.keras")
        again = sb.load(tmp_path / "model.keras")
        with pytest.warns(UserWarning, match="resumes with the KL weight 0.0075"):
            _interrupt(again)
        with pytest.warns(UserWarning, match="resumes with the KL weight 0.0075"):
            again.fit(X, Y, verbose=0)
        again(X, training=True)
        assert _sum(again.losses) == pytest.approx(0.3 / 40 * _exact(again), rel=1e-5)

    def test_callbacks_of_keras_choose_by_the_likelihood_while_the_kl_comes_in(self, tmp_path):
        keras.utils.set_random_seed(3)
        quiet = _posterior(rho_initializer=keras.initializers.Constant(-12.0))  # so that draws are the mean
        model, seen = _compiled(_sequential(quiet), keras.optimizers.SGD(0.02)), {}
        keep = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.update({epoch: model.get_weights()})
        )
        path = tmp_path / "best.weights.h5"
        stop = keras.callbacks.EarlyStopping(patience=1)
        best = keras.callbacks.ModelCheckpoint(path, save_best_only=True, save_weights_only=True)
        plateau = keras.callbacks.ReduceLROnPlateau(patience=1, min_delta=0.0)
        callbacks = [sb.KLSchedule(32, warmup=3, beta=0.6), stop, best, plateau, keep]
        history = model.fit(X, Y, 32, 4, 0, callbacks=callbacks, validation_data=(X, Y)).history
        nll = history["val_nll"]
        assert nll == sorted(nll, reverse=True)  # the likelihood alone gets better, with the KL it gets worse
        assert (np.diff(np.add(nll, np.multiply(history["kl"], history["kl_weight"]))) > 0).all()
        assert history["val_loss"] == pytest.approx(nll, rel=1e-6) and stop.best == history["val_loss"][-1]
        assert history["learning_rate"] == pytest.approx([0.02] * 4)
        again = _sequential(_posterior())
        again.load_weights(path)
        for ours, theirs in zip(again.get_weights(), seen[3], strict=True):
            np.testing.assert_array_equal(ours, theirs)

    @pytest.mark.parametrize("flags", [(True, False), (False, True), (False, False)])
    def test_a_pass_trains_if_one_call_of_a_layer_does_whatever_the_order(self, flags):
        model = stirred_layer(CalledTwice(_posterior(), flags), X)
        model = _compiled(model, keras.optimizers.SGD(0.0), loss=lambda y, p: ops.mean(0.5 + 0.0 * (y - p)))
        sb.set_kl(model, num_data=32, beta=2.0)
        model(X, training=True)
        assert _sum(model.losses) == pytest.approx(2 / 32 * _exact(model) if any(flags) else 0.0, rel=1e-5)
        model(X, training=False)
        assert _sum(model.losses) == 0.0
        if flags[0]:  # else the pass takes the mean, and a gradient there is a warning
            assert model.train_on_batch(X, Y) == pytest.approx(0.5 + 2 / 32 * _exact(model), rel=1e-5)
            history = model.fit(X, Y, 32, 1, 0, callbacks=[sb.KLSchedule(32, beta=3.0)]).history
            assert history["loss"] == pytest.approx([0.5 + 3 / 32 * _exact(model)], rel=1e-5)

    def test_a_frozen_posterior_needs_no_kl(self):
        model = _sequential(_posterior())
        model.layers[0].trainable = False
        model.layers[1].posterior.trainable = False
        model = _standing(model)
        history = model.fit(X, Y, verbose=0).history
        assert _sum(model.losses) == 0.0
        assert np.isfinite(history["loss"]).all()

    @pytest.mark.parametrize("schedule_first", [True, False])
    @JAX_FIRST
    def test_early_stopping_begins_with_the_full_weight_whatever_the_order(self, schedule_first):
        keras.utils.set_random_seed(3)
        model, seen = _compiled(_sequential(_posterior()), keras.optimizers.SGD(1e-3)), {}
        keep = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.update({epoch: model.get_weights()})
        )
        stop = sb.EarlyStopping(min_delta=1e9, patience=2)
        callbacks = [sb.KLSchedule(24, zero_epochs=2, warmup=2, beta=1.0), stop]
        callbacks = callbacks if schedule_first else callbacks[::-1]
        history = model.fit(X, Y, 32, 20, 0, callbacks=[*callbacks, keep], validation_split=0.25)
        # Full from epoch 4 on, which no later one betters: two more, and its weights are back.
        assert history.epoch == [0, 1, 2, 3, 4, 5, 6] and stop.best_epoch == 4
        assert stop.best == history.history["val_loss"][4]
        for ours, theirs in zip(model.get_weights(), seen[4], strict=True):
            np.testing.assert_array_equal(ours, theirs)

    @pytest.mark.parametrize("monitor", ["kl", "kl_weight"])
    @JAX_FIRST
    def test_early_stopping_before_the_schedule_can_watch_what_the_schedule_logs(self, monitor):
        model = _standing(_sequential(_posterior()))
        stop = sb.EarlyStopping(monitor, patience=1)
        history = model.fit(X, Y, 32, 9, 0, callbacks=[stop, sb.KLSchedule(32, warmup=1, beta=1.0)])
        assert history.epoch == [0, 1, 2] and stop.best == history.history[monitor][1]
        assert len(history.history["kl"]) == 3

    @JAX_FIRST
    def test_two_schedules_are_an_error(self):
        model = _standing(_sequential(_posterior()))
        with pytest.raises(ValueError, match=r"one callback that sets the KL weight; got KLSchedule and KLSchedule"):
            model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0), sb.KLSchedule(32, beta=0.1)])
        with pytest.raises(ValueError, match=r"one callback .*got KLSchedule and PACBayesObjective"):
            model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0), sb.PACBayesObjective(32)])
        for beta in (1.0, 0.1):  # one after another they are not
            model.fit(X, Y, verbose=0, callbacks=[sb.KLSchedule(32, beta)])

    @pytest.mark.parametrize("validation", [{}, {"validation_data": (X[:5], Y[:5])}])
    @JAX_FIRST
    def test_a_num_data_that_differs_from_the_examples_by_more_than_a_batch_is_a_warning(self, validation):
        model = _standing(_sequential(_posterior()))
        for num_data in (24, 40):
            model.fit(X, Y, 8, 1, 0, callbacks=[sb.KLSchedule(num_data, beta=1.0)], **validation)
        for num_data in (4, 23, 41):
            with pytest.warns(
                UserWarning, match=rf"num_data={num_data}, but an epoch of this `fit` has 32 ex"
            ) as found:
                model.fit(X, Y, 8, 2, 0, callbacks=[sb.KLSchedule(num_data, beta=1.0)], **validation)
            assert sum("num_data" in str(warning.message) for warning in found) == 1

    @pytest.mark.filterwarnings("ignore:Your input ran out of data", "ignore:.*shuffle=True")
    @JAX_FIRST
    def test_the_examples_of_a_generator_without_a_length_are_counted(self):
        def batches():
            yield from ((X[i : i + 8], Y[i : i + 8]) for i in range(0, 32, 8))

        model = _standing(_sequential(_posterior()))
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="KLSchedule has num_data")
            model.fit(batches(), epochs=1, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
        with pytest.warns(UserWarning, match=r"num_data=320, but an epoch of this `fit` has \d+ examples"):
            model.fit(batches(), epochs=1, verbose=0, callbacks=[sb.KLSchedule(320, beta=1.0)])

    def test_steps_per_execution_logs_the_same(self):
        if keras.backend.backend() == "torch":
            pytest.skip("Keras on torch refuses steps_per_execution")
        model = _standing(_sequential(_posterior()), steps_per_execution=2)
        history = model.fit(X, Y, 8, 2, 0, callbacks=[sb.KLSchedule(32, beta=1.0)]).history
        np.testing.assert_allclose(history["loss"], np.add(history["nll"], np.divide(history["kl"], 32)), rtol=1e-5)

    def test_a_loss_that_is_nan_is_said_once_a_training(self):
        model, schedule = _standing(_sequential(_posterior())), sb.KLSchedule(32, beta=1.0)
        for _ in range(2):
            with pytest.warns(UserWarning, match=r"NaN or infinite in epoch 0 .*Look for NaN or very large") as found:
                model.fit(X, Y * np.nan, 32, 2, 0, callbacks=[schedule])
            assert sum("infinite" in str(warning.message) for warning in found) == 1

    def test_the_same_seed_gives_the_same_weights(self):
        def fitted(seed):
            keras.utils.set_random_seed(seed)
            model = _compiled(_sequential(LowRank.paper(1)), "adam")
            model.fit(X, Y, 8, 2, 0, callbacks=[sb.KLSchedule(32, beta=1.0)])
            return np.concatenate([w.ravel() for w in model.get_weights()])

        first, second, third = fitted(1), fitted(1), fitted(2)
        np.testing.assert_array_equal(first, second)
        assert not np.allclose(first, third)


class TestWeightsOfExamples:
    """Class and sample weights scale the likelihood only."""

    @pytest.mark.parametrize("weights", [{"sample_weight": np.zeros(32)}, {"class_weight": {0: 0.0, 1: 0.0}}])
    def test_at_weight_0_a_step_descends_the_kl_alone(self, weights):
        model = keras.Sequential([keras.Input((3,)), layers.Dense(1, posterior=FullRank(prior=Normal(0.5)))])
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        _compiled(stirred_layer(model, X), keras.optimizers.SGD(0.1), loss)
        w = model.layers[0].posterior.w
        before = ops.convert_to_numpy(w.values).copy()
        slope = gradient(model.layers[0].posterior.kl, w.values)
        loc, scale = before[0], np.log1p(np.exp(before[1]))
        np.testing.assert_allclose(slope[0], loc / 0.5**2, rtol=1e-5)
        np.testing.assert_allclose(slope[1], (scale / 0.5**2 - 1 / scale) / (1 + np.exp(-before[1])), rtol=1e-4)
        bias = ops.convert_to_numpy(model.layers[0].bias).copy()
        model.fit(X, Y, 32, 1, 0, callbacks=[sb.KLSchedule(20, beta=1.0)], **weights)
        np.testing.assert_allclose(ops.convert_to_numpy(w.values), before - 0.1 * slope / 20, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(ops.convert_to_numpy(model.layers[0].bias), bias)

    def test_twice_the_weights_log_twice_the_nll_and_the_same_kl(self):
        found = []
        for weight in (1.0, 2.0):
            keras.utils.set_random_seed(0)  # the same draws
            model = _standing(_sequential(_posterior()))
            options = {"callbacks": [sb.KLSchedule(32, beta=1.0)], "sample_weight": np.full(32, weight)}
            found.append(model.fit(X, Y, 32, 1, 0, shuffle=False, **options).history)
        once, twice = found
        assert twice["nll"][0] == pytest.approx(2 * once["nll"][0], rel=1e-5)
        assert twice["loss"][0] - twice["nll"][0] == pytest.approx(once["loss"][0] - once["nll"][0], rel=1e-4)


class TestSchedule:
    """The paper's three schemes."""

    def test_linear_over_20_epochs(self):
        weights = [sb.KLSchedule(1000, beta=0.5, warmup=20).weight(epoch) for epoch in (0, 5, 10, 20, 255)]
        np.testing.assert_allclose(weights, np.array([0, 0.25, 0.5, 1, 1]) * 0.5 / 1000)

    def test_two_zero_epochs_then_full_by_epoch_4(self):
        weights = [sb.KLSchedule(1, zero_epochs=2, warmup=2, beta=1.0).weight(epoch) for epoch in range(6)]
        np.testing.assert_allclose(weights, [0, 0, 0, 0.5, 1, 1])

    @pytest.mark.parametrize("task", ["mnist", "toy"])
    def test_the_paper_s_weights_are_beta_over_num_data(self, vectors, task):
        row = vectors["kl_weight_conversions"]["expected"][task]
        assert sb.KLSchedule(row["N"], row["beta_eff_mean"]).weight(0) == pytest.approx(row["lam"])

    @JAX_FIRST
    def test_a_fit_that_goes_on_goes_on_with_the_schedule(self):
        model = _standing(_sequential(_posterior()))
        schedule = sb.KLSchedule(10, warmup=4, beta=1.0)
        with pytest.warns(UserWarning, match=r"before the KL weight was full: it is 0.025, and 0.1 from epoch 4 on"):
            weights = model.fit(X, Y, epochs=2, verbose=0, callbacks=[schedule]).history["kl_weight"]
        weights += model.fit(X, Y, initial_epoch=2, epochs=5, verbose=0, callbacks=[schedule]).history["kl_weight"]
        np.testing.assert_allclose(weights, [0, 0.025, 0.05, 0.075, 0.1])


def _hand_step(model, rate):
    """Takes one step of gradient descent on mse + model.losses, in the backend's own words."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        def objective(trainable, state):
            out, state, losses = model.stateless_call(trainable, state, X, training=True, return_losses=True)
            return ops.mean(ops.square(Y - out)) + sum(losses), state

        trainable, state = ([v.value for v in vs] for vs in (model.trainable_variables, model.non_trainable_variables))
        gradients, _ = jax.jit(jax.grad(objective, has_aux=True))(trainable, state)
    elif backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(Y - model(X, training=True))) + sum(model.losses)
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    else:
        model.zero_grad()
        loss = ops.mean(ops.square(ops.convert_to_tensor(Y) - model(X, training=True))) + sum(model.losses)
        loss.backward()
        gradients = [v.value.grad for v in model.trainable_variables]
    for variable, slope in zip(model.trainable_variables, gradients, strict=True):
        variable.assign(variable - rate * ops.convert_to_tensor(ops.convert_to_numpy(slope)))


def test_a_loop_by_hand_through_model_losses_takes_the_step_of_train_on_batch():
    def model():
        keras.utils.set_random_seed(5)
        made = stirred_layer(_functional(_posterior()), X)
        sb.set_kl(made, num_data=8, beta=1.0)
        return made

    by_keras, by_hand = _compiled(model(), keras.optimizers.SGD(0.1)), model()
    by_keras.train_on_batch(X, Y)
    _hand_step(by_hand, 0.1)
    for ours, theirs in zip(by_hand.trainable_variables, by_keras.trainable_variables, strict=True):
        ours, theirs = map(ops.convert_to_numpy, (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_weight_decay_of_an_optimizer_that_comes_later_spares_the_posterior():
    # With no gradient, decay is all that moves a weight.
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, posterior=FullRank()), keras.layers.Dense(1)])
    for _ in range(2):
        _compiled(model, keras.optimizers.AdamW(0.1, weight_decay=0.5))
        values, kernel = model.layers[0].posterior.w.values, model.layers[1].kernel
        before, plain = (ops.convert_to_numpy(v).copy() for v in (values, kernel))
        model.fit(np.zeros((8, 3)), np.zeros((8, 1)), verbose=0, callbacks=[sb.KLSchedule(8, beta=0.0)])
        np.testing.assert_array_equal(ops.convert_to_numpy(values), before)
        np.testing.assert_allclose(ops.convert_to_numpy(kernel), plain * 0.95, rtol=1e-5)
