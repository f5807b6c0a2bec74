"""A model from a file, ready to be trained further."""

from pathlib import Path

import keras

from singularbayes.models import read_model
from singularbayes.training.elbo import log_stored_kl_weight


def load(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file; arguments are those of `keras.saving.load_model`.

    `fit` of the model without `KLSchedule` uses the KL weight of the file, warns that it does, and logs `nll`, `kl` and
    `kl_weight`. `keras.saving.load_model` works too once `singularbayes.layers` is imported, but does not log them, and
    does not name what is wrong with a file that is not a whole model.
    """
    model = read_model(path, **kwargs)
    log_stored_kl_weight(model)
    return model
