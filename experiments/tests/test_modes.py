"""Modes are compared by programs over networks: each is what plain `fit` gives, and test rows wait for the results."""

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import jax
import keras
import numpy as np
import pytest
from jax import numpy as jnp
from made_up_tables import made_up_table
from singularbayes_experiments import data
from singularbayes_experiments.methods import ivon, protocol
from singularbayes_experiments.methods.network_fit import Bucket, Fit, Network, Settings
from singularbayes_experiments.problems import modes, modes_data, modes_grids, modes_large
from singularbayes_experiments.problems.modes import SECOND, SETS
from singularbayes_experiments.problems.modes_grids import configurations, round_of
from singularbayes_experiments.runs import modes as command
from singularbayes_experiments.runs import modes_records

import singularbayes as sb

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")
ROWS = np.arange(24)


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """No test needs the data sets of UCI."""
    monkeypatch.setattr(data, "uci_regression", made_up_table)


def _network(prior=None, eta=0.1, rho_lr=1.0, optimizer=None):
    def posterior(rank):
        return sb.Deterministic() if prior is None else sb.LowRank(rank, prior=prior, eta=eta, rho_lr=rho_lr)

    stack = [sb.layers.Dense(5, "relu", posterior=posterior(3)), sb.layers.Dense(2, posterior=posterior(2))]
    model = keras.Sequential([keras.Input((4,)), *stack])
    # A large gradient next to Adam's epsilon, by which alone a rate and a multiple of a step differ.
    optimizer = optimizer or keras.optimizers.Adam(1e-3, epsilon=1e-12)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _low_rank():
    return _network(sb.Centred(sb.Normal(1.0)))


def _fit(build, **options):
    return Fit(build, X, Y, rows=lambda seed: ROWS, size=8, num_data=24, **options)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_a_deterministic_network_is_what_fit_gives_with_its_rate_and_decay(decay):
    network = Network(Settings(3, 0.02, decay), seed=5)
    state = _fit(_network).train([network, replace(network, component=1)], [None, None])
    adam = keras.optimizers.AdamW(0.02, weight_decay=decay, epsilon=1e-12)
    adam.exclude_from_weight_decay(var_names=["bias"])
    keras.utils.set_random_seed(5)
    model = _network(optimizer=adam)
    batches = np.concatenate([network.order(ROWS, 8, epoch) for epoch in range(3)])
    rate = keras.callbacks.LearningRateScheduler(lambda epoch: 0.02 * 0.5 * (1 + math.cos(math.pi * epoch / 3)))
    model.fit(((X[ids], Y[ids]) for ids in batches), epochs=3, steps_per_epoch=3, verbose=0, callbacks=[rate])
    for ours, theirs in zip(state[0], model.trainable_variables, strict=True):
        np.testing.assert_allclose(ours[0], theirs, atol=2e-5)
        assert not np.allclose(ours[1], theirs, atol=1e-3) or np.ndim(theirs) == 1  # a start of its own


def test_a_low_rank_network_is_what_fit_gives_with_its_prior_and_rates():
    own = Settings(3, 0.01, prior="anchored", scale=0.2, beta=0.7, eta=0.3, rho_lr=4.0)
    network, fit = Network(own, seed=5), _fit(_low_rank)
    state = fit.train([network], [None])
    keras.utils.set_random_seed(5)
    model = _network(sb.Anchored(0.2), 0.3, 4.0, keras.optimizers.Adam(0.01, epsilon=1e-12))
    batches = np.concatenate([network.order(ROWS, 8, epoch) for epoch in range(3)])
    rate = keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 * 0.5 * (1 + math.cos(math.pi * epoch / 3)))
    callbacks = [sb.KLSchedule(24, 0.7), rate]
    model.fit(((X[ids], Y[ids]) for ids in batches), epochs=3, steps_per_epoch=3, verbose=0, callbacks=callbacks)
    for posterior, i in zip(sb.find_posteriors(model), fit.values, strict=True):
        loc, scale, _ = posterior.factors[0].float64_values()
        np.testing.assert_allclose(state[0][i][0][0], loc, atol=1e-4)
        np.testing.assert_allclose(np.logaddexp(0, state[0][i][0][1]), scale, rtol=1e-3)


