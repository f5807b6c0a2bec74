"""Trials: as many settings for every method, the best on validation is chosen, and the committed choice is it."""

import importlib
import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from singularbayes_experiments.methods import configurations
from singularbayes_experiments.problems import (
    adaptive_rank,
    adaptive_rank_sst2,
    beijing,
    cnn,
    fashion_mnist,
    icu,
    image_configurations,
    images,
    mimic3,
    mnist,
    sst2,
    toy,
    uci,
)
from singularbayes_experiments.problems.image_configurations import CANDIDATES
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.runs import runner, together

PAPER = images.ImageSettings()
RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def trial(method, name, seed, nll):
    settings = record.plain(CANDIDATES.settings(method)[name])
    return Record("mnist", method, seed, settings, {"validation_nll": nll}, 1, 0.0, preset="trial")


@pytest.mark.parametrize(("experiment", "number"), [(toy, 8), (mnist, 8), (fashion_mnist, 8), (sst2, 5), (cnn, 4)])
def test_every_method_has_as_many_different_candidates(experiment, number):
    tried = experiment.CANDIDATES
    for method in tried.tried:
        found = list(tried.settings(method).values())
        assert len(found) == len(set(found)) == number
        if "paper" in experiment.PRESETS:
            assert experiment.PRESETS["paper"] not in found  # or one run would go by two names
    assert tried.tried.keys() | tried.alike.keys() == experiment.METHODS.keys() == experiment.CHOSEN.keys()


def test_seeds_of_trials_are_not_those_of_results():
    assert not set(configurations.SEEDS) & set(together.SEEDS)


def test_the_least_mean_over_seeds_is_chosen():
    names = list(image_configurations.LOW_RANK)
    trials = [trial("low_rank", name, seed, 1.0 + seed) for name in names for seed in (0, 1)]
    better = [trial("low_rank", names[3], seed, nll) for seed, nll in ((0, 0.1), (1, 2.2))]  # 1.15 against 1.5
    assert CANDIDATES.choose([*trials, *better]) == {"low_rank": names[3]}
    assert CANDIDATES.chosen({"low_rank": names[3]})["low_rank"].learning_rate == 3e-3


def test_a_choice_needs_every_candidate_with_the_same_seeds():
    trials = [trial("swag", name, 0, 1.0) for name in image_configurations.SWAG]
    with pytest.raises(ValueError, match="choose needs every candidate of 'swag' with the same seeds"):
        CANDIDATES.choose(trials[1:])
    with pytest.raises(ValueError, match="choose needs every candidate of 'swag' with the same seeds"):
        CANDIDATES.choose([*trials, trial("swag", next(iter(image_configurations.SWAG)), 1, 1.0)])


def test_a_candidate_that_diverged_needs_no_trial():
    worst, *others = image_configurations.SWAG
    known = replace(CANDIDATES, diverged={"swag": (worst,)})
    trials = [trial("swag", name, 0, nll) for nll, name in enumerate(others)]
    assert known.choose(trials) == {"swag": others[0]}
    with pytest.raises(ValueError, match="choose needs every candidate of 'swag' with the same seeds"):
        known.choose(trials[1:])


def test_other_settings_are_no_trial():
    strange = replace(trial("swag", next(iter(image_configurations.SWAG)), 0, 1.0), settings=record.plain(PAPER))
    with pytest.raises(ValueError, match="choose needs trials of the candidates; got other settings in 'mnist-swag-0"):
        CANDIDATES.choose([strange])


@pytest.mark.parametrize("experiment", [mnist, fashion_mnist, toy, sst2, cnn, adaptive_rank, adaptive_rank_sst2])
def test_the_committed_choice_is_that_of_the_committed_trials(experiment):
    path = RESULTS / f"{experiment.PROBLEM.name}_trials.jsonl"
    trials = record.read(path, arrays=False)
    assert all(one.experiment == experiment.PROBLEM.name and one.preset == "trial" for one in trials)
    assert all(
        name.startswith(("validation_", "posterior_", "learned_rank_")) for one in trials for name in one.metrics
    )
    assert experiment.CANDIDATES.choose(trials) == experiment.CHOICE
    assert experiment.CHOSEN.keys() == experiment.METHODS.keys()


@pytest.mark.parametrize("name", [name for name in runner.EXPERIMENTS if (RESULTS / f"{name}.jsonl").exists()])
def test_committed_results_have_the_settings_of_their_preset(name):
    experiment = importlib.import_module(f"singularbayes_experiments.problems.{name}")
    for one in record.read(RESULTS / f"{name}.jsonl", arrays=False):
        if one.preset == "hand":
            continue  # settings that no preset has
        preset = experiment.PRESETS[one.preset]
        settings = preset[one.method] if isinstance(preset, dict) else preset
        assert one.settings in map(record.plain, runner.variants(experiment, settings))


