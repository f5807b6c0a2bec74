"""The sampler: predictions cut to the length of the text and to the memory, and spread over devices, do not change."""

import functools
import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import keras
import numpy as np
import pytest
from networks import NETWORKS
from posterior_table import stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers
from singularbayes.baselines import mc_dropout
from singularbayes.models import compiled, program_of, share_programs
from singularbayes.posteriors import draw_keys, noise
from singularbayes.prediction import memory, sampler, vectorized
from singularbayes.prediction.sampler import JaxSampler, outputs_of_draw, sampler_of

RNG = np.random.default_rng(3)
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="programs are compiled by XLA on JAX alone")


def _reader(length=None):
    ids = keras.Input((length,), dtype="int32")
    x = layers.Embedding(20, 8, mask_zero=True, posterior=LowRank.paper(2))(ids)
    x = layers.TransformerEncoder(16, 2, posterior=LowRank.paper(2), positions=1)(x)
    return stir(keras.Model(ids, layers.Dense(3, posterior=LowRank.paper(2))(x[:, 0])))


def _texts(lengths, longest=16):
    return np.where(np.arange(longest) < np.array(lengths)[:, None], RNG.integers(1, 20, (len(lengths), longest)), 0)


@pytest.mark.backend
class TestPadding:
    def test_cutting_the_padding_changes_no_answer(self, monkeypatch):
        model, ids = _reader(), _texts([3, 16, 1, 9, 4, 4, 12, 2, 0])
        seen = []
        kind = type(sampler_of(model))
        run = kind.run
        monkeypatch.setattr(
            kind, "run", lambda self, draws, x, *known: seen.append(x.shape) or run(self, draws, x, *known)
        )
        wanted = sb.predict(model, ids, 6, likelihood="categorical_logits", keep_draws=True)
        seen.clear()
        ours = sb.predict(model, ids, 6, likelihood="categorical_logits", keep_draws=True, padding=0, batch_size=3)
        np.testing.assert_allclose(ours.draws, wanted.draws, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(ours.mutual_information, wanted.mutual_information, rtol=1e-3, atol=1e-6)
        assert seen == [(3, 16), (3, 4), (3, 4)]  # the longest three, and two batches cut to a quarter

    def test_a_model_of_one_length_is_refused(self):
        with pytest.raises(ValueError, match=r"takes any length, built with keras.Input\(\(None,\)\); got input shape"):
            sb.predict(_reader(16), _texts([3]), likelihood="categorical_logits", padding=0)

    def test_numbers_that_are_no_ids_are_refused(self):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(2, posterior=LowRank.paper(1))])
        with pytest.raises(ValueError, match=r"one input of integers \(examples, length\); got .*float32"):
            sb.predict(model, np.ones((3, 4), "float32"), likelihood="gaussian", padding=0)


