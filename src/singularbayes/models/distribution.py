"""The devices that work is split over."""

import functools

import keras
import numpy as np


def batch_mesh():
    """Returns the devices and the axis that work is split over on JAX: the batch's of a distribution, else all here."""
    distribution = keras.distribution.distribution()
    if distribution is not None:
        return distribution.device_mesh.backend_mesh, distribution.batch_dim_name
    return _all_devices(), "devices"


@functools.cache
def _all_devices():
    import jax

    return jax.sharding.Mesh(np.array(jax.local_devices()), ("devices",))


def device_count() -> int:
    """Returns over how many devices a prediction is spread."""
    if keras.backend.backend() != "jax":
        return 1
    mesh, axis = batch_mesh()
    return mesh.shape[axis]