def test_components_share_out_a_batch_repeat_it_or_have_their_own():
    def orders(examples):
        return [Network(Settings(1, 1e-3), 3, k, 4, examples).order(ROWS, 8, 0) for k in range(4)]

    whole = orders("repeat")[0]
    assert all(np.array_equal(whole, other) for other in orders("repeat"))
    np.testing.assert_array_equal(np.sort(np.concatenate(orders("split"), axis=1)), np.sort(whole))
    assert {order.shape for order in orders("split")} == {(3, 2)}
    assert not np.array_equal(*orders("own")[:2])


def test_a_start_at_a_trained_network_predicts_as_it_does_where_the_rank_is_full():
    keras.utils.set_random_seed(1)
    plain = _network()
    for variable in plain.trainable_variables:
        variable.assign(RNG.normal(size=variable.shape))

    def full():
        stack = [sb.layers.Dense(5, "relu", posterior=sb.LowRank(4, prior=sb.Centred(sb.Normal(1.0))))]
        bias = sb.FullRank(prior=sb.Centred(sb.Normal(1.0)))
        last = sb.LowRank(2, prior=sb.Centred(sb.Normal(1.0)))
        stack.append(sb.layers.Dense(2, posterior=last, bias_posterior=bias))
        model = keras.Sequential([keras.Input((4,)), *stack])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    fit = _fit(full)
    start = fit.start_at(plain, [np.asarray(variable) for variable in plain.trainable_variables])
    network = Network(Settings(1, 1e-3, prior="anchored", scale=0.1, beta=1.0), seed=2)
    state = fit.program.start(network.member, start)
    outputs, _ = fit.model.stateless_call(state[0], state[1], X, training=False)
    np.testing.assert_allclose(outputs, plain(X), atol=1e-4)
    for i, j in zip(fit.values, fit.program.references, strict=True):
        np.testing.assert_array_equal(state[1][j][0], state[0][i][0])  # the anchor is the start


def test_the_spread_is_the_standard_deviation_of_the_weights_at_the_start():
    one = SETS["toy"]
    fit = Fit(
        lambda: modes_data.network(one, "low_rank", 1), X[:, :1], X[:, :1], rows=lambda seed: ROWS, size=8, num_data=24
    )
    spread = (6.0, 0.2, 0.3)
    state = fit.program.start(
        Network(Settings(1, 1e-3), 0).member, fit._spread(Network(Settings(1, 1e-3, spread=spread), 0))
    )
    for variable, value in zip(fit.model.trainable_variables, state[0], strict=True):
        variable.assign(value)
    weights = [np.asarray(layer.posterior.mean().dense()) for layer in fit.model.layers if hasattr(layer, "posterior")]
    np.testing.assert_allclose([weight.std() for weight in weights], spread, rtol=0.15)


def test_ivon_reaches_the_exact_posterior_of_a_conjugate_model():
    """y ~ N(w, s²) with prior N(c, t²): precision n/s² + 1/t², of the tempered posterior with n/β for n."""
    count, noise, beta = 50, 0.5, 0.7
    y = RNG.normal(1.0, noise, size=(count, 6))
    reference = jnp.stack([jnp.full(6, -0.4), jnp.full(6, 0.3)])
    values = jnp.stack([jnp.zeros(6), jnp.full(6, -3.0)])
    weight = beta / count

    def loss(values, key):
        w = values[0] + ivon.softplus(values[1]) * jax.random.normal(key, (6,))
        return jnp.mean(jnp.sum((y - w) ** 2, axis=1)) / (2 * noise**2)

    def step(carry, key):
        values, state = carry
        number = state.steps
        rate = 0.1 / (1 + number / 2000)
        return ivon.step(values, jax.grad(loss)(values, key), state, reference, weight, rate), values

    start = (values, ivon.begin(values, reference, weight))
    np.testing.assert_allclose(
        jnp.sqrt(weight / (start[1].hessian + weight / 0.09)), ivon.softplus(values[1]), rtol=1e-5
    )
    _, path = jax.lax.scan(step, start, jax.random.split(jax.random.key(0), 40_000))
    tail = np.asarray(path[20_000:])
    precision = count / beta / noise**2 + 1 / 0.09
    mean = (count / beta / noise**2 * y.mean(axis=0) - 0.4 / 0.09) / precision
    np.testing.assert_allclose(tail[:, 0].mean(axis=0), mean, atol=0.005)
    np.testing.assert_allclose(np.logaddexp(0, tail[:, 1]).mean(axis=0), precision**-0.5, rtol=0.02)


