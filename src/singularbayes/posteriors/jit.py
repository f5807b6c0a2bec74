"""Functions that a pass which is not compiled runs as one program."""

from functools import partial

import keras


def one_program(*static: int):
    """Returns a decorator that compiles a function on JAX, where else each of its operations would be compiled alone.

    Inside a function that is compiled anyway nothing changes: the operations are put there one by one.

    Args:
        static: the positions of the arguments that are no arrays.
    """
    if keras.backend.backend() != "jax":
        return lambda function: function
    import jax

    return partial(jax.jit, static_argnums=static, inline=True)
