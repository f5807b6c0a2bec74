"""Files are found, downloaded whole and checked, or the error says what to do; loaders have published counts."""

import gzip
import os
import shutil
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from singularbayes_experiments import cli, data
from singularbayes_experiments.data import files

BYTES = bytes(range(256)) * 1024  # some chunks of a download


def sends(raw: bytes, length: int | None = None, status: int = 200):
    """Answers with bytes; the head may promise another length."""

    def answer(request):
        request.send_response(status)
        request.send_header("Content-Length", str(len(raw) if length is None else length))
        request.end_headers()
        request.wfile.write(raw)

    return answer


@pytest.fixture
def server():
    """Sends what `answers` has for a path, of a list one after the other; `asked` are the paths asked for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removeprefix("/")
            found.asked.append(name)
            answer = found.answers.get(name, sends(b"", status=404))
            with suppress(BrokenPipeError, ConnectionResetError):
                (answer.pop(0) if isinstance(answer, list) else answer)(self)

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = SimpleNamespace(answers={}, asked=[], base=f"http://127.0.0.1:{listener.server_port}/")
    threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
    yield found
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


def test_what_is_nowhere_and_has_no_address_says_how_to_get_it(made_up, places, monkeypatch):
    made_up({"a.csv": BYTES}, by_hand="Ask at the desk.")
    with pytest.raises(files.DataError, match=r"not in .*data/made_up or .*cache.*example.org/: Ask at the desk"):
        files.read("made_up", "a.csv")
    monkeypatch.setenv(files.FOLDER, "/nowhere")
    with pytest.raises(files.DataError, match=r"\$SINGULARBAYES_DATA must be a folder that exists; got '/nowhere'"):
        files.read("made_up", "a.csv")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (sends(BYTES[:-1]), "got 262,143 bytes"),
        (sends(BYTES[:1000], len(BYTES)), "cannot be had"),
        (sends(b"", status=404), "404 Client Error"),
    ],
)
def test_a_download_is_whole_or_nothing_is_kept(answer, said, made_up, places, server):
    made_up({"a.bin": BYTES}, server.base)
    server.answers["a.bin"] = answer
    with pytest.raises(files.DataError, match=f"{said}(.|\n)*example.org/: put into .*made_up/ a.bin"):
        files.read("made_up", "a.bin")
    assert names(places.cache) == []
    server.answers["a.bin"] = [sends(BYTES[:1000], len(BYTES)), sends(BYTES)]  # a second attempt mends it
    assert files.read("made_up", "a.bin") == BYTES == files.read("made_up", "a.bin")
    assert names(places.cache) == ["a.bin"] and server.answers["a.bin"] == []


def packed(folder, **members: bytes) -> dict[str, bytes]:
    """Returns archives of the directory "in" with these files, by the end of their names."""
    inside = folder / "packed" / "in"
    inside.mkdir(parents=True, exist_ok=True)
    for name, raw in members.items():
        (inside / f"{name}.txt").write_bytes(raw)
    kinds = {"zip": "zip", "gz": "gztar"}
    return {
        end: Path(shutil.make_archive(folder / "all", kind, inside.parent, "in")).read_bytes()
        for end, kind in kinds.items()
    }


@pytest.mark.parametrize("archive", ["all+of it.zip", "all.tar.gz"])
def test_an_archive_is_downloaded_once_for_all_its_files(archive, made_up, places, server, tmp_path):
    made_up({"a.txt": b"one", "b.txt": b"two"}, server.base, archive=archive, path="in/{name}")
    address, end = archive.replace(" ", "%20"), archive.rpartition(".")[-1]
    server.answers[address] = [sends(packed(tmp_path, **own)[end]) for own in ({"a": b"one"}, {"b": b"two", "c": b""})]
    with pytest.raises(files.DataError, match=r"in/b\.txt"):
        files.read("made_up", "a.txt")
    assert names(places.cache) == []
    assert (files.read("made_up", "b.txt"), files.read("made_up", "a.txt")) == (b"two", b"one")
    assert len(server.asked) == 2 and names(places.cache) == ["a.txt", "b.txt"]


def test_a_file_known_as_a_copy_is_held_against_the_list_of_its_publisher(made_up, places, server):
    sent, other = gzip.compress(b"x\n1.0\n"), gzip.compress(b"x\n2.0\n")
    made_up({"a.csv": b"x\n1\n"}, server.base, path="{name}.gz", rewritten=("a.csv",))
    server.answers |= {"a.csv.gz": sends(other), files.SUMS: sends(f"{files.sha256(sent)} ./a.csv.gz\n".encode())}
    with pytest.raises(files.DataError, match="got 6 bytes"):
        files.read("made_up", "a.csv")
    server.answers["a.csv.gz"] = sends(sent)
    assert files.read("made_up", "a.csv") == b"x\n1.0\n" == files.read("made_up", "a.csv")
    assert names(places.cache) == [files.SUMS, "a.csv.gz"]


def test_the_commands_fetch_what_is_missing_or_damaged_and_verify(made_up, places, server, capsys):
    made_up({"a.bin": BYTES, "b.bin": b"b"}, server.base)
    server.answers |= {"b.bin": sends(b"b")}
    (places.folder / "a.bin").write_bytes(BYTES)
    (places.cache / "b.bin").write_bytes(b"c")
    assert cli.main(["data", "verify"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("made_up: 1 of 2 files right (cache 1, folder 1)\n  wrong: made_up must have a b.bin")
    assert cli.main(["data", "fetch", "made_up"]) == 0 and server.asked == ["b.bin"]
    assert capsys.readouterr().out == "made_up: 2 of 2 files right (cache 1, folder 1)\n"
    (places.folder / "a.bin").write_bytes(b"mine")
    with pytest.raises(SystemExit, match=r"a\.bin of 262,144 bytes"):
        cli.main(["data", "fetch", "made_up"])
    assert (places.folder / "a.bin").read_bytes() == b"mine"
    with pytest.raises(SystemExit, match=r"A data set must be one of \['made_up'\]; got other"):
        cli.main(["data", "verify", "other"])
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
    "beijing_pm25": (lambda d: (d.table.shape, d.table.isna().sum().sum()), ((43_824, 13), 2_067)),
    "five_cities_pm25": (lambda d: d.tables["Guangzhou"]["PM_US Post"].notna().sum(), 32_352),
    "sst2": (lambda d: (counted(d.train[1]), counted(d.dev[1])), ([29_780, 37_569], [428, 444])),
    "ag_news": (lambda d: (counted(d.labels), d.classes[d.labels[0]]), ([1_900] * 4, "Business")),
    "clinc150": (lambda d: (len(d.train[0]), len(d.out_of_scope)), (15_000, 1_000)),
    "banking77": (lambda d: (len(d.train[0]), counted(d.test[1])), (10_003, [40] * 77)),
    "bert_vocab": (lambda d: (len(set(d.words)), d.words.index("[CLS]")), (30_522, 101)),
    "eicu_demo": (lambda d: d.tables["patient"].shape, (2_520, 29)),
    "mimic3_demo": (lambda d: len(d.paths), 25),
}


@needs_data
@pytest.mark.parametrize("name", LOADED)
def test_counts_are_those_that_publishers_state(name):
    count, expected = LOADED[name]
    assert count(getattr(data, name)()) == expected


@needs_data
def test_stays_of_physionet_are_counted():
    stays = data.physionet2012("c").sets["c"]
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