def test_every_method_of_a_set_has_as_many_different_configurations_in_every_round():
    for one in SETS.values():
        grids = {m: {n: asdict(s) for n, s in configurations(one, m, one.rounds).items()} for m in one.methods}
        protocol.require_equal_tuning(grids)
        own = one.tuned_on or one
        assert {len(grid) for grid in grids.values()} == {own.per_round * own.rounds}
        assert own.per_round == (4 if one.name == "sst2" else protocol.ROUND)
        assert [round_of(one, name) for name in grids["low_rank"]] == sorted(
            [*range(1, own.rounds + 1)] * own.per_round
        )
        protocol.require_result_seeds(modes.TUNING_SEEDS, modes_data.result_seeds(one))


@pytest.mark.parametrize("posterior", [sb.FullRank, lambda: sb.LowRank(2)])
def test_a_convolution_of_patches_is_the_convolution_of_the_library(posterior):
    options = {"padding": "same", "activation": "relu"}
    image = RNG.normal(size=(2, 5, 6, 3)).astype("float32")
    theirs = sb.layers.Conv2D(4, (3, 2), posterior=posterior(), **options)
    ours = modes_large.PatchConv2D(4, (3, 2), posterior=posterior(), **options)
    expected, _ = theirs(image), ours(image)
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(image), expected, atol=1e-6)


def test_a_round_alone_can_be_asked_for_and_the_first_has_results_of_its_own():
    (one, rounds), (two, both) = command._named("sst2:2,toy")
    assert (one.name, list(rounds), two.name, list(both)) == ("sst2", [2], "toy", [1, 2])
    order = [task.name for task in command.tasks([(two, both)], ["low_rank", "deterministic"])]
    stages = ("tuning1", "results1"), ("tuning2", "results2")
    assert order == [f"toy-{m}-{s}" for own in stages for m in ("deterministic", "low_rank") for s in own]


def test_texts_are_batched_by_length_and_all_steps_are_taken():
    x = np.where(np.arange(64)[None] < RNG.integers(2, 49, 400)[:, None], 7, 0)
    short, long = modes_large.buckets(x)
    assert np.array_equal(np.sort(np.concatenate([short.rows, long.rows])), np.arange(400))
    assert not x[short.rows, short.width :].any() and not x[long.rows, long.width :].any()
    assert x[long.rows, short.width].all()


def test_batches_of_a_bucket_are_its_rows_alone_and_train_as_whole_inputs_do():
    rows = [Bucket(2, np.arange(0, 24, 2)), Bucket(4, np.arange(1, 24, 2))]
    x = X.copy()
    x[rows[0].rows, 2:] = 0.0

    def build():  # sums over columns, so that zeros at the end can be left away
        first = keras.Input((None,))
        weight = sb.layers.Dense(2, posterior=sb.Deterministic())
        model = keras.Model(first, weight(keras.ops.sum(first, axis=1, keepdims=True)))
        model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    states = []
    for widths in ((2, 4), (4, 4)):
        buckets = [replace(one, width=width) for one, width in zip(rows, widths, strict=True)]
        fit = Fit(build, x, Y, rows=lambda seed: ROWS, size=4, num_data=24, buckets=buckets, parts=3)
        batches = [fit._batches([Network(Settings(2, 0.02), 5)], 1, bucket) for bucket in buckets]
        assert [set(each.ravel() % 2) for each in batches] == [{0}, {1}]
        states.append(fit.train([Network(Settings(2, 0.02), 5)], [None])[0])
    for cut, whole in zip(*states, strict=True):
        np.testing.assert_allclose(cut, whole, atol=1e-6)


def test_the_kl_weight_rises_in_the_epochs_of_the_warm_up():
    fit, seen = _fit(_low_rank), []
    networks = [Network(Settings(4, 1e-3, beta=0.6, warmup=warmup), 1) for warmup in (0, 3)]
    warm_up = fit._warm_up

    def watched(state, *rest):
        warm_up(state, *rest)
        seen.append(np.array(state[1][fit.program.kl_scale]))  # the next step takes the array itself

    fit._warm_up = watched  # type: ignore[method-assign]
    fit.train(networks, [None, None])
    np.testing.assert_allclose(np.array(seen) * 24, [[0.6, 0.0], [0.6, 0.2], [0.6, 0.4], [0.6, 0.6]], rtol=1e-6)


