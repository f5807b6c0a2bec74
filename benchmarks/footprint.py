"""What a network costs to train and to predict with, from the sizes of its matrices alone: nothing is built."""

from dataclasses import dataclass

from singularbayes.posteriors import AdaptiveLowRank, Deterministic, FullRank, LowRank, Posterior

_NUMBER = 4  # bytes, float32
_TRAINING = 4  # arrays of every trained number: itself, its gradient, Adam's two moments


@dataclass(frozen=True)
class Matrix:
    """A weight matrix, `count` times in the network; per token it is multiplied `applied` times and read by id `read`.

    A table whose way back is tied is applied once, too: x Wᵀ is as much work as x W.
    """

    rows: int
    columns: int
    count: int = 1
    applied: int = 1
    read: int = 0


@dataclass(frozen=True)
class Sizes:
    """The matrices of a network, and how many other trainable parameters it has: biases, norms, positions."""

    matrices: tuple[Matrix, ...]
    plain: int = 0

    @property
    def weights(self) -> int:
        """How many weights a plain network of these sizes has."""
        return sum(m.count * m.rows * m.columns for m in self.matrices) + self.plain


def decoder(blocks: int, width: int, vocabulary: int, context: int, feed_forward: int | None = None) -> Sizes:
    """Returns the sizes of a decoder such as GPT-2: tied embeddings, learned positions, biases, two norms a block.

    >>> f"{decoder(48, 1600, 50257, 1024).weights:,}"  # GPT-2 XL
    '1,557,611,200'
    """
    inner = 4 * width if feed_forward is None else feed_forward
    matrices = (
        Matrix(vocabulary, width, read=1),
        Matrix(width, width, 4 * blocks),
        Matrix(width, inner, blocks),
        Matrix(inner, width, blocks),
    )
    biases, norms = 5 * width + inner, 4 * width
    return Sizes(matrices, context * width + blocks * (biases + norms) + 2 * width)


@dataclass(frozen=True)
class Footprint:
    """What a network costs; activations come on top.

    Args:
        trained: numbers that training changes.
        drawn: random numbers of one draw, at most: those of an embedding are made for the rows of a batch alone.
        multiply_adds: of one token with the weights, forwards; training is three times as much.
    """

    trained: int
    drawn: int
    multiply_adds: int

    @property
    def training_bytes(self) -> int:
        """Weights, gradients, Adam's moments and one draw, in float32."""
        return _NUMBER * (_TRAINING * self.trained + self.drawn)

    @property
    def stored_bytes(self) -> int:
        """What it is stored in and predicts from, in float32."""
        return _NUMBER * self.trained


def footprint(sizes: Sizes, posterior: Posterior) -> Footprint:
    """Returns what a network of these sizes costs where all its matrices have one kind of posterior.

    Args:
        posterior: `LowRank(r)`, `FullRank()` or `Deterministic()`.

    >>> layer = Sizes((Matrix(44, 128),))
    >>> footprint(layer, LowRank(15)).trained  # 2 · 15 · (44 + 128)
    5160
    """
    if isinstance(posterior, AdaptiveLowRank):
        raise ValueError(
            "footprint needs a rank that is a number; got AdaptiveLowRank, whose training chooses it. Take "
            f"LowRank({posterior.max_rank}) for what it starts with, or the ranks that it learned."
        )
    trained, drawn, work = sizes.plain, 0, 0
    for matrix in sizes.matrices:
        numbers, noise, applied, read = _of(matrix, posterior)
        trained += matrix.count * numbers
        drawn += matrix.count * noise
        work += matrix.count * (matrix.applied * applied + matrix.read * read)
    return Footprint(trained, drawn, work)


def _of(matrix: Matrix, posterior: Posterior) -> tuple[int, int, int, int]:
    """Returns what a matrix trains, draws, and multiplies when it is applied and when one of its rows is read."""
    entries, sides = matrix.rows * matrix.columns, matrix.rows + matrix.columns
    if isinstance(posterior, LowRank):
        rank = posterior.num_columns((matrix.rows, matrix.columns))
        return 2 * rank * sides, rank * sides, rank * sides, rank * matrix.columns
    if isinstance(posterior, FullRank):
        return 2 * entries, entries, entries, 0
    if isinstance(posterior, Deterministic):
        return entries, 0, entries, 0
    raise ValueError(f"footprint needs LowRank, FullRank or Deterministic; got {posterior!r}.")
