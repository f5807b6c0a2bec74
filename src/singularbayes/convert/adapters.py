"""Files of what was trained on a frozen base: adapters, the head, and no weight of the base.

A file is an `.npz` archive of plain arrays with a JSON description: for every layer with weights its posteriors and the
arrays that were trained, or a hash of the frozen weights, by which the base is known again. No part of it is code.
"""

import hashlib
import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.convert import counterparts, surgery
from singularbayes.convert.decisions import is_whole, weights_at
from singularbayes.convert.layer_matrices import find_slots, find_weights
from singularbayes.convert.members import make_per_component
from singularbayes.layers import PerComponent
from singularbayes.models import require_model, write_whole
from singularbayes.posteriors import Posterior, find_posteriors, serialize

_FORMAT = "singularbayes adapters 1"


@dataclass
class _Entry:
    """One layer of a file."""

    keys: str  # where it is in the model
    path: str  # for people
    kind: str  # the class of the Keras layer
    trainable: bool
    frozen: str | None  # hash of its part of the base; None where all of it is in the file
    shapes: list[list[int]] = field(default_factory=list)  # of its arrays in the file
    posteriors: dict[str, dict] | None = None  # by matrix; None for a plain Keras layer
    per_head: bool = False
    components: int | None = None  # of a `PerComponent`


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
    entries, arrays = [], []
    for keys, place in _layers(model).items():
        trained = _trained(place.layer)
        entries.append(_entry(keys, place, trained))
        arrays += [_numpy(weight) for weight in trained]
    tokens = _tokenizer_hash(model)
    about = json.dumps({"format": _FORMAT, "tokenizer": tokens, "layers": [asdict(e) for e in entries]}).encode()
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
    if None not in (tokens, _tokenizer_hash(base)) and tokens != _tokenizer_hash(base):
        raise ValueError(f"{_needs(path)} the tokenizer has another vocabulary. Load base and tokenizer again.")
    found = _layers(base)
    _require_same_places(entries, found, path)
    made: dict[str, keras.layers.Layer] = {}  # what replaces a layer of a base without adapters
    for entry in entries:
        layer = found[entry.keys].layer
        if entry.posteriors is None and entry.components is None:
            if surgery.is_ours(layer):
                raise ValueError(f"{_needs(path)} {entry.path!r} is Bayesian, and a plain {entry.kind} in the file.")
            trained = counterparts.trained_in_float32(layer) if entry.frozen is None else layer
            if trained is not layer:
                made[entry.keys] = trained
        elif not surgery.is_ours(layer):
            made[entry.keys] = _counterpart(layer, entry)
        else:
            _require_same_posteriors(layer, entry, path)
        used = made.get(entry.keys, layer)
        if [list(weight.shape) for weight in _trained(used, entry)] != entry.shapes:
            shapes = [tuple(weight.shape) for weight in _trained(used, entry)]
            raise ValueError(
                f"{_needs(path)} {entry.path!r} has trained weights of shapes {shapes}, in the file "
                f"{[tuple(shape) for shape in entry.shapes]}."
            )
        if _hash(layer, entry) != entry.frozen:
            raise ValueError(f"{_needs(path)} the frozen weights of {entry.path!r} differ. Load the base again.")
    model = base
    if made:
        model = surgery.copied(base)
        places = _layers(model)
        surgery.exchange(model, {id(places[keys].layer): layer for keys, layer in made.items()})
        surgery.compile_like(model, base)
    layers, values = _layers(model), iter(arrays)
    for entry in entries:
        layer = layers[entry.keys].layer
        targets = _trained(layer, entry)
        if not surgery.is_ours(layer) and layer.trainable != entry.trainable:
            layer.trainable = entry.trainable
        for weight in targets:
            weight.assign(next(values))
    return model


# -- layers and their weights ----------------------------------------------------------------------------------------


def _layers(model) -> dict[str, surgery.Place]:
    """Returns the layers with weights of their own by their place."""
    found = {place.key: place for place in surgery.places(model, whole=is_whole)}
    return {keys: place for keys, place in found.items() if weights_at(place.layer)}


def _trained(layer, entry: _Entry | None = None) -> list:
    """Returns the weights that are in a file: all of ours but those that stay frozen, and of Keras's what trains.

    Args:
        entry: of a file, which then decides whether a plain layer is in it.
    """
    if surgery.is_ours(layer):
        frozen = {id(weight) for posterior in find_posteriors(layer) for weight in posterior.frozen_weights}
        return [weight for weight in layer.weights if id(weight) not in frozen]
    trains = any(weight.trainable for weight in weights_at(layer)) if entry is None else entry.frozen is None
    return weights_at(layer) if trains else []


def _kind(layer) -> str:
    return type(layer.wrapped() if isinstance(layer, PerComponent) else layer).__name__


def _posteriors(layer) -> dict[str, Posterior]:
    if counterparts.plain_class(layer) is None:
        return {posterior.path: posterior for posterior in find_posteriors(layer)}
    return {name: w for name, w in find_weights(layer).items() if isinstance(w, Posterior)}


def _entry(keys: str, place: surgery.Place, trained: list) -> _Entry:
    layer, path = place.layer, place.path
    entry = _Entry(keys, path, _kind(layer), bool(layer.trainable), None, [list(w.shape) for w in trained])
    if isinstance(layer, PerComponent):
        entry.components = layer.components
    elif surgery.is_ours(layer):
        entry.posteriors = {name: serialize(posterior) for name, posterior in _posteriors(layer).items()}
        entry.per_head = getattr(layer, "per_head", False)
        adapted = any(posterior.frozen_weights for posterior in _posteriors(layer).values())
        entry.frozen = _hash_of(_frozen_matrices(layer)) if adapted else None
    elif not trained:
        entry.frozen = _hash_of([_numpy(weight) for weight in weights_at(layer)])
    return entry


