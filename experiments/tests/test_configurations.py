"""Configurations: as many for every method, the best on validation is tuned, and the committed choice is it."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.methods.configurations import TUNING_SEEDS
from singularbayes_experiments.methods.experiment import RESULT_SEEDS, Problem
from singularbayes_experiments.problems import image_configurations, images, mnist, uci
from singularbayes_experiments.problems.image_configurations import CONFIGURATIONS
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.runs import together

PAPER = images.ImageSettings()
RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def run_together(experiment, presets, *arguments):
    return cli.main(["run", experiment, "--together", "--preset", presets, *arguments])


def tuning_run(method, name, seed, nll):
    settings = record.plain(CONFIGURATIONS.settings(method)[name])
    return Record("mnist", method, seed, settings, {"validation_nll": nll}, 1, 0.0, preset="trial")


@pytest.mark.parametrize(
    ("experiment", "number"), [("toy", 8), ("mnist", 8), ("fashion_mnist", 8), ("sst2", 5), ("cnn", 4)]
)
def test_every_method_has_as_many_different_configurations(experiment, number):
    tuned = EXPERIMENTS[experiment].configurations
    presets, methods = EXPERIMENTS[experiment].presets, EXPERIMENTS[experiment].methods
    for method in tuned.changes:
        found = list(tuned.settings(method).values())
        assert len(found) == len(set(found)) == number
        if "paper" in presets:
            assert presets["paper"] not in found  # or one run would go by two names
    assert tuned.changes.keys() | tuned.shared.keys() == methods.keys() == presets["chosen"].keys()


def test_seeds_of_tuning_runs_are_not_those_of_results():
    assert not set(TUNING_SEEDS) & set(RESULT_SEEDS)


def test_the_least_mean_over_seeds_is_chosen():
    names = list(image_configurations.LOW_RANK)
    trials = [tuning_run("low_rank", name, seed, 1.0 + seed) for name in names for seed in (0, 1)]
    better = [tuning_run("low_rank", names[3], seed, nll) for seed, nll in ((0, 0.1), (1, 2.2))]  # 1.15 against 1.5
    assert CONFIGURATIONS.best([*trials, *better]) == {"low_rank": names[3]}
    assert CONFIGURATIONS.tuned({"low_rank": names[3]})["low_rank"].learning_rate == 3e-3


def test_a_choice_needs_every_configuration_with_the_same_seeds():
    trials = [tuning_run("swag", name, 0, 1.0) for name in image_configurations.SWAG]
    with pytest.raises(ValueError, match="Tuning needs every configuration of 'swag' with the same seeds"):
        CONFIGURATIONS.best(trials[1:])
    with pytest.raises(ValueError, match="Tuning needs every configuration of 'swag' with the same seeds"):
        CONFIGURATIONS.best([*trials, tuning_run("swag", next(iter(image_configurations.SWAG)), 1, 1.0)])


def test_a_configuration_that_diverged_needs_no_tuning_run():
    worst, *others = image_configurations.SWAG
    known = replace(CONFIGURATIONS, diverged={"swag": (worst,)})
    trials = [tuning_run("swag", name, 0, nll) for nll, name in enumerate(others)]
    assert known.best(trials) == {"swag": others[0]}
    with pytest.raises(ValueError, match="Tuning needs every configuration of 'swag' with the same seeds"):
        known.best(trials[1:])


def test_other_settings_are_no_tuning_run():
    strange = replace(tuning_run("swag", next(iter(image_configurations.SWAG)), 0, 1.0), settings=record.plain(PAPER))
    with pytest.raises(
        ValueError, match="Tuning needs runs of the configurations; got other settings in 'mnist-swag-0"
    ):
        CONFIGURATIONS.best([strange])


@pytest.mark.parametrize(
    "name", ["mnist", "fashion_mnist", "toy", "sst2", "cnn", "adaptive_rank", "adaptive_rank_sst2"]
)
def test_the_committed_choice_is_that_of_the_committed_tuning_runs(name):
    experiment, trials = EXPERIMENTS[name], record.read(RESULTS / f"{name}_trials.jsonl", arrays=False)
    assert all(one.experiment == name and one.preset == "trial" for one in trials)
    assert all(
        name.startswith(("validation_", "posterior_", "learned_rank_")) for one in trials for name in one.metrics
    )
    assert experiment.configurations.best(trials) == experiment.choice
    assert experiment.presets["chosen"].keys() == experiment.methods.keys()


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if (RESULTS / f"{name}.jsonl").exists()])
def test_committed_results_have_the_settings_of_their_preset(name):
    experiment = EXPERIMENTS[name]
    for one in record.read(RESULTS / f"{name}.jsonl", arrays=False):
        if one.preset == "hand":
            continue  # settings that no preset has
        settings = experiment.settings(one.preset, one.method)
        assert one.settings in map(record.plain, experiment.variants(settings))


@pytest.mark.parametrize("problem", [experiment.problem for experiment in EXPERIMENTS.values()], ids=list(EXPERIMENTS))
def test_every_problem_has_the_arguments_of_its_interface(problem):
    for name in ("run", "run_many", "train_member", "count_epochs", "count_members"):
        own, interface = (inspect.signature(getattr(one, name)) for one in (type(problem), Problem))
        assert list(own.parameters) == list(interface.parameters)


@pytest.mark.parametrize("name", ["beijing", "icu", "mimic3", "sst2"])
def test_the_papers_settings_depart_from_nothing(name):
    experiment = EXPERIMENTS[name]
    for method, settings in experiment.presets["paper"].items():
        assert record.departures(settings, experiment.problem.published(method)) == {}


def test_all_runs_of_a_folder_are_done_once(tmp_path, monkeypatch, capsys):
    asked = []

    def run_many(method, seeds, settings, *, preset):
        asked.append((preset, method, list(seeds)))
        plain = record.plain(settings)
        return [Record("mnist", method, s, plain, {"validation_nll": 1.0}, 1, 0.0, preset=preset) for s in seeds]

    monkeypatch.setattr(images.ImageProblem, "run_many", staticmethod(run_many))
    out = ["--out", str(tmp_path)]
    run_together("mnist", "paper,chosen", "--methods", "low_rank,swag", "--seeds", "7", *out)
    assert asked == [(preset, method, [7]) for method in ("low_rank", "swag") for preset in ("paper", "chosen")]
    assert capsys.readouterr().out.startswith("mnist paper low_rank [7]: 0 s, validation_nll 1.0000\n")
    asked.clear()
    run_together("mnist", "paper", "--methods", "low_rank", "--seeds", "7,8", *out)
    assert asked == [("paper", "low_rank", [8])]
    asked.clear()
    run_together("mnist", "trial", "--methods", "swag", *out)
    run_together("mnist", "trial", "--methods", "swag", *out)  # again: they are done
    assert asked == [("trial", "swag", [0, 1])] * 8
    assert len(record.read(tmp_path)) == 4 + 1 + 16


def test_runs_without_a_validation_score_are_shown_by_what_their_records_begin_with(tmp_path, monkeypatch, capsys):
    def run_many(method, seeds, settings, *, preset):
        scores = [{"yacht/rmse": 1.0 + s, "yacht/nll": 2.0, "energy/rmse": 3.0, "energy/nll": 4.0} for s in seeds]
        return [Record("uci", method, s, record.plain(settings), m, 1, 0.0) for s, m in zip(seeds, scores, strict=True)]

    monkeypatch.setattr(uci.UCI, "run_many", staticmethod(run_many))
    run_together("uci", "chosen", "--methods", "low_rank", "--seeds", "0,1", "--out", str(tmp_path))
    assert capsys.readouterr().out.endswith(" s, yacht/rmse 1.5000, yacht/nll 2.0000, energy/rmse 3.0000\n")


def test_settings_are_tuned_by_the_tuning_runs_of_a_folder(tmp_path):
    names = list(image_configurations.LOW_RANK)
    for i, name in enumerate(names):
        record.append(tuning_run("low_rank", name, 0, 1.0 if i == 3 else 2.0), tmp_path)
    record.append(replace(tuning_run("low_rank", names[0], 0, 0.0), experiment="fashion_mnist"), tmp_path)  # another's
    for method in ("low_rank", "low_rank_50"):  # the rank sweep has the settings of rank 25
        (found,) = together.preset_settings(mnist.EXPERIMENT, "chosen", method, tmp_path)
        assert found == CONFIGURATIONS.settings("low_rank")[names[3]]
    assert together.preset_settings(mnist.EXPERIMENT, "chosen", "low_rank") == [mnist.TUNED["low_rank"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist", "papr"], "mnist needs --preset among paper, chosen, quick, trial; got papr."),
        (["kl_study", "trial"], "kl_study needs --preset among chosen, quick; got trial."),
        (["mnist", "trial", "--methods", "lowrank"], "mnist needs --methods among ['low_rank', "),
        (["mnist", "trial", "--set", "beta=1"], "--together needs --set to be left out; got --set."),
        (
            ["mnist", "trial", "--configuration", "beta 7"],
            "mnist needs --configuration to be one of ['beta 0.3, rate 0.001",
        ),
    ],
)
def test_what_does_not_exist_is_refused_in_a_line(arguments, message, tmp_path):
    with pytest.raises(SystemExit) as end:
        run_together(*arguments, "--out", str(tmp_path / "new"))
    assert message in str(end.value) and "\n" not in str(end.value)


def test_tuning_needs_one_program_for_all_seeds(tmp_path):
    with pytest.raises(SystemExit, match="a run without --together needs --choose to be left out; got --choose"):
        cli.main(["run", "mnist", "--choose", "--out", str(tmp_path / "new")])


def test_a_choice_without_tuning_runs_is_refused(tmp_path):
    (tmp_path / record.LINES).touch()
    with pytest.raises(ValueError, match=r"--choose needs tuning runs of 'low_rank' in .*; got none"):
        together.preset_settings(mnist.EXPERIMENT, "chosen", "low_rank_50", tmp_path)
