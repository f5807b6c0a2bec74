"""Folders of runs brought into one: nothing is lost, a run is there once, and differences are reported."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import image_record, toy_record
from singularbayes_experiments.cli.app import main
from singularbayes_experiments.records import record
from singularbayes_experiments.records.merge import merge

KINDS = [(method, seed) for method in ("low_rank", "full_rank") for seed in range(3)]


def folder_of(path, records):
    path.mkdir()
    for one in records:
        record.append(one, path)
    return path


def content(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.sampled_from(KINDS), unique=True, max_size=4), min_size=1, max_size=3))
def test_the_union_of_folders_is_there_once_with_its_arrays_in_any_order(tmp_path_factory, parts):
    place = tmp_path_factory.mktemp("runs")
    sources = [folder_of(place / str(i), [toy_record(*_split(kind)) for kind in part]) for i, part in enumerate(parts)]
    sources = [source for source in sources if (source / record.LINES).exists()]
    for order in (sources, sources[::-1]):
        into = place / f"into-{order is sources}"
        merge(order, into)
        merge(order, into)  # again changes nothing
        if not order:
            continue
        back = record.read(into)
        assert {one.name for one in back} == {toy_record(*_split(kind)).name for part in parts for kind in part}
        assert len(back) == sum(record.count(into).values())
        assert all(np.array_equal(one.arrays["mean"], toy_record().arrays["mean"]) for one in back)


def _split(kind):
    method, seed = kind
    return method, None, seed


def test_sources_are_left_as_they_were_and_what_was_there_too(tmp_path):
    theirs = folder_of(tmp_path / "gpu", [toy_record(seed=1), toy_record(seed=2)])
    ours = folder_of(tmp_path / "runs", [toy_record(seed=0), toy_record(seed=1)])
    before, first = content(theirs), content(ours)
    (found,) = merge([theirs], ours)
    assert content(theirs) == before
    assert found.added == (toy_record(seed=2).name,) and found.same == (toy_record(seed=1).name,) and not found.differ
    after = content(ours)
    assert after[record.LINES].startswith(first[record.LINES])
    assert all(after[name] == first[name] for name in first if name != record.LINES)


def test_a_run_with_other_numbers_is_named_and_ours_stays_with_its_arrays(tmp_path, capsys):
    theirs = folder_of(tmp_path / "gpu", [toy_record(ratio=9.0), image_record()])
    ours = folder_of(tmp_path / "runs", [toy_record(ratio=1.5)])
    before = content(ours)[f"{toy_record().name}.npz"]
    assert main(["merge", str(theirs), "--into", str(ours)]) == 1
    said = capsys.readouterr().out
    assert "1 added, 0 there already, 1 differ; 1 arrays" in said and toy_record().name in said
    assert [one.metrics.get("iqr_ratio") for one in record.read(ours)] == [1.5, None]
    assert content(ours)[f"{toy_record().name}.npz"] == before
    assert main(["merge", str(ours), "--into", str(tmp_path / "all")]) == 0


def test_a_trial_is_not_the_run_of_its_settings(tmp_path):
    theirs = folder_of(tmp_path / "gpu", [replace(toy_record(), preset="trial")])
    (found,) = merge([theirs], folder_of(tmp_path / "runs", [toy_record()]))
    assert found.added == (toy_record().name,) and not found.differ


def test_a_trial_brings_no_arrays_of_a_run_that_is_left_out(tmp_path):
    theirs = folder_of(tmp_path / "gpu", [toy_record(ratio=9.0), replace(toy_record(), preset="trial", arrays={})])
    ours = folder_of(tmp_path / "runs", [toy_record(ratio=1.5)])
    (ours / f"{toy_record().name}.npz").unlink()
    (found,) = merge([theirs], ours)
    assert found.differ == found.added == (toy_record().name,) and found.arrays == 0
    assert not list(ours.glob("*.npz"))


def test_arrays_that_came_later_are_fetched_for_records_that_are_there(tmp_path):
    theirs = folder_of(tmp_path / "gpu", [toy_record()])
    ours = folder_of(tmp_path / "runs", [toy_record()])
    (ours / f"{toy_record().name}.npz").unlink()
    (found,) = merge([theirs], ours)
    assert found.arrays == 1 and "mean" in record.read(ours)[0].arrays


def test_a_run_done_again_and_what_a_newer_version_wrote_are_taken_as_they_stand(tmp_path):
    theirs = folder_of(tmp_path / "gpu", [toy_record(ratio=1.5), toy_record(ratio=2.5)])
    newer = json.dumps({**json.loads(toy_record(seed=1).line()), "invented": 1})
    with (theirs / record.LINES).open("a") as lines:
        lines.write(f"{newer}\n")
    merge([theirs / record.LINES], tmp_path / "runs")  # a file of lines does as well
    assert (tmp_path / "runs" / record.LINES).read_bytes() == (theirs / record.LINES).read_bytes()
    assert record.read(tmp_path / "runs")[0].metrics["iqr_ratio"] == 2.5


def test_damaged_arrays_are_named_and_nothing_is_written(tmp_path):
    theirs = folder_of(tmp_path / "gpu", [toy_record()])
    path = theirs / f"{toy_record().name}.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(SystemExit, match=rf"merge needs arrays as a run wrote them; got a damaged '{path}'"):
        main(["merge", str(theirs), "--into", str(tmp_path / "runs")])
    assert content(tmp_path / "runs") == {}


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"merge needs folders with records\.jsonl, or such files; got '.*'"):
        main(["merge", str(tmp_path), "--into", str(tmp_path / "runs")])
    with pytest.raises(SystemExit, match=r"merge needs one folder with records\.jsonl at least; got none"):
        main(["merge"])
