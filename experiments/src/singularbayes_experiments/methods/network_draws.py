"""Predictions of many networks, each with draws of its own, as one JAX program."""

from collections.abc import Callable

import jax
import keras
import numpy as np

from singularbayes_experiments.methods.configured_fit import State


class NetworkDraws:
    """Predicts with networks whose states are stacked.

    Args:
        draws: of each network; one is its mean.
        likelihood: outputs of a pass → what is kept of it.
        summary: what is kept of all draws, on the first axis → the prediction of a network.
        together: how many networks predict at once.
    """

    def __init__(self, model: keras.Model, draws: int, likelihood: Callable, summary: Callable, together: int):
        def one(trained, others, x):
            def draw(others, _):
                outputs, others = model.stateless_call(trained, others, x, training=draws > 1)
                return others, likelihood(outputs)

            return summary(jax.lax.scan(draw, others, None, length=draws)[1])

        def every(trained, others, x, which):
            parts = (trained, others, which)
            return jax.lax.map(lambda each: one(each[0], each[1], x[each[2]]), parts, batch_size=together)

        self._every = jax.jit(every)

    def __call__(self, state: State, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Returns the predictions of every network for the inputs x[which] of its seed."""
        return np.asarray(self._every(state[0], state[1], x, which))
