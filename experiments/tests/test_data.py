"""Files are found, downloaded whole and checked, or the error says what to do; loaders have published counts."""

import gzip
import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from singularbayes_experiments import cli, data
from singularbayes_experiments.data import files

BYTES = bytes(range(256)) * 1024  # some chunks of a download


@pytest.fixture
def server(tmp_path):
    """Serves the folder `home` at the address `base`."""
    home = tmp_path / "served"
    home.mkdir()
    listener = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=home))
    threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
    yield SimpleNamespace(home=home, base=f"http://127.0.0.1:{listener.server_port}/")
    listener.shutdown()
    listener.server_close()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The places of the made-up set in the folder and in the cache, both empty; no waiting between attempts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(files.FOLDER, str(tmp_path / "data"))
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda _: None))
    found = SimpleNamespace(folder=tmp_path / "data" / "made_up", cache=tmp_path / "cache/singularbayes/made_up")
    for place in vars(found).values():
        place.mkdir(parents=True)
    return found


@pytest.fixture
def made_up(monkeypatch):
    def make(held: dict[str, bytes], base: str | None = None, **options) -> files.Source:
        sums = {name: (len(raw), files.sha256(raw)) for name, raw in held.items()}
        source = files.Source("made_up", "Made up", "none", "https://example.org/", sums, base, **options)
        monkeypatch.setattr(files, "SETS", {"made_up": source})
        return source

    return make


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_the_folder_comes_before_the_cache_and_files_may_be_packed(made_up, places):
    made_up({"a.csv": BYTES})
    (places.cache / "a.csv").write_bytes(BYTES)
    assert files.locate("made_up", "a.csv") == places.cache / "a.csv"
    (places.folder / "a.csv.gz").write_bytes(gzip.compress(BYTES))
    assert files.locate("made_up", "a.csv") == places.folder / "a.csv.gz"
    assert files.read("made_up", "a.csv") == BYTES


@pytest.mark.parametrize("held", [b"other", gzip.compress(BYTES)[:-9]])
def test_other_bytes_are_an_error_with_both_sums_and_the_fix(held, made_up, places):
    made_up({"a.csv": BYTES}, by_hand="Ask at the desk.")
    (places.folder / "a.csv").write_bytes(held)
    with pytest.raises(
        files.DataError, match=r"262,144 bytes .*; got .* bytes .*: delete it.*Ask at the desk"
    ) as error:
        files.read("made_up", "a.csv")
    assert files.sha256(BYTES) in str(error.value) and str(places.folder / "a.csv") in str(error.value)


def test_what_is_nowhere_and_has_no_address_says_how_to_get_it(made_up, places):
    made_up({"a.csv": BYTES}, by_hand="Ask at the desk.")
    with pytest.raises(files.DataError, match=r"not in .*data/made_up or .*cache.*example.org/: Ask at the desk"):
        files.read("made_up", "a.csv")


def test_a_download_is_whole_or_nothing_is_kept(made_up, places, server):
    made_up({"a.bin": BYTES}, server.base)
    for sent, said in ((None, "404 Client Error"), (BYTES[:-1], "got 262,143 bytes")):
        if sent:
            (server.home / "a.bin").write_bytes(sent)
        with pytest.raises(files.DataError, match=f"{said}(.|\n)*example.org/: put into .*made_up/ a.bin"):
            files.read("made_up", "a.bin")
        assert names(places.cache) == []
    (server.home / "a.bin").write_bytes(BYTES)
    assert files.read("made_up", "a.bin") == BYTES
    (server.home / "a.bin").unlink()
    assert files.read("made_up", "a.bin") == BYTES and names(places.cache) == ["a.bin"]


@pytest.mark.parametrize(("archive", "kind"), [("all+of it.zip", "zip"), ("all.tar.gz", "gztar")])
def test_an_archive_is_downloaded_once_for_all_its_files(archive, kind, made_up, places, server, tmp_path):
    made_up({"a.txt": b"one", "b.txt": b"two"}, server.base, archive=archive, path="in/{name}")
    (tmp_path / "packed" / "in").mkdir(parents=True)
    for name, raw in (("a", b"one"), ("b", b"two")):
        (tmp_path / "packed" / "in" / f"{name}.txt").write_bytes(raw)
        made = Path(shutil.make_archive(tmp_path / "all", kind, tmp_path / "packed", "in"))
        shutil.copy(made, server.home / archive)
        if name == "a":  # b is not in it yet
            with pytest.raises(files.DataError, match=r"in/b\.txt"):
                files.read("made_up", "a.txt")
            assert names(places.cache) == []
    assert files.read("made_up", "b.txt") == b"two"
    (server.home / archive).unlink()
    assert files.read("made_up", "a.txt") == b"one" and names(places.cache) == ["a.txt", "b.txt"]


