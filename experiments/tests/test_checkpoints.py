"""Checkpoints are whole or do not count; the last two of each part are there."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from singularbayes_experiments.records.checkpoints import Checkpoint, Keep, part


def checkpoint(epoch=3, done=False):
    arrays = {
        "model-0": np.linspace(0, 1, 6, dtype="float32").reshape(2, 3),
        "model-1": np.array([4_000_000_000, 7], "uint32"),
        "callback-0/best": np.array(np.inf),
    }
    return Checkpoint(epoch, done, seed=5, seconds=1.25, backend="jax", arrays=arrays)


def same(one, other):
    assert {**vars(one), "arrays": 0} == {**vars(other), "arrays": 0}
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        np.testing.assert_array_equal(array, other.arrays[name])


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path):
    keep = Keep(tmp_path / "run")
    assert keep.load() is None
    keep.save(checkpoint(3))
    same(keep.load(), checkpoint(3))


def test_the_last_two_stay(tmp_path):
    keep = Keep(tmp_path)
    for epoch in (1, 9, 10, 11):
        keep.save(checkpoint(epoch))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000010.checkpoint", "000011.checkpoint"]


@given(st.data())
def test_a_checkpoint_with_a_byte_missing_or_wrong_does_not_count(data):
    content = checkpoint().pack()
    where = data.draw(st.integers(0, len(content) - 1))
    assert Checkpoint.unpack(content[:where]) is None
    spoilt = bytearray(content)
    spoilt[where] ^= data.draw(st.integers(1, 255))
    assert Checkpoint.unpack(bytes(spoilt)) is None


def test_a_torn_checkpoint_falls_back_to_the_one_before_and_goes(tmp_path):
    keep = Keep(tmp_path)
    keep.save(checkpoint(1))
    keep.save(checkpoint(2))
    newest = tmp_path / "000002.checkpoint"
    newest.write_bytes(newest.read_bytes()[:-10])
    (tmp_path / ".000003.checkpoint.ab12").write_bytes(b"half")
    same(keep.load(), checkpoint(1))
    assert [path.name for path in tmp_path.iterdir()] == ["000001.checkpoint"]


def test_parts_are_apart_and_go_with_the_run(tmp_path):
    keep = Keep(tmp_path / "run", every=0.5)
    keep.save(checkpoint(1))
    member = part(keep, "member-0")
    member.save(checkpoint(7, done=True))
    assert member.every == 0.5 and part(None, "member-0") is None
    same(keep.load(), checkpoint(1))
    same(keep.part("member-0").load(), checkpoint(7, done=True))
    keep.remove()
    assert list(tmp_path.iterdir()) == []
