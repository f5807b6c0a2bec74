"""A dense layer over any axes: y = activation(einsum(equation, x, W) + b)."""

import math

import keras
from keras import ops

# Keras's reading of an equation and its errors; it is not public.
from keras.src.layers.core.einsum_dense import _analyze_einsum_string as analyzed

from singularbayes.layers.base import KernelLayer


@keras.saving.register_keras_serializable(package="singularbayes")
class EinsumDense(KernelLayer):
    """`keras.layers.EinsumDense` with a posterior over its kernel.

    The kernel is one matrix: its rows are the axes that the equation sums over, its columns those that it adds to the
    output. In "abc,cde->abde" it is c × (d·e). An axis that input, kernel and output share would make one matrix for
    each of its positions, and is refused.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = EinsumDense("abc,cde->abde", output_shape=(None, 4, 8), bias_axes="de", posterior=LowRank(2))
    >>> layer(np.ones((3, 5, 6))).shape == (3, 5, 4, 8)
    True
    """

    def __init__(
        self,
        equation,
        output_shape,
        activation=None,
        bias_axes=None,
        kernel_initializer=None,
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        lora_rank=None,
        lora_alpha=None,
        gptq_unpacked_column_size=None,
        quantization_config=None,
        *,
        posterior=None,
        bias_posterior=None,
        **kwargs,
    ):
        super().__init__(
            posterior=posterior,
            bias_posterior=bias_posterior,
            activation=activation,
            use_bias=bias_axes is not None,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            refused={
                "lora_rank": lora_rank,
                "lora_alpha": lora_alpha,
                "gptq_unpacked_column_size": gptq_unpacked_column_size,
                "quantization_config": quantization_config,
            },
            **kwargs,
        )
        if not isinstance(equation, str):
            raise ValueError(f"EinsumDense needs an equation such as 'abc,cd->abd'; got equation={equation!r}.")
        self.equation = equation
        self.partial_output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.bias_axes = bias_axes
        self._require_one_matrix()
        self.input_spec = self._spec({})

    def _require_one_matrix(self) -> None:
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

    def _letters(self, elided: int) -> tuple[str, str, str]:
        """Returns the letters of input, kernel and output, with Greek letters for the axes under an ellipsis."""
        left, _, y = self.equation.replace(" ", "").partition("->")
        x, _, w = left.partition(",")
        dots = "".join(chr(0x391 + i) for i in range(elided))  # Α, Β, …: Keras allows only Latin letters
        return x.replace("...", dots), w, y.replace("...", dots)

    def _spec(self, sizes: dict[str, int]) -> keras.layers.InputSpec:
        """Returns what inputs must be: their number of axes, and the sizes of the axes with these letters."""
        x, _, _ = self._letters(0)
        first = -len(x) if self.equation.startswith("...") else 0
        axes = {first + x.index(letter): size for letter, size in sizes.items()}
        known = {"min_ndim": len(x)} if "..." in self.equation else {"ndim": len(x)}
        return keras.layers.InputSpec(**known, axes=axes)

    def build(self, input_shape):
        kernel_shape, bias_shape, *_ = analyzed(self.equation, self.bias_axes, input_shape, self.partial_output_shape)
        self._require_sizes(kernel_shape)
        _, w, y = self._letters(0)
        sizes = dict(zip(w, kernel_shape, strict=True))
        self.row_letters = [letter for letter in w if letter not in y]
        self.column_letters = [letter for letter in w if letter in y]
        rows, columns = (math.prod(sizes[i] for i in letters) for letters in (self.row_letters, self.column_letters))
        self.column_sizes = [sizes[i] for i in self.column_letters]
        in_order = w == "".join(self.row_letters + self.column_letters)
        self._build_kernel((rows, columns), tuple(kernel_shape) if in_order else None)
        self._build_bias(bias_shape or ())
        self.input_spec = self._spec({letter: sizes[letter] for letter in self.row_letters})

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
        outputs = self._kernel(training).apply(inputs)
        outputs = ops.reshape(outputs, (*lead, *self.column_sizes)) if len(self.column_sizes) != 1 else outputs
        order = kept + self.column_letters
        outputs = _transposed(outputs, [order.index(letter) for letter in y])
        return self.activation(self._add_bias(outputs, training))

    def compute_output_shape(self, input_shape):
        return tuple(analyzed(self.equation, self.bias_axes, input_shape, self.partial_output_shape)[2])

    def get_config(self):
        config = {
            **super().get_config(),
            "equation": self.equation,
            "output_shape": self.partial_output_shape,
            "bias_axes": self.bias_axes,
        }
        del config["use_bias"]  # given by bias_axes
        return config


def _transposed(x, order: list[int]):
    return x if order == sorted(order) else ops.transpose(x, order)