def test_a_file_known_as_a_copy_is_held_against_the_list_of_its_publisher(made_up, places, server):
    sent, other = gzip.compress(b"x\n1.0\n"), gzip.compress(b"x\n2.0\n")
    made_up({"a.csv": b"x\n1\n"}, server.base, path="{name}.gz", rewritten=("a.csv",))
    (server.home / files.SUMS).write_bytes(f"{files.sha256(sent)} ./a.csv.gz\n".encode())
    (server.home / "a.csv.gz").write_bytes(other)
    with pytest.raises(files.DataError, match="got 6 bytes"):
        files.read("made_up", "a.csv")
    (server.home / "a.csv.gz").write_bytes(sent)
    assert files.read("made_up", "a.csv") == b"x\n1.0\n" == files.read("made_up", "a.csv")
    assert names(places.cache) == [files.SUMS, "a.csv.gz"]


def test_the_commands_fetch_what_is_missing_and_check_it(made_up, places, server, capsys):
    made_up({"a.bin": BYTES, "b.bin": b"b"}, server.base)
    (server.home / "b.bin").write_bytes(b"b")
    (places.folder / "a.bin").write_bytes(BYTES)
    assert cli.main(["data", "fetch", "made_up"]) == 0
    assert capsys.readouterr().out == "made_up: 2 files (cache 1, folder 1)\n"
    (places.folder / "a.bin").write_bytes(b"mine")
    with pytest.raises(SystemExit, match=r"a\.bin of 262,144 bytes"):
        cli.main(["data", "fetch", "made_up"])
    with pytest.raises(SystemExit, match=r"A data set must be one of \['made_up'\]; got 'other'"):
        cli.main(["data", "fetch", "other"])
    assert cli.main(["data", "list"]) == 0 and "Made up" in capsys.readouterr().out


# -- real data ---------------------------------------------------------------------------------------------------------

needs_data = pytest.mark.skipif(not os.environ.get(files.FOLDER), reason="needs $SINGULARBAYES_DATA with the data sets")


def test_the_catalogue_has_a_sum_for_every_file_and_a_way_to_get_every_set():
    assert len(files.SETS) == 16 and sum(len(source.files) for source in files.SETS.values()) == 77
    for source in files.SETS.values():
        assert all(len(sha) == 64 and int(sha, 16) and size > 0 for size, sha in source.files.values())
        assert (source.base is None) == bool(source.by_hand) and set(source.rewritten) <= set(source.files)


def counted(labels) -> list[int]:
    return np.bincount(labels).tolist()


LOADED = {
    "mnist": (lambda d: (d.train[0].shape, d.train[1][:3].tolist()), ((60_000, 28, 28), [5, 0, 4])),
    "fashion_mnist": (lambda d: (counted(d.train[1]), d.classes[d.test[1][0]]), ([6000] * 10, "ankle boot")),
    "notmnist": (lambda d: (d.train, counted(d.test[1])), (None, [1000] * 10)),
    "beijing_pm25": (lambda d: (d.shape, d.isna().sum().sum()), ((43_824, 13), 2_067)),
    "five_cities_pm25": (lambda d: d["Guangzhou"]["PM_US Post"].notna().sum(), 32_352),
    "sst2": (lambda d: (counted(d.train[1]), counted(d.dev[1])), ([29_780, 37_569], [428, 444])),
    "ag_news": (lambda d: (counted(d.labels), d.classes[d.labels[0]]), ([1_900] * 4, "Business")),
    "clinc150": (lambda d: (len(d.train[0]), len(d.out_of_scope)), (15_000, 1_000)),
    "banking77": (lambda d: (len(d.train[0]), counted(d.test[1])), (10_003, [40] * 77)),
    "bert_vocab": (lambda d: (len(set(d)), d.index("[CLS]")), (30_522, 101)),
    "eicu_demo": (lambda d: d["patient"].shape, (2_520, 29)),
    "mimic3_demo": (lambda d: len(d), 25),
}


@needs_data
@pytest.mark.parametrize("name", LOADED)
def test_counts_are_those_that_publishers_state(name):
    count, expected = LOADED[name]
    assert count(getattr(data, name)()) == expected


@needs_data
def test_stays_of_physionet_are_counted():
    stays = data.physionet2012("c")
    assert (len(stays.records), stays.records["Parameter"].isna().sum()) == (1_765_303, 2_403)
    assert set(stays.records["RecordID"]) == set(stays.outcomes.index) and len(stays.outcomes) == 4_000


@needs_data
@pytest.mark.parametrize("name", data.UCI_SETS)
def test_splits_of_uci_are_all_rows_once(name):
    found = data.uci_regression(name)
    assert len(found.splits) == (5 if "protein" in name else 20) and found.x.shape[0] == len(found.y)
    for train, test in found.splits:
        assert len(test) == round(len(found.y) / 10) and {*train, *test} == {*range(len(found.y))}


def test_photographs_are_read_as_published(monkeypatch):
    planes = np.arange(3 * 32 * 32).reshape(3, 32, 32) % 251
    row = np.concatenate([[7], planes.ravel()]).astype("uint8")
    monkeypatch.setattr("singularbayes_experiments.data.images.read", lambda *_: np.tile(row, 2).tobytes())
    x, y = data.cifar10().train
    assert x.shape == (10, 32, 32, 3) and y.tolist() == [7] * 10
    np.testing.assert_array_equal(x[3], np.moveaxis(planes, 0, -1))
