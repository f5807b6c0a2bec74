"""Records on disk: a kill, a full disk or a second process leaves those that were there whole."""

import contextlib
import dataclasses
import errno
import json
import resource
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import toy_record
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.problems import toy
from singularbayes_experiments.records import files, record

LINE = record.LINES


@contextlib.contextmanager
def room_for(size):
    """No file grows beyond `size` bytes: the system itself refuses, after it has taken what there is room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_appended_records_come_back_in_order_with_their_arrays(tmp_path):
    records = [toy_record(seed=seed) for seed in range(3)]
    for one in records:
        record.append(one, tmp_path)
    back = record.read(tmp_path)
    assert back == records
    assert all(np.array_equal(a.arrays["mean"], b.arrays["mean"]) for a, b in zip(records, back, strict=True))
    assert [r.finished for r in back] == [r.finished for r in records]


def test_a_trial_and_the_run_of_the_same_settings_leave_each_other_whole(tmp_path):
    run = toy_record()
    trial = dataclasses.replace(run, preset="trial", metrics={"validation_nll": 1.0}, arrays={})
    for order in ((run, trial), (trial, run)):
        folder = tmp_path / order[0].preset
        folder.mkdir()
        for one in order:
            record.append(one, folder)
        back = {one.preset: one for one in record.read(folder)}
        assert back == {one.preset: one for one in order}
        assert np.array_equal(back[run.preset].arrays["mean"], run.arrays["mean"]) and not back["trial"].arrays


def test_a_tuning_run_is_not_counted_as_a_finished_run_nor_the_other_way(tmp_path):
    trial = dataclasses.replace(toy_record(seed=1), preset="trial", arrays={})
    for one in (toy_record(seed=0), trial, trial):
        record.append(one, tmp_path)
    assert record.count(tmp_path) == {toy_record(seed=0).name: 1}
    assert record.count(tmp_path, tuning=True) == {trial.name: 2}


def test_a_file_of_lines_is_read_without_arrays_beside_it(tmp_path):
    record.append(toy_record(), tmp_path)
    kept = files.replace(tmp_path / "sub.jsonl", (tmp_path / LINE).read_bytes())
    (tmp_path / f"{toy_record().name}.npz").unlink()
    assert record.read(kept) == [toy_record()] and record.read(kept)[0].arrays == {}


def test_wherever_a_write_was_cut_whole_records_are_read_and_the_next_one_follows_them(tmp_path):
    first, second, third = (toy_record(seed=seed).line() for seed in range(3))
    path = tmp_path / LINE
    whole = f"{first}\n{second}\n".encode()
    for cut in (*range(0, len(whole), 97), len(first), len(first) + 1, len(first) + 2, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:cut])
        lines = [line for end, line in ((len(first) + 1, first), (len(whole), second)) if cut >= end]
        assert files.read_lines(path) == lines
        assert len(record.read(tmp_path, arrays=False)) == len(lines)
        files.append_line(path, third)
        assert path.read_text() == "".join(f"{line}\n" for line in [*lines, third])


def test_a_cut_inside_a_letter_of_several_bytes_is_no_error(tmp_path):
    (tmp_path / LINE).write_bytes(f"{toy_record().line()}\n".encode() + "β".encode()[:1])
    assert len(record.read(tmp_path)) == 1


def test_a_run_that_was_done_again_counts_once_as_it_came_out_last(tmp_path):
    for ratio in (1.5, 2.5):
        record.append(toy_record(ratio=ratio), tmp_path)
    (found,) = record.read(tmp_path)
    assert found.metrics["iqr_ratio"] == 2.5 and record.count(tmp_path) == {found.name: 2}


def test_a_line_that_is_no_record_is_named(tmp_path):
    (tmp_path / LINE).write_text(f"{toy_record().line()}\nnonsense\n")
    with pytest.raises(ValueError, match=r"one per line; got 'nonsense' in line 2 of '.*records\.jsonl'"):
        record.read(tmp_path)


def test_a_record_of_a_newer_version_is_read_without_what_this_one_does_not_know(tmp_path):
    line = json.dumps({**json.loads(toy_record().line()), "invented": {"later": 1}})
    (tmp_path / LINE).write_text(f"{line}\n")
    assert record.read(tmp_path) == [toy_record()] and record.count(tmp_path) == {toy_record().name: 1}


@pytest.mark.parametrize("line", ["3", "[]", '{"experiment": "toy"}'])
def test_json_that_is_no_record_is_named(tmp_path, line):
    (tmp_path / LINE).write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"one per line; got .* in line 1 of '.*records\.jsonl'"):
        record.read(tmp_path)


@given(st.permutations(sorted(record.plain(toy.ToySettings()))))
def test_the_name_of_a_run_does_not_depend_on_the_order_of_its_settings(names):
    settings = record.plain(toy.ToySettings())
    shuffled = {name: settings[name] for name in names}
    assert record.identity("toy", "low_rank", 0, shuffled) == record.identity("toy", "low_rank", 0, settings)


def test_the_name_of_a_run_tells_method_seed_and_every_setting(tmp_path):
    def other(value):
        kinds = {bool: lambda: not value, tuple: lambda: (0.5, 9.5), str: lambda: f"{value}-2"}
        return kinds.get(type(value), lambda: value + 1)()

    start = toy.ToySettings()
    changed = [dataclasses.replace(start, **{name: other(value)}) for name, value in vars(start).items()]
    names = [toy_record(settings=settings).name for settings in [start, *changed]]
    names += [toy_record("full_rank").name, toy_record(seed=1).name]
    assert len(set(names)) == len(names)


def test_a_name_outlives_json():
    one = toy_record()
    assert record.Record(**json.loads(one.line())).name == one.name


def test_processes_that_append_at_once_do_not_mix_their_lines(tmp_path):
    # flock is between open files, so threads with locks of their own contend as processes do.
    threads = [
        threading.Thread(target=lambda k=k: [record.append(toy_record(seed=10 * k + i), tmp_path) for i in range(5)])
        for k in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.seed for r in record.read(tmp_path)) == sorted(10 * k + i for k in range(6) for i in range(5))


@pytest.mark.parametrize("room", [0, 40])
def test_a_full_disk_leaves_earlier_records_whole(tmp_path, room):
    record.append(toy_record(), tmp_path)
    before = (tmp_path / LINE).read_bytes()
    with room_for(len(before) + room), pytest.raises(OSError) as error:
        files.append_line(tmp_path / LINE, toy_record(seed=1).line())
    assert error.value.errno == errno.EFBIG and error.value.filename == str(tmp_path / LINE)
    assert (tmp_path / LINE).read_bytes() == before


def test_a_full_disk_leaves_a_whole_file_and_no_other(tmp_path):
    path = files.replace(tmp_path / "a.npz", b"old")
    with room_for(100), pytest.raises(OSError):
        files.replace(path, bytes(1000))
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", "3"), ("metrics", [1]), ("metrics", {"nll": "low"}), ("settings", None), ("seed", True)],
)
def test_a_record_with_a_wrong_type_is_named_in_one_line(tmp_path, field, value):
    line = json.dumps({**json.loads(toy_record().line()), field: value})
    (tmp_path / LINE).write_text(f"{toy_record().line()}\n{line}\n")
    name = "the metric 'nll'" if isinstance(value, dict) else field
    with pytest.raises(SystemExit, match=f"line 2 of .*: {name} is ") as stopped:
        cli.main(["report", str(tmp_path)])
    assert "\n" not in str(stopped.value)


def test_a_file_that_was_torn_in_its_first_record_is_named_in_one_line(tmp_path):
    (tmp_path / LINE).write_text(toy_record().line()[:50])
    with pytest.raises(SystemExit, match="report needs one record at least; got none in") as stopped:
        cli.main(["report", str(tmp_path)])
    assert "\n" not in str(stopped.value)