@on_jax
class TestPrograms:
    def test_what_a_program_needs_is_known_before_it_runs(self):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(1000, "tanh", posterior=LowRank.paper(1))])
        model.add(layers.Dense(2, posterior=LowRank.paper(1)))
        run = sampler_of(model)
        assert isinstance(run, JaxSampler)
        x = np.ones((50, 4), "float32")
        few, many = (run.scratch_bytes(run.draw(draw_keys(0, chunk)), x) for chunk in (2, 20))
        assert 5 < many / few < 15

    def test_a_program_too_large_is_cut(self, monkeypatch):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(500, posterior=LowRank.paper(1))])
        seen = []
        run = JaxSampler.run

        def chunk(weights):
            return sum(len(keras.tree.flatten(part)[0]) for part in weights[1])

        monkeypatch.setattr(
            JaxSampler, "run", lambda self, draws, x, *known: seen.append((chunk(draws), len(x))) or run(self, draws, x)
        )
        monkeypatch.setattr(JaxSampler, "scratch_bytes", lambda self, draws, x, shared: chunk(draws) * len(x) * 100)
        monkeypatch.setattr(sampler, "program_limit", lambda: 800)
        sb.predict(model, np.ones((16, 4)), 8, likelihood="gaussian")
        assert set(seen) == {(1, 8)}

    def test_a_body_that_chunks_share_is_not_counted_and_nothing_is_compiled_twice(self, monkeypatch):
        monkeypatch.setattr(sampler, "_cores", lambda: 1)
        body = [keras.layers.Dense(4000, "tanh"), keras.layers.Dense(4000, "tanh"), keras.layers.Dense(2)]
        model = keras.Sequential([keras.Input((4,)), *body, layers.Dense(2, posterior=LowRank.paper(1))])
        run, x = sampler_of(model), np.ones((50, 4), "float32")
        weights = run.draw(draw_keys(0, 4))
        assert run.scratch_bytes(weights, x, shared=True) < run.scratch_bytes(weights, x) / 10
        monkeypatch.setattr(memory, "_CHUNK_BYTES", 4 * memory.draw_bytes(model) + 4 * 32 * 50 * 2)
        chunks, draw = [], JaxSampler.draw
        monkeypatch.setattr(JaxSampler, "draw", lambda self, keys: chunks.append(len(keys)) or draw(self, keys))
        monkeypatch.setattr(sampler, "program_limit", lambda: 100_000)  # one of the body's layers takes 800 kB
        sb.predict(model, x, 8, likelihood="gaussian", batch_size=50)
        assert set(chunks) == {4}
        assert program_of(model, sampler._run_chunk)._run._cache_size() == 0  # all went through the program asked about


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch compiles nothing")
def test_a_later_request_compiles_nothing_whatever_its_data_draws_and_weights(monkeypatch):
    """A layer is called under way to a program only: its calls count the compilations."""
    calls, call = [], layers.Conv2D.call

    @functools.wraps(call)
    def counted(self, *arguments, **options):
        calls.append(self.name)
        return call(self, *arguments, **options)

    monkeypatch.setattr(layers.Conv2D, "call", counted)
    stack = [layers.Conv2D(3, 3, posterior=LowRank(2)), keras.layers.Flatten(), layers.Dense(3, posterior=LowRank(2))]
    model = stir(keras.Sequential([keras.Input((6, 6, 1)), *stack]))
    x = RNG.normal(size=(40, 6, 6, 1)).astype("float32")
    first = sb.predict(model, x, 4, likelihood="categorical_logits")
    assert calls
    calls.clear()
    again = sb.predict(model, x, 4, likelihood="categorical_logits")
    np.testing.assert_array_equal(first.mean, again.mean)
    sb.predict(model, 2 * x[:39], 4, seed=1, likelihood="categorical_logits")
    model.set_weights([1.5 * weight for weight in model.get_weights()])
    moved = sb.predict(model, x, 4, likelihood="categorical_logits")
    assert calls == [] and np.abs(moved.mean - first.mean).max() > 1e-3


@on_jax
def test_threads_are_those_of_this_process(monkeypatch):
    before = sampler._threads()
    assert sampler._threads() is before
    monkeypatch.setattr(sampler.os, "getpid", lambda: -1)  # as in a fork
    assert sampler._threads() is not before


@pytest.mark.backend
def test_requests_of_all_sizes_use_few_batches_and_have_the_same_predictions():
    model = stir(keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(1))]))
    x = RNG.normal(size=(256, 4)).astype("float32")
    batches = {memory.chunk_sizes(model, x[:size], size, 10, 256)[1] for size in range(1, 257)}
    assert len(batches) == (256 if keras.backend.backend() == "torch" else 16)
    assert all(memory.chunk_sizes(model, x[:size], size, 10, 100)[1] <= 100 for size in (99, 100, 101, 256))
    five, six = (sb.predict(model, x[:size], 4, likelihood="gaussian", keep_draws=True).draws for size in (5, 6))
    assert five.shape == (4, 5, 3)
    np.testing.assert_allclose(five, six[:, :5], rtol=1e-6, atol=1e-7)


@pytest.mark.backend
def test_a_model_with_states_keeps_its_batch_size():
    state = layers.LSTM(3, stateful=True, posterior=LowRank(1))
    fixed = keras.Sequential([keras.Input(batch_shape=(5, 3, 4)), state])
    assert memory.chunk_sizes(fixed, np.ones((5, 3, 4), "float32"), 5, 2, 256)[1] == 5


