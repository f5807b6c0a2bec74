"""Batches of sequences of like length, cut to as few columns as they need.

Work on padding is work lost: of phrases of 13 tokens in 64 columns, four fifths. A compiled program has a few lengths
at most, so lengths are sorted into buckets. Which bucket a batch of an epoch comes from is the same for all seeds, so
that members of one program take the same branch; which examples are in it is a seed's own.
"""

from dataclasses import dataclass

import numpy as np

_MOST = 3  # lengths that are compiled
_WORTH = 0.25  # the share of the tokens that one more has to save: compiling it takes as long as the first
_STEP = 8  # they are multiples of it: products of odd sizes are slow on accelerators


@dataclass(frozen=True)
class Buckets:
    """Which bucket every example belongs to, and how many columns each bucket needs, rising."""

    bucket: np.ndarray
    columns: tuple[int, ...]

    @classmethod
    def of_lengths(cls, lengths: np.ndarray) -> "Buckets":
        """Returns the few buckets that have the fewest tokens, padding included.

        >>> Buckets.of_lengths(np.array([3, 8, 5, 12, 40, 30, 64, 16])).columns
        (16, 64)
        """
        columns = _few_tokens(lengths)
        return cls(np.searchsorted(columns, lengths), columns)

    def order(self, seed: int, epoch: int, batch_size: int) -> np.ndarray:
        """Returns the order in which a member sees the examples in an epoch, batch after batch.

        Examples are shuffled and then sorted into buckets. A batch is cut from the sorted row, so one that straddles
        two buckets belongs to the longer one. Whole batches are shuffled again; what remains comes last.
        """
        shuffled = np.random.default_rng([seed, epoch]).permutation(len(self.bucket))
        by_bucket = shuffled[np.argsort(self.bucket[shuffled], kind="stable")]
        whole = len(self.bucket) // batch_size
        batches, rest = np.split(by_bucket, [whole * batch_size])
        batches = batches.reshape(whole, batch_size)[_shuffled_batches(whole, epoch)]
        return np.concatenate([batches.ravel(), rest]).astype("int32")

    def of_batches(self, epoch: int, batch_size: int) -> np.ndarray:
        """Returns the bucket of every batch of an epoch; the same for all seeds."""
        whole = len(self.bucket) // batch_size
        last = np.sort(self.bucket)[batch_size - 1 :: batch_size]  # of the sorted row, the longest of every whole batch
        rest = [self.bucket.max()] * bool(len(self.bucket) % batch_size)
        return np.concatenate([last[_shuffled_batches(whole, epoch)], rest]).astype("int32")


def _shuffled_batches(whole: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([epoch]).permutation(whole)


def _few_tokens(lengths: np.ndarray) -> tuple[int, ...]:
    """Returns the columns of one, two or three buckets with the least Σ examples · columns, while more are worth it.

    Dynamic programming: the best n buckets up to an end are the best n − 1 up to an earlier one, and one more.
    """
    longest = int(lengths.max())
    ends = [*range(_STEP, longest, _STEP), longest]
    below = np.searchsorted(np.sort(lengths), ends, side="right")  # examples that are not longer
    best: dict[int, tuple[int, tuple[int, ...]]] = {
        end: (int(count) * end, (end,)) for end, count in zip(ends, below, strict=True)
    }  # with one bucket
    for _ in range(_MOST - 1):
        more = {
            end: min((best[ends[i]][0] + int(below[j] - below[i]) * end, (*best[ends[i]][1], end)) for i in range(j))
            for j, end in enumerate(ends)
            if j
        }
        if longest not in more or more[longest][0] > (1 - _WORTH) * best[longest][0]:
            break
        best = {**best, **more}
    return best[longest][1]
