"""A file that lies here is found, packed or not, and used only if it holds what was published."""

import gzip
import io
import sys
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_data import BYTES, made_up
from singularbayes_experiments.data import DataError, store
from singularbayes_experiments.data.catalogue import SETS
from singularbayes_experiments.data.content import content, listed, sha256
from singularbayes_experiments.data.read import read
from singularbayes_experiments.data.source import File

SOURCE = made_up({"a.csv": BYTES}, "https://example.org/files/")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder named by the environment, with a place for the made-up set; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "data"))
    (tmp_path / "data" / "made_up").mkdir(parents=True)
    return tmp_path / "data" / "made_up"


@pytest.fixture
def cached(tmp_path):
    path = tmp_path / "cache" / "singularbayes" / "made_up"
    path.mkdir(parents=True)
    return path


def test_a_file_is_found_packed_or_not(folder):
    (folder / "a.csv.gz").write_bytes(gzip.compress(BYTES))
    assert read(SOURCE, "a.csv") == BYTES
    (folder / "a.csv.gz").rename(folder / "a.csv")  # packed, though its name does not say so
    assert read(SOURCE, "a.csv") == BYTES
    (folder / "a.csv").write_bytes(BYTES)
    assert read(SOURCE, "a.csv") == BYTES


def test_the_folder_comes_before_the_cache(folder, cached):
    (cached / "a.csv").write_bytes(BYTES)
    assert store.find(SOURCE, SOURCE.files[0]) == cached / "a.csv"
    (folder / "a.csv").write_bytes(BYTES)
    assert store.find(SOURCE, SOURCE.files[0]) == folder / "a.csv"


def test_a_file_in_the_folder_needs_no_pooch(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    (folder / "a.csv").write_bytes(BYTES)
    assert read(SOURCE, "a.csv") == BYTES


def test_a_folder_that_is_not_there_is_said(folder, monkeypatch):
    monkeypatch.setenv(store.FOLDER, str(folder / "nowhere"))
    with pytest.raises(DataError, match=r"\$SINGULARBAYES_DATA needs a folder that exists; got .*nowhere"):
        read(SOURCE, "a.csv")


def test_an_empty_name_is_no_folder(monkeypatch):
    monkeypatch.setenv(store.FOLDER, "")
    assert store.folder() is None


def test_wrong_bytes_are_an_error_with_the_file_both_sums_both_sizes_and_the_fix(folder):
    (folder / "a.csv").write_bytes(b"other")
    with pytest.raises(DataError) as error:
        read(SOURCE, "a.csv")
    for said in (sha256(BYTES), sha256(b"other"), "262,144 bytes", "got 5 bytes", str(folder / "a.csv")):
        assert said in str(error.value)
    assert str(error.value).endswith("Delete it; `singularbayes-experiments data fetch made_up` gets the right one.")


def test_without_an_address_the_fix_is_by_hand(folder):
    (folder / "a.csv").write_bytes(b"other")
    with pytest.raises(DataError, match=r"Delete it and put the right one there\. Ask at the desk\."):
        read(made_up({"a.csv": BYTES}, by_hand="Ask at the desk."), "a.csv")


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda raw: raw[:30] + b"!!!" + raw[33:], lambda raw: raw[:2]]
)
def test_a_damaged_packing_is_said(damage, folder):
    noise = np.random.default_rng(0).bytes(1000)
    (folder / "a.csv.gz").write_bytes(damage(gzip.compress(noise)))
    with pytest.raises(
        DataError, match=r"a\.csv to hold 1,000 bytes .* cannot be unpacked: .* The file is .*a\.csv\.gz"
    ):
        read(made_up({"a.csv": noise}), "a.csv")


def test_a_copy_is_good_by_its_own_sum_without_the_list_of_the_publisher(folder):
    (folder / "a.csv").write_bytes(BYTES)
    assert read(made_up({"a.csv": BYTES}, rewritten=("a.csv",)), "a.csv") == BYTES


def test_a_list_of_sums_excuses_only_files_known_as_copies(folder):
    (folder / store.SUMS).write_text(f"{sha256(b'other')} a.csv\n")
    (folder / "a.csv").write_bytes(b"other")
    with pytest.raises(DataError, match="got 5 bytes"):
        read(SOURCE, "a.csv")
    assert read(made_up({"a.csv": BYTES}, rewritten=("a.csv",)), "a.csv") == b"other"


@given(st.binary(max_size=100), st.integers(0, 9))
def test_what_a_file_holds_does_not_depend_on_its_packing(data, level):
    packed = gzip.compress(data, level)
    assert content("a.csv", packed) == content("a.csv", gzip.compress(data)) == data
    assert content("a.csv.gz", packed) == packed  # the published file is the packed one


def tarred(members, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, **options) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), len(name)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_an_archive_is_its_members_in_the_order_of_their_names():
    members = [("set/2.txt", b"two"), ("set/1.txt", b"one"), ("set/3.txt", b"")]
    packings = [tarred(members, mode="w:gz"), tarred(members[::-1], mode="w"), tarred(members, mode="w:xz")]
    assert {content("set.tar.gz", packed) for packed in packings} == {b"onetwo"}


def npz(save=np.savez, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def test_arrays_are_told_apart_by_name_type_shape_and_entries_only():
    x = np.arange(6.0).reshape(2, 3)
    same = [npz(x=x, y=x), npz(np.savez_compressed, y=x, x=np.asfortranarray(x)), npz(x=x.astype(">f8"), y=x)]
    assert len({content("a.npz", packed) for packed in same}) == 1
    other = [npz(x=x), npz(x=x, z=x), npz(x=x.T, y=x), npz(x=x.astype("float32"), y=x), npz(x=x + 1, y=x), same[0]]
    assert len({content("a.npz", packed) for packed in other}) == len(other)


def test_a_list_of_sums_is_read_by_the_name_packed_or_not():
    sums = "AB12 *x.csv\nab12  a.csv\ncd34  ./a.csv.gz\nef56  below/a.csv\n\n"
    assert listed(sums, File("a.csv", 1, "")) == {"ab12", "cd34"}


def test_the_catalogue_names_every_file_once_with_a_sum_and_every_set_with_a_way_to_get_it():
    assert len(SETS) == 17 and sum(len(source.files) for source in SETS.values()) == 81
    for source in SETS.values():
        assert len({file.name for file in source.files}) == len({file.sha256 for file in source.files}) > 0
        assert all(len(file.sha256) == 64 and int(file.sha256, 16) and file.size > 0 for file in source.files)
        assert (source.base is None) == bool(source.by_hand)
        assert source.base is None or (source.base.startswith("http") and source.base.endswith("/"))
        assert {file.name for file in source.files} >= set(source.rewritten)
