"""Defaults are compared by a program over configurations: each member is what plain `fit` gives with its settings."""

import dataclasses
import json
import math
import subprocess
import sys
from dataclasses import asdict

import keras
import numpy as np
import pytest
from made_up_tables import made_up_table
from singularbayes_experiments import data
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.configured_fit import Configuration, Member, Program, orthogonal_factors
from singularbayes_experiments.problems import defaults
from singularbayes_experiments.problems.defaults import CONFIGURATIONS, SETS, Rows
from singularbayes_experiments.runs import defaults as command

import singularbayes as sb

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")
MEMBERS = (
    Configuration("normal", 0.5, 0.3, 0.1, 1.0),
    Configuration("anchored", 0.2, 1.0, 0.3, 4.0),
    Configuration("anchored", 0.2, 1.0, 0.1, 1.0, pretrained=0.4),
)


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """No test needs the data sets of UCI."""
    monkeypatch.setattr(data, "uci_regression", made_up_table)


def _order(seed, epoch):
    return np.random.default_rng([seed, epoch]).permutation(24).reshape(3, 8)


def _network(prior, eta, rho_lr):
    posteriors = [sb.LowRank.paper(rank, prior=prior, eta=eta, rho_lr=rho_lr) for rank in (3, 2)]
    first, last = sb.layers.Dense(5, "relu", posterior=posteriors[0]), sb.layers.Dense(2, posterior=posteriors[1])
    model = keras.Sequential([keras.Input((4,)), first, last])
    # A large gradient next to Adam's epsilon, by which alone a rate of ρ and a multiple of its step differ.
    optimizer = keras.optimizers.Adam(0.01, epsilon=1e-12)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_members_are_what_fit_gives_with_their_settings():
    def build(seed):
        return _network(sb.Centred(sb.Normal(1.0)), 0.1, 1.0)

    program = Program(build, X, Y, 24, _order, epochs=5)
    members = [Member(configuration, seed) for configuration in MEMBERS for seed in (3, 4)]
    state = program.train(members)
    for place, member in enumerate(members):
        own = member.configuration
        prior = sb.Normal(own.scale) if own.prior == "normal" else sb.Anchored(own.scale, anchor="random")
        keras.utils.set_random_seed(member.seed)
        model = _network(prior, own.eta, own.rho_lr)
        schedule = sb.KLSchedule(24, own.beta, pretrain_epochs=math.ceil(own.pretrained * 5))
        everything = np.concatenate([_order(member.seed, epoch) for epoch in range(5)])  # 15 batches, three an epoch
        batches = ((X[ids], Y[ids]) for ids in everything)
        model.fit(batches, epochs=5, steps_per_epoch=3, verbose=0, callbacks=[schedule])
        found = [np.asarray(state[0][i][place]) for i in program.values]  # means above ρ
        for posterior, values in zip(sb.find_posteriors(model), found, strict=True):
            loc, scale, _ = posterior.factors[0].float64_values()
            np.testing.assert_allclose(values[0], loc, atol=3e-4)
            np.testing.assert_allclose(np.logaddexp(0, values[1]), scale, rtol=3e-3)


def test_every_prior_has_as_many_configurations_and_results_have_seeds_of_their_own():
    protocol.require_equal_tuning({m: {c.name: asdict(c) for c in defaults.configurations(m)} for m in defaults.SCALES})
    protocol.require_result_seeds(defaults.TUNING_SEEDS, defaults.RESULT_SEEDS)
    assert len(CONFIGURATIONS) == 4 * 2 * 3


def test_orthogonal_factors_have_equal_singular_values_and_the_expected_norm():
    found = orthogonal_factors(RNG.normal(size=(50, 3)), rows=30, std=0.2)
    w = found[:30] @ found[30:].T
    np.testing.assert_allclose(np.linalg.svd(w)[1][:3] ** 2, 30 * 20 * 0.2**4, rtol=1e-4)
    np.testing.assert_allclose((w**2).sum(), 30 * 20 * 3 * 0.2**4, rtol=1e-4)


