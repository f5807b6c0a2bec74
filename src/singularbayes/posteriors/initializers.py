"""Where training starts: variance-matched means and scales.

A Keras initializer gives the variance σ_W² that the weight W = A Bᵀ should start with (He 2/fan_in, Glorot
2/(fan_in + fan_out)). Independent factors with variance v each give Var(W_ij) = r v², so v = σ_W/√r and each factor
entry starts with standard deviation s = (σ_W²/r)^¼, normal or uniform on ±√3 s, and posterior scale η s.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import keras
import numpy as np

# The standard deviation of a standard normal number cut at ±2.
_TRUNCATED = 0.8796256610342398
_RECTIFIED = ("relu", "leaky_relu", "relu6", "elu", "selu", "gelu", "silu", "swish")

Factors = tuple[np.ndarray, np.ndarray, np.ndarray]  # U, S and Vᵀ
# A randomised SVD is quicker from this size of min(m, n) on, and from this size over the rank.
_SMALL_MATRIX, _SMALL_RANK = 128, 8
_OVERSAMPLES, _ITERATIONS, _CONVERGED, _HOPELESS = 24, (8, 40), 1e-6, 0.03
# What is not computed, because JAX would compile it for every shape: "values" where parameters are only counted,
# "means" where they are given later.
_LEFT_OUT: ContextVar[str] = ContextVar("singularbayes_left_out", default="")


@dataclass(frozen=True)
class Start:
    """The standard deviation σ_W that W starts with, and the shape of the noise."""

    std: float
    uniform: bool = False

    def factor_std(self, rank: int) -> float:
        """Returns s = (σ_W²/r)^¼.

        >>> round(Start(math.sqrt(2 / 784)).factor_std(25), 6)
        0.100506
        """
        return (self.std**2 / rank) ** 0.25

    def initializer(self, std: float):
        """Returns a fresh initializer with that standard deviation; one per factor: a reused one repeats itself."""
        if self.uniform:
            limit = math.sqrt(3.0) * std
            return keras.initializers.RandomUniform(-limit, limit)
        return keras.initializers.RandomNormal(stddev=std)


class Given(keras.initializers.Initializer):
    """A function of shape and dtype as an initializer: Keras makes a large variable in parts only from an object."""

    def __init__(self, function):
        self.function = function

    def __call__(self, shape, dtype=None):
        return np.zeros(shape, dtype) if _LEFT_OUT.get() == "values" else self.function(shape, dtype)

    def clone(self):
        return self  # the function has to make new random numbers


@contextmanager
def leaving_out(what: str) -> Iterator[None]:
    """Inside a `with` block posteriors are built with zeros for "values", all of them, or for "means".

    Means are for `center` to set; a prior with centres, which are the initial means, has them all the same.
    """
    token = _LEFT_OUT.set(what)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def mean_initializer(initializer, prior):
    """Returns the initializer of means, or zeros where `leaving_out("means")` leaves them out."""
    if _LEFT_OUT.get() == "means" and not prior.has_centres:
        return lambda shape, dtype=None: np.zeros(shape, dtype)
    return initializer


def default_kernel_initializer(activation) -> keras.initializers.Initializer:
    """Returns He for rectified activations, else Glorot; both normal."""
    if getattr(activation, "__name__", "") in _RECTIFIED:
        return keras.initializers.HeNormal()
    return keras.initializers.GlorotNormal()


def fresh_copy(initializer):
    """Returns a copy of an initializer, because a reused one repeats itself; None and plain functions stay."""
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def stacked(initializer, shape: tuple[int, ...]):
    """Returns an initializer of arrays of that shape, or of several on a first axis, each with its own noise."""

    def start(whole, dtype=None):
        if tuple(whole) == tuple(shape):
            return initializer(shape, dtype)
        return keras.ops.stack([fresh_copy(initializer)(shape, dtype) for _ in range(whole[0])])

    return Given(start)


def has_values_of_its_own(initializer) -> bool:
    """Returns whether an initializer may give arrays that were learned: it holds an array, or is code of the user's."""
    if isinstance(initializer, keras.initializers.Constant):
        return np.ndim(initializer.value) > 0
    return initializer is not None and type(initializer).__module__.partition(".")[0] != "keras"


def variance_matched(initializer, shape: tuple[int, int]) -> Start | None:
    """Returns the start that `initializer` requests (Glorot if it is None), or None when it gives particular values."""
    fan_in, fan_out = shape
    if initializer is None:
        return glorot(shape)
    if isinstance(initializer, keras.initializers.VarianceScaling):
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[initializer.mode]
        return Start(math.sqrt(initializer.scale / max(1.0, fan)), initializer.distribution == "uniform")
    if type(initializer) is keras.initializers.RandomUniform and initializer.maxval == -initializer.minval:
        return Start(initializer.maxval / math.sqrt(3.0), uniform=True)
    if type(initializer) is keras.initializers.RandomNormal and initializer.mean == 0:
        return Start(initializer.stddev)
    if type(initializer) is keras.initializers.TruncatedNormal and initializer.mean == 0:
        return Start(_TRUNCATED * initializer.stddev)
    return None