@pytest.mark.parametrize("name", together.EXPERIMENTS)
def test_every_experiment_takes_what_together_hands_it(name):
    run_many = importlib.import_module(f"singularbayes_experiments.problems.{name}").run_many
    assert inspect.signature(run_many).bind("low_rank", [0], None, "chosen").arguments["preset"] == "chosen"


@pytest.mark.parametrize("experiment", [beijing, icu, mimic3, sst2])
def test_the_papers_settings_depart_from_nothing(experiment):
    for method, settings in experiment.PRESETS["paper"].items():
        assert record.departures(settings, experiment.PROBLEM.published(method)) == {}


def test_all_runs_of_a_folder_are_done_once(tmp_path, monkeypatch, capsys):
    asked = []

    def run_many(method, seeds, settings, preset):
        asked.append((preset, method, list(seeds)))
        plain = record.plain(settings)
        return [Record("mnist", method, s, plain, {"validation_nll": 1.0}, 1, 0.0, preset=preset) for s in seeds]

    monkeypatch.setattr(mnist, "run_many", run_many)
    out = ["--out", str(tmp_path)]
    together.main(["mnist", "paper,chosen", "--methods", "low_rank,swag", "--seeds", "7", *out])
    assert asked == [(preset, method, [7]) for method in ("low_rank", "swag") for preset in ("paper", "chosen")]
    assert capsys.readouterr().out.startswith("mnist paper low_rank [7]: 0 s, validation_nll 1.0000\n")
    asked.clear()
    together.main(["mnist", "paper", "--methods", "low_rank", "--seeds", "7,8", *out])
    assert asked == [("paper", "low_rank", [8])]
    asked.clear()
    together.main(["mnist", "trial", "--methods", "swag", *out])
    together.main(["mnist", "trial", "--methods", "swag", *out])  # again: they are done
    assert asked == [("trial", "swag", [0, 1])] * 8
    assert len(record.read(tmp_path)) == 4 + 1 + 16


def test_runs_without_a_validation_score_are_told_by_what_their_records_begin_with(tmp_path, monkeypatch, capsys):
    def run_many(method, seeds, settings, preset):
        scores = [{"yacht/rmse": 1.0 + s, "yacht/nll": 2.0, "energy/rmse": 3.0, "energy/nll": 4.0} for s in seeds]
        return [Record("uci", method, s, record.plain(settings), m, 1, 0.0) for s, m in zip(seeds, scores, strict=True)]

    monkeypatch.setattr(uci, "run_many", run_many)
    together.main(["uci", "chosen", "--methods", "low_rank", "--seeds", "0,1", "--out", str(tmp_path)])
    assert capsys.readouterr().out.endswith(" s, yacht/rmse 1.5000, yacht/nll 2.0000, energy/rmse 3.0000\n")


def test_settings_are_chosen_by_the_trials_of_a_folder(tmp_path):
    names = list(image_configurations.LOW_RANK)
    for i, name in enumerate(names):
        record.append(trial("low_rank", name, 0, 1.0 if i == 3 else 2.0), tmp_path)
    record.append(replace(trial("low_rank", names[0], 0, 0.0), experiment="fashion_mnist"), tmp_path)  # another's
    for method in ("low_rank", "low_rank_50"):  # the rank sweep has the settings of rank 25
        (found,) = together.settings_of("mnist", "chosen", method, tmp_path)
        assert found == CANDIDATES.settings("low_rank")[names[3]]
    assert together.settings_of("mnist", "chosen", "low_rank", None) == [mnist.CHOSEN["low_rank"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mnist", "papr"], "mnist needs presets among paper, chosen, quick, trial; got papr."),
        (["kl_study", "trial"], "kl_study needs presets among chosen, quick; got trial."),
        (["mnist", "trial", "--methods", "lowrank"], "mnist needs --methods among low_rank, "),
    ],
)
def test_a_command_with_names_that_do_not_exist_is_refused_in_a_line(arguments, said, capsys):
    with pytest.raises(SystemExit):
        together.main(arguments)
    assert said in capsys.readouterr().err


def test_a_choice_without_trials_is_refused(tmp_path):
    (tmp_path / record.LINES).touch()
    with pytest.raises(ValueError, match=r"--choose needs trials of 'low_rank' in .*; got none"):
        together.settings_of("mnist", "chosen", "low_rank_50", tmp_path)
