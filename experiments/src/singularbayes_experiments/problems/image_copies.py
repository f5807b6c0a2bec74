"""Shifted and rotated copies of images, made once and kept in files that several processes read."""

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

SIDE = 28


@dataclass(frozen=True)
class Moves:
    """How copies of flat square images are made.

    Args:
        copies: of every image, beside itself.
        shift: pixels, in both directions.
        angle: degrees.
    """

    seed: int
    copies: int
    shift: int
    angle: float

    def amounts(self, images: int) -> np.ndarray:
        """Returns angle and both shifts of every copy, (copies, images, 3)."""
        rng = np.random.default_rng([self.seed, self.shift])
        widths = np.array([self.angle, self.shift, self.shift], "float64")
        return -widths + 2 * widths * rng.random((self.copies, images, 3))

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Returns the images and, behind them, copy after copy of all."""
        return np.concatenate([x, *(moved(x, amounts) for amounts in self.amounts(len(x)))])


def moved(x: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Returns every image turned and shifted by its amounts."""
    found = np.empty_like(x)
    for i, (angle, *shift) in enumerate(amounts):
        turned = ndimage.rotate(x[i].reshape(SIDE, SIDE), angle, reshape=False, order=1)
        found[i] = ndimage.shift(turned, shift, order=1).reshape(-1)
    return found


class CopiesFolder:
    """Files with images and their copies, by what moved them and how many images there are."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, moves: Moves, images: int) -> Path:
        return self.folder / f"copies_{moves.seed}_{moves.copies}_{moves.shift}_{moves.angle:g}_{images}.npy"

    def read(self, moves: Moves, x: np.ndarray) -> np.ndarray:
        """Returns what `moves.apply(x)` does, from its file where it is made."""
        path = self.path(moves, len(x))
        return np.load(path) if path.exists() else moves.apply(x)

    def make(self, wanted: Iterable[tuple[Moves, np.ndarray]], processes: int) -> None:
        """Makes the files that are missing, each copy of all images in a process of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            begun = [
                (path, x, [pool.submit(moved, x, amounts) for amounts in moves.amounts(len(x))])
                for moves, x in wanted
                if not (path := self.path(moves, len(x))).exists()
            ]
            for path, x, parts in begun:
                whole = path.with_suffix(".part")
                with whole.open("wb") as file:
                    np.save(file, np.concatenate([x, *(part.result() for part in parts)]))
                whole.rename(path)
                parts.clear()
