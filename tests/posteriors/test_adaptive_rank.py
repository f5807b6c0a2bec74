"""AdaptiveLowRank: it finds a rank that is known, keeps it in files, and is pruned within a stated bound."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST, assert_unbiased, built, dense_draws, set_factor, stir

import singularbayes as sb
from singularbayes import AdaptiveLowRank, LowRank, layers, ranks
from singularbayes.models import count_stored, count_trained

pytestmark = pytest.mark.on_torch


def _teacher(rank, noise, num_data=400, shape=(10, 8)):
    rng = np.random.default_rng(1)
    w = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])) / np.sqrt(rank)
    x = rng.normal(size=(num_data, shape[0])).astype("float32")
    return x, (x @ w + noise * rng.normal(size=(num_data, shape[1]))).astype("float32"), w


def _linear(noise, max_rank=8):
    keras.utils.set_random_seed(0)
    posterior = AdaptiveLowRank(max_rank=max_rank)
    model = keras.Sequential([keras.Input((10,)), layers.Dense(8, use_bias=False, posterior=posterior)])
    model.compile(keras.optimizers.Adam(0.03), sb.Gaussian(noise))
    return model


@pytest.mark.parametrize(("rank", "noise"), [(3, 0.3), (2, 1.5)])
@JAX_FIRST
def test_the_rank_of_a_teacher_is_found_also_where_its_estimate_has_full_rank(rank, noise):
    x, y, w = _teacher(rank, noise)
    model = _linear(noise)
    model.fit(x, y, epochs=60, batch_size=40, verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    pruned = ranks.prune(model)
    assert list(pruned.ranks.values()) == [rank]
    (posterior,) = sb.find_posteriors(pruned.model)
    assert posterior.ab.shape == (18, rank) and posterior.max_rank == rank
    if noise > 1:  # closer to the teacher than least squares, which fits the noise of every direction
        least_squares = np.linalg.lstsq(x, y, rcond=None)[0]
        found = ops.convert_to_numpy(posterior.mean().dense())
        assert np.linalg.norm(found - w) < np.linalg.norm(least_squares - w)


@JAX_FIRST
def test_it_trains_on_at_the_smaller_rank():
    x, y, _ = _teacher(3, 0.3)
    model = _linear(0.3)
    model.fit(x, y, epochs=15, batch_size=40, verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    smaller = ranks.prune(model).model
    with sb.draw_weights(smaller):
        before = smaller.evaluate(x, y, verbose=0)
    smaller.fit(x, y, epochs=60, batch_size=40, verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    with sb.draw_weights(smaller):
        assert smaller.evaluate(x, y, verbose=0) < before
    assert list(ranks.prune(smaller).ranks.values()) == [3]


@JAX_FIRST
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX alone compiles")
def test_columns_are_switched_off_in_fit_without_another_compilation():
    x, y, _ = _teacher(3, 0.3)
    model = _linear(0.3)
    traces = []
    step = model.train_step
    model.train_step = lambda *a, **k: traces.append(1) or step(*a, **k)
    model.fit(x, y, epochs=60, batch_size=40, verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    live = ops.convert_to_numpy(sb.find_posteriors(model)[0].ab.live)
    assert live.sum() == 3 and len(traces) <= 2


@TORCH_FIRST
@pytest.mark.parametrize(("beta", "counts"), [(1.0, [4, 4, 4, 3]), (0.0, [4, 4, 4, 4])])
def test_a_column_of_noise_is_switched_off_in_the_first_epoch_with_the_full_kl_weight_and_not_before(beta, counts):
    x, y, _ = _teacher(3, 0.3)
    model = _linear(0.3, max_rank=4)
    model.compile(keras.optimizers.SGD(0.0), sb.Gaussian(0.3))
    (posterior,) = sb.find_posteriors(model)
    loc, scale, _ = posterior.ab.float64_values()
    loc[:, 1] = 0.0
    set_factor(posterior.ab, loc, scale)
    found = []
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: found.append(int(ops.convert_to_numpy(posterior.ab.live).sum()))
    )
    schedule = sb.KLSchedule(len(x), beta=beta, zero_epochs=1, warmup=2)
    model.fit(x, y, epochs=4, batch_size=400, verbose=0, callbacks=[schedule, count])
    assert found == counts


# -- a posterior with columns switched off ---------------------------------------------------------------------------


def _partly(shape=(5, 4), live=(1.0, 0.0, 1.0), **options):
    posterior = built(AdaptiveLowRank(max_rank=len(live), **options), shape)
    rng = np.random.default_rng(0)
    set_factor(posterior.ab, rng.normal(0.3, 0.7, posterior.ab.shape), rng.uniform(0.2, 0.7, posterior.ab.shape))
    posterior.ab.live.assign(np.array(live))
    return posterior


def _fixed(posterior, used):
    """Returns the posterior of the columns `used` alone."""
    counterpart = built(
        LowRank.paper(len(used), prior=posterior.prior), (posterior.rows, posterior.ab.shape[0] - posterior.rows)
    )
    counterpart.ab.values.assign(ops.convert_to_numpy(posterior.ab.values)[:, :, used])
    return counterpart


@TORCH_FIRST
def test_a_column_that_is_off_is_as_if_it_were_not_there():
    posterior = _partly()
    counterpart = _fixed(posterior, [0, 2])
    mean, other = (ops.convert_to_numpy(q.mean().dense()) for q in (posterior, counterpart))
    np.testing.assert_allclose(mean, other, rtol=1e-5)
    np.testing.assert_allclose(posterior.variance(), counterpart.variance(), rtol=1e-5)
    assert posterior.covariance((0, 1), (0, 2)) == pytest.approx(counterpart.covariance((0, 1), (0, 2)))
    draws = dense_draws(posterior, 400)
    assert_unbiased(draws, mean)
    assert np.linalg.matrix_rank(draws[0], tol=1e-5) == 2


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_settling_keeps_the_mean_and_does_not_raise_the_kl(family):
    posterior = _partly(live=(1.0, 1.0, 1.0, 1.0), family=family, tolerance=0.0)
    mean, before = ops.convert_to_numpy(posterior.mean().dense()), posterior.kl_exact()
    posterior.prune_columns()
    np.testing.assert_allclose(ops.convert_to_numpy(posterior.mean().dense()), mean, atol=2e-6)
    assert posterior.kl_exact() < before


@pytest.mark.parametrize("rho_lr", [0.5, 4.0])
def test_the_rate_of_rho_changes_neither_what_is_set_nor_what_settling_finds(rho_lr):
    plain, other = (_partly(live=(1.0, 1.0, 1.0, 1.0), tolerance=0.0, rho_lr=rate) for rate in (1.0, rho_lr))
    loc, scale, _ = plain.ab.float64_values()
    other.ab.set(loc, scale)
    np.testing.assert_allclose(ops.convert_to_numpy(other.ab.loc), loc, rtol=1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(other.ab.scale), scale, rtol=1e-5)
    for posterior in (plain, other):
        posterior.prune_columns()
    np.testing.assert_array_equal(*(ops.convert_to_numpy(posterior.ab.live) for posterior in (plain, other)))
    for ours, theirs in zip(plain.ab.float64_values()[:2], other.ab.float64_values()[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)


def test_what_was_switched_off_stays_off_and_one_column_always_stays():
    posterior = _partly()
    posterior.prune_columns()
    assert ops.convert_to_numpy(posterior.ab.live)[1] == 0
    set_factor(posterior.ab, np.full(posterior.ab.shape, 1e-6), 0.5)
    posterior.prune_columns()
    assert ops.convert_to_numpy(posterior.ab.live).sum() == 1


@TORCH_FIRST
def test_it_comes_back_from_its_config_and_from_a_file(tmp_path):
    x, y, _ = _teacher(2, 0.3)
    model = _linear(0.3, max_rank=5)
    model.fit(x, y, epochs=12, batch_size=100, verbose=0, callbacks=[sb.KLSchedule(len(x), beta=1.0)])
    model.save(tmp_path / "model.keras")
    back = sb.load(tmp_path / "model.keras")
    (old,), (new,) = sb.find_posteriors(model), sb.find_posteriors(back)
    assert repr(new) == repr(old) == "AdaptiveLowRank(max_rank=5)"
    assert new.get_config() == old.get_config()
    np.testing.assert_array_equal(*(ops.convert_to_numpy(q.ab.live) for q in (old, new)))
    p, q = (sb.predict(m, x[:5], draws=4, seed=1) for m in (model, back))
    np.testing.assert_array_equal(p.mean, q.mean)
    pruned = ranks.prune(model).model
    pruned.save(tmp_path / "pruned.keras")
    p, q = (sb.predict(m, x[:5], draws=4, seed=1) for m in (pruned, sb.load(tmp_path / "pruned.keras")))
    np.testing.assert_array_equal(p.mean, q.mean)


def test_numbers_that_are_not_finite_are_left_for_training_to_refuse():
    posterior = _partly()
    posterior.ab.values.assign(np.full((2, *posterior.ab.shape), np.nan))
    posterior.prune_columns()
    assert np.isnan(ops.convert_to_numpy(posterior.ab.values)).all()


def test_a_trained_model_can_be_its_start():
    keras.utils.set_random_seed(0)
    trained = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, name="hidden"), keras.layers.Dense(2)])
    bayes = sb.bayesianize(trained, _auto(4), init="svd")
    assert "AdaptiveLowRank(4)" in str(sb.plan(trained, _auto(4), init="svd"))
    u, s, vt = np.linalg.svd(ops.convert_to_numpy(trained.layers[0].kernel))
    first, second = sb.find_posteriors(bayes)
    np.testing.assert_allclose(ops.convert_to_numpy(first.mean().dense()), (u[:, :4] * s[:4]) @ vt[:4], atol=1e-5)
    assert second.ab.shape == (7, 2)  # no more columns than the matrix can have


def test_collapsed_it_has_the_columns_in_use_alone():
    model = keras.Sequential([keras.Input((20,)), layers.Dense(20, posterior=_auto(6), name="hidden")])
    sb.find_posteriors(model)[0].ab.live.assign([1, 0, 0, 1, 1, 0])
    assert [layer.units for layer in sb.collapse(model).layers] == [3, 20]


# -- pruning ---------------------------------------------------------------------------------------------------------


def _auto(max_rank=4, **options):
    return AdaptiveLowRank(max_rank=max_rank, **options)


def _networks():
    yield "dense", [keras.Input((6,)), layers.Dense(7, "tanh", posterior=_auto()), layers.Dense(3, posterior=_auto())]
    yield (
        "conv",
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(5, 3, activation="relu", padding="same", posterior=_auto()),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            layers.Dense(3, "sigmoid", posterior=_auto(), bias_posterior=sb.FullRank()),
        ],
    )
    first = layers.Conv2D(4, 3, padding="same", data_format="channels_first", posterior=_auto())
    last = layers.Conv2D(4, 1, data_format="channels_first", posterior=_auto())
    yield "channels_first", [keras.Input((1, 2, 40)), first, last]
    yield "embedding", [keras.Input((3,), dtype="int32"), layers.Embedding(9, 6, posterior=_auto())]
    lstm = layers.LSTM(5, posterior=_auto(), recurrent_posterior=_auto(5))
    yield "lstm", [keras.Input((4, 3)), lstm, layers.Dense(2, posterior=LowRank.paper(2))]
    yield "encoder", [keras.Input((4, 8)), layers.TransformerEncoder(10, num_heads=2, posterior=_auto())]


NETWORKS = dict(_networks())


def _model(name):
    keras.utils.set_random_seed(3)
    model = stir(keras.Sequential(dict(_networks())[name]))
    for i, posterior in enumerate(q for q in sb.find_posteriors(model) if q.learned_rank is not None):
        # One column next to noise, and in every second matrix, the first too, one that is off already.
        loc, scale, _ = posterior.ab.float64_values()
        loc[:, 1] *= 0.3
        set_factor(posterior.ab, loc, scale)
        posterior.ab.live.assign(np.array([0.0 if k == 2 and not i % 2 else 1.0 for k in range(loc.shape[1])]))
    return model


def _inputs(name, num=20):
    rng = np.random.default_rng(0)
    shape = (num, *NETWORKS[name][0].shape[1:])
    return rng.integers(0, 9, shape) if name == "embedding" else rng.normal(size=shape).astype("float32")


def _mean_outputs(model, x):
    return ops.convert_to_numpy(model(x)).astype("float64")


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.rows_on_torch
@TORCH_FIRST
def test_taking_out_what_is_off_leaves_the_mean_network_as_it_is(name):
    model, x = _model(name), _inputs(name)
    pruned = ranks.prune(model, tolerance=0.0)
    assert sum(pruned.ranks.values()) < sum(row.before for row in pruned.rows)
    assert all(row.removed == 0 for row in pruned.rows)
    np.testing.assert_allclose(_mean_outputs(pruned.model, x), _mean_outputs(model, x), rtol=1e-4, atol=1e-5)
    made = {posterior.path: posterior for posterior in sb.find_posteriors(pruned.model)}
    for row in pruned.rows:
        assert made[row.name].live_columns().sum() == row.rank <= made[row.name].ab.shape[1] <= row.before


@TORCH_FIRST
def test_pruning_where_nothing_is_to_be_pruned_changes_nothing_bit_for_bit():
    model, x = _model("dense"), _inputs("dense")
    for posterior in sb.find_posteriors(model):
        posterior.ab.live.assign(np.ones(posterior.ab.shape[1]))
    pruned = ranks.prune(model, tolerance=0.0)
    p, q = (sb.predict(m, x, draws=6, seed=5, likelihood="gaussian", keep_draws=True) for m in (model, pruned.model))
    np.testing.assert_array_equal(p.draws, q.draws)
    assert [row.before for row in pruned.rows] == list(pruned.ranks.values())


def test_the_original_is_left_alone():
    model, x = _model("dense"), _inputs("dense")
    before = _mean_outputs(model, x)
    ranks.prune(model, tolerance=0.6)
    np.testing.assert_array_equal(_mean_outputs(model, x), before)


def test_the_norm_of_what_is_taken_out_is_that_of_the_difference_of_the_means():
    model = stir(keras.Sequential([keras.Input((6,)), layers.Dense(5, use_bias=False, posterior=_auto())]))
    pruned = ranks.prune(model, tolerance=0.6)
    w, smaller = (ops.convert_to_numpy(sb.find_posteriors(m)[0].mean().dense()) for m in (model, pruned.model))
    (row,) = pruned.rows
    assert row.removed == pytest.approx(np.linalg.norm(w - smaller, 2), rel=1e-4) and row.removed > 0
    assert row.norm == pytest.approx(np.linalg.norm(w, 2), rel=1e-4)
    assert "removed" in str(pruned) and f"{row.removed:.3g}" in str(pruned)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ranks.prune("model"), "prune needs a built Keras model; got 'model'"),
        (lambda: ranks.prune(_model("dense"), tolerance=1.0), "prune needs 0 <= tolerance < 1; got tolerance=1.0"),
        (
            lambda: ranks.prune(keras.Sequential([keras.Input((2,)), layers.Dense(2, posterior=LowRank.paper(1))])),
            "prune needs a model with AdaptiveLowRank weights",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_stored_of_a_learned_rank_is_what_pruning_leaves():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(5, posterior=AdaptiveLowRank(max_rank=4))])
    whole = count_stored(model)
    assert whole == 2 * 4 * (6 + 5) + 5 == count_trained(model)
    sb.find_posteriors(model)[0].ab.live.assign([1, 0, 0, 1])
    assert count_stored(model) == count_stored(ranks.prune(model, tolerance=0).model) == 2 * 2 * (6 + 5) + 5
    assert count_trained(model) == whole


def test_certify_refuses_a_rank_that_training_chose():
    head = layers.Dense(3, use_bias=False, posterior=sb.AdaptiveLowRank(2), name="head")
    model = keras.Sequential([keras.Input((4,)), head])
    with pytest.raises(ValueError, match=r"certify needs ranks that were fixed without the certifying examples.*head"):
        sb.certify(model, np.ones((20, 4)), np.zeros(20, int), likelihood="categorical_logits")
