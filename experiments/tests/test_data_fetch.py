"""A download ends with a whole file under its name, or with none and a reason, whatever the server or the disk does."""

import errno
import gzip
import io
import os
import re
import sys
import tarfile
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_up_data import BYTES, made_up, refuses, sends, sends_slowly, serving
from singularbayes_experiments.data import DataError, fetch, store
from singularbayes_experiments.data.content import sha256
from singularbayes_experiments.data.read import read


@pytest.fixture
def server():
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no folder, and no waiting between attempts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(store.FOLDER, raising=False)
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda _: None))
    return tmp_path / "singularbayes"


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_is_kept_and_not_repeated(server, cache):
    source = made_up({"a.bin": BYTES}, server.base)
    server.answers["a.bin"] = sends(BYTES)
    assert read(source, "a.bin") == BYTES == read(source, "a.bin")
    assert server.asked == ["a.bin"]
    assert (cache / "made_up" / "a.bin").read_bytes() == BYTES
    assert os.listdir(cache / "made_up") == ["a.bin"]


def test_off_a_terminal_a_download_is_one_line(server, capsys):
    server.answers["a.bin"] = sends(BYTES)
    read(made_up({"a.bin": BYTES}, server.base), "a.bin")
    out, err = capsys.readouterr()
    assert out == "" and err == f"made_up/a.bin: downloading from {server.base}a.bin\n"


