"""A model from a file, ready to be trained further with the KL weight of the file."""

import functools
import inspect
import warnings
from pathlib import Path

import keras
from keras import ops

from singularbayes.models import compiled, read_model
from singularbayes.posteriors import RandomPosterior, find_random_posteriors
from singularbayes.training.elbo import kl
from singularbayes.training.kl_schedule import prepare_fit, take_kl_weight
from singularbayes.training.logged_loss import log_nll, require_sound_steps
from singularbayes.training.repeated_examples import prepare_mixtures


def load(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file; arguments are those of `keras.saving.load_model`.

    `fit` of the model without `KLSchedule` uses the KL weight of the file, warns that it does, and logs `nll`, `kl` and
    `kl_weight`. `keras.saving.load_model` works too once `singularbayes.layers` is imported, but does not name what is
    wrong with a file that is not a whole model. It leaves the KL weight unset, as `load_weights` and copies of a model
    do: training then needs `KLSchedule` or `set_kl`.

    >>> import singularbayes as sb
    >>> model.save("model.keras")  # doctest: +SKIP
    >>> again = sb.load("model.keras")  # on any backend  # doctest: +SKIP
    """
    model = read_model(path, **kwargs)
    log_stored_kl_weight(model)
    return model


def log_stored_kl_weight(model: keras.Model) -> None:
    """Makes `fit` of a model that was read from a file state the KL weight of the file and log `nll` and `kl`."""
    posteriors = find_random_posteriors(model)
    for posterior in posteriors:
        posterior.resume_kl_weight()
    if not any(posterior.kl_weight_from_file for posterior in posteriors):
        return
    fit = model.fit  # Keras has no other place for a callback that is always there

    @functools.wraps(fit)
    def fit_and_log(*arguments, **options):
        bound = inspect.signature(fit).bind(*arguments, **options)
        callbacks = bound.arguments.get("callbacks")
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            others = [] if callbacks is None else keras.tree.flatten(callbacks)
            bound.arguments["callbacks"] = [_StoredKLWeight(), *others]
        return fit(*bound.args, **bound.kwargs)

    model.fit = fit_and_log


class _StoredKLWeight(keras.callbacks.Callback):
    """States a KL weight that came from a file, and logs as `KLSchedule` does, where nothing else sets the weight."""

    def set_model(self, model):
        super().set_model(model)
        take_kl_weight(model, self)  # a schedule among the callbacks takes it after this one
        prepare_mixtures(model)
        log_nll(model)

    @property
    def _stored(self) -> list[RandomPosterior]:
        stored = [posterior for posterior in find_random_posteriors(self.model) if posterior.kl_weight_from_file]
        return stored if self.model._kl_callback is self else []

    def on_train_begin(self, logs=None):
        if not self._stored:
            return
        prepare_fit(self.model, self)
        weight = _kl_weight(self._stored[0])
        warnings.warn(
            f"fit resumes with the KL weight {weight:.3g} that the file of {self.model.name!r} holds. "
            "Pass callbacks=[singularbayes.KLSchedule()] to set it for the data of this fit.",
            stacklevel=2,
        )

    def on_epoch_end(self, epoch, logs=None):
        if self._stored and logs is not None:
            require_sound_steps(self.model)
            logs["kl"] = float(ops.convert_to_numpy(compiled(self.model, kl)))
            logs["kl_weight"] = _kl_weight(self._stored[0])

    def on_train_end(self, logs=None):
        if self.model._kl_callback is self:
            self.model._kl_callback = None  # the weight stays that of the file


def _kl_weight(posterior: RandomPosterior) -> float:
    return float(ops.convert_to_numpy(posterior.kl_scale))
