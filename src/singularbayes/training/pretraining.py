"""Epochs without noise at the beginning of a `fit`: first the means, then the posterior around them.

Noise is switched off by a shift of every ρ by −30, so scales are 10⁻¹³ of what they were and a step's gradient moves
none of them. The shift is in the weights themselves: a checkpoint of such an epoch resumes, and many seeds stay one
program, whose steps are those of every other epoch.
"""

import keras
import numpy as np
from keras import ops

from singularbayes.models import find_random_posteriors
from singularbayes.posteriors import Scalars

RHO_SHIFT = 30.0
_OFF = -20.0  # the mean ρ below which noise is off; scales of 2e-9 are nobody's choice


def switch_noise(model: keras.Model, on: bool) -> None:
    """Switches the noise of all posteriors of a model on or off, where it is not so already.

    When it comes on, the means that training has found are the start: factors A and B are balanced by an SVD of A Bᵀ,
    which leaves every W; an `Anchored` prior with anchor="start" moves to them; scales are those from before; and the
    optimizer forgets the directions in which it was moving, and keeps how large gradients are.
    """
    for posterior in find_random_posteriors(model):
        changed = [factor for factor in posterior.factors if _is_off(factor) == on]
        for factor in changed:
            factor.prior.require_anchor(factor.values.path, "random", "start")
            factor.shift_rho(RHO_SHIFT if on else -RHO_SHIFT)
        if on and changed:
            posterior.balance()
            for factor in changed:
                _restart(model.optimizer, factor)


def _is_off(factor: Scalars) -> bool:
    return float(ops.convert_to_numpy(factor.rho).mean()) < _OFF


def _restart(optimizer, factor: Scalars) -> None:
    """Gives the moments that Adam and its kin keep of a factor values that fit its new means and scales.

    The mean square gradient of all means is that of each, because balancing has turned them; ∂L/∂u = ∂L/∂w · ε ·
    sigmoid(ρ) · rho_lr with E[ε²] = 1 gives that of u. Zeros would make the first hundred steps up to 6 times as large.
    """
    inner = optimizer
    while isinstance(inner, keras.optimizers.LossScaleOptimizer):
        inner = inner.inner_optimizer
    if inner is None or not inner.built:
        return
    index = inner._get_variable_index(factor.values)
    if momentums := getattr(inner, "_momentums", None):
        momentums[index].assign(np.zeros(momentums[index].shape, "float32"))
    if velocities := getattr(inner, "_velocities", None):
        flat = ops.convert_to_numpy(velocities[index]).reshape(-1)
        square = flat[: factor.size].mean()
        slope = factor.rho_lr / (1 + np.exp(-ops.convert_to_numpy(factor.rho).reshape(-1)))
        fitted = np.concatenate([np.full(factor.size, square), square * slope**2])
        velocities[index].assign(fitted.reshape(velocities[index].shape).astype("float32"))
