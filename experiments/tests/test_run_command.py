"""`singularbayes-experiments run`: none twice, none lost, and one line for what a user can mend."""

import json
import os
from dataclasses import replace

import pytest
from made_up import toy_record
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.cli.run import labels_of
from singularbayes_experiments.methods.training import Diverged
from singularbayes_experiments.problems import toy
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.records import files, record
from singularbayes_experiments.runs import runner


@pytest.fixture
def asked(monkeypatch):
    """Training made up; holds the runs it was asked for as (method, seed, settings)."""
    found = []

    def run(method, seed, settings, *, watch, keep):
        found.append((method, seed, settings))
        watch(settings.epochs - 1, {"loss": 1.5})
        return toy_record(method, seed=seed, settings=settings)

    monkeypatch.setattr(toy.Toy, "run", staticmethod(run))
    return found


def run(folder, *arguments):
    return cli.main(["run", "toy", "--methods", "low_rank,full_rank", "--out", str(folder), *arguments])


def refused(capsys, *arguments):
    """The one line with which a command ends that cannot be done."""
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments])
    assert "\n" not in str(end.value)
    return str(end.value)


def test_every_method_and_seed_leaves_a_record_with_its_preset_and_memory(asked, tmp_path):
    assert run(tmp_path, "--seeds", "0,3-4") == 0
    order = [(method, seed) for seed in (0, 3, 4) for method in ("low_rank", "full_rank")]
    assert asked == [(*one, toy.ToySettings()) for one in order]
    found = record.read(tmp_path)
    assert [(r.method, r.seed) for r in found] == order
    assert {r.preset for r in found} == {"paper"}
    assert all(r.peak_memory is None or r.peak_memory > 1 << 20 for r in found)
    assert all(r.arrays.keys() == toy_record().arrays.keys() for r in found)
    assert {path.name for path in tmp_path.iterdir()} == {"records.jsonl", ".locks", *(f"{r.name}.npz" for r in found)}


def test_all_methods_can_be_asked_for_by_one_word():
    assert [job.method for job in runner.plan("toy", ["all"])] == list(toy.EXPERIMENT.methods)
    assert [job.method for job in runner.plan("toy")] == list(toy.EXPERIMENT.paper_methods)


def test_runs_that_differ_in_a_setting_are_called_by_it():
    low, full = (runner.plan("toy", [name])[0] for name in ("low_rank", "full_rank"))
    assert labels_of([low, full]) == ["1/2 toy low_rank 0", "2/2 toy full_rank 0"]
    shifts = labels_of(runner.plan("icu", ["low_rank", "swag"], [7], "chosen"))
    assert shifts[0] == "1/10 icu low_rank 7 shift=coronary" and shifts[9] == "10/10 icu swag 7 shift=eicu"


def test_a_finished_run_is_not_done_again_unless_asked(asked, tmp_path, capsys):
    run(tmp_path)
    assert run(tmp_path) == 0 and len(asked) == 2
    assert capsys.readouterr().out.count("finished before; --again does it again") == 2
    assert run(tmp_path, "--again") == 0 and len(asked) == 4
    assert len(record.read(tmp_path)) == 2 and record.count(tmp_path).total() == 4


def test_a_run_whose_settings_were_tried_is_not_finished(asked, tmp_path):
    record.append(replace(toy_record("low_rank"), preset="trial", arrays={}), tmp_path)
    assert run(tmp_path) == 0 and [method for method, _, _ in asked] == ["low_rank", "full_rank"]
    assert sorted(one.preset for one in record.read(tmp_path)) == ["paper", "paper", "trial"]


def test_other_settings_are_another_run(asked, tmp_path):
    run(tmp_path)
    assert run(tmp_path, "--set", "beta=0.3", "--set", "train_range=0,0.5") == 0
    assert asked[-1][2] == replace(toy.ToySettings(), beta=0.3, train_range=(0.0, 0.5))
    assert [r.preset for r in record.read(tmp_path)] == ["paper"] * 2 + ["hand"] * 2
    assert run(tmp_path, "--preset", "quick") == 0 and asked[-1][2] == toy.QUICK
    assert len(record.read(tmp_path)) == 6


def test_off_a_terminal_a_run_is_a_line_and_its_scores(asked, tmp_path, capsys):
    run(tmp_path)
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split()[:7] == ["1/2", "toy", "low_rank", "0", "800", "epochs,", "loss"]
    assert "resumed after epoch 799" in shown.splitlines()[0]  # the first epoch that was trained now is the last
    assert "rmse_near 0.07" in shown and "\x1b" not in shown
    assert shown.splitlines()[-1] == f"Records: {tmp_path / 'records.jsonl'}"


def test_a_run_that_another_process_is_at_is_left_to_it(asked, tmp_path, capsys):
    (job, _) = runner.plan("toy", ["low_rank", "full_rank"])
    with record.lock(tmp_path, job.name):  # another open file contends as another process does
        assert run(tmp_path) == 0
    assert [method for method, _, _ in asked] == ["full_rank"]
    assert "another process is at it" in capsys.readouterr().out
    run(tmp_path)
    assert [method for method, _, _ in asked] == ["full_rank", "low_rank"]


def test_checkpoints_of_a_finished_run_are_not_those_of_doing_it_again(monkeypatch, tmp_path):
    places = []

    def run(method, seed, settings, *, watch, keep):
        keep.folder.mkdir(parents=True)
        places.append(keep.folder)
        return toy_record(method, seed=seed, settings=settings)

    monkeypatch.setattr(toy.Toy, "run", staticmethod(run))
    (job,) = runner.plan("toy", ["low_rank"])
    runner.carry_out(job, tmp_path)
    runner.carry_out(job, tmp_path, again=True)
    assert len(set(places)) == 2 and not any(place.exists() for place in places)


