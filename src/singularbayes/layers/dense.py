"""Densely connected layers: y = activation(x W + b), over the last axis or any."""

import math

import keras
from keras import ops

from singularbayes.layers.base import BayesianLayer


@keras.saving.register_keras_serializable(package="singularbayes")
class Dense(BayesianLayer, keras.layers.Dense):
    """`keras.layers.Dense` with a posterior over its kernel; its arguments, and `posterior`: see `BayesianLayer`.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = Dense(8, "relu", posterior=LowRank(2))
    >>> layer(np.ones((3, 5))).shape == (3, 8)
    True
    """

    def call(self, inputs, training=None):
        return self.activation(self._add_bias(self.drawn_kernel(training).apply(inputs), training))


@keras.saving.register_keras_serializable(package="singularbayes")
class EinsumDense(BayesianLayer, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` with a posterior over its kernel, see `BayesianLayer`.

    The kernel is one matrix: its rows are the axes that the equation sums over, its columns those that it adds to the
    output. In "abc,cde->abde" it is c × (d·e). An axis that input, kernel and output share would make one matrix for
    each of its positions, and is refused.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = EinsumDense("abc,cde->abde", output_shape=(None, 4, 8), bias_axes="de", posterior=LowRank(2))
    >>> layer(np.ones((3, 5, 6))).shape == (3, 5, 4, 8)
    True
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        x, w, y = self._letters(0)
        if any(len(set(letters)) < len(letters) for letters in (x, w, y)):
            raise ValueError(
                f"EinsumDense needs every letter once in the input, the kernel and the output; got "
                f"equation={self.equation!r}."
            )
        shared = set(w) & set(x) & set(y)
        if shared:
            raise ValueError(
                f"EinsumDense needs one matrix; got equation={self.equation!r}, where input, kernel and output share "
                f"{sorted(shared)}: one matrix for each of their positions. Use keras.layers.EinsumDense, or a layer a "
                "position."
            )

    @property
    def use_bias(self) -> bool:
        return self.bias_axes is not None

    def _letters(self, elided: int) -> tuple[str, str, str]:
        """Returns the letters of input, kernel and output, with Greek letters for the axes under an ellipsis."""
        left, _, y = self.equation.replace(" ", "").partition("->")
        x, _, w = left.partition(",")
        dots = "".join(chr(0x391 + i) for i in range(elided))  # Α, Β, …: Keras allows only Latin letters
        return x.replace("...", dots), w, y.replace("...", dots)

    def _build_matrix(self, posterior, shape, initializer):
        self._require_sizes(shape)
        _, w, y = self._letters(0)
        sizes = dict(zip(w, shape, strict=True))
        self.row_letters = [letter for letter in w if letter not in y]
        self.column_letters = [letter for letter in w if letter in y]
        rows, columns = (math.prod(sizes[i] for i in letters) for letters in (self.row_letters, self.column_letters))
        self.column_sizes = [sizes[i] for i in self.column_letters]
        in_order = w == "".join(self.row_letters + self.column_letters)
        start = self._start(posterior, initializer, (rows, columns), tuple(shape) if in_order else (rows, columns))
        self._build_posterior(posterior, (rows, columns), start)

    def call(self, inputs, training=None):
        letters, _, y = self._letters(len(inputs.shape) - len(self._letters(0)[0]))
        # Sum what only the input has, bring the axes to (kept, rows), apply the matrix, reorder for the output.
        lost = [axis for axis, letter in enumerate(letters) if letter not in y and letter not in self.row_letters]
        inputs = ops.sum(inputs, axis=lost) if lost else inputs
        x = [letter for axis, letter in enumerate(letters) if axis not in lost]
        kept = [letter for letter in x if letter in y]
        inputs = _transposed(inputs, [x.index(letter) for letter in kept + self.row_letters])
        lead = list(ops.shape(inputs))[: len(kept)]
        inputs = ops.reshape(inputs, (*lead, -1)) if len(self.row_letters) != 1 else inputs
        outputs = self.drawn_kernel(training).apply(inputs)
        outputs = ops.reshape(outputs, (*lead, *self.column_sizes)) if len(self.column_sizes) != 1 else outputs
        order = kept + self.column_letters
        outputs = _transposed(outputs, [order.index(letter) for letter in y])
        return self.activation(self._add_bias(outputs, training))


def _transposed(x, order: list[int]):
    return x if order == sorted(order) else ops.transpose(x, order)
