"""`singularbayes-experiments data`: what there is, where it lies; wrong sums are said and end with 1."""

import gzip
import os

import pytest
from made_up_data import BYTES, made_up, sends, serving
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.cli import data
from singularbayes_experiments.data import store


@pytest.fixture
def server():
    with serving() as server:
        server.answers |= {"a.bin": sends(BYTES), "b.bin": sends(b"b")}
        yield server


@pytest.fixture(autouse=True)
def place(tmp_path, server, monkeypatch):
    """One data set of two files; the folder and the cache are empty. Holds the place of its files in each."""
    source = made_up({"a.bin": BYTES, "b.bin": b"b"}, server.base)
    monkeypatch.setattr(data, "SETS", {"made_up": source})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "data"))
    (tmp_path / "data" / "made_up").mkdir(parents=True)
    return {"folder": tmp_path / "data" / "made_up", "cache": tmp_path / "cache" / "singularbayes" / "made_up"}


def test_fetch_downloads_what_is_missing_and_only_that(server, place, capsys):
    (place["folder"] / "a.bin").write_bytes(BYTES)
    assert cli.main(["data", "fetch", "made_up"]) == 0
    assert server.asked == ["b.bin"] and (place["cache"] / "b.bin").read_bytes() == b"b"
    assert capsys.readouterr().out == "made_up: 2 of 2 files right (cache 1, folder 1)\n"
    assert cli.main(["data", "fetch", "made_up"]) == 0
    assert server.asked == ["b.bin"]


def test_fetch_replaces_a_damaged_file_of_the_cache(server, place):
    assert cli.main(["data", "fetch", "made_up"]) == 0
    (place["cache"] / "b.bin").write_bytes(b"c")
    assert cli.main(["data", "fetch", "made_up"]) == 0
    assert (place["cache"] / "b.bin").read_bytes() == b"b" and server.asked == ["a.bin", "b.bin", "b.bin"]


def test_fetch_replaces_it_also_by_a_packed_one(server, place, monkeypatch):
    source = made_up({"b.bin": b"b"}, server.base, path="{name}.gz")
    monkeypatch.setattr(data, "SETS", {"made_up": source})
    server.answers["b.bin.gz"] = sends(gzip.compress(b"b"))
    place["cache"].mkdir(parents=True)
    (place["cache"] / "b.bin").write_bytes(b"c")
    assert cli.main(["data", "fetch", "made_up"]) == 0
    assert os.listdir(place["cache"]) == ["b.bin.gz"] and cli.main(["data", "verify"]) == 0


def test_a_damaged_file_without_an_address_is_left_with_the_way_to_mend_it(place, monkeypatch):
    monkeypatch.setattr(data, "SETS", {"made_up": made_up({"b.bin": b"b"}, by_hand="Ask at the desk.")})
    place["cache"].mkdir(parents=True)
    (place["cache"] / "b.bin").write_bytes(b"c")
    with pytest.raises(SystemExit, match=r"put the right one there\. Ask at the desk\."):
        cli.main(["data", "fetch", "made_up"])


def test_fetch_leaves_the_folder_of_the_user_alone_and_says_what_is_wrong_there(server, place):
    (place["folder"] / "b.bin").write_bytes(b"c")
    with pytest.raises(
        SystemExit, match=r"singularbayes-experiments: made_up needs b\.bin to hold 1 bytes .* The file is .*b\.bin"
    ):
        cli.main(["data", "fetch", "made_up"])
    assert (place["folder"] / "b.bin").read_bytes() == b"c"


def test_verify_ends_with_0_if_all_that_is_here_is_right(place, capsys):
    (place["folder"] / "a.bin").write_bytes(BYTES)
    assert cli.main(["data", "verify"]) == 0
    assert capsys.readouterr().out == "made_up: 1 of 2 files right (folder 1, to download 1)\n"


@pytest.mark.parametrize("names", [[], ["made_up"]])
@pytest.mark.parametrize("where", ["folder", "cache"])
def test_verify_says_what_is_wrong_and_ends_with_1(names, where, place, capsys):
    place[where].mkdir(parents=True, exist_ok=True)
    (place[where] / "a.bin").write_bytes(BYTES)
    (place[where] / "b.bin").write_bytes(b"c")
    assert cli.main(["data", "verify", *names]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"made_up: 1 of 2 files right ({where})"
    assert second.startswith("  wrong: made_up needs b.bin") and str(place[where] / "b.bin") in second


def test_list_shows_the_set_its_licence_size_and_where_it_is(place, capsys):
    (place["cache"]).mkdir(parents=True)
    (place["cache"] / "b.bin").write_bytes(b"b")
    assert cli.main(["data", "list"]) == 0
    words = capsys.readouterr().out.split()
    assert {"made_up", "Made", "none", "0.3", "cache"} <= set(words)
    assert f"folder: {place['folder'].parent} cache: {place['cache'].parent}".split() == words[-4:]


@pytest.mark.parametrize("command", [["fetch", "other"], ["verify", "made_up", "other"], ["fetch"]])
def test_an_unknown_set_or_none_is_said(command, server, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["data", *command])
    assert end.value.code != 0 and server.asked == []
    said = capsys.readouterr()
    assert ("The data sets are made_up" if "other" in command else "requires an argument") in said.out + said.err