def test_perturbed_texts_keep_their_marks_and_lengths():
    ids = np.zeros((40, 64), "int32")
    for row, length in enumerate(RNG.integers(10, 60, 40)):
        ids[row, :length] = [101, *RNG.integers(2000, 3000, length - 2), 102]
    long = ids[(ids > 0).sum(axis=1) >= 20]
    found = modes_large.perturbed_texts(ids)
    assert (
        np.array_equal(found > 0, long > 0) and np.array_equal(found == 102, long == 102) and (found[:, 0] == 101).all()
    )
    half = len(long) // 2
    assert set(found[:half].ravel()) <= set(long.ravel()) and not np.array_equal(found[:half], long[:half])
    assert (found[half:][found[half:] > 102] >= 999).all()


def test_a_second_round_counts_once_all_methods_have_it_with_results():
    one = SETS["toy"]
    lines = [
        {"set": "toy", "stage": "tuning", "method": method, "configuration": name, "seed": seed, "without_inputs": 9.0}
        | {"nll": 1.0 - 0.01 * number + 0.001 * seed, "proxy_ood": 0.5}
        for method in SECOND
        for number, name in enumerate(configurations(one, method, 2))
        for seed in modes.TUNING_SEEDS
    ]
    early, late = (
        [
            {"set": "toy", "stage": "results", "method": m, "configuration": f"{m} {best}", "seed": s, "nll": 0.0}
            for m in SECOND
            for s in modes.RESULT_SEEDS
        ]
        for best in (7, 15)
    )

    def shown(lines):
        return {line["configuration"].split()[-1] for line in modes_records.final_results(lines)}

    assert shown([*lines, *early, *late]) == {"15"}
    assert shown([*lines, *early, *late[1:]]) == {"7"} == shown([*lines[1:], *early, *late]) - {"15"} | {"7"}


def test_a_round_counts_without_the_methods_that_are_far_behind_and_they_keep_the_rounds_they_have():
    one = replace(SETS["toy"], far_behind=("low_rank",))
    kept = [method for method in SECOND if method != "low_rank"]
    assert one.compared == tuple(kept) and one.methods[-1] == "low_rank"
    lines = [
        {"set": "toy", "stage": "tuning", "method": method, "configuration": name, "seed": seed, "without_inputs": 9.0}
        | {"nll": 1.0 - 0.01 * number, "proxy_ood": 0.5}
        for method in SECOND
        for number, name in enumerate(configurations(one, method, 1 if method == "low_rank" else 2))
        for seed in modes.TUNING_SEEDS
    ]
    lines += [
        {"set": "toy", "stage": "results", "method": m, "configuration": f"{m} 15", "seed": s, "nll": 0.0}
        for m in kept
        for s in modes.RESULT_SEEDS
    ]
    records = command.by_run(lines)
    assert modes_records.rounds_of(records, one) == 2 and modes_records.rounds_of(records, SETS["toy"]) == 1
    choices = modes_records.choices(records, one)
    assert choices["low_rank"] == "low_rank 7" and choices["mixture_svd"] == "mixture_svd 15"


def test_programs_have_one_rank_and_one_number_of_epochs():
    one = SETS["mnist"]
    wanted = {name: own for name, own in configurations(one, "mixture_repeat", 3).items() if round_of(one, name) > 1}
    runs = [(name, seed) for name in wanted for seed in modes.TUNING_SEEDS]
    found = list(command._programs(one, wanted, runs, 5))
    assert sorted(run for program in found for run in program) == sorted(runs)
    shapes = [{(wanted[name].rank, wanted[name].epochs) for name, _ in program} for program in found]
    assert {len(each) for each in shapes} == {1} and set.union(*shapes) == {(None, 20), (36, 20), (36, 40)}


def test_the_rank_of_a_third_round_keeps_a_mixture_of_five_within_15_percent_of_the_ensemble():
    one = SETS["mnist"]
    sizes = {
        kind: sum(math.prod(v.shape) for v in modes_data.network(own, kind, 784).trainable_variables)
        for kind, own in (("deterministic", one), ("low_rank", command._with_rank(one, modes_grids.HIGH_RANK)))
    }
    assert command._with_rank(one, 36).ranks == (36, 36, 10) and command._with_rank(one, None) is one
    assert 0.14 < sizes["low_rank"] / sizes["deterministic"] <= 0.15


