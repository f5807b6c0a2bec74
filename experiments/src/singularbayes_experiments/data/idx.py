"""The file format of MNIST: a magic number, the dimensions, then the bytes. All numbers are big-endian."""

import math
import struct

import numpy as np

UBYTE = 0x08  # the type of an entry, in the third byte of the magic number; the fourth is the number of dimensions


def parse(data: bytes) -> np.ndarray:
    """Returns the array of an idx file of unsigned bytes.

    >>> parse(pack(np.array([[1, 2, 3], [4, 5, 6]], "uint8")))
    array([[1, 2, 3],
           [4, 5, 6]], dtype=uint8)
    """
    if len(data) < 4 or data[:3] != bytes([0, 0, UBYTE]):
        raise ValueError(f"An idx file of bytes needs to begin with 00 00 08; got {data[:3].hex(' ') or 'nothing'}.")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise ValueError(f"An idx file of {data[3]} dimensions needs a head of {start} bytes; got {len(data)}.")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    size = math.prod(shape)
    if len(data) - start != size:
        raise ValueError(f"An idx file of shape {shape} needs {size} bytes after its head; got {len(data) - start}.")
    return np.frombuffer(data, "uint8", offset=start).reshape(shape).copy()


def pack(array: np.ndarray) -> bytes:
    """Returns the idx file of an array of unsigned bytes."""
    if array.dtype != np.uint8:
        raise ValueError(f"An idx file of bytes needs a uint8 array; got {array.dtype}.")
    return struct.pack(f">HBB{array.ndim}I", 0, UBYTE, array.ndim, *array.shape) + array.tobytes()
