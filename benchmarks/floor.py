"""The least that a job of the SST-2 network could cost: multiply-adds, and bytes to and from memory.

A floor counts every product of the forward pass once and twice more for its gradients, and of memory only what no
fusion can spare: the weights and Adam's state, and between kernels the residual stream, the attention weights and the
wide activations of the feed-forward network, each written once and read once (in training both again for the gradient).
"""

from dataclasses import dataclass

from singularbayes_experiments.problems.reviews import ReviewSettings

FLOAT = 4


@dataclass(frozen=True)
class Floor:
    """Operations and bytes; `seconds` at a machine's rates is the larger of the two."""

    operations: float
    bytes: float

    def seconds(self, operations_a_second: float, bytes_a_second: float) -> float:
        return max(self.operations / operations_a_second, self.bytes / bytes_a_second)


def training(method: str, parameters: int, settings: ReviewSettings, batch: int, length: int = 64) -> Floor:
    """Returns the floor of one step of Adam."""
    tokens = batch * length
    activations = 4 * tokens * FLOAT * _width(settings, length)
    # Value and two moments read and written; for random weights the drawn ones too.
    state = parameters * FLOAT * (6 if method == "keras" else 8)
    return Floor(3 * 2 * tokens * _products(method, settings, length), activations + state)


def prediction(
    method: str, settings: ReviewSettings, examples: int, draws: int, size: int = FLOAT, length: float = 64
) -> Floor:
    """Returns the floor of all draws for all examples, at `size` bytes a number."""
    tokens = examples * length * draws
    return Floor(2 * tokens * _products(method, settings, length), 2 * tokens * size * _width(settings, length))


def _products(method: str, s: ReviewSettings, length: float) -> float:
    """Returns the multiply-adds of a token; the last block computes the first token alone."""
    if method == "low_rank":
        latent = s.heads * s.rank * (s.rank + length + length + s.rank)  # queries, scores, weighed sums, output
        inputs = {"keys and values": 2 * s.width * s.rank, "query": s.width * s.rank, "output": s.width * s.rank}
        dense = 2 * s.rank * (s.width + s.feed_forward)
        embedding = s.embedding_rank * s.width
    else:
        latent = 2 * s.width * length
        inputs = {"keys and values": 2 * s.width**2, "query": s.width**2, "output": s.width**2}
        dense = 2 * s.width * s.feed_forward
        embedding = 0
    return embedding + (s.blocks - 1) * (sum(inputs.values()) + latent + dense) + inputs["keys and values"]


def _width(s: ReviewSettings, length: float) -> float:
    """Returns the numbers of a token that go through memory: the stream twice a block, attention, the wide layer."""
    return s.width + (s.blocks - 1) * (2 * s.width + s.heads * length + s.feed_forward)
