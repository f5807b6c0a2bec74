"""Files of what was trained on a frozen base: adapters, the head, and no weight of the base.

A file is an `.npz` archive of plain arrays with a JSON description: for every layer with weights its posteriors and the
arrays that were trained, or a hash of the frozen weights, by which the base is known again. No part of it is code.
"""

import hashlib
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.convert import counterparts, surgery
from singularbayes.convert.decisions import is_whole, weights_at
from singularbayes.convert.layer_matrices import find_weights
from singularbayes.convert.members import make_per_component
from singularbayes.layers import PerComponent
from singularbayes.models.inputs import require_model
from singularbayes.models.saving import write_whole
from singularbayes.posteriors import Posterior, find_posteriors, serialize

_FORMAT = "singularbayes adapters 2"


@dataclass
class _Entry:
    """One layer of a file."""

    path: str  # for people
    kind: str  # the class of the Keras layer
    trainable: bool
    posteriors: dict[str, dict]  # by matrix; none of a plain Keras layer
    per_head: bool
    components: int | None  # of a `PerComponent`
    shapes: list[list[int]]  # of its arrays in the file
    frozen: str | None  # hash of its part of the base; None where all of it is in the file


def save_adapters(model: keras.Model, path: str | Path) -> None:
    """Writes what was trained on a frozen base, adapters, head and biases, to a file; the base is not in it.

    A layer that is not frozen is in the file as a whole: freeze what a task should share with others. The file has
    plain arrays alone, so it is safe to load. `load_adapters` gives the model back from the base and the file. KL
    weight, optimizer and loss are not in it.

    Args:
        model: a model with `Adapter` posteriors, alone or in a `Mixture`.
        path: of the file, such as "reviews.adapters.npz"; an existing one is replaced once the new one is complete.

    >>> import tempfile, keras, singularbayes as sb
    >>> base = keras.Sequential([keras.Input((20,)), keras.layers.Dense(10), keras.layers.Dense(2)])
    >>> bayes = sb.bayesianize(base, sb.Adapter(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sb.save_adapters(bayes, f"{folder}/a.npz")
    ...     again = sb.load_adapters(base, f"{folder}/a.npz")
    >>> sb.find_posteriors(again)
    [Adapter(2), Adapter(2)]
    """
    require_model("save_adapters", model)
    if not any(posterior.adapts and posterior.built for posterior in find_posteriors(model)):
        raise ValueError(
            f"save_adapters needs a model with adapters, sb.bayesianize(base, sb.Adapter(8)); got {model.name!r}, "
            "which has none. Save it as a whole: model.save(path)."
        )
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save_adapters needs an existing folder; got {str(path)!r} in none.")
    found = _layers(model)
    entries = {key: asdict(_entry(place)) for key, place in found.items()}
    about = json.dumps({"format": _FORMAT, "tokenizer": _tokenizer_hash(model), "layers": entries}).encode()
    arrays = [_numpy(weight) for place in found.values() for weight in _trained(place.layer)]
    named: dict[str, Any] = {f"array_{number}": array for number, array in enumerate(arrays)}
    named["about"] = np.frombuffer(about, "uint8")

    def write(part: Path) -> None:
        with part.open("wb") as file:  # of any suffix, which a path would be given
            np.savez_compressed(file, **named)

    write_whole(path, write)


