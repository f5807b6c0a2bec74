"""Epochs without noise at the beginning of a `fit`: first the means, then the posterior around them.

Noise is switched off by a shift of every ρ by −30, so scales are 10⁻¹³ of what they were and a step's gradient moves
none of them. The shift is in the weights themselves: a checkpoint of such an epoch resumes, and many seeds stay one
program, whose steps are those of every other epoch.
"""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors import RandomPosterior, find_random_posteriors
from singularbayes.training.elbo import inner_optimizer


def switch_noise(model: keras.Model, on: bool) -> None:
    """Switches the noise of all posteriors of a model on or off, where it is not so already.

    When it comes on, the means that training has found are the start: factors A and B are balanced by an SVD of A Bᵀ,
    which leaves every W; an `Anchored` prior with anchor="start" moves to them; scales are those from before; and the
    optimizer forgets the directions in which it was moving, and keeps how large gradients are.
    """
    for posterior in find_random_posteriors(model):
        if posterior.switch_noise(on) and on:
            _restart(inner_optimizer(model), posterior)


def _restart(optimizer, posterior: RandomPosterior) -> None:
    """Gives the moments that Adam-like optimizers keep of a posterior values that fit its new means and scales."""
    if optimizer is None or not optimizer.built:
        return
    places = [optimizer._get_variable_index(variable) for variable in posterior.random_weights]
    if momentums := getattr(optimizer, "_momentums", None):
        for place in places:
            momentums[place].assign(np.zeros(momentums[place].shape, "float32"))
    if velocities := getattr(optimizer, "_velocities", None):
        known = [ops.convert_to_numpy(velocities[place]) for place in places]
        for place, value in zip(places, posterior.restarted_velocities(known), strict=True):
            velocities[place].assign(value)
