"""What a file holds, however it is packed. A sum of it does not change when the file is packed again."""

import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib

import numpy as np

from singularbayes_experiments.data.source import File

GZIP = b"\x1f\x8b"
BROKEN = (EOFError, OSError, ValueError, zlib.error, tarfile.TarError, zipfile.BadZipFile)  # what unpacking raises


def content(name: str, raw: bytes) -> bytes:
    """Returns what the bytes of a file hold: itself, unless `name` specifies otherwise.

    - `x.tar.gz`: its files in the order of their names, one after the other, as `cat x/*` prints them.
    - `x.npz`: its arrays in the order of their names, each after a line with name, type and shape.
    - any other name without `.gz`: the bytes, unpacked if they are a gzip file.

    >>> content("a.txt", gzip.compress(b"abc")) == content("a.txt", b"abc") == b"abc"
    True
    """
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)
            return b"".join(file.read() for m in members if (file := archive.extractfile(m)))
    if name.endswith(".npz"):
        with np.load(io.BytesIO(raw)) as arrays:
            return b"".join(_array(key, arrays[key]) for key in sorted(arrays))
    if raw.startswith(GZIP) and not name.endswith(".gz"):
        return gzip.decompress(raw)
    return raw


def _array(key: str, array: np.ndarray) -> bytes:
    little = array.astype(array.dtype.newbyteorder("<"))
    return f"{key} {little.dtype.str} {little.shape}\n".encode() + little.tobytes()


def sha256(data: bytes) -> str:
    """Returns the SHA-256 sum in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def listed(sums: str, file: File) -> set[str]:
    """Returns the sums that a list of `sum  path` lines has for `file`, packed or not.

    >>> listed("ab01  ./patient.csv.gz\\ncd23  lab.csv.gz", File("patient.csv", 9, ""))
    {'ab01'}
    """
    rows = (line.split(maxsplit=1) for line in sums.splitlines() if line.strip())
    return {row[0].lower() for row in rows if row[-1].removeprefix("./") in (file.name, file.name + ".gz")}
