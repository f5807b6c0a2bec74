"""The task and the digest of the models of a sweep, from the first that it could train."""

import hashlib
import json
import re
import warnings
from collections.abc import Callable
from typing import Any

import keras

from singularbayes.evaluation import TASKS
from singularbayes.likelihoods import Likelihood, likelihood_of_loss
from singularbayes.models import loss_of, position_of
from singularbayes.ranks.space import Space


def first_model(build: Callable[..., keras.Model], space: Space) -> keras.Model:
    """Returns the model with the first choice, or the low end, of every setting; raises if it cannot be trained."""
    model = build(**{name: choice[0] for name, choice in space.items() if name != "beta"})
    if not getattr(model, "compiled", False):
        raise ValueError(f"sweep needs build to return a compiled Keras model; got {model!r}, which is not compiled.")
    return model


def task_of(model: keras.Model, task: str | None = None) -> str:
    """Returns the task of the compiled loss: classification for a cross-entropy, else regression.

    Args:
        task: as the caller gives it; it must agree with the loss, and decides where the loss does not.
    """
    likelihood = likelihood_of(model)
    found = likelihood.task if likelihood is not None else "regression"
    if task is None or (task in TASKS and (likelihood is None or task == found)):
        return task or found
    raise ValueError(
        f"sweep needs task to be one of {list(TASKS)} and that of the compiled loss; got task={task!r} and "
        f"loss={model.loss!r}."
    )


def has_noise(model: keras.Model) -> bool:
    """Whether regression has a total variance: the likelihood has a noise."""
    likelihood = likelihood_of(model)
    return likelihood is not None and likelihood.specifies_noise


def likelihood_of(model: keras.Model) -> Likelihood | None:
    """Returns the likelihood of the compiled loss; None where it has none."""
    return likelihood_of_loss(loss_of(model, position_of(model, None)))


def digest_of(model: keras.Model) -> str:
    """Returns a short hash of a model's configuration, its compilation and the shapes of its weights.

    Of what Keras cannot write down, such as a lambda or the arguments of a model class without `get_config`, there is
    the kind alone. Numbers that Keras gives to names, as in "dense_3", are not in it, and weights are not either.
    """
    parts = (type(model).__name__, [tuple(v.shape) for v in model.weights], model.get_config, model.get_compile_config)
    text = json.dumps([_written(part) if callable(part) else part for part in parts])
    return hashlib.sha256(_renamed(text).encode()).hexdigest()[:12]


def _written(config: Callable[[], Any]) -> Any:
    """Returns a configuration as JSON has it, or None where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a lambda cannot be loaded again, which does not matter here
            found = keras.saving.serialize_keras_object(config())
        return json.loads(json.dumps(found, default=lambda value: type(value).__name__), object_hook=_without_code)
    except Exception:  # whatever a model class of the caller's may raise
        return None


def _without_code(part: dict[str, Any]) -> Any:
    """Replaces the code of a lambda, which has the file and the line that it is in."""
    return "lambda" if part.get("class_name") == "__lambda__" else part


def _renamed(text: str) -> str:
    """Replaces the number in a name by its place among the names of one kind.

    >>> _renamed('["dense_7", "dense_9", "dense_7"]') == _renamed('["dense", "dense_1", "dense"]')
    True
    """
    seen: dict[str, list[str]] = {}

    def counted(match: re.Match[str]) -> str:
        of_kind = seen.setdefault(match[1], [])
        if match[0] not in of_kind:
            of_kind.append(match[0])
        return f'"{match[1]}#{of_kind.index(match[0])}"'

    return re.sub(r'"([a-z]\w*?)(?:_\d+)?"', counted, text)