def test_tuning_reads_no_test_rows_of_its_split_and_results_have_splits_of_their_own():
    table = made_up_table("yacht")
    tuning, results = (modes_data.data_of(SETS["yacht"], stage) for stage in (True, False))
    train, test = table.splits[0]
    assert len(tuning.x) + sum(len(part["validation"].x) for part in tuning.parts.values()) == 2 * len(train)
    assert {len(part["test"].x) for part in results.parts.values()} == {len(test)}
    for seed, parts in results.parts.items():
        rows, held = table.splits[seed - 1]
        y = results.y[results.rows[seed], 0] * parts["test"].unit + table.y[rows].mean()
        np.testing.assert_allclose(y, table.y[rows], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(
            parts["test"].y[:, 0] * parts["test"].unit + table.y[rows].mean(), table.y[held], atol=1e-3
        )


def test_pooled_scores_are_those_of_all_draws():
    draws = np.stack([RNG.normal(size=(3, 10, 6)), RNG.uniform(0.1, 0.2, size=(3, 10, 6))], axis=-1)
    part = modes_data.Part(np.zeros((6, 1)), RNG.normal(size=(6, 1)), unit=2.0)
    found = modes_data.scores("regression", modes_data.pooled("regression", draws), part)
    flat = draws.reshape(30, 6, 2)
    variance = flat[..., 0].var(axis=0) + flat[..., 1].mean(axis=0)
    squares = (flat[..., 0].mean(axis=0) - part.y[:, 0]) ** 2
    expected = 0.5 * np.log(2 * np.pi * 4 * variance) + squares / (2 * variance)
    assert found["nll"] == pytest.approx(expected.mean()) and found["rmse"] == pytest.approx(2 * squares.mean() ** 0.5)
    p = RNG.dirichlet(np.ones(3), size=(2, 5, 4))  # components, draws, examples
    entropy = -(p * np.log(p)).sum(axis=-1, keepdims=True)
    pooled = modes_data.pooled("classes", np.concatenate([p, entropy], axis=-1).mean(axis=1))
    flat = p.reshape(10, 4, 3)
    mi = sb.metrics.mutual_information(flat)
    np.testing.assert_allclose(modes_data.uncertainty("classes", pooled) - pooled[:, -1], mi, atol=1e-6)


def test_the_command_runs_resumes_and_chooses(tmp_path, capsys):
    arguments = ["--tiny", "--sets", "yacht:1", "--methods", "deterministic,deep_ensemble", "--out", str(tmp_path)]
    assert command.main([*arguments, "--minutes", "0.0001"]) == 0
    assert "4 tasks are missing" in capsys.readouterr().out
    assert command.main([*arguments, "--minutes", "9"]) == 0
    said = capsys.readouterr().out
    assert "All tasks are done." in said and said.count("| NLL of the deep ensemble |") == 1
    records = command.by_run(command.read_lines([tmp_path]))
    for method in ("deterministic", "deep_ensemble"):
        tried = {key[3] for key in records if key[1:3] == ("tuning", method)}
        results = {(key[3], key[4]) for key in records if key[1:3] == ("results", method)}
        assert len(tried) == 8 and {seed for _, seed in results} == set(modes.RESULT_SEEDS)
        assert {name for name, _ in results} == {command.chosen(records, SETS["yacht"], method, 1)}
    assert command.main([*arguments, "--minutes", "9"]) == 0
    assert len(command.read_lines([tmp_path])) == len(records)  # nothing was done twice


class Recorder:
    """A trainer that trains nothing: its records have an NLL, and tasks of `failing` raise an error."""

    def __init__(self, failing=()):
        self.deadline, self.failing, self.names = time.time() + 60, failing, []

    def __call__(self, task, records):
        self.names.append(task.name)
        if task.name in self.failing:
            raise ValueError("no data")
        yield self.lines(task, records)

    @staticmethod
    def lines(task, records):
        own = {"set": task.set.name, "stage": task.stage, "method": task.method, "nll": 0.5, "without_inputs": 1.0}
        return [own | {"configuration": name, "seed": seed} for name, seed in task.runs(records)]


def _tasks(*methods):
    return list(command.tasks([(SETS["yacht"], [1])], methods))


def test_what_needs_a_task_that_failed_is_not_waited_for(tmp_path, capsys):
    (tmp_path / "claims").mkdir()
    trainer = Recorder(failing=("yacht-deep_ensemble-tuning1",))
    begun = time.time()
    every = _tasks("deep_ensemble", "low_rank", "mixture_svd")
    command.work(every, tmp_path, [], trainer, tmp_path / "claims", "main")
    assert time.time() - begun < 10  # of the minute that it has
    assert trainer.names == [
        f"yacht-{name}1" for name in ("deep_ensemble-tuning", "low_rank-tuning", "low_rank-results")
    ]
    assert command.claimed_work.failures(tmp_path / "claims") == {
        "yacht-deep_ensemble-tuning1": "ValueError('no data')"
    }
    assert command.claimed_work.report_failures(tmp_path / "claims") == 1
    assert "failed: yacht-deep_ensemble-tuning1: ValueError('no data')" in capsys.readouterr().out


@pytest.mark.parametrize("fails", [False, True])
def test_a_task_waits_for_the_process_that_is_at_what_it_needs(fails, tmp_path, monkeypatch):
    claims, (tuning, results) = tmp_path / "claims", _tasks("low_rank")
    claims.mkdir()
    assert command.claimed_work.claim(claims, tuning.name)  # as another process does
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3 and fails:
            command.claimed_work.fail(claims, tuning.name, "no data")
        elif len(slept) == 3:
            command.claimed_work.keep(Recorder.lines(tuning, {}), tmp_path, "other")

    monkeypatch.setattr(time, "sleep", sleep)
    trainer = Recorder()
    command.work([results], tmp_path, [], trainer, claims, "main")
    assert slept == [1, 1, 1] and trainer.names == ([] if fails else [results.name])


def test_the_command_ends_soon_where_the_process_that_is_at_what_it_needs_is_killed(tmp_path, capsys, monkeypatch):
    """The other process claims the tuning of the low-rank network and is killed."""

    def start(module, given, worker, sets, more):
        assert command.claimed_work.claim(given.claims, "yacht-low_rank-tuning1", worker)
        return subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])

    monkeypatch.setattr(command.claimed_work, "start", start)
    monkeypatch.setattr(command, "Trainer", lambda deadline, tiny: Recorder())
    begun = time.time()
    arguments = ["--tiny", "--sets", "yacht:1", "--methods", "low_rank", "--out", str(tmp_path), "--workers", "1"]
    assert command.main([*arguments, "--tables", "concrete:1", "--minutes", "1"]) == 1 and time.time() - begun < 30
    printed = capsys.readouterr().out
    for name in ("cpu0", "yacht-low_rank-tuning1"):
        assert f"failed: {name}: its process ended with status -9\n" in printed
    assert "4 tasks are missing" in printed  # two of each data set
    assert command.main([*arguments[:-1], "0"]) == 0  # a second call resumes
    assert "All tasks are done." in capsys.readouterr().out