@pytest.mark.backend
def test_the_weights_that_all_models_keep_are_bounded_together(monkeypatch):
    models = [keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=FullRank())]) for _ in range(3)]
    first, second, third = map(sampler_of, models)
    monkeypatch.setattr(memory, "_CHUNK_BYTES", 2 * 5 * 4 * 12)  # five draws of two models
    keys = draw_keys(0, 5)
    kept = {run: run.draw(keys) for run in (first, second, third)}
    assert first.draw(keys) is not kept[first]  # and now the second's have gone
    assert third.draw(keys) is kept[third]
    assert second.draw(keys) is not kept[second]


@on_jax
@pytest.mark.parametrize("name", ["mlp", "headed"])
def test_cores_share_the_draws_and_give_the_predictions_of_one(name, monkeypatch):
    body = keras.layers.Dense(6, "relu") if name == "headed" else layers.Dense(6, "relu", posterior=LowRank.paper(2))
    model = stir(keras.Sequential([keras.Input((4,)), body, layers.Dense(3, posterior=LowRank.paper(1))]))
    x, found = RNG.normal(size=(20, 4)).astype("float32"), []
    for cores in (1, 3):
        monkeypatch.setattr(sampler, "_cores", lambda: cores)  # noqa: B023
        assert len(sampler_of(model).draw(draw_keys(cores, 6))[1]) == cores
        found.append(sb.predict(model, x, 6, likelihood="gaussian", keep_draws=True, batch_size=8).draws)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
    prefixes = []
    prefix = JaxSampler.prefix
    monkeypatch.setattr(JaxSampler, "prefix", lambda self, x: prefixes.append(len(x)) or prefix(self, x))
    sb.predict(model, x, 6, likelihood="gaussian", batch_size=8)
    assert prefixes == ([8, 8, 8] if name == "headed" else [])  # once for a batch, not for every core


@pytest.mark.backend
def test_weights_are_made_once_for_requests_that_follow():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(1))])
    run = sampler_of(model)
    first = run.draw(draw_keys(0, 5))
    assert run.draw(draw_keys(0, 5)) is first
    assert run.draw(draw_keys(1, 5)) is not first
    second = run.draw(draw_keys(1, 5))
    model.layers[0].posterior.ab.values.assign(model.layers[0].posterior.ab.values + 1.0)
    assert run.draw(draw_keys(1, 5)) is not second


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others bound the draws that run at once by batch")
def test_few_examples_take_no_more_draws_at_once_than_fit(monkeypatch):
    make, x = NETWORKS["mlp"]
    model = make()
    kind, groups = type(sampler_of(model)), []
    run = kind._run_group

    def counting(self, draws, x, frontier):
        groups.append(len(keras.tree.flatten(draws)[0]))
        return run(self, draws, x, frontier)

    whole = sb.predict(model, x[:2], 6, likelihood="gaussian", keep_draws=True).draws
    monkeypatch.setattr(kind, "_run_group", counting)
    monkeypatch.setattr(memory, "kept_limit", lambda: 3 * 2 * 4 * 8)  # three draws of two examples of eight numbers
    found = sb.predict(model, x[:2], 6, likelihood="gaussian", keep_draws=True).draws
    assert groups == [3, 3]
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.backend
@pytest.mark.parametrize("nested", [False, True])
def test_a_model_changed_without_new_variables_predicts_as_it_is_now(nested):
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, "tanh"), layers.Dense(3, "relu", posterior=2)])
    model = keras.Sequential([keras.Input((4,)), inner]) if nested else inner
    x, options = NETWORKS["mlp"][1], {"draws": 3, "likelihood": "gaussian", "keep_draws": True}
    before = sb.predict(model, x, **options).draws
    inner.add(keras.layers.Softmax())
    grown = sb.predict(model, x, **options).draws
    np.testing.assert_allclose(grown, np.exp(before) / np.exp(before).sum(-1, keepdims=True), rtol=1e-5)
    inner.pop()
    inner.layers[-1].activation = keras.activations.linear
    model.compile("sgd", "mse")
    linear = sb.predict(model, x, **options).draws
    assert linear.min() < 0
    np.testing.assert_allclose(np.maximum(linear, 0), before, rtol=1e-5, atol=1e-6)