def test_what_a_kill_left_after_the_record_is_tidied_up(asked, tmp_path):
    run(tmp_path)
    (job, _) = runner.plan("toy", ["low_rank", "full_rank"])
    left = tmp_path / runner.UNFINISHED / f"{job.name}.0"
    left.mkdir(parents=True)
    (tmp_path / f".{job.name}.npz.x1y2").write_bytes(b"half")
    run(tmp_path)
    assert not left.exists() and len(asked) == 2
    assert not list(tmp_path.glob(".*.npz.*"))


def test_a_diverged_run_is_said_and_the_others_are_done(monkeypatch, tmp_path, capsys):
    def run_toy(method, seed, settings, *, watch, keep):
        if method == "low_rank":
            raise Diverged("the loss became nan in epoch 3. Try a lower learning_rate.")
        return toy_record(method, seed=seed, settings=settings)

    monkeypatch.setattr(toy.Toy, "run", staticmethod(run_toy))
    assert run(tmp_path) == 1
    assert "Try a lower learning_rate" in capsys.readouterr().out
    assert [r.method for r in record.read(tmp_path)] == ["full_rank"]


def test_a_run_that_diverges_before_a_checkpoint_names_none_and_no_page(tmp_path, capsys):
    arguments = ["--methods", "deterministic", "--preset", "quick", "--set", "learning_rate=1e30", "--set", "epochs=5"]
    assert cli.main(["run", "toy", *arguments, "--set", "warmup=1", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "Try a lower learning_rate" in said
    assert "checkpoint" not in said and "Records:" not in said and "page" not in said


def test_a_full_disk_is_one_line_and_leaves_earlier_records_whole(asked, tmp_path, monkeypatch, capsys):
    run(tmp_path, "--seeds", "0")
    before = (tmp_path / "records.jsonl").read_bytes()

    def full(handle, content):
        os.write(handle, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    line = refused(capsys, "run", "toy", "--methods", "low_rank", "--seeds", "1", "--out", str(tmp_path))
    assert "could not be written: No space left on device. Earlier records are whole" in line
    assert (tmp_path / "records.jsonl").read_bytes() == before and len(record.read(tmp_path)) == 2
    assert not list(tmp_path.glob(".*.npz.*"))


def test_a_folder_that_cannot_be_written_is_said_before_training(asked, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    line = refused(capsys, "run", "toy", "--out", str(tmp_path / "file" / "below"))
    assert "--out needs a folder that can be written to" in line and asked == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tyo"], "run needs an experiment, one of ['toy', "),
        (["tyo"], "got 'tyo'. Did you mean 'toy'?"),
        (["toy", "--methods", "low_rank,lowrank"], "toy needs --methods among ['low_rank', "),
        (["toy", "--methods", "full_rank,lowrank"], "got ['full_rank', 'lowrank']. Did you mean 'low_rank'?"),
        (["toy", "--methods", ""], "toy needs --methods among"),
        (["toy", "--seeds", "1,x"], "--seeds needs integers >= 0, such as 0,1 or 0-4; got '1,x'."),
        (["toy", "--seeds", "0,4-2"], "--seeds needs integers"),
        (["toy", "--seeds", "1-"], "--seeds needs integers"),
        (["toy", "--seeds", "1.5"], "--seeds needs integers"),
        (["toy", "--seeds", str(2**32)], "--seeds needs integers from 0 to 4294967295"),
        (["toy", "--preset", "huge"], "toy needs --preset to be one of ['paper', "),
        (["toy", "--set", "bta=0.3"], "got 'bta'. Did you mean 'beta'?"),
        (["toy", "--set", "beta=much"], "--set beta needs a number; got 'much'."),
        (["toy", "--set", "beta"], "--set needs name=value"),
    ],
)
def test_what_is_wrong_is_one_line(asked, arguments, message, capsys, tmp_path):
    line = refused(capsys, "run", *arguments, "--out", str(tmp_path / "new"))
    assert line.startswith("singularbayes-experiments: ") and message in line
    assert asked == [] and not (tmp_path / "new").exists()


def test_the_list_names_every_experiment_with_its_methods_and_presets(capsys):
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in EXPERIMENTS:
        assert name in shown
    assert "full_rank, rank_one, deterministic, deep_ensemble, low_rank_ensemble, swag" in shown
    assert "paper, chosen, quick" in shown


def test_settings_may_depend_on_the_method(monkeypatch):
    chosen = {"low_rank": toy.QUICK, "full_rank": toy.ToySettings()}
    monkeypatch.setitem(toy.EXPERIMENT.presets, "chosen", chosen)
    jobs = runner.plan("toy", ["low_rank", "full_rank"], [0], "chosen")
    assert [job.settings for job in jobs] == list(chosen.values()) and {job.preset for job in jobs} == {"chosen"}


@pytest.mark.parametrize("method", ["low_rank", "low_rank_svd", "deep_ensemble", "swag"])
def test_the_epochs_of_a_run_count_members_and_stages(method):
    (job,) = runner.plan("toy", [method])
    assert job.epochs == {"low_rank": 800, "low_rank_svd": 900, "deep_ensemble": 5 * 800, "swag": 800}[method]


def test_a_line_of_a_record_is_plain_json(asked, tmp_path):
    run(tmp_path)
    for line in (tmp_path / "records.jsonl").read_text().splitlines():
        assert json.loads(line).keys() >= {"settings", "metrics", "parameters", "versions", "machine", "peak_memory"}