def test_the_command_ends_at_once_without_a_task_that_others_need(tmp_path, capsys):
    arguments = ["--tiny", "--sets", "yacht:1", "--methods", "mixture_svd", "--out", str(tmp_path), "--minutes", "1"]
    begun = time.time()
    assert command.main(arguments) == 1 and time.time() - begun < 30
    printed = capsys.readouterr().out
    assert "failed: yacht-deep_ensemble-tuning1: other tasks need it" in printed and "2 tasks are missing" in printed


def test_a_method_whose_configurations_all_diverged_has_no_results(tmp_path):
    one = replace(SETS["yacht"], rounds=1)
    lines = [
        {
            "set": "yacht",
            "stage": "tuning",
            "method": "low_rank",
            "configuration": name,
            "seed": seed,
            "without_inputs": 1.0,
        }
        for name in configurations(one, "low_rank")
        for seed in modes.TUNING_SEEDS
    ]
    records = command.by_run(json.loads(json.dumps(lines)))
    assert command.chosen(records, one, "low_rank") == command.DIVERGED
    assert not command.ModesTask(one, "low_rank", "results").missing(records)
    assert command.chosen(dict(list(records.items())[1:]), one, "low_rank") is None
    lines[0]["nll"] = lines[1]["nll"] = 0.5
    assert command.chosen(command.by_run(lines), one, "low_rank") == "low_rank 0"


def by_round(runs, method, rounds):
    """Returns the NLL on SST-2 of the configuration that so many rounds choose, by seed."""
    name = command.chosen(runs, SETS["sst2"], method, rounds)
    return [runs["sst2", "results", method, name, seed]["nll"] for seed in modes_data.result_seeds(SETS["sst2"])]


def _results(method, nll, one="concrete"):
    """Returns a result record per seed; one whose NLL is None diverged."""
    scores = [{} if value is None else {"nll": value, "rmse": 1.0, "coverage": 0.95} for value in nll]
    own = {"set": one, "stage": "results", "method": method, "parameters": 7, "products": 2.0}
    return [own | each | {"seed": seed} for seed, each in zip(modes.RESULT_SEEDS, scores, strict=False)]