class Unbatched(keras.layers.Layer):
    """Looks at a number of its inputs, which operations on several draws at once do not have."""

    def call(self, x):
        return x * 2.0 if keras.backend.backend() == "torch" and float(x[0, 0]) > 0 else x + 1.0


def _unbatched():
    return keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(1)), Unbatched()])


def _convolutions():
    """Convolutions of ours and of Keras behind a random one."""
    plain = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.DepthwiseConv2D(2, padding="same")]
    back = layers.Conv2DTranspose(2, 2, strides=2, posterior=LowRank(1))
    first = layers.Conv2D(4, 3, padding="same", posterior=LowRank(2))
    return keras.Sequential([keras.Input((8, 8, 1)), first, *plain, back, keras.layers.GlobalAveragePooling2D()])


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX always runs draws side by side")
@pytest.mark.parametrize("name", [*NETWORKS, "convolutions", "unbatched"])
def test_draws_side_by_side_are_those_one_after_another(name):
    more = {"unbatched": (_unbatched, NETWORKS["mlp"][1]), "convolutions": (_convolutions, NETWORKS["cnn"][1])}
    make, x = {**NETWORKS, **more}[name]
    model = stir(make())
    found = sb.predict(model, x, 4, likelihood="gaussian", keep_draws=True).draws
    expected = [outputs_of_draw(model, key, x)[0] for key in noise.as_keys(draw_keys(0, 4))]
    np.testing.assert_allclose(found, [keras.ops.convert_to_numpy(draw) for draw in expected], rtol=1e-4, atol=1e-5)
    loops = keras.backend.backend() == "torch" and name in ("lstm", "unbatched")  # torch's own loop takes one draw
    assert sampler_of(model)._vectorised is not loops


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="only torch runs draws in threads")
def test_layers_with_states_of_the_process_and_large_outputs_run_in_turn():
    import torch

    def layered(*more):
        return keras.Sequential([keras.Input((6, 4)), layers.LSTM(3, posterior=2), *more])

    few, many = torch.zeros((2, 6, 4)), torch.zeros((2000, 6, 4))
    assert vectorized._can_run_in_threads(layered(keras.layers.Dropout(0.5)), few)
    assert not vectorized._can_run_in_threads(layered(keras.layers.Lambda(lambda x: x)), few)
    assert not vectorized._can_run_in_threads(mc_dropout._Dropping(layered(keras.layers.Dropout(0.5))), few)
    assert not vectorized._can_run_in_threads(layered(), few.to("meta"))
    bytes_of_one = memory._example_bytes(layered(), few)
    assert memory.at_once(layered(), many) == memory.kept_limit() // (2000 * bytes_of_one)


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="torch's number of threads is one for the process")
def test_the_number_of_threads_comes_back_when_the_last_block_ends():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        first, second = layers.one_thread(), layers.one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 1  # the second, as of another thread, is open
        second.__exit__(None, None, None)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="torch has a loop that takes one draw at a time")
