"""Copies of posteriors that are not built, and their form in files."""

import keras

from singularbayes.posteriors.base import Posterior


def copy_posterior(identifier: Posterior | dict, name: str) -> Posterior:
    """Returns a copy, called `name` and not built, of a posterior or of its serialised form."""
    if isinstance(identifier, Posterior):
        return type(identifier).from_config({**identifier.get_config(), "name": name})
    return keras.saving.deserialize_keras_object({**identifier, "config": {**identifier["config"], "name": name}})


def serialize(posterior: Posterior) -> dict:
    """Returns the posterior's class and arguments; it is built anew with the layer that holds it."""
    config = keras.saving.serialize_keras_object(posterior)
    config.pop("build_config", None)
    return _unshared(config)


def _unshared(config):
    """Returns a copy without Keras's marks of shared objects.

    While a model is read or written Keras knows objects by their address, which a temporary posterior leaves to the
    next: marked by it, one posterior would be taken for another.
    """
    if not isinstance(config, dict):
        return config
    return {key: _unshared(value) for key, value in config.items() if key != "shared_object_id"}
