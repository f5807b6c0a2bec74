"""The runner: it skips what is there, writes whole files, goes on after a failure, and repeats what a cluster lost."""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from singularbayes_experiments import cli, config, records, run
from singularbayes_experiments.config import Experiment
from singularbayes_experiments.methods import Settings
from singularbayes_experiments.study import Outcome


class Counting:
    """Trains nothing: notes which seeds each attempt was given; a run's score is its seed times β."""

    Settings = Settings

    def __init__(self, folder: Path, fails: float = -1.0, killed: float = -1.0):
        self.folder, self.fails, self.killed = folder, fails, killed

    def run(self, task):
        number = len(list(self.folder.glob("attempt-*")))
        (self.folder / f"attempt-{number}-{os.getpid()}").write_text(json.dumps(task.seeds))
        for seed, settings in zip(task.seeds, task.settings, strict=True):
            if seed == self.fails:
                raise ArithmeticError(f"seed {seed} diverged")
            if seed == self.killed and not (self.folder / "killed").exists():
                (self.folder / "killed").write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            yield Outcome({"nll": seed * settings.beta}, {"curves/nll": [0.5, 0.25]})

    def attempts(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("attempt-*"))]


class Made(Experiment):
    """An experiment with its problem at hand."""

    def __init__(self, problem):
        presets = {"quick": {"methods": {"low_rank": {}, "full_rank": {"settings": {"beta": 0.5}}}}}
        super().__init__("made", "made up", "none", presets, seeds={"result": [1, 2, 3]})
        object.__setattr__(self, "problem", problem)


@pytest.fixture
def made(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    return lambda **options: Made(Counting(notes, **options))


def scores(out):
    connection = records.connect(out)
    return connection.execute("SELECT method, seed, value FROM scores WHERE metric = 'nll' ORDER BY ALL").fetchall()


EVERY = [(method, seed, seed * beta) for method, beta in (("full_rank", 0.5), ("low_rank", 1.0)) for seed in (1, 2, 3)]


@pytest.mark.parametrize(("engine", "processes"), [("serial", 1), ("joblib", 2)])
def test_runs_that_are_there_are_skipped(made, tmp_path, engine, processes):
    experiment, out = made(), tmp_path / "out"
    tasks = experiment.runs_of("quick")
    assert run.run(experiment, tasks[:1], out, engine=engine, processes=processes) == []
    gone = next(out.glob("made-low_rank-2-*.json"))
    others = {path: path.stat().st_mtime_ns for path in out.glob("*.json") if path != gone}
    gone.unlink()
    assert run.run(experiment, tasks, out, engine=engine, processes=processes) == []
    assert scores(out) == EVERY
    assert sorted(experiment.problem.attempts()) == [[1, 2, 3], [1, 2, 3], [2]]
    assert all(path.stat().st_mtime_ns == before for path, before in others.items())
    assert run.missing(tasks, out) == []


def test_packed_runs_are_skipped_whatever_their_settings_were_called_unless_asked_for(made, tmp_path):
    experiment, out, kept = made(), tmp_path / "out", tmp_path / "kept"
    tasks = experiment.runs_of("quick")
    run.run(experiment, tasks[:1], out)
    older = replace(records.read(out)[0], settings={"rate": 0.1}, seed=2, method="full_rank")
    records.write(older, out)
    records.pack(out, kept)
    again = tmp_path / "again"
    assert run.run(experiment, tasks, again, kept) == []
    assert [(method, seed) for method, seed, _ in scores(again)] == [("full_rank", 1), ("full_rank", 3)]
    assert run.run(experiment, tasks, again) == [] and scores(again) == EVERY


def test_a_run_with_other_settings_is_none_of_its_preset(made, tmp_path):
    experiment, out = made(), tmp_path / "out"
    (task,) = experiment.runs_of("quick", methods=["low_rank"], seeds=[2], changes={"beta": 3})
    run.run(experiment, [task], out)
    assert [(own.preset, own.metrics["nll"]) for own in records.read(out)] == [("own", 6.0)]
    (task,) = experiment.runs_of("quick", methods=["low_rank"], seeds=[2])
    assert run.missing([task], out) == [task]


def test_choices_are_those_of_packed_and_new_runs_of_tuning(tmp_path):
    toy = config.read("toy")
    tasks = toy.runs_of("protocol", config.TUNING, methods=["low_rank"])
    chosen = {("toy", "low_rank"): toy.chosen("protocol", "low_rank")[0]}
    assert run.missing(tasks, tmp_path, records.RESULTS) == []
    assert run.choices(toy, tasks, tmp_path, records.RESULTS) == chosen
    assert run.choices(toy, tasks, tmp_path) == {}


def test_a_run_has_what_a_reader_needs_to_repeat_it(made, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/singularbayes-experiments", "run", "made", "--set", "a b"])
    experiment = made()
    run.run(experiment, experiment.runs_of("quick", methods=["full_rank"], seeds=[2]), tmp_path / "out")
    (found,) = records.read(tmp_path / "out")
    assert (found.experiment, found.task, found.method, found.seed) == ("made", "made", "full_rank", 2)
    assert (found.preset, found.stage, found.configuration, found.counts) == ("quick", "result", None, True)
    assert found.settings == config.plain(Settings(beta=0.5)) and found.metrics == {"nll": 1.0}
    assert found.origin == "singularbayes-experiments run made --set 'a b'"
    assert found.machine["cores"] > 0 and "keras" in found.machine["versions"] and found.arrays["curves/nll"]


def test_a_task_that_fails_is_reported_and_the_others_go_on(made, tmp_path):
    experiment, out = made(fails=2), tmp_path / "out"
    failures = run.run(experiment, experiment.runs_of("quick"), out)
    assert [failure.task.method for failure in failures] == ["low_rank", "full_rank"]
    assert all("ArithmeticError: seed 2 diverged" in failure.error for failure in failures)
    assert scores(out) == [one for one in EVERY if one[1] == 1]  # what was finished before stays
    assert list(out.glob("*.part")) == []


def test_the_command_ends_with_1_and_the_error_where_a_task_failed(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(config, "read", lambda name: made(fails=3))
    arguments = ["run", "made", "--preset", "quick", "--out", str(tmp_path / "out")]
    assert cli.main([*arguments, "--seeds", "1,2"]) == 0
    assert cli.main([*arguments, "--methods", "low_rank"]) == 1
    assert "made made low_rank result failed:" in (found := capsys.readouterr().err) and "seed 3 diverged" in found


@pytest.mark.exhaustive  # a cluster and three workers that import Keras: half a minute
@pytest.mark.filterwarnings("ignore:os.fork", "ignore::ResourceWarning")  # Ray starts its processes so
def test_ray_repeats_what_a_killed_worker_had_left(made, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    folders = [str(Path(__file__).parent), *filter(None, sys.path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    ray.init(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    try:
        experiment, out = made(killed=2), tmp_path / "out"
        tasks = experiment.runs_of("quick")
        assert run.run(experiment, tasks, out, engine="ray") == []
        assert sorted(experiment.problem.attempts()) == [[1, 2, 3], [1, 2, 3], [2, 3]]  # the rest alone, once more
        assert scores(out) == EVERY
        failing = replace(tasks[0], seeds=(7, 8, 9))
        (failure,) = run.run(made(fails=8), [failing], out, engine="ray")
        assert "seed 8 diverged" in failure.error and ("low_rank", 7, 7.0) in scores(out)
    finally:
        ray.shutdown()