def test_draws_that_cannot_run_side_by_side_run_in_threads(monkeypatch):
    import torch

    make, x = NETWORKS["lstm"]
    model, threads, before = make(), [], torch.get_num_threads()
    kind = type(sampler_of(model))
    run, options = kind._run_one, {"likelihood": "gaussian", "keep_draws": True}

    def watched(self, *arguments):
        threads.append((threading.get_ident(), torch.get_num_threads()))
        return run(self, *arguments)

    found = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(sb.predict(model, x, 6, **options).draws)
            assert torch.get_num_threads() == number
            monkeypatch.setattr(kind, "_run_one", watched)
    finally:
        torch.set_num_threads(before)
    assert threading.get_ident() not in {thread for thread, _ in threads[-6:]}
    assert {number for _, number in threads[-6:]} == {1}
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.backend
@pytest.mark.parametrize("name", ["mlp", "lstm", "headed"])
def test_few_examples_predict_as_the_same_among_many_do(name):
    head = [keras.Input((4,)), keras.layers.Dense(5, "relu"), layers.Dense(3, posterior=LowRank.paper(1))]
    make, x = {**NETWORKS, "headed": (lambda: keras.Sequential(head), NETWORKS["mlp"][1])}[name]
    many = np.concatenate([x] * (1 + memory.FEW // len(x)))
    assert len(x[:2]) <= memory.FEW < len(many)
    model = stir(make())
    few, all_of_them = (
        sb.predict(model, part, 4, likelihood="gaussian", keep_draws=True).draws for part in (x[:2], many)
    )
    np.testing.assert_allclose(few, all_of_them[:, :2], rtol=1e-5, atol=1e-6)


def test_a_recurrent_layer_counts_the_projections_of_all_steps():
    layer = layers.LSTM(50, posterior=LowRank.paper(1))
    model = keras.Sequential([keras.Input((1000, 2)), layer])
    assert layer.activation_size(1000) == 1000 * 4 * 50
    x = np.ones((40, 1000, 2), "float32")
    chunk, batch = memory.chunk_sizes(model, x, 40, 100, 256)
    assert batch == (8 << 20) // (4 * 1000 * 4 * 50) and memory.side_by_side(model, x[:batch], chunk) == 1


@on_jax
def test_models_that_share_programs_do_not_keep_each_other():
    models = [keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(1))]) for _ in range(3)]
    first, second, third = models
    for pair in ([first, second], [second, first], [third, first], [second, third]):
        share_programs(pair)
    assert float(compiled(second, sb.kl)) == pytest.approx(float(compiled(third, sb.kl)), rel=0.5)
    references = [weakref.ref(model) for model in models]
    del models, first, second, third, pair
    for _ in range(3):  # a model that lends its programs is free once those that use them are collected
        gc.collect()
    assert [reference() for reference in references] == [None] * 3


SPREAD = """
    import jax, keras, numpy as np, singularbayes as sb
    from singularbayes.posteriors import draw_keys
    from singularbayes.prediction.sampler import sampler_of
    assert len(jax.devices()) == {devices}
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(6, "relu", posterior=sb.LowRank(2))])
    model.add(sb.layers.Dense(3, posterior=sb.LowRank(2)))
    x = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
    run = sampler_of(model)
    values, parts = run.draw(draw_keys(0, 8))
    output = run.run_on_devices((values, parts[:1]), x[:8])[0]
    assert len(output.devices()) == {devices}, output.sharding
    one = run.run_on_devices((values, parts[:1]), x[:1])[0]
    assert len(one.devices()) == {devices}, one.sharding
    answers = [sb.predict(model, part, 7, likelihood="categorical_logits").mean for part in (x, x[:1])]
    np.save("{path}", np.concatenate(answers))
"""


@on_jax
@pytest.mark.exhaustive  # test_layout.py compares the devices of one process too
def test_devices_share_the_work_and_give_the_answer_of_one(tmp_path):
    one, four = tmp_path / "one.npy", tmp_path / "four.npy"
    exec(textwrap.dedent(SPREAD.format(devices=1, path=one)), {})
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    code = textwrap.dedent(SPREAD.format(devices=4, path=four))
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "XLA_FLAGS": flags})
    np.testing.assert_allclose(np.load(four), np.load(one), rtol=1e-5, atol=1e-6)


@pytest.mark.backend
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="other backends meet a wrong id in a compiled function")
def test_a_refused_request_leaves_draws_side_by_side(monkeypatch):
    model = keras.Sequential([keras.Input((3,), dtype="int32"), layers.Embedding(5, 4, posterior=LowRank(2))])
    good, bad = np.zeros((2, 3), "int32"), np.full((2, 3), 9, "int32")
    with pytest.raises(ValueError, match="got the id 9"):
        sb.predict(model, bad, 4, likelihood="gaussian")
    assert sampler_of(model)._vectorised
    import torch

    def fail(self, draws, x, frontier):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(type(sampler_of(model)), "_run_group", fail)
        with pytest.raises(torch.OutOfMemoryError):
            sb.predict(model, good, 4, likelihood="gaussian")
    assert sampler_of(model)._vectorised
