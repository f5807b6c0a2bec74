"""The file of a certificate: what was certified and how, and hashes by which it can be checked."""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.bounds import Bound
from singularbayes.models import write_whole
from singularbayes.posteriors import find_random_posteriors

_VERSIONS = ("singularbayes", "keras", "numpy", "scipy")


@dataclass(frozen=True, repr=False)
class Certificate(Bound):
    """A bound of a model's risk, with what is needed to compute it again.

    Attributes:
        form: "kl", "catoni", "tandem" or "holdout".
        call: the arguments of `certify`, as JSON holds them.
        data: SHA-256 of the certifying examples, in their order; weights: of the model's weights.
        versions: of Python and packages, and the backend.

    >>> import os, tempfile, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=sb.FullRank())])
    >>> x, y = np.random.default_rng(0).normal(size=(100, 2)).astype("float32"), np.zeros(100, int)
    >>> bound = sb.certify(model, x, y, form="holdout", average=5, likelihood="categorical_logits")
    >>> path = os.path.join(tempfile.mkdtemp(), "certificate.json")
    >>> bound.save(path)
    >>> Certificate.load(path).verify(model, x, y) == bound
    True
    """

    form: str = "kl"
    call: Mapping[str, Any] = field(default_factory=dict)
    data: str = ""
    weights: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        kl, examples = self.terms.get("KL", 0.0), self.terms.get("N", 1)
        if kl <= examples:
            return super().__repr__()
        return (
            f"{super().__repr__()}\n  loose: the KL is {kl / examples:.2g} nats per example. Train with "
            "sb.KLSchedule(beta=1) and eta=0.1, learn the prior on other examples (sb.learn_prior), or certify "
            'held-out examples by form="holdout".'
        )

    def save(self, path) -> None:
        """Writes the certificate to a JSON file: the statement, the call, hashes of examples and weights, versions."""
        content = {"statement": repr(self).splitlines(), **{one.name: getattr(self, one.name) for one in fields(self)}}
        text = json.dumps(content, indent=2, ensure_ascii=False, default=_as_json)
        write_whole(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))

    @classmethod
    def load(cls, path) -> "Certificate":
        """Returns the certificate that `save` wrote. What it claims is checked by `verify`, not by loading."""
        names = {one.name for one in fields(cls)}
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError:  # neither JSON nor text
            content = None
        if not isinstance(content, dict) or not names <= set(content):
            raise ValueError(f"Certificate.load needs a file that `save` wrote; got {path}, which is not such a file.")
        content = {name: content[name] for name in names}
        return cls(**{**content, "assumptions": tuple(content["assumptions"])})

    def verify(self, model: keras.Model, x, y=None, *, prior_data=None, tolerance: float = 1e-6) -> "Certificate":
        """Returns the certificate, computed again for this model and these examples; raises where it is another.

        Args:
            prior_data: as it was given to `certify`, where that was arrays.
            tolerance: how far the value may be away. Draws are the same on one backend; on another the risk of the
                draws, and with it the value, moves by its Monte Carlo error.
        """
        from singularbayes.evaluation.certify import certify  # which returns what this file defines

        call = dict(self.call)
        if call.get("prior_data") == "arrays":
            if prior_data is None:
                raise ValueError("verify needs prior_data=, the inputs that `certify` was given; got none.")
            call["prior_data"] = prior_data
        for name in ("likelihood", "loss"):
            call[name] = keras.saving.deserialize_keras_object(call.get(name))
        again = certify(model, x, y, **call)
        differences = [
            f"the {name} differ" for name in ("data", "weights") if getattr(self, name) != getattr(again, name)
        ]
        if not abs(again.value - self.value) <= tolerance:  # also where a value is NaN
            differences.append(f"the value is {self.value:.6g}, recomputed {again.value:.6g}")
        skipped = {"value", "data", "weights", "call", "versions"}
        if again.value != self.value:  # other draws, which move the terms and may move what is printed
            skipped |= {"terms"} if again.rounded == self.rounded else {"terms", "sentence"}
        for name in (one.name for one in fields(self) if one.name not in skipped):
            own, new = getattr(self, name), getattr(again, name)
            if own != new:
                differences.append(f"{name}: {own!r}, recomputed {new!r}")
        if differences:
            raise ValueError(
                f"verify needs the model and the examples that were certified; {'; '.join(differences)}. The "
                f"certificate was made with {_shown(self.versions)}, this is {_shown(again.versions)}."
            )
        return again


def weights_hash(model: keras.Model) -> str:
    """Returns SHA-256 of all weights that predictions depend on."""
    skipped = {id(posterior.kl_scale) for posterior in find_random_posteriors(model)}
    found = hashlib.sha256()
    for weight in model.weights:
        if id(weight) not in skipped:
            found.update(np.ascontiguousarray(ops.convert_to_numpy(weight)).tobytes())
    return found.hexdigest()


def versions_now() -> dict[str, str]:
    """Returns the versions of Python, of the packages that a certificate depends on, and the backend."""
    backend = keras.backend.backend()
    found = {"python": platform.python_version(), "backend": backend}
    for package in (*_VERSIONS, backend):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # run from its source
            found[package] = "unknown"
    return found


def _shown(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _as_json(value):
    """Returns what JSON can hold of a NumPy number, or of a read-only mapping."""
    return value.item() if isinstance(value, np.generic) else dict(value)
