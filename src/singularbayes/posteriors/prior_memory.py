"""What a prior with centres remembers: where its centres come from, and which examples they were learned on.

It is one integer variable beside centres and widths, so whatever saves, loads or copies the one does the same to the
other.
"""

import enum
from dataclasses import dataclass, field

import numpy as np
from keras import ops

from singularbayes.posteriors.noise import one_program

KEPT = 2048  # hashes: where 1,000 of 60,000 examples come back, none is noticed with probability (59/60)^2048 < 1e-14
WORDS = 4 + 2 * KEPT  # two checksums, the origin, the number of examples, and the hashes as pairs of words


class Origin(enum.IntFlag):
    """Where centres and widths come from."""

    INITIAL = 0  # a random initialisation
    GIVEN = 1  # an initializer that has values of its own
    LEARNED = 2  # `learn_prior`, which has seen the examples itself
    NAMED = 4  # `centre_prior`, whose caller named the examples
    START = 8  # weights that the means started at; which examples taught them is unknown


@dataclass(frozen=True)
class PriorMemory:
    """The origin of a prior, the number of examples that it was learned on, and the smallest of their hashes."""

    origin: Origin = Origin.INITIAL
    examples: int = 0
    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, "uint64"))

    def with_examples(self, hashes: np.ndarray, origin: Origin) -> "PriorMemory":
        """Returns the memory of these examples too."""
        smallest = np.union1d(self.hashes, hashes[hashes > 0])[:KEPT]
        return PriorMemory(self.origin | origin, self.examples + len(hashes), smallest)

    def words(self) -> np.ndarray:
        """Returns the integers of the variable after its two checksums; hashes that are missing are 0.

        >>> memory = PriorMemory().with_examples(np.array([3, 2**63], "uint64"), Origin.LEARNED)
        >>> again = PriorMemory.from_words(memory.words())
        >>> again.origin, again.examples, again.hashes.tolist() == [3, 2**63]
        (<Origin.LEARNED: 2>, 2, True)
        """
        hashes = np.zeros(KEPT, "uint64")
        hashes[: len(self.hashes)] = self.hashes
        return np.concatenate([np.array([self.origin, self.examples], "int32"), hashes.view("int32")])

    @classmethod
    def from_words(cls, words: np.ndarray) -> "PriorMemory":
        """Returns what `words` wrote."""
        hashes = np.ascontiguousarray(words[2:], "int32").view("uint64")
        return cls(Origin(int(words[0])), int(words[1]), hashes[hashes > 0])


@one_program()
def checksum(values):
    """Returns one integer of the bits of float32 numbers and their places, the same on every machine."""
    bits = ops.reshape(ops.view(ops.convert_to_tensor(values), "int32"), (-1,))
    return ops.cast(ops.sum(bits * (2 * ops.arange(bits.shape[0], dtype="int32") + 1)), "int32")