def reshaped(initializer, shape: tuple[int, int], kernel_shape: tuple[int, ...] | None, transposed: bool = False):
    """Returns an initializer of the matrix from one of a Keras kernel of `kernel_shape`, which flattens to it.

    An initializer with a variance takes its fans from the matrix; one that gives particular values gives
    the kernel, whose last two axes are exchanged first if it is `transposed`.
    """
    if kernel_shape is None or variance_matched(initializer, shape) is not None:
        return initializer

    def matrix(_, dtype=None):
        kernel = fresh_copy(initializer)(kernel_shape, dtype)
        return keras.ops.reshape(keras.ops.swapaxes(kernel, -2, -1) if transposed else kernel, shape)

    return Given(matrix)


def glorot(shape: tuple[int, int]) -> Start:
    return Start(math.sqrt(2.0 / sum(shape)))


def orthogonal_factors(shape: tuple[int, int], rank: int, std: float):
    """Returns an initializer of A above B, each with orthogonal columns of one length.

    All singular values of W = A Bᵀ are equal then, and ‖W‖² is what entries of A and B with `std` give it on average:
    rank · length⁴ = rows · columns · rank · std⁴.
    """
    length = std * math.prod(shape) ** 0.25

    def concatenated(_, dtype=None):
        parts = [keras.initializers.Orthogonal(length)((size, rank), dtype or "float32") for size in shape]
        return keras.ops.concatenate(parts)

    return concatenated


def svd_split(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns A = U_r √S_r and B = V_r √S_r, so that A Bᵀ is the best rank-r approximation of `matrix`.

    A rank above min(m, n) is filled with zero columns.
    """
    u, s, vt = truncated_svd(matrix, rank)
    root = np.sqrt(s)
    a, b = u * root, vt.T * root
    missing = ((0, 0), (0, rank - a.shape[1]))
    return np.pad(a, missing).astype("float32"), np.pad(b, missing).astype("float32")


def truncated_svd(matrix: np.ndarray, rank: int) -> Factors:
    """Returns U (rows × r), S and Vᵀ of the `rank` largest singular values; r is min(m, n) where the rank is above it.

    Where the rank is small the SVD is a randomised one (Halko, Martinsson & Tropp 2011). It equals the full one to the
    accuracy of single precision as long as the singular values around the rank differ by about 1 %; where they do not,
    other directions are as good.
    """
    matrix = np.ascontiguousarray(matrix, "float32")
    if min(matrix.shape) < max(_SMALL_MATRIX, _SMALL_RANK * rank):
        u, s, vt = np.linalg.svd(matrix.astype("float64"), full_matrices=False)
        return u[:, :rank], s[:rank], vt[:rank]
    return _randomised_svd(matrix, rank)


def _randomised_svd(matrix: np.ndarray, rank: int) -> Factors:
    from sklearn.utils.extmath import randomized_range_finder  # which takes a second to import

    exact = matrix.astype("float64")  # only for the last step: in single precision the iterations are twice as fast
    for iterations in _ITERATIONS:
        q = randomized_range_finder(matrix, size=rank + _OVERSAMPLES, n_iter=iterations, random_state=0)
        q, _ = np.linalg.qr(q.astype("float64"))
        u, s, vt = np.linalg.svd(q.T @ exact, full_matrices=False)
        u, s, vt = q @ u[:, :rank], s[:rank], vt[:rank]
        # Wᵀ u = s v by construction, and W v = s u once the iterations have converged.
        error = np.linalg.norm(exact @ vt.T - u * s)
        if not _CONVERGED * s[0] < error < _HOPELESS * s[0]:  # a flat spectrum would need hundreds
            break
    return u, s, vt


def split_initializer(initializer, shape: tuple[int, int], rank: int):
    """Returns an initializer of A above B that starts A Bᵀ at the matrix that `initializer` gives, truncated."""

    # With backend operations, because Keras may build a model inside a traced function.
    def concatenated(_, dtype=None):
        u, s, vt = keras.ops.svd(fresh_copy(initializer)(shape, "float32"), full_matrices=False)
        root = keras.ops.sqrt(s[:rank])
        ab = keras.ops.concatenate([u[:, :rank] * root, keras.ops.transpose(vt)[:, :rank] * root])
        return keras.ops.cast(keras.ops.pad(ab, ((0, 0), (0, rank - ab.shape[1]))), dtype or "float32")

    return concatenated
