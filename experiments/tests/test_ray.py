"""`singularbayes-experiments run --engine ray`: the records of the local engine, whatever is lost on the way."""

import importlib.util
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from made_up import toy_record
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.methods.training import Diverged
from singularbayes_experiments.problems import toy
from singularbayes_experiments.records import record
from singularbayes_experiments.runs import progress, progress_files, runner

from singularbayes.cli import EngineOptions
from singularbayes.ranks import Engine, Local, engines

with_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason='needs pip install "singularbayes[ray]"')


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What happened to runs, and to a sweep, on a cluster that loses one thing after another: a minute of a core."""
    program = Path(__file__).parent / "clustered.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, program, tmp_path_factory.mktemp("cluster")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.exhaustive
@with_ray
def test_a_lost_worker_a_lost_machine_and_a_lost_driver_change_no_bit(found):
    assert found["lost"]  # what was killed was a raylet
    for attempts, after in zip(found["attempts"], found["left"], strict=True):
        first, second = attempts
        assert first == 0 and 0 < second < after < 300  # each went on where the one before was killed
    assert found["spared"] == [[0], 300]  # a member that was trained before is not trained again
    lines = found["shown"].splitlines()
    assert {line.split(" 300 ")[0].split()[-1] for line in lines if "300 epochs" in line} == {"0", "1/2", "2/2"}
    assert sum("rmse_near" in line for line in lines) == 2


@pytest.mark.exhaustive
@with_ray
def test_workers_use_the_code_that_was_sent_to_them(found):
    """Whatever is installed on their machine: Ray unpacks what is sent under this folder."""
    assert len(found["code"]) == 2 * 3  # both packages, in the run and in both members
    assert all("py_modules_files" in path for path in found["code"])


@pytest.mark.exhaustive
@with_ray
def test_a_sweep_that_loses_a_machine_and_the_head_says_so_and_goes_on_with_another_head(found):
    sweep = found["sweep"]
    assert sweep["status"] == 1
    assert re.search(r"needs the head of its cluster; \S+ has not answered for 2 s: .*the same command", sweep["said"])
    # What ended is not trained again; a lost machine and the lost head cost a beginning each.
    assert sweep["begun"] == [1, 3]
    assert sweep["far"] == sweep["near"] and "Take rank=" in sweep["far"]


class Elsewhere(Engine):
    """Machines that are made up: they end in the opposite order, and are asked how far they are before."""

    def map(self, function, items, tick=None):
        for position in reversed(range(len(items))):
            found = function(items[position])
            tick()
            yield position, found


@pytest.fixture
def elsewhere(monkeypatch):
    monkeypatch.setattr(EngineOptions, "start", lambda self, *_: Elsewhere() if self.engine == "ray" else Local())


def run_toy(folder, *arguments):
    return cli.main(["run", "toy", "--methods", "low_rank,full_rank", "--out", str(folder), *arguments])


def made_up(method, seed, settings, *, watch, keep):
    watch(0, {"loss": 1.5})
    if method == "full_rank" and seed == 1:
        raise Diverged("the loss became nan in epoch 3.")
    return toy_record(method, seed=seed, settings=settings)


def test_what_other_machines_did_is_told_as_it_ends(elsewhere, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(toy.Toy, "run", staticmethod(made_up))
    assert run_toy(tmp_path, "--engine", "ray", "--seeds", "0,1") == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "4/4 toy full_rank 1      the loss became nan in epoch 3."
    assert [line.split()[0] for line in shown if "800 epochs" in line] == ["3/4", "2/4", "1/4"]
    assert run_toy(tmp_path, "--engine", "ray") == 0
    assert capsys.readouterr().out.count("finished before; --again does it again") == 2
    assert not list((tmp_path / progress_files.BOARD).iterdir())


def test_a_run_says_how_far_it_is_where_all_can_see_it(tmp_path, monkeypatch):
    assert progress_files.read(tmp_path, "toy-0") is None
    with progress_files.written(tmp_path, "toy-0") as watch:
        watch(4, {"loss": 0.25})
        assert progress_files.read(tmp_path, "toy-0") == (5, 0.25)
        watch(5, {"loss": 0.5})  # less than a second later
        assert progress_files.read(tmp_path, "toy-0") == (5, 0.25)
        monkeypatch.setattr(progress_files, "EVERY_S", 0.0)
        watch(6, {"loss": 0.125})
        assert progress_files.read(tmp_path, "toy-0") == (7, 0.125)
    assert progress_files.read(tmp_path, "toy-0") is None


def test_bars_follow_the_runs_that_are_under_way(tmp_path):
    from rich.console import Console

    jobs = runner.plan("toy", ["low_rank", "full_rank"])
    with progress.Bars(Console(force_terminal=True, file=io.StringIO()), tmp_path, jobs, "ab") as bars:
        bars.tick()
        assert bars.bar.tasks == []
        with progress_files.written(tmp_path, jobs[1].name) as watch:
            watch(9, {"loss": 0.5})
            bars.tick()
        (task,) = bars.bar.tasks
        assert (task.description, task.completed, task.total) == ("b", 10, 800)
        assert task.fields["state"] == "loss 0.500"
        bars.over(1)
        bars.over(0)
        assert bars.bar.tasks == []


def test_a_lock_that_is_about_to_go_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(toy.Toy, "run", staticmethod(made_up))
    (job,) = runner.plan("toy", ["low_rank"])
    (tmp_path / record.LOCKS).mkdir()
    held = FileLock(tmp_path / record.LOCKS / job.name, thread_local=False)
    held.acquire()
    threading.Timer(0.2, held.release).start()
    assert runner.carry_out(job, tmp_path, lambda *_: None, patience=10).name == job.name


def refused(*arguments):
    with pytest.raises(SystemExit) as end:
        cli.main(["run", "toy", *arguments])
    assert "\n" not in str(end.value)
    return str(end.value)


@pytest.mark.parametrize("argument", [["--address", "a:1"], ["--gpus", "1"], ["--cpus", "2"]])
def test_what_is_of_ray_needs_ray_to_be_asked_for(argument, tmp_path):
    line = refused("--out", str(tmp_path), *argument)
    assert line == "singularbayes-experiments: --address, --cpus and --gpus need --engine ray; got --engine local."


def test_ray_that_is_not_installed_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    line = refused("--engine", "ray", "--out", str(tmp_path))
    needed, remedy = line.split(". ")
    assert needed == "singularbayes-experiments: --engine ray needs ray, which is not installed"
    assert remedy == "Type: pip install 'singularbayes[ray]'"


@with_ray
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cpus", "0"], "--engine ray needs --cpus > 0 and finite; got --cpus 0.0."),
        (["--gpus", "-1"], "--engine ray needs --gpus >= 0; got --gpus -1.0."),
        (["--address", "ray://head:10001"], "needs --address HOST:PORT of the head of a cluster, such as"),
        (["--address", "head"], "needs --address HOST:PORT"),
        (["--address", ":6379"], "needs --address HOST:PORT"),
        (["--address", "localhost:1"], "the head of a cluster that answers; got --address 'localhost:1'"),
        (["--address", "localhost:70000"], "the address of the head of a cluster that answers"),
        (["--address", "nowhere.invalid:6379"], "the address of the head of a cluster that answers"),
    ],
)
def test_what_is_wrong_is_one_line_within_seconds(arguments, message, tmp_path):
    begun = time.monotonic()
    assert message in refused("--engine", "ray", "--out", str(tmp_path), *arguments)
    assert time.monotonic() - begun < 2 * engines.ANSWER_S + 5


@with_ray
def test_something_else_at_the_address_is_said(monkeypatch):
    monkeypatch.setattr(engines, "JOIN_S", 0.2)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        with pytest.raises(
            ValueError, match=r"got .* which takes a connection and could not be joined within 0\.2 s\."
        ):
            engines.require_answer(address)


class FakeRay:
    """One machine with two cores, whose workers do nothing but be lost."""

    class exceptions:
        class RayError(Exception): ...

        class RayTaskError(RayError):
            cause = None

        class RuntimeEnvSetupError(RayError): ...

    class cloudpickle:
        dumps = staticmethod(lambda task: task)

    def __init__(self, failure=None):
        self.failure, self.cancelled, self.left = failure, [], False

    def is_initialized(self):
        return True

    def get_runtime_context(self):
        return SimpleNamespace(gcs_address="10.0.0.1:6379")

    def is_there(self, address):
        """Takes the place of a connection to the head."""

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 8.0}}]

    def remote(self, **options):
        class Task:
            remote = staticmethod(lambda environment, function, item: (function, item))

        return lambda function: Task

    def put(self, value):
        return value

    def wait(self, tasks, timeout):
        return tasks[:1], tasks[1:]

    def get(self, task):
        raise self.failure

    def cancel(self, task, force):
        self.cancelled.append(task)

    def shutdown(self):
        self.left = True


@pytest.fixture
def fake(monkeypatch):
    ray = FakeRay()
    monkeypatch.setattr(engines, "_imported", lambda: ray)
    monkeypatch.setattr(engines, "_connect", lambda address: ray.is_there(address))
    return ray


@pytest.mark.parametrize("asked", [{"cpus": 4}, {"gpus": 0.5}])
def test_more_than_any_machine_has_is_said_with_what_they_have(fake, asked):
    with pytest.raises(ValueError, match=r"Ray needs a machine with .*; got a cluster of 2 CPUs and 0 GPUs\."):
        engines.Ray(**asked)


def test_work_that_loses_every_worker_is_told_from_work_that_fails(fake):
    fake.failure = fake.exceptions.RayError("The worker died.")
    with pytest.raises(
        ChildProcessError,
        match=r"lost its worker 11 times; it may have run out of memory: The worker died\. The same command resumes",
    ):
        list(engines.Ray().map(abs, [1, 2]))
    assert fake.cancelled == [(abs, 2)] and not fake.left
    fake.failure = fake.exceptions.RayTaskError("a traceback of many lines")
    fake.failure.cause = ValueError("labels need to be below 3; got 7.")
    with pytest.raises(ValueError, match=r"^labels need to be below 3; got 7\.$"):
        list(engines.Ray().map(abs, [1]))


def test_code_that_a_machine_cannot_take_is_not_a_lost_worker(fake):
    fake.failure = fake.exceptions.RuntimeEnvSetupError("No space left on device")
    with pytest.raises(ChildProcessError, match=r"could not take the code that was sent: No space left"):
        list(engines.Ray().map(abs, [1]))


def test_another_cluster_than_the_one_that_was_joined_is_refused(fake):
    engines.Ray("10.0.0.1:6379")
    with pytest.raises(ValueError, match=r"that this process has joined, 10\.0\.0\.1:6379; got .*10\.0\.0\.2"):
        engines.Ray("10.0.0.2:6379")


@pytest.fixture
def silent(fake, monkeypatch):
    """A cluster where nothing ends, and the head is asked every 5 seconds: the answers that it will give."""
    answers, clock = [], [0.0]

    def is_there(address):
        if not answers.pop(0):
            raise ConnectionRefusedError(111, f"{address} refused")

    def passes(*arguments):
        clock[0] += 5.0

    monkeypatch.setattr(engines.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(engines.time, "sleep", passes)
    monkeypatch.setattr(engines, "HEAD_S", 20.0)
    fake.is_there, fake.wait = is_there, lambda tasks, timeout: (passes() or [], tasks)
    return answers


AGAIN = [*[False] * 4, True]  # it answers again within 20 s


@pytest.mark.parametrize(("before", "sent"), [([True, True, *AGAIN], [(abs, 1)]), (AGAIN, [(abs, 1)]), ([], [])])
def test_a_head_that_is_silent_for_long_is_lost_and_one_that_answers_again_is_not(before, sent, fake, silent):
    silent += [*before, *[False] * 6]
    said = r"needs the head of its cluster; 10\.0\.0\.1:6379 has not answered for 20 s: .* refused\. Start the cluster"
    with pytest.raises(ConnectionError, match=said):
        list(engines.Ray().map(abs, [1]))
    assert silent == [False]  # 5 silences in a row: 20 s from the first to the last
    assert fake.cancelled == sent and fake.left
