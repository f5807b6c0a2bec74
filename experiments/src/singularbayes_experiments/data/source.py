"""What is known of a data set before it is read: its files, their sums, and where they are published."""

from dataclasses import dataclass


class DataError(OSError):
    """Data that is not here and cannot be had, or is not what was published. The message tells what to do."""


@dataclass(frozen=True)
class File:
    """One file by what it holds: `size` and `sha256` are of `content(name, …)`, however the file is packed."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """One data set: its files lie in `$SINGULARBAYES_DATA/<name>/`, or in the cache, or are downloaded from `base`.

    `archive` is the zip or tar.gz file at `base` that holds them all. `path` is where a file is below `base`, or in the
    archive. Without `base`, `by_hand` describes what to do on `page`. Of `rewritten` files only copies with the same
    values are known, so their sums are not the publisher's; what is downloaded is held against the publisher's own
    list.
    """

    name: str
    what: str
    licence: str
    page: str
    files: tuple[File, ...]
    base: str | None = None
    archive: str | None = None
    path: str = "{name}"
    rewritten: tuple[str, ...] = ()
    by_hand: str = ""

    @property
    def description(self) -> str:
        """What it is, its licence and where it comes from, in one line."""
        return f"{self.what}. Licence: {self.licence}. From {self.page}"

    @property
    def size(self) -> int:
        """The bytes of all files, unpacked."""
        return sum(file.size for file in self.files)

    def file(self, name: str) -> File:
        """The file of that name."""
        return next(file for file in self.files if file.name == name)

    def published(self, file: File) -> str:
        """The path of `file` below `base`, or in the archive."""
        return self.path.format(name=file.name)

    def url(self, file: File) -> str | None:
        """Where to download `file`, or the archive that holds it; None if that must be done by hand."""
        return None if self.base is None else self.base + (self.archive or self.published(file))
