"""`fit_many`: a member is what it would be alone, whoever it trains with; and plain SGD is plain SGD."""

import keras
import numpy as np
import pytest
from keras import ops

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers

RNG = np.random.default_rng(3)
X = RNG.normal(size=(21, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")
IDS = RNG.integers(0, 9, (21, 5)).astype("int32")
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="members are one program on JAX alone")


def _weights(model):
    return [ops.convert_to_numpy(weight) for weight in model.weights]


def _compiled(model, optimizer=None):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
    return model


def _mlp():
    # A schedule in the optimizer, dropout, the state of a normalisation, and noise of two posteriors.
    rate = keras.optimizers.schedules.CosineDecay(0.05, 12)
    hidden = [layers.Dense(6, "relu", posterior=LowRank.paper(2)), keras.layers.BatchNormalization()]
    head = [keras.layers.Dropout(0.3), layers.Dense(2, posterior=FullRank())]
    return _compiled(keras.Sequential([keras.Input((4,)), *hidden, *head]), keras.optimizers.Adam(rate))


def _sequences():
    # Masks, attention, a recurrent layer with dropout, weight decay; not built before `fit`.
    inner = [keras.layers.Embedding(9, 4, mask_zero=True), Attention(), keras.layers.LSTM(3, dropout=0.2)]
    return _compiled(keras.Sequential([*inner, keras.layers.Dense(2)]), keras.optimizers.AdamW(0.05, weight_decay=0.1))


class Attention(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.supports_masking = True
        self.inner = layers.MultiHeadAttention(2, 2, posterior=sb.Deterministic())

    def call(self, x):
        return self.inner(x, x)


def _annealed():
    return [sb.KLSchedule(len(X), beta=0.1, warmup=2)]


def _annealed_and_stopped():
    stop = {"monitor": "val_nll", "mode": "min", "patience": 1, "restore_best_weights": True, "start_from_epoch": 2}
    return [*_annealed(), keras.callbacks.EarlyStopping(**stop)]


@on_jax
@pytest.mark.parametrize(
    ("build", "x", "options"),
    [
        (_mlp, X, {"callbacks": _annealed_and_stopped, "validation_data": (X[:11], Y[:11]), "epochs": 6}),
        (_sequences, IDS, {"sample_weight": np.where(Y == 1, 2.0, 1.0), "epochs": 2}),
    ],
    ids=["mlp", "sequences"],
)
def test_a_member_of_the_program_equals_the_model_trained_alone(build, x, options):
    program = sb.fit_many(build, x, Y, [2, 4, 5], batch_size=8, **options)  # the last batch has 5
    (alone,) = sb.fit_many(build, x, Y, [4], batch_size=8, **options, together=1)
    member = program[1]
    assert member.epoch == alone.epoch and list(member.history) == list(alone.history)
    for name, values in member.history.items():
        np.testing.assert_allclose(values, alone.history[name], rtol=1e-4, atol=1e-5, err_msg=name)
    for ours, theirs in zip(_weights(member.model), _weights(alone.model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    for other in (program[0], program[2]):
        assert np.abs(_weights(member.model)[0] - _weights(other.model)[0]).min() > 0
    if build is _mlp:
        assert len({len(run.epoch) for run in program}) > 1  # each stops by itself


def _line():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


@pytest.mark.backend
@pytest.mark.parametrize("together", [None, 1])
def test_members_are_gradient_descent_in_the_order_of_their_seed(together):
    target, seeds = X @ np.array([[1.0], [-2.0], [0.5], [0.0]], "float32"), [2, 9]
    runs = sb.fit_many(_line, X, target, seeds, epochs=3, batch_size=8, together=together)
    for seed, run in zip(seeds, runs, strict=True):
        keras.utils.set_random_seed(seed)
        w, b = (array.astype("float64") for array in _weights(_line()))
        for epoch in range(3):
            order = np.random.default_rng([seed, epoch]).permutation(21)
            for ids in (order[:8], order[8:16], order[16:]):
                error = X[ids] @ w + b - target[ids]
                w, b = w - 0.2 * X[ids].T @ error / len(ids), b - 0.2 * error.mean(axis=0)
        for found, expected in zip(_weights(run.model), (w, b), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.backend
@pytest.mark.parametrize("together", [None, 1])
def test_weights_of_examples_are_those_of_plain_fit(together):
    target, weight = X[:, :1] - 2 * X[:, 1:2], np.random.default_rng(0).uniform(0.1, 3.0, 21)
    held_out = X[:5], target[:5], weight[5:10]
    options = {"epochs": 3, "batch_size": 21, "validation_data": held_out}  # one batch, so that its order is no matter
    for seed, run in zip(
        [2, 9], sb.fit_many(_line, X, target, [2, 9], sample_weight=weight, together=together, **options), strict=True
    ):
        keras.utils.set_random_seed(seed)
        plain = _line()
        log = plain.fit(X, target, sample_weight=weight, verbose=0, **options).history
        for ours, theirs in zip(_weights(run.model), _weights(plain), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        for name in ("loss", "val_loss"):
            np.testing.assert_allclose(run.history[name], log[name], rtol=1e-4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1]], r"rows, integers \(members, examples\), here \(2, …\); got int64 \(1, 2\)"),
        ([[0.5], [1.0]], "got float64"),
        ([[0, 21], [1, 2]], "needs rows from 0 to 20; got 0 to 21"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        sb.fit_many(_line, X, X[:, :1], [1, 2], epochs=1, rows=rows)


@pytest.mark.backend
def test_members_with_settings_of_their_own_are_what_each_is_alone():
    """Rate, β, warm-up, rows and stopping differ; two members share a seed, so that the settings alone part them."""
    seeds, rates, betas, warmups, stops = [5, 5, 6], [0.1, 0.02, 0.05], [0.3, 1.0, 0.1], [0, 2, 1], [3, 9, 2]
    rows = np.array([[20, 3, 3, 7, 11], [1, 2, 4, 8, 16], [0, 5, 6, 9, 12]])

    def build(member):
        layer = sb.layers.Dense(1, posterior=sb.FullRank(prior=sb.Normal(0.5)))
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(keras.optimizers.Adam(rates[member]), "mse")
        return model

    def callbacks(member):
        def end(epoch, logs):
            if epoch + 1 == stops[member]:
                callback.model.stop_training = True

        callback = keras.callbacks.LambdaCallback(on_epoch_end=end)
        return [sb.KLSchedule(beta=betas[member], warmup=warmups[member]), callback]

    options = {"epochs": 4, "batch_size": 2}
    runs = sb.fit_many(build, X, X[:, :1], seeds, callbacks=callbacks, rows=rows, **options)
    assert [len(run.epoch) for run in runs] == [3, 4, 2]
    for i, run in enumerate(runs):
        (alone,) = sb.fit_many(
            lambda i=i: build(i),
            X[rows[i]],
            X[rows[i], :1],
            [seeds[i]],
            callbacks=lambda i=i: callbacks(i),
            together=1,
            **options,
        )
        for found, expected in zip(_weights(run.model), _weights(alone.model), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert run.history["kl_weight"] == pytest.approx(alone.history["kl_weight"])
    assert not np.allclose(_weights(runs[0].model)[0], _weights(runs[1].model)[0])


@on_jax
def test_a_member_depends_neither_on_the_others_nor_on_the_groups():
    runs = [
        sb.fit_many(_line, X, X[:, :1], seeds, epochs=2, together=together)
        for seeds, together in (([1, 2, 3], None), ([1, 2, 3], 2), ([3], None))
    ]
    for run in runs[1:]:
        np.testing.assert_allclose(_weights(runs[0][2].model)[0], _weights(run[-1].model)[0], rtol=1e-6)


@pytest.mark.backend
def test_a_kl_weight_that_is_not_set_is_an_error():
    with pytest.raises(ValueError, match="The KL weight is not set"):
        sb.fit_many(_mlp, X, Y, [0], epochs=1)


def test_a_model_returned_twice_is_refused():
    model = _line()
    with pytest.raises(ValueError, match=r"make a new model each time; got .* twice"):
        sb.fit_many(lambda: model, X, X[:, :1], [0, 1], epochs=1)


@pytest.mark.parametrize("bad", [None, keras.Sequential([keras.layers.Dense(1)])])
def test_what_is_no_compiled_model_is_refused(bad):
    with pytest.raises(ValueError, match=r"needs build\(\) to return a compiled keras.Model; got"):
        sb.fit_many(lambda: bad, X, Y, [0], epochs=1)


@on_jax
def test_networks_that_differ_are_refused_in_one_program_and_train_alone():
    def widths():
        units = iter([2, 3, 2, 3])

        def build():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(next(units)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            return model

        return build

    with pytest.raises(ValueError, match=r"the same network for every member; got another .* seed 6.*together=1"):
        sb.fit_many(widths(), X, X[:, :1], [5, 6], epochs=1)
    runs = sb.fit_many(widths(), X, X[:, :1], [5, 6], epochs=1, together=1)
    assert [run.model.layers[0].units for run in runs] == [2, 3]


@on_jax
@pytest.mark.parametrize(
    "callback",
    [lambda: keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_: None), keras.callbacks.TerminateOnNaN],
)
def test_callbacks_of_batches_are_refused_in_a_program(callback):
    with pytest.raises(ValueError, match=r"nothing is called at a batch; got .* with on_.*batch_.*together=1"):
        sb.fit_many(_line, X, X[:, :1], [0], epochs=1, callbacks=lambda: [callback()])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": []}, "one or more seeds; got none"),
        ({"seeds": [-1]}, "seed to be an integer >= 0; got seed=-1"),
        ({"epochs": 0}, "epochs to be an integer >= 1; got epochs=0"),
        ({"batch_size": 2.5}, "batch_size to be an integer >= 1; got batch_size=2.5"),
        ({"together": 0}, "together to be an integer >= 1; got together=0"),
        (
            {"x": X[:0], "y": Y[:0]},
            "fit_many needs x and y with the same number of .*, at least 1; x has 0, y has 0",
        ),
        ({"y": Y[:3]}, "x has 21, y has 3"),
        ({"sample_weight": Y[:2]}, "x, y and sample_weight with .*; x has 21, y has 21, sample_weight has 2"),
        ({"validation_data": (X[:0], Y[:0])}, r"fit_many\(validation_data\) needs x and y with the same number"),
        ({"callbacks": []}, r"needs callbacks to be a function.*got a list. Write callbacks=lambda: \[...\]"),
        ({"validation_data": X}, r"fit_many\(validation_data\) needs targets, \(x, y\)"),
        ({"x": np.full_like(X, np.nan)}, "fit_many needs x and y without NaN; got NaN in x"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    arguments = {"build": _line, "x": X, "y": Y, "seeds": [0], "epochs": 1, **change}
    with pytest.raises(ValueError, match=message):
        sb.fit_many(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"build": _line()}, "needs build, a function that makes a compiled model; got Sequential"),
        ({"seeds": 3}, r"needs seeds, such as range\(3\); got seeds=3"),
    ],
)
def test_a_model_for_a_function_and_a_number_for_seeds_are_refused(change, message):
    arguments = {"build": _line, "x": X, "y": Y, "seeds": [0], "epochs": 1, **change}
    with pytest.raises(TypeError, match=message):
        sb.fit_many(**arguments)
