"""Files that a kill or a full disk cannot leave half written: whole files by renaming, lines by cutting a torn end."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace(path: Path, content: bytes) -> Path:
    """Writes a file whole: under another name in the same folder first, then renamed. Returns its path."""
    with _named(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=temporary_prefix(path))
        try:
            try:
                _write(handle, content)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.chmod(temporary, 0o644)  # mkstemp makes it private
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    return path


def temporary_prefix(path: Path) -> str:
    """Returns how the names begin under which `replace` writes a file, and which a kill leaves behind."""
    return f".{path.name}."


def append_line(path: Path, line: str) -> None:
    """Adds a line to a file of lines, after cutting a torn last one off; only one process may do so at a time."""
    with _named(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            size = path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(handle, size)
            os.lseek(handle, size, os.SEEK_SET)
            try:
                _write(handle, f"{line}\n".encode())
                os.fsync(handle)
            except BaseException:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a file that are whole: what follows the last newline is still being written, or torn."""
    return path.read_bytes().decode(errors="replace").split("\n")[:-1]


def _write(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]  # a disk that fills up takes a part first


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Names the file in errors of the system, which know only its number."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