def test_the_first_component_of_a_mixture_is_the_single_network(monkeypatch):
    monkeypatch.setattr(command, "DRAWS", 2)
    tiny = dataclasses.replace(SETS["yacht"], units=(4, 4), epochs=2)
    records = []
    for components in (1, 2):
        own = Configuration("normal", 0.1, 0.1, 0.01, 1.0, rank=2, components=components, start="orthogonal")
        members = tuple(Member(own, 1, component) for component in range(components))
        records.append(command.Trained()(command.Chunk(tiny, defaults.kind_of(own), "", members), math.inf))
    single, mixture = ({one["method"]: one["nll"] for one in each} for each in records)
    assert len(single) == 2 and len(mixture) == 4
    for name, nll in single.items():
        np.testing.assert_allclose(mixture[name], nll, rtol=1e-5)


def test_components_have_starts_of_their_own_and_are_pooled():
    program = Program(lambda seed: _network(sb.Centred(sb.Normal(1.0)), 0.1, 1.0), X, Y, 24, _order, epochs=1)
    one, other = (program.start(Member(MEMBERS[0], 3, component))[0][1] for component in (0, 1))
    assert not np.allclose(one, other)
    # He's variance of W is 2/4, Glorot's 2/(4 + 5): that of a factor of two is as its root.
    he, glorot = (
        program.start(Member(dataclasses.replace(MEMBERS[0], start=start), 3))[0][1] for start in ("he", "glorot")
    )
    np.testing.assert_allclose(glorot[0], he[0] * (4 / 9) ** 0.25, rtol=1e-5)
    np.testing.assert_allclose(
        *(np.logaddexp(0, rho) / (4 / 9) ** power for rho, power in ((glorot[1], 0.25), (he[1], 0))), rtol=1e-3
    )
    draws = RNG.normal(size=(4, 50, 6, 2))  # components, draws, examples; means and noise
    averages = np.stack([draws[..., 0].mean(1), draws[..., 0].var(1), (draws[..., 1] ** 2).mean(1)], axis=-1)
    found = defaults.pooled("regression", averages)
    flat = draws.reshape(200, 6, 2)
    np.testing.assert_allclose(found[:, 0], flat[..., 0].mean(0))
    np.testing.assert_allclose(found[:, 1], flat[..., 0].var(0))
    np.testing.assert_allclose(found[:, 2], (flat[..., 1] ** 2).mean(0))


@pytest.mark.parametrize("shared", [False, True])
def test_rows_train_stop_or_validate_and_seeds_split_tables_anew(shared):
    rows = Rows(X, Y, shared)
    one, other = (np.concatenate(rows.split(seed)) for seed in (0, 1))
    assert sorted(one) == sorted(other) == list(range(24)) and np.array_equal(one, other) == shared


def test_test_rows_are_not_among_the_rows():
    table = made_up_table("yacht")
    rows = defaults.rows_of(SETS["yacht"])
    assert len(rows.x) == len(table.splits[0][0]) < len(table.x)


@pytest.mark.parametrize("sets", ["yacht", pytest.param("digits,yacht", marks=pytest.mark.exhaustive)])
def test_the_command_runs_resumes_chooses_and_confirms(sets, tmp_path, capsys):
    arguments = ["--tiny", "--sets", sets, "--workers", "0", "--minutes"]
    assert command.main(["--out", str(tmp_path / "one"), *arguments, "0.0001"]) == 0
    assert "runs of tuning are missing" in capsys.readouterr().out
    assert command.main(["--out", str(tmp_path / "one"), *arguments, "9"]) == 0
    said = capsys.readouterr().out
    assert said.count("chosen by the tuning seeds") == said.count("five fresh seeds:") == 2  # networks, and mixtures
    assert said.count("deterministic ") >= 3
    first = command.read([tmp_path / "one"])
    assert {one["seed"] for one in first} == {*defaults.TUNING_SEEDS, *defaults.RESULT_SEEDS}
    assert command.main(["--out", str(tmp_path / "two"), "--earlier", str(tmp_path / "one"), *arguments, "9"]) == 0
    assert not list((tmp_path / "two").glob("*.jsonl"))  # all was there
    assert capsys.readouterr().out.splitlines()[0] in said


