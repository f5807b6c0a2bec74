"""Raw text for a model that has a preprocessor, as the tasks of KerasHub have, and what its backbone can read."""

import importlib.util
from typing import Any

import keras
import numpy as np

from singularbayes.models.data import is_stream
from singularbayes.posteriors import flat_layers


def has_text(x) -> bool:
    """Whether data in memory are texts: strings in lists, tuples, arrays of one axis, or a column of a table."""
    if is_stream(x):
        return False
    while isinstance(x, (list, tuple, dict)) and len(x):
        x = next(iter(x.values() if isinstance(x, dict) else x))
    if isinstance(x, (str, bytes)):
        return True
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if kind not in ("U", "S", "O") or len(x.shape) != 1:
        return False
    return isinstance(next(iter(np.asarray(x[:1]).tolist()), None), (str, bytes))


def tokenized(model: keras.Model, x, y=None, weight=None, caller: str = "predict") -> tuple[Any, Any, Any]:
    """Returns inputs, targets and weights as arrays: texts go through the preprocessor of the model, the rest stays.

    The preprocessor of a language model makes the targets, the next tokens, and their weights as well.
    """
    if not has_text(x):
        return x, y, weight
    if isinstance(x, (str, bytes)):
        raise TypeError(
            f"{caller} needs arrays, tables, or batches of them; got {_shown(x)}. Read the file first; if it is a text "
            "for a model with a preprocessor, write [text]."
        )
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None:
        raise TypeError(
            f"{caller} needs arrays of numbers for {model.name!r}, which has no preprocessor; got text. Give it token "
            "ids, or set model.preprocessor to a function that makes them from a list of texts."
        )
    require_tokenizer(model, caller)
    texts = keras.tree.map_structure(lambda part: part.tolist() if hasattr(part, "tolist") else part, x)
    try:
        if hasattr(model, "preprocess_samples"):
            found = model.preprocess_samples(texts, y, weight)
            x, y, weight = keras.utils.unpack_x_y_sample_weight(found)
        else:
            x = preprocessor(texts)
    except Exception as error:
        if importlib.util.find_spec("tensorflow_text") is not None:
            raise
        raise ImportError(
            f"{type(preprocessor).__name__} of {model.name!r} could not read the texts. Some tokenizers of KerasHub "
            "need tensorflow-text, which is not installed: pip install tensorflow-text. Or set model.preprocessor to "
            f"a function of your own that makes arrays of a list of texts. The error was: {error}"
        ) from error
    x, y, weight = (None if part is None else keras.tree.map_structure(_numpy, part) for part in (x, y, weight))
    require_positions(model, keras.tree.flatten(x), caller)
    return x, y, weight


def _numpy(tensor) -> np.ndarray:
    return tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor)


def _shown(text) -> str:
    return repr(text if len(text) < 40 else text[:40] + type(text)(b"..." if isinstance(text, bytes) else "…"))


# -- the backbone ------------------------------------------------------------------------------------------------------


def is_backbone(layer) -> bool:
    """Whether a layer is a pretrained network as KerasHub has them, without the parts for a task."""
    return any(cls.__name__ == "Backbone" and cls.__module__.startswith("keras_hub.") for cls in type(layer).__mro__)


def find_backbone(model: keras.layers.Layer) -> Any:
    """Returns the backbone of a task or a model, or None."""
    return next((layer for layer in (model, *flat_layers(model)) if is_backbone(layer)), None)


def require_tokenizer(model: keras.layers.Layer, caller: str) -> None:
    """Raises where the tokenizer of a task makes ids for which its backbone has no embedding."""
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    rows = getattr(getattr(model, "backbone", None), "vocabulary_size", None)
    if tokenizer is None or rows is None or not hasattr(tokenizer, "vocabulary_size"):
        return
    size = tokenizer.vocabulary_size()
    if size > rows:
        raise ValueError(
            f"{caller} needs the tokenizer that the backbone was trained with; got {type(tokenizer).__name__} with "
            f"{size:,} tokens for {rows:,} embeddings in {model.name!r}. Load both from one preset folder."
        )


def require_positions(model: keras.layers.Layer, arrays: list, caller: str) -> None:
    """Raises where sequences of token ids are longer than the positions that the backbone of a model knows."""
    limit = getattr(find_backbone(model), "max_sequence_length", None)
    if limit is None:
        return
    longest = max((a.shape[1] for a in arrays if a.ndim == 2 and a.dtype.kind in "iub"), default=0)
    if longest > limit:
        raise ValueError(
            f"{caller} needs sequences of at most {limit} tokens, the positions that the backbone of {model.name!r} "
            f"has; got {longest}. Set model.preprocessor.sequence_length = {limit}, or cut the arrays."
        )