def load_adapters(base: keras.Model, path: str | Path) -> keras.Model:
    """Returns a base with the adapters of a file that `save_adapters` wrote.

    A base without adapters is copied and stays as it is. A model that has adapters of the same ranks and priors gets
    those of the file in their place and is returned itself, so that one base in memory serves several tasks without
    being compiled again. Before anything is changed the frozen weights are compared, by hash, with those that the
    adapters were trained on.

    >>> import singularbayes as sb
    >>> base = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    >>> sb.save_adapters(sb.bayesianize(base, sb.Adapter(2)), "task.npz")  # doctest: +SKIP
    >>> model = sb.load_adapters(base, "task.npz")  # doctest: +SKIP
    """
    require_model("load_adapters", base)
    entries, arrays, tokens = _read(Path(path))
    wrong = f"load_adapters needs the base that {str(path)!r} belongs to: of this one,"
    if None not in (tokens, _tokenizer_hash(base)) and tokens != _tokenizer_hash(base):
        raise ValueError(f"{wrong} the tokenizer has another vocabulary. Load base and tokenizer again.")
    _require_same_layers(entries, _layers(base), wrong)
    model = base if find_posteriors(base) else _with_adapters(base, entries)
    layers = {key: place.layer for key, place in _layers(model).items()}
    for key, place in _layers(model).items():
        _require_equal(_entry(place, entries[key].frozen is None), entries[key], wrong)
    values = iter(arrays)
    for key, entry in entries.items():
        if not surgery.is_ours(layers[key]) and layers[key].trainable != entry.trainable:
            layers[key].trainable = entry.trainable
        for weight in _trained(layers[key], entry.frozen is None):
            weight.assign(next(values))
    return model


def _with_adapters(base: keras.Model, entries: dict[str, _Entry]) -> keras.Model:
    """Returns a copy of a base with the Bayesian layers of a file, with the base's weights where these keep them."""
    model, new = surgery.copied(base), {}
    for key, place in _layers(model).items():
        layer, entry = place.layer, entries[key]
        if entry.components is not None:
            new[id(layer)] = make_per_component([layer], entry.components)
        elif entry.posteriors:
            new[id(layer)] = _counterpart(layer, entry)
        elif entry.frozen is None:
            new[id(layer)] = counterparts.trained_in_float32(layer)
    surgery.exchange(model, {key: layer for key, layer in new.items() if id(layer) != key})
    surgery.compile_like(model, base)
    return model


def _counterpart(layer, entry: _Entry) -> keras.layers.Layer:
    chosen = {name: keras.saving.deserialize_keras_object(config) for name, config in entry.posteriors.items()}
    matrices = {name: posterior for name, posterior in chosen.items() if not name.endswith("bias")}
    bias = next((posterior for name, posterior in chosen.items() if name.endswith("bias")), None)
    made = counterparts.make_counterpart(layer, matrices, bias, entry.per_head)
    if any(posterior.adapts for posterior in chosen.values()):
        counterparts.start_from(made, layer)
    return made


def _layers(model) -> dict[str, surgery.Place]:
    """Returns the layers with weights of their own by their place."""
    return {p.key: p for p in surgery.places(model, whole=is_whole) if weights_at(p.layer)}


def _trained(layer, trains: bool | None = None) -> list:
    """Returns the weights that are in a file: all of ours but those that stay frozen, and of Keras's what trains.

    Args:
        trains: whether a plain layer does, as a file has it.
    """
    if surgery.is_ours(layer):
        frozen = {id(weight) for weight in _frozen(layer)}
        return [weight for weight in layer.weights if id(weight) not in frozen]
    trains = any(weight.trainable for weight in weights_at(layer)) if trains is None else trains
    return weights_at(layer) if trains else []


def _frozen(layer) -> list:
    """Returns the part of the base that is in one of our layers."""
    return [weight for posterior in find_posteriors(layer) for weight in posterior.frozen_weights]


def _entry(place: surgery.Place, trains: bool | None = None) -> _Entry:
    layer, components, found = place.layer, None, {}
    if isinstance(layer, PerComponent):
        components = layer.components
    elif surgery.is_ours(layer):
        found = _posteriors(layer)
    trained = _trained(layer, trains)
    frozen = _frozen(layer) if surgery.is_ours(layer) else [] if trained else weights_at(layer)
    return _Entry(
        path=place.path,
        kind=_kind(layer),
        trainable=bool(layer.trainable),
        posteriors={name: serialize(posterior) for name, posterior in found.items()},
        per_head=getattr(layer, "per_head", False),
        components=components,
        shapes=[list(weight.shape) for weight in trained],
        frozen=_hash_of([_numpy(weight) for weight in frozen]) if frozen else None,
    )


