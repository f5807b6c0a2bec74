"""Keras's own training step as one compiled program: its time and the memory it needs."""

import time

import jax
import keras
import numpy as np

import singularbayes as sb


def prepared(model: keras.Model, num_data: int, steps_per_execution: int = 1) -> keras.Model:
    """Returns the model with Adam, its loss (logits of classes, or one number to regress) and the weight of its KL."""
    classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = classes if model.output_shape[-1] > 1 else "mse"
    model.compile(keras.optimizers.Adam(), loss, steps_per_execution=steps_per_execution)
    sb.set_kl(model, num_data=num_data)
    return model


class Step:
    """A step of Adam; the data lie on the device and the weights stay there."""

    def __init__(self, model: keras.Model, x: np.ndarray | dict[str, np.ndarray], y: np.ndarray, num_data: int):
        prepared(model, num_data)
        model._symbolic_build(data_batch=(x, y))
        model.optimizer.build(model.trainable_variables)
        names = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
        state = model._get_jax_state(**dict.fromkeys(names, True))
        self.state = jax.tree.map(lambda array: array + 0, state)  # a copy, for the step takes the memory of its state
        self.data = jax.device_put((x, y))
        self.program = jax.jit(model.train_step, donate_argnums=0).lower(self.state, self.data).compile()

    @property
    def bytes(self) -> int:
        """What XLA reports that weights, the optimizer's state, data, and the program's own arrays take."""
        need = self.program.memory_analysis()
        kept = need.argument_size_in_bytes + need.output_size_in_bytes - need.alias_size_in_bytes
        return int(kept + need.temp_size_in_bytes)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            logs, self.state = self.program(self.state, self.data)
        jax.block_until_ready(logs)

    def seconds(self, steps: int = 50, before: int = 5) -> float:
        """Returns the time of a step, over so many after a few more."""
        self.run(before)
        start = time.perf_counter()
        self.run(steps)
        return (time.perf_counter() - start) / steps