def test_the_command_names_what_failed_and_does_the_others(tmp_path, capsys, monkeypatch):
    def trained(self, chunk, deadline):
        if chunk.kind == "deterministic":
            raise ValueError("no data")
        return [{"set": chunk.set.name, "method": command.run_name(one), "seed": one.seed} for one in chunk.members]

    monkeypatch.setattr(command.Trained, "__call__", trained)
    arguments = ["--tiny", "--sets", "yacht", "--workers", "0", "--out", str(tmp_path)]
    assert command.main(arguments) == 1
    assert "failed: yacht-deterministic-1-0-0: ValueError('no data')" in capsys.readouterr().out
    assert command.read([tmp_path])


def test_a_worker_that_ends_with_an_error_is_named_and_is_the_status_of_the_command(tmp_path, capsys, monkeypatch):
    def start(module, given, worker, sets, more):
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])

    monkeypatch.setattr(command.claimed_work, "start", start)
    monkeypatch.setattr(command.Trained, "__call__", lambda self, chunk, deadline: [])
    arguments = ["--tiny", "--sets", "yacht", "--workers", "1", "--out", str(tmp_path)]
    assert command.main(arguments) == 1
    assert "failed: cpu0: its process ended with status 3\n" in capsys.readouterr().out


def test_a_configuration_that_diverged_on_a_set_is_not_chosen():
    def run(one, method, seed, **found):
        return {"set": one, "method": method, "seed": seed, "without_inputs": 2.0, "proxy_ood": 0.5, **found}

    runs = [run(one, "deterministic", seed, nll=1.0) for one in ("a", "b") for seed in (0, 1)]
    runs += [run(one, "fine", seed, nll=1.1 + seed / 100) for one in ("a", "b") for seed in (0, 1)]
    runs += [run(one, "good", seed, nll=0.9 + seed / 100) for one in ("a", "b") for seed in (0, 1)]
    assert command.chosen(json.loads(json.dumps(runs)), ["a", "b"]).name == "good"
    runs[-1].pop("nll")  # predictions that were not finite
    assert command.chosen(runs, ["a", "b"]).name == "fine"
    runs[-1]["nll"] = 2.1
    assert command.chosen(runs, ["a", "b"]).name == "fine"


def test_a_deterministic_network_that_diverged_is_shown_and_its_set_does_not_count():
    runs = [
        {"set": one, "method": method, "seed": seed, "without_inputs": 2.0, "proxy_ood": 0.5, "nll": nll + seed / 100}
        for one, shift in (("yacht", 0.0), ("energy", 0.2))
        for method, nll in (("deterministic", 1.0 - shift), ("fine", 1.1 - shift), ("good", 0.9 + 2 * shift))
        for seed in (0, 1)
    ]
    [diverged] = [run for run in runs if (run["set"], run["method"], run["seed"]) == ("energy", "deterministic", 1)]
    diverged.pop("nll")
    assert command.chosen(runs, ["yacht", "energy"]).name == "good"  # better on yacht, much worse on energy
    lines = {line.split()[0]: line for line in command.report(runs, "good", (0, 1)).splitlines()}
    assert lines["energy"].endswith("diverged: deterministic") and lines["yacht"].endswith("not worse")
    runs[-1].pop("nll")
    assert "diverged: good, deterministic" in command.report(runs, "good", (0, 1))
    with pytest.raises(ValueError, match="a set on which the deterministic network did not diverge; got 1 config"):
        command.chosen(runs, ["energy"])


def tuning_means(records):
    """Returns the mean NLL over the tuning seeds by set and method; infinite where a run diverged."""
    found = {}
    for one in records:
        if one["seed"] in defaults.TUNING_SEEDS:
            found.setdefault((one["set"], one["method"]), []).append(one.get("nll", math.inf))
    return {key: float(np.mean(values)) for key, values in found.items()}


def pairs_that_differ(records, setting, new, old, components):
    """Returns pairs of methods whose configurations differ in one setting alone, by whether they stop early."""
    found = {}
    for one in records:
        if one.get("configuration", {}).get("components") in components:
            rest = json.dumps({name: value for name, value in one["configuration"].items() if name != setting})
            key = one["method"].endswith(defaults.STOPPED), rest
            found.setdefault(key, {})[one["configuration"][setting]] = one["method"]
    return [(by[new], by[old], stopped) for (stopped, _), by in found.items() if new in by and old in by]