def _kind(layer) -> str:
    return type(layer.wrapped() if isinstance(layer, PerComponent) else layer).__name__


def _posteriors(layer) -> dict[str, Posterior]:
    if counterparts.plain_class(layer) is None:
        return {posterior.path: posterior for posterior in find_posteriors(layer)}
    return {name: w for name, w in find_weights(layer).items() if isinstance(w, Posterior)}


def _hash_of(arrays: list[np.ndarray]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr(array.shape).encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _tokenizer_hash(model) -> str | None:
    """Returns a hash of the vocabulary of a task's tokenizer, in the order of its ids; None where there is none."""
    tokenizer: Any = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if not hasattr(tokenizer, "get_vocabulary"):
        return None
    ordered = [tokenizer.id_to_token(number) for number in range(len(tokenizer.get_vocabulary()))]
    return hashlib.sha256("\n".join(map(str, ordered)).encode()).hexdigest()


def _numpy(weight) -> np.ndarray:
    floats = "float" in str(weight.dtype)
    return np.array(ops.convert_to_numpy(ops.cast(weight, "float32") if floats else weight))


# -- what can be wrong -----------------------------------------------------------------------------------------------


def _require_same_layers(entries: dict[str, _Entry], found: dict[str, surgery.Place], wrong: str) -> None:
    for key, entry in entries.items():
        if key not in found:
            raise ValueError(f"{wrong} no layer is {entry.path!r} ({entry.kind} in the file): another architecture.")
        if _kind(found[key].layer) != entry.kind:
            raise ValueError(f"{wrong} {entry.path!r} is {_kind(found[key].layer)}, and {entry.kind} in the file.")
    more = [place.path for key, place in found.items() if key not in entries]
    if more:
        raise ValueError(f"{wrong} {more[0]!r} is not in the file.")


def _require_equal(mine: _Entry, its: _Entry, wrong: str) -> None:
    """Raises where a layer of a model is unlike that of the file."""
    ours, theirs = ([keras.saving.deserialize_keras_object(q) for q in e.posteriors.values()] for e in (mine, its))
    if (repr(ours), mine.components) != (repr(theirs), its.components):
        raise ValueError(
            f"{wrong} {its.path!r} has {ours or mine.components}, and {theirs or its.components} in the file. Load the "
            "file on the base before its conversion."
        )
    if mine.shapes != its.shapes:
        shapes = [[tuple(shape) for shape in entry.shapes] for entry in (mine, its)]
        raise ValueError(f"{wrong} {its.path!r} has trained weights of shapes {shapes[0]}, in the file {shapes[1]}.")
    if mine.frozen != its.frozen:
        raise ValueError(f"{wrong} the frozen weights of {its.path!r} differ. Load the base again.")


def _read(path: Path) -> tuple[dict[str, _Entry], list[np.ndarray], str | None]:
    """Returns what a file describes, its arrays, and the hash of a vocabulary; raises where it is another file."""
    if not path.is_file():
        raise FileNotFoundError(f"load_adapters needs a file that save_adapters wrote; got {str(path)!r}, none.")
    wrong = f"load_adapters needs a whole file that save_adapters wrote; got {str(path)!r}"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            about = json.loads(bytes(archive["about"]))
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}, not {_FORMAT!r}")
            entries = {key: _Entry(**entry) for key, entry in about["layers"].items()}
            shapes = [tuple(shape) for entry in entries.values() for shape in entry.shapes]
            arrays = [archive[f"array_{number}"] for number in range(len(shapes))]
            if [array.shape for array in arrays] != shapes:
                raise ValueError("arrays that are not those that it describes")
    except (KeyError, TypeError, AttributeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{wrong}, which is not an adapter file, or is damaged: {error}.") from error
    if any(array.dtype.kind not in "fiu" or not np.isfinite(array).all() for array in arrays):
        raise ValueError(f"{wrong}, which holds NaN or infinity: the training that made it has failed.")
    return entries, arrays, about["tokenizer"]
