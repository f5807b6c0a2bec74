"""A variational online Newton step for independent Gaussians (Shen et al. 2024, IVON), with the prior inside it.

For w = loc + scale · ε with ε ~ N(0, 1) autodiff gives g = ∂loss/∂loc and ∂loss/∂scale = g ε, so that the estimate of
the Hessian's diagonal by Stein's identity, g ε / scale, is (∂loss/∂scale) / scale. What is minimised is E_q[loss] +
KL(q ‖ p)/λ with λ = num_data/β and p = N(centre, width²); its fixed point has 1/scale² = λ (h + δ), δ = 1/(λ width²).
"""

from typing import NamedTuple

import jax
from jax import numpy as jnp

MOMENTUM, HESSIAN_DECAY = 0.9, 0.999


class Newton(NamedTuple):
    """The state of one array of weights: mean gradient, mean Hessian, and how many steps were made."""

    gradient: jax.Array
    hessian: jax.Array
    steps: jax.Array


def softplus(rho):
    return jnp.logaddexp(rho, 0.0)


def inverse_softplus(scale):
    return scale + jnp.log(-jnp.expm1(-scale))


def begin(values, reference, weight) -> Newton:
    """Returns the state in which the scales are those of `values`.

    Args:
        values: (2, …), loc above ρ.
        reference: (2, …), centre above width of the prior.
        weight: 1/λ = β / num_data.
    """
    hessian = weight * (1 / softplus(values[1]) ** 2 - 1 / reference[1] ** 2)
    return Newton(jnp.zeros_like(hessian), hessian, jnp.zeros(()))


def step(values, slope, state: Newton, reference, weight, rate):
    """Returns the next values and state; `slope` is the gradient of the loss without a KL by `values`."""
    (loc, rho), (centre, width) = values, reference
    delta, scale = weight / width**2, softplus(rho)
    found = slope[1] / jax.nn.sigmoid(rho) / scale
    gradient = MOMENTUM * state.gradient + (1 - MOMENTUM) * slope[0]
    rest = 1 - HESSIAN_DECAY
    # The last term is that of a step along a geodesic: h + δ stays above 0, whatever the estimate.
    bend = 0.5 * rest**2 * (state.hessian - found) ** 2 / (state.hessian + delta)
    hessian = HESSIAN_DECAY * state.hessian + rest * found + bend
    steps = state.steps + 1
    direction = gradient / (1 - MOMENTUM**steps) + delta * (loc - centre)
    loc = loc - rate * direction / (hessian + delta)
    scale = jnp.sqrt(weight / (hessian + delta))
    return jnp.stack([loc, inverse_softplus(scale)]), Newton(gradient, hessian, steps)
