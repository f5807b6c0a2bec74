"""A model from a file, ready to be trained further with the KL weight of the file."""

from pathlib import Path

import keras

from singularbayes.models.saving import read_model
from singularbayes.posteriors import find_random_posteriors
from singularbayes.training.elbo import spare_from_decay
from singularbayes.training.every_component import prepare_mixtures


def load(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file; arguments are those of `keras.saving.load_model`.

    `fit` of the model without `KLSchedule` uses the KL weight of the file, and warns that it does.
    `keras.saving.load_model` works too once `singularbayes.layers` is imported, but does not name what is wrong with a
    file that is not a whole model. It leaves the KL weight unset, as `load_weights` and copies of a model do: training
    then needs `KLSchedule` or `set_kl`.

    >>> import singularbayes as sb
    >>> model.save("model.keras")  # doctest: +SKIP
    >>> again = sb.load("model.keras")  # on any backend  # doctest: +SKIP
    """
    model = read_model(path, **kwargs)
    prepare_mixtures(model)
    posteriors = find_random_posteriors(model)
    for posterior in posteriors:
        posterior.resume_kl_weight()
    if any(posterior.kl_weight_from_file for posterior in posteriors):
        spare_from_decay(model)
    return model
