"""Where an unfinished run is kept: checkpoints that are whole or do not count, the last two of each part."""

import hashlib
import io
import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes_experiments.records import files

EVERY_S = 10.0  # shorter epochs share a checkpoint
_SUFFIX, _ABOUT = ".checkpoint", "about"


@dataclass(frozen=True)
class Checkpoint:
    """All that training needs to resume: how far it is, and every number that it changes.

    Args:
        epoch: epochs that are trained; done: whether no more will follow.
        seed: what the order of the examples in every epoch is hashed from.
        seconds: of training so far.
        backend: of Keras; another one cannot resume bit for bit.
    """

    epoch: int
    done: bool
    seed: int
    seconds: float
    backend: str
    arrays: dict[str, np.ndarray]

    def pack(self) -> bytes:
        """Returns the checkpoint as bytes: a checksum, then all arrays."""
        about = {key: value for key, value in vars(self).items() if key != "arrays"}
        packed = io.BytesIO()
        arrays: dict[str, Any] = {**self.arrays, _ABOUT: np.array(json.dumps(about))}
        np.savez(packed, **arrays)
        content = packed.getvalue()
        return hashlib.sha256(content).digest() + content

    @classmethod
    def unpack(cls, content: bytes) -> "Checkpoint | None":
        """Returns what `pack` packed, or None where a byte is missing or wrong."""
        checksum, packed = content[:32], content[32:]
        if hashlib.sha256(packed).digest() != checksum or not zipfile.is_zipfile(io.BytesIO(packed)):
            return None
        with np.load(io.BytesIO(packed)) as stored:
            arrays = dict(stored)
        return cls(**json.loads(str(arrays.pop(_ABOUT))), arrays=arrays)


class Keep:
    """A folder for the checkpoints of a run, or of a part of it: an ensemble's member, a stage of training.

    Only one process may use it at a time; `runner` sees to that.

    Args:
        every: seconds between two checkpoints, at least; 0 keeps every epoch.
    """

    def __init__(self, folder: Path, every: float = EVERY_S):
        self.folder, self.every = folder, every

    def __repr__(self) -> str:
        return f"Keep({str(self.folder)!r})"

    def part(self, name: str) -> "Keep":
        """Returns the place of a part of the run."""
        return Keep(self.folder / name, self.every)

    def load(self) -> Checkpoint | None:
        """Returns the newest checkpoint that is whole, if there is one; what a kill left half written is removed."""
        for left in self.folder.glob(f".*{_SUFFIX}.*"):
            left.unlink()
        for path in reversed(self.paths()):
            found = Checkpoint.unpack(path.read_bytes())
            if found is not None:
                return found
            path.unlink()
        return None

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint; the one before it stays, older ones go."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files.replace(self.folder / f"{checkpoint.epoch:06d}{_SUFFIX}", checkpoint.pack())
        for path in self.paths()[:-2]:
            path.unlink()

    def remove(self) -> None:
        """Removes all checkpoints, those of the parts too."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def paths(self) -> list[Path]:
        """Returns the files of the checkpoints that are there, the oldest first."""
        return sorted(self.folder.glob(f"[0-9]*{_SUFFIX}"))


def part(keep: Keep | None, name: str) -> Keep | None:
    """Returns the place of a part of a run, if the run is kept."""
    return None if keep is None else keep.part(name)
