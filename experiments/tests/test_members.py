"""Members of an ensemble that are trained apart, by whoever is free: the run that pools them is the same run."""

from dataclasses import replace

import pytest
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.methods import methods, training
from singularbayes_experiments.methods.training import Diverged
from singularbayes_experiments.problems import toy
from singularbayes_experiments.records import record
from singularbayes_experiments.records.checkpoints import Keep
from singularbayes_experiments.runs import runner

from singularbayes.cli import EngineOptions
from singularbayes.ranks import Engine, Local

pytestmark = pytest.mark.on_torch

SIZES = ("num_train=32", "num_test=32", "units=4", "rank=2", "draws=4", "iqr_draws=4")
TINY = (*SIZES, "epochs=2", "warmup=1", "members=2")
SETTINGS = [f"--set={one}" for one in TINY]


def run_toy(folder, method, *more):
    return cli.main(["run", "toy", "--methods", method, *SETTINGS, "--out", str(folder), *more])


def ensemble(method="deep_ensemble"):
    (job,) = runner.plan("toy", [method], overrides=TINY)
    return job


class Elsewhere(Engine):
    """Machines that are made up: they end in the opposite order, and remember what they were given."""

    def __init__(self):
        self.waves = []

    def map(self, function, items, tick=None):
        self.waves.append([item.name.rpartition("-")[2] for item in items])
        for position in reversed(range(len(items))):
            yield position, function(items[position])


@pytest.fixture
def elsewhere(monkeypatch):
    engine = Elsewhere()
    monkeypatch.setattr(EngineOptions, "start", lambda self, *_: engine if self.engine == "ray" else Local())
    return engine


@pytest.fixture
def trained(monkeypatch):
    """Counts the trainings."""
    seen, fit_many = [], training.fit_many

    def counted(build, x, y, seeds, *arguments, **options):
        seen.extend(seeds)
        return fit_many(build, x, y, seeds, *arguments, **options)

    monkeypatch.setattr(training, "fit_many", counted)
    return seen


def assert_same(folder, other):
    (found,), (expected,) = record.read(folder), record.read(other)
    assert found == expected and found.arrays.keys() == expected.arrays.keys()
    assert all(found.arrays[name].tobytes() == array.tobytes() for name, array in expected.arrays.items())


def test_members_that_other_machines_train_in_any_order_make_the_record_of_a_run_in_a_row(
    elsewhere, trained, tmp_path, capsys
):
    assert run_toy(tmp_path / "near", "deep_ensemble") == 0
    in_a_row = trained.copy()
    trained.clear()
    assert run_toy(tmp_path / "far", "deep_ensemble", "--engine", "ray") == 0
    assert trained == in_a_row[::-1] and len(in_a_row) == 2  # each once, the last one first
    assert_same(tmp_path / "far", tmp_path / "near")
    shown = capsys.readouterr().out
    assert all(f"member {i}/2 2 epochs" in shown for i in (1, 2))
    name = ensemble().name.rpartition("-")[2]
    assert elsewhere.waves == [[f"{name}.0", f"{name}.1"], [name]]
    assert not list((tmp_path / "far" / runner.UNFINISHED).iterdir())
    assert run_toy(tmp_path / "far", "deep_ensemble", "--engine", "ray") == 0  # a finished one is not taken apart
    assert elsewhere.waves[2:] == [[name], []] and len(trained) == 2


def test_so_do_members_that_start_from_a_training_of_their_own(tmp_path, trained):
    class Pooled(toy.Toy):
        methods = methods.sentences("low_rank_svd_ensemble")

    settings = replace(ensemble().settings, svd_epochs=1)
    asked = ("low_rank_svd_ensemble", 0, settings)
    keep = Keep(tmp_path, every=0)
    for number in (1, 0):
        Pooled().train_member(*asked, number, keep=keep)
    assert len(trained) == 4
    apart = Pooled().run(*asked, keep=keep)
    assert len(trained) == 4
    in_a_row = Pooled().run(*asked)
    assert apart == in_a_row
    assert all(apart.arrays[name].tobytes() == array.tobytes() for name, array in in_a_row.arrays.items())


def test_members_that_are_trained_stay_so_when_the_rest_is_lost(elsewhere, trained, tmp_path, monkeypatch):
    member = toy.Toy.train_member

    def lost(*arguments, **options):
        if arguments[4] == 0:
            raise KeyboardInterrupt
        return member(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(toy.Toy, "train_member", lost)
        assert run_toy(tmp_path / "far", "deep_ensemble", "--engine", "ray") == 130
    (first,) = trained
    assert run_toy(tmp_path / "far", "deep_ensemble") == 0  # whatever the engine
    assert len(trained) == 2 and trained[1] != first
    assert run_toy(tmp_path / "near", "deep_ensemble") == 0
    assert_same(tmp_path / "far", tmp_path / "near")


def test_of_members_that_diverge_the_first_speaks_for_the_run(elsewhere, tmp_path, monkeypatch, capsys):
    def diverge(*arguments, **options):
        raise Diverged(f"the loss of member {arguments[4]} became nan.")

    monkeypatch.setattr(toy.Toy, "train_member", diverge)
    assert run_toy(tmp_path, "deep_ensemble", "--engine", "ray") == 1
    shown = capsys.readouterr().out
    assert "1/1 toy deep_ensemble 0  the loss of member 0 became nan." in shown and "member 1 " not in shown
    assert len(elsewhere.waves[0]) == 2 and elsewhere.waves[1] == []


def test_a_run_and_its_members_are_not_done_at_the_same_time(tmp_path, monkeypatch):
    job = ensemble()
    first, second = job.members

    def skipped(do, what):
        with pytest.raises(runner.Skipped, match="another process is at it"):
            do(what, tmp_path)

    def meanwhile(*arguments, **options):
        if arguments[4] == 0:
            skipped(runner.carry_out, job)
            skipped(runner.train_member, first)
            runner.train_member(second, tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr(toy.Toy, "train_member", meanwhile)
        runner.train_member(first, tmp_path)

    def run(*arguments, **options):
        for member in job.members:
            skipped(runner.train_member, member)
        raise KeyboardInterrupt

    monkeypatch.setattr(toy.Toy, "run", staticmethod(run))
    with pytest.raises(KeyboardInterrupt):
        runner.carry_out(job, tmp_path)


def test_a_member_of_a_finished_run_leaves_alone_what_is_done_again(tmp_path, monkeypatch):
    job = ensemble()
    run_toy(tmp_path, "deep_ensemble")
    again = Keep(tmp_path / runner.UNFINISHED / f"{job.name}.1").part("member-0")  # where a second time is kept
    again.folder.mkdir(parents=True)
    with pytest.raises(runner.Skipped, match="finished before; --again does it again"):
        runner.train_member(job.members[1], tmp_path)
    assert again.folder.exists()
    with pytest.raises(runner.Skipped, match="finished before; --again does it again"):
        runner.carry_out(job, tmp_path)  # it holds all locks, so nobody is at it
    assert not again.folder.exists()


def test_only_ensembles_that_are_kept_part_by_part_are_taken_apart():
    assert [(member.number, member.epochs) for member in ensemble().members] == [(0, 2), (1, 2)]
    assert ensemble("low_rank").members == []
    for experiment, method in (("uci", "deep_ensemble"), ("kl_study", "beta_1")):
        (job,) = runner.plan(experiment, [method])
        assert job.members == []
