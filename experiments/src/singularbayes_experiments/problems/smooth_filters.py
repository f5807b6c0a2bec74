"""A first layer that looks at images in broad strokes before it has seen one: slow cosines instead of white noise."""

import math

import keras
import numpy as np


@keras.saving.register_keras_serializable(package="singularbayes")
class SmoothFilters(keras.initializers.Initializer):
    """W = F G with the `rank` slowest cosines of a square image in F and normal noise in G, of He's variance 2/pixels.

    Neighbouring pixels of an image are alike, so slow cosines hold most of it, and white filters very little. Their
    strength in images falls with frequency: `slope` 1 undoes a fall like 1/frequency.

    Args:
        rank: number of cosines, the constant one left out.
        slope: a cosine of frequency f is weighed by f to this power.

    >>> w = SmoothFilters(rank=3, slope=0.0, seed=0)((16, 5))
    >>> tuple(w.shape), int(np.linalg.matrix_rank(np.asarray(w)))
    ((16, 5), 3)
    """

    def __init__(self, rank: int, slope: float = 1.0, seed: int | None = None):
        self.rank, self.slope, self.seed = rank, slope, seed
        self._noise = keras.initializers.RandomNormal(stddev=1.0, seed=seed)

    def __call__(self, shape, dtype=None):
        pixels, units = shape
        filters = cosines(pixels, self.rank, self.slope)
        filters *= math.sqrt(2.0 / pixels) * math.sqrt(pixels) / np.linalg.norm(filters)
        noise = self._noise((self.rank, units), dtype)
        return keras.ops.matmul(keras.ops.convert_to_tensor(filters, noise.dtype), noise)

    def get_config(self):
        return {"rank": self.rank, "slope": self.slope, "seed": self.seed}


def cosines(pixels: int, count: int, slope: float) -> np.ndarray:
    """Returns the slowest two-dimensional cosines of a flat square image, (pixels, count), the constant one left out.

    >>> f = cosines(784, 25, 0.0)
    >>> bool(np.allclose(f.T @ f, np.eye(25))), bool(np.allclose(f.sum(axis=0), 0))
    (True, True)
    """
    side = math.isqrt(pixels)
    if side * side != pixels or not 0 < count < pixels:
        raise ValueError(
            f"SmoothFilters needs a square image and 0 < rank < its pixels; got rank={count} for {pixels} pixels."
        )
    places = (np.arange(side) + 0.5) * math.pi / side
    waves = np.cos(np.outer(np.arange(side), places))
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    pairs = [(u, v) for u in range(side) for v in range(side) if u + v > 0]
    slowest = sorted(pairs, key=lambda pair: (math.hypot(*pair), pair))[:count]
    return np.stack([np.outer(waves[u], waves[v]).ravel() * math.hypot(u, v) ** slope for u, v in slowest], axis=1)
