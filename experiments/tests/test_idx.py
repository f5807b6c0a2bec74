"""The idx format: what is packed comes back, and what is damaged is refused with the reason."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from singularbayes_experiments.data import idx

LETTERS = np.arange(24, dtype="uint8").reshape(2, 3, 4)


@given(hnp.arrays("uint8", hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)))
def test_what_is_packed_comes_back(array):
    again = idx.parse(idx.pack(array))
    assert again.dtype == np.uint8 and again.shape == array.shape and (again == array).all()
    assert again.flags.writeable


def test_the_bytes_are_those_of_the_format():
    assert idx.pack(np.array([7, 8], "uint8")) == bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 8])


@pytest.mark.parametrize("start", [b"", b"\0\0", b"\x1f\x8b\x08\x00", b"\0\0\x0d\x01" + b"\0" * 8, b"<htm"])
def test_another_beginning_is_refused(start):
    with pytest.raises(ValueError, match="needs to begin with 00 00 08; got"):
        idx.parse(start)


@pytest.mark.parametrize("size", range(4, 16))
def test_a_cut_head_is_refused(size):
    with pytest.raises(ValueError, match=rf"3 dimensions needs a head of 16 bytes; got {size}"):
        idx.parse(idx.pack(LETTERS)[:size])


@pytest.mark.parametrize("missing", [1, 24])
def test_missing_bytes_are_refused(missing):
    with pytest.raises(ValueError, match=rf"\(2, 3, 4\) needs 24 bytes after its head; got {24 - missing}"):
        idx.parse(idx.pack(LETTERS)[:-missing])


def test_bytes_too_many_are_refused():
    with pytest.raises(ValueError, match="needs 24 bytes after its head; got 25"):
        idx.parse(idx.pack(LETTERS) + b"\0")


def test_a_head_that_promises_more_than_memory_is_refused_at_once():
    with pytest.raises(ValueError, match="bytes after its head; got 0"):
        idx.parse(bytes([0, 0, 8, 3]) + b"\xff\xff\xff\xff" * 3)


def test_only_bytes_are_packed():
    with pytest.raises(ValueError, match="needs a uint8 array; got float64"):
        idx.pack(np.zeros(3))
