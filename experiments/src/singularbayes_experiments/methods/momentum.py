"""SGD for networks with random weights, and a learning rate that rises and falls."""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import find_posteriors

_SQUARES, _LEAST = 0.99, 1e-12


class UpAndDown(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises linearly over a share of the steps, and falls linearly to 0.

    >>> rate = UpAndDown(0.4, 100, 0.2)
    >>> [round(float(rate(step)), 3) for step in (0, 10, 20, 60, 100)]
    [0.0, 0.2, 0.4, 0.2, 0.0]
    """

    def __init__(self, peak: float, steps: int, rise: float):
        self.peak, self.steps, self.rise = peak, steps, rise

    def __call__(self, step):
        progress = ops.cast(step, "float32") / self.steps
        return self.peak * ops.minimum(progress / self.rise, (1 - progress) / (1 - self.rise))

    def get_config(self):
        return {"peak": self.peak, "steps": self.steps, "rise": self.rise}


class Momentum(keras.optimizers.SGD):
    """SGD with Nesterov momentum; plain kernels decay, and the ρ of posteriors take steps of Adam.

    The gradient of ρ, about β / num_data for a weight, is far too small for the rate of the means.

    Args:
        scale_ratio: learning rate of ρ as a multiple of that of the means.
        decay: part of the gradient of the weight matrices that have no noise of their own.
        model: whose weights these are; a loaded optimizer, which trains no more, has none.
    """

    def __init__(self, learning_rate, scale_ratio: float, decay: float, model: keras.Model | None = None, **options):
        options = {"momentum": 0.9, "nesterov": True} | options
        super().__init__(learning_rate, **options)
        self.scale_ratio, self.decay = scale_ratio, decay
        self.scales, self.decayed = ({}, set()) if model is None else parts(model)

    def build(self, variables):
        super().build(variables)
        self.squares = [self.add_variable_from_reference(variable, name="squares") for variable in variables]

    def update_step(self, gradient, variable, learning_rate):
        place = self._get_variable_index(variable)
        velocity, square = self.momentums[place], self.squares[place]
        if id(variable) in self.decayed:
            gradient = gradient + self.decay * variable
        moved = self.momentum * velocity + gradient
        change = gradient + self.momentum * moved
        if id(variable) in self.scales:
            squares = _SQUARES * square + (1 - _SQUARES) * ops.square(gradient)
            count = ops.cast(self.iterations + 1, "float32")
            root = ops.sqrt(squares / (1 - _SQUARES**count))
            adam = (1 - self.momentum) / (1 - self.momentum**count) * moved / (root + _LEAST)
            change = ops.where(self.scales[id(variable)], self.scale_ratio * adam, change)
            self.assign(square, squares)
        self.assign(velocity, moved)
        self.assign_sub(variable, learning_rate * change)

    def get_config(self):
        return {**super().get_config(), "scale_ratio": self.scale_ratio, "decay": self.decay}


def parts(model: keras.Model) -> tuple[dict, set]:
    """Returns where ρ stands in the variables of factors, as masks by their id; and the ids of plain weight matrices.

    A factor stacks means and ρ on one axis; a mixture has its components before it.
    """
    scales, decayed = {}, set()
    for posterior in find_posteriors(model):
        several = posterior.components > 1
        for weight in posterior.trainable_weights:
            if weight.shape[several:] == posterior.shape:
                decayed.add(id(weight))
            else:
                axes = [2 if axis == several else 1 for axis in range(len(weight.shape))]
                scales[id(weight)] = np.reshape([False, True], axes)
    return scales, decayed