def _frozen_matrices(layer) -> list[np.ndarray]:
    return [_numpy(w) for posterior in _posteriors(layer).values() for w in posterior.frozen_weights]


def _hash(layer, entry: _Entry) -> str | None:
    """Returns the hash of the part of the base that a layer has, as it was when the file was written."""
    if entry.frozen is None:
        return None
    if entry.posteriors is None:
        return _hash_of([_numpy(weight) for weight in weights_at(layer)])
    if surgery.is_ours(layer):
        return _hash_of(_frozen_matrices(layer))
    places = find_slots(layer, entry.per_head)
    return _hash_of([places[name].read() for name, config in entry.posteriors.items() if _keeps(config)])


def _keeps(config: dict) -> bool:
    """Whether a posterior of a file keeps a part of the base."""
    posterior = keras.saving.deserialize_keras_object(config)
    return posterior.adapts or posterior.frozen


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
    words = tokenizer.get_vocabulary()
    ordered = [tokenizer.id_to_token(number) for number in range(len(words))]
    return hashlib.sha256("\n".join(map(str, ordered)).encode()).hexdigest()


def _numpy(weight) -> np.ndarray:
    floats = "float" in str(weight.dtype)
    return np.array(ops.convert_to_numpy(ops.cast(weight, "float32") if floats else weight))


def _counterpart(layer, entry: _Entry) -> keras.layers.Layer:
    """Returns the Bayesian layer of a file for a layer of the base, with the base's weights where it keeps these."""
    if entry.components is not None:
        return make_per_component([layer], entry.components)
    assert entry.posteriors is not None
    chosen = {name: keras.saving.deserialize_keras_object(config) for name, config in entry.posteriors.items()}
    matrices = {name: posterior for name, posterior in chosen.items() if not name.endswith("bias")}
    bias = next((posterior for name, posterior in chosen.items() if name.endswith("bias")), None)
    made = counterparts.make_counterpart(layer, matrices, bias, entry.per_head)
    if any(posterior.adapts for posterior in chosen.values()):
        counterparts.start_from(made, layer)
    return made


# -- what can be wrong -----------------------------------------------------------------------------------------------


def _needs(path) -> str:
    return f"load_adapters needs the base that {str(path)!r} belongs to: of this one,"


def _require_same_places(entries: list[_Entry], found: dict[str, surgery.Place], path) -> None:
    for entry in entries:
        if entry.keys not in found:
            raise ValueError(
                f"load_adapters needs the base that {str(path)!r} belongs to; this one has no layer {entry.path!r} "
                f"({entry.kind} in the file): another architecture or depth."
            )
        kind = _kind(found[entry.keys].layer)
        if kind != entry.kind:
            raise ValueError(f"{_needs(path)} {entry.path!r} is {kind}, and {entry.kind} in the file.")
    more = [place.path for keys, place in found.items() if keys not in {entry.keys for entry in entries}]
    if more:
        raise ValueError(f"{_needs(path)} {more[0]!r} is not in the file.")


def _require_same_posteriors(layer, entry: _Entry, path) -> None:
    own = {"components": layer.components} if isinstance(layer, PerComponent) else _posteriors(layer)
    given = {"components": entry.components} if entry.posteriors is None else entry.posteriors
    pairs = list(zip(own.values(), given.values(), strict=False))
    for mine, config in pairs:
        its: Any = keras.saving.deserialize_keras_object(config) if isinstance(config, dict) else config
        if repr(mine) != repr(its):
            raise ValueError(
                f"load_adapters needs a base without adapters, or with those of the file: {entry.path!r} has {mine!r}, "
                f"and {its!r} in {str(path)!r}. Load the file on the base before its conversion."
            )
    if len(own) != len(given):
        raise ValueError(f"{_needs(path)} {entry.path!r} has {len(own)} posteriors, and {len(given)} in the file.")


def _read(path: Path) -> tuple[list[_Entry], list[np.ndarray], str | None]:
    """Returns what a file describes, its arrays, and the hash of a vocabulary; raises where it is another file."""
    if not path.is_file():
        raise FileNotFoundError(f"load_adapters needs a file that save_adapters wrote; got {str(path)!r}, none.")
    wrong = f"load_adapters needs a whole file that save_adapters wrote; got {str(path)!r}"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            about = json.loads(bytes(archive["about"]))
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}, not {_FORMAT!r}")
            entries, tokens = [_Entry(**entry) for entry in about["layers"]], about["tokenizer"]
            shapes = [tuple(shape) for entry in entries for shape in entry.shapes]
            arrays = [archive[f"array_{number}"] for number in range(len(shapes))]
            if [array.shape for array in arrays] != shapes:
                raise ValueError("arrays that are not those that it describes")
    except (KeyError, TypeError, AttributeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{wrong}, which is not an adapter file, or is damaged: {error}.") from error
    if any(array.dtype.kind not in "fiu" for array in arrays):
        raise ValueError(f"{wrong}, whose arrays are not numbers.")
    if any(not np.isfinite(array).all() for array in arrays):
        raise ValueError(f"{wrong}, which holds NaN or infinity: the training that made it has failed.")
    return entries, arrays, tokens