def test_on_a_terminal_there_is_a_bar_that_fills(server, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    server.answers["a.bin"] = [sends(BYTES[:1000], len(BYTES)), sends(BYTES)]
    read(made_up({"a.bin": BYTES}, server.base), "a.bin")
    out, err = capsys.readouterr()
    assert out == "" and "made_up/a.bin" in err and "262.1/262.1 kB" in err and "downloading from" not in err


def test_wrong_bytes_are_not_kept_and_both_sums_and_sizes_are_said(server, cache):
    wrong = BYTES[:-1]
    server.answers["a.bin"] = sends(wrong)
    with pytest.raises(DataError) as error:
        read(made_up({"a.bin": BYTES}, server.base), "a.bin")
    for said in (sha256(BYTES), sha256(wrong), "262,144 bytes", "262,143 bytes", server.base, "nothing was kept"):
        assert said in str(error.value)
    assert files_in(cache) == []


BAD = {
    "cut midway": (sends(BYTES[:100_000], len(BYTES)), "could not be downloaded"),
    "cut before the first byte": (sends(b"", len(BYTES)), "could not be downloaded"),
    "404": (refuses(404), "404 Client Error"),
    "500": (refuses(500), "500 Server Error"),
    "stalled": (sends_slowly(BYTES, 0.5, 2), "could not be downloaded: .*timed out"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_server_is_said_after_the_retries_and_leaves_nothing(case, server, cache, monkeypatch):
    server.answers["a.bin"], said = BAD[case]
    if case == "stalled":
        monkeypatch.setattr(fetch, "TIMEOUT", 0.1)
    monkeypatch.setattr(fetch, "RETRIES", 1)
    with pytest.raises(DataError, match=f"{said}.*Try again; or get it manually, and put into .*made_up/: a.bin"):
        read(made_up({"a.bin": BYTES}, server.base), "a.bin")
    assert server.asked == ["a.bin"] * 2
    assert files_in(cache) == []


def test_no_server_at_all_is_said(cache):
    with serving() as gone:
        base = gone.base
    with pytest.raises(DataError, match="could not be downloaded"):
        read(made_up({"a.bin": BYTES}, base), "a.bin")


def test_a_second_attempt_mends_a_cut_connection(server, cache):
    server.answers["a.bin"] = [sends(BYTES[:1000], len(BYTES)), sends(BYTES)]
    assert read(made_up({"a.bin": BYTES}, server.base), "a.bin") == BYTES
    assert files_in(cache) == ["a.bin"]


def test_a_slow_server_that_keeps_sending_is_waited_for(server, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 0.5)
    server.answers["a.bin"] = sends_slowly(BYTES, 0.07, 8)  # longer than the timeout in all
    assert read(made_up({"a.bin": BYTES}, server.base), "a.bin") == BYTES


def test_a_cache_that_cannot_be_made_is_said(server, cache):
    cache.write_text("a file where the folder should be")
    server.answers["a.bin"] = sends(BYTES)
    with pytest.raises(
        DataError, match=r"cache needs a folder that can be written to; got '.*made_up': Not a directory"
    ):
        read(made_up({"a.bin": BYTES}, server.base), "a.bin")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_said(server, cache):
    (cache / "made_up").mkdir(parents=True)
    (cache / "made_up").chmod(0o555)
    server.answers["a.bin"] = sends(BYTES)
    with pytest.raises(DataError, match=r"cache needs a folder that can be written to; got .*: Permission denied"):
        read(made_up({"a.bin": BYTES}, server.base), "a.bin")


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_disk_that_fails_is_said_and_leaves_nothing(reason, server, cache, monkeypatch):
    def half_written(source, url, part):
        (part / "a.bin").write_bytes(BYTES[:100])
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(fetch, "_download", half_written)
    with pytest.raises(DataError, match=f"can be written to; got .*: {os.strerror(reason)}"):
        read(made_up({"a.bin": BYTES}, server.base), "a.bin")
    assert files_in(cache) == []


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def archived(server):
    return made_up({"a.txt": b"one", "b.txt": b"two"}, server.base, archive="all+of it.zip", path="in/{name}")


def test_an_archive_is_downloaded_once_for_all_its_files(server, cache):
    source = archived(server)
    server.answers["all+of%20it.zip"] = sends(zipped({"in/a.txt": b"one", "in/b.txt": b"two", "in/c.txt": b"three"}))
    assert read(source, "b.txt") == b"two" and read(source, "a.txt") == b"one"
    assert len(server.asked) == 1 and files_in(cache) == ["a.txt", "b.txt"]


def tarred(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_an_archive_may_be_a_tar_file(server, cache):
    source = replace(archived(server), archive="all.tar.gz")
    server.answers["all.tar.gz"] = sends(tarred({"in/a.txt": b"one", "in/b.txt": b"two"}))
    assert read(source, "b.txt") == b"two" and read(source, "a.txt") == b"one"
    assert len(server.asked) == 1 and files_in(cache) == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    "sent",
    [b"no tar file", tarred({"in/a.txt": b"one"}), tarred({"in/a.txt": b"one", "in/b.txt": b"two"})[:-30]],
    ids=["broken", "without a file", "cut"],
)
def test_another_tar_file_is_refused(sent, server, cache):
    server.answers["all.tar.gz"] = sends(sent)
    with pytest.raises(DataError, match=f"needs a tar.gz file with in/a.txt, in/b.txt at {server.base}"):
        read(replace(archived(server), archive="all.tar.gz"), "a.txt")
    assert files_in(cache) == []


@pytest.mark.parametrize("sent", [b"no zip file", zipped({"in/a.txt": b"one"})], ids=["broken", "without a file"])
def test_another_archive_is_refused(sent, server, cache):
    server.answers["all+of%20it.zip"] = sends(sent)
    with pytest.raises(DataError, match=f"needs a zip file with in/a.txt, in/b.txt at {server.base}"):
        read(archived(server), "a.txt")
    assert files_in(cache) == []


def rewritten(server):
    """The sum known is that of a copy; the publisher sends other bytes, packed, and a list of its own sums."""
    return made_up({"a.csv": b"x,y\n1,2\n"}, server.base, path="{name}.gz", rewritten=("a.csv",))


def test_a_file_known_as_a_copy_is_held_against_the_list_of_its_publisher(server, cache):
    sent = gzip.compress(b"x,y\n1.0,2.0\n")
    server.answers |= {"a.csv.gz": sends(sent), store.SUMS: sends(f"{sha256(sent)} a.csv.gz\n".encode())}
    source = rewritten(server)
    assert read(source, "a.csv") == b"x,y\n1.0,2.0\n" == read(source, "a.csv")
    assert files_in(cache) == [store.SUMS, "a.csv.gz"] and server.asked == ["a.csv.gz", store.SUMS]


def test_and_refused_if_the_list_says_otherwise(server, cache):
    server.answers |= {"a.csv.gz": sends(b"other"), store.SUMS: sends(f"{sha256(b'this')} a.csv.gz\n".encode())}
    with pytest.raises(DataError, match=r"a\.csv to hold 8 bytes .*; got 5 bytes .* nothing was kept"):
        read(rewritten(server), "a.csv")
    assert files_in(cache) == []


def test_without_an_address_the_error_says_how_to_get_it_by_hand(cache):
    source = made_up({"a.bin": BYTES}, by_hand="Ask for it at the desk.")
    with pytest.raises(DataError) as error:
        read(source, "a.bin")
    said = f"made_up needs a.bin, which is not in {cache / 'made_up'}. Get it manually: https://example.org/ Ask for it"
    assert str(error.value).startswith(said)


def test_without_pooch_the_error_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'singularbayes-experiments'")):
        read(made_up({"a.bin": BYTES}, "http://127.0.0.1/"), "a.bin")
