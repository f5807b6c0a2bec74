"""Posteriors of one model that are drawn together in its training passes, on torch and TensorFlow.

These are the Gaussian `LowRank` and `FullRank` ones with a normal or a scale-mixture prior; mixtures and others draw
one by one. Their draw is one formula on all their scalars. With a scale mixture its noise also estimates their KL, as
in Bayes by Backprop: the expectation of the estimate is the same as with noise of its own. JAX compiles a step as a
whole and does not need it.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops
from keras.src.backend.common.global_state import get_global_attribute

from singularbayes.posteriors import fused, noise, scope
from singularbayes.posteriors.traversal import find_random_posteriors


def draw_jointly(model: keras.layers.Layer) -> None:
    """Makes training passes of a model draw its posteriors together where they can, on torch and TensorFlow."""
    if keras.backend.backend() == "jax":
        return
    members = [q for q in find_random_posteriors(model) if q.built and q.joint_factor is not None]
    joint = JointDraws(model, members)
    for member in members:
        member.joint_draws = joint


class JointDraws:
    """The posteriors that a training pass of `model` draws together; others, and other passes, draw one by one.

    Args:
        members: posteriors with a `joint_factor`, built.
    """

    def __init__(self, model: keras.layers.Layer, members: Sequence[Any]):
        # References, because posteriors keep this object.
        self._model: Callable[[], Any] = weakref.ref(model)
        groups: dict[Any, list[Callable[[], Any]]] = defaultdict(list)  # of one formula
        for member in members:
            groups[member.joint_factor.prior, member.joint_factor.rates].append(weakref.ref(member))
        self._groups = list(groups.values())

    def sample(self, posterior) -> Any:
        """Returns the draw of all scalars of a posterior for the pass that is under way; None where it is not drawn."""
        if scope.given_key(posterior) is not None:
            return None
        current = scope.current_call()
        if current is None or current.entry_layer is not self._model() or not fused.has_custom_gradients():
            return None
        if get_global_attribute("symbolic_scope") is not None:  # where shapes are sought
            return None
        graph, samples = scope.once_per_pass(self, lambda: (_graph(), self._samples()))
        # A graph inside a graph, such as a loop, must not use what another graph has made.
        return samples.get(id(posterior)) if graph is _graph() else None

    def _samples(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for group in self._groups:
            members = [member for member in (reference() for reference in group) if member is not None]
            members = [member for member in members if member.trainable and scope.given_key(member) is None]
            if members:
                found.update(zip(map(id, members), _drawn(members), strict=True))
        return found


def _drawn(members: list) -> list:
    """Returns a draw of all scalars of each posterior, whose KL is then the draw's as well."""
    factors = [member.joint_factor for member in members]
    values, sizes = [factor.values.value for factor in factors], [factor.size for factor in factors]
    flat = [_reshaped(array, (2, size)) for array, size in zip(values, sizes, strict=True)]
    eps = factors[0].family.noise((sum(sizes),), noise.next_key(members[0].seed_generator))
    drawn = fused.gaussian_arrays(flat, factors[0].rates, eps)
    kls = _KLs(drawn, factors[0].prior, values)
    for number, factor in enumerate(factors):
        factor.kl_of_draw = (kls, number)
    return [_reshaped(sample, factor.shape) for sample, factor in zip(drawn.samples(), factors, strict=True)]


def _reshaped(array, shape: tuple[int, ...]):
    return array.reshape(shape) if keras.backend.backend() == "torch" else ops.reshape(array, shape)


class _KLs:
    """The KLs of arrays that were drawn together, with the noise of the draw."""

    def __init__(self, drawn: fused.GaussianArrays, prior, values: list):
        self._drawn, self._prior, self._marks = drawn, prior, [_mark(array) for array in values]
        self._made: list[Any] = []

    def get(self, number: int, array) -> Any:
        """Returns the KL of an array; None where it has changed since the draw, or another graph asks."""
        if _mark(array) != self._marks[number]:
            return None
        self._made = self._made or self._drawn.kls(self._prior)
        return self._made[number]


def _mark(array) -> Any:
    """Returns what is the same as long as noise and values fit together: a step would make them dependent."""
    if keras.backend.backend() == "tensorflow":
        return _graph() or object()  # without a graph nothing tells whether a variable has changed
    import torch

    return id(array), array._version, torch.is_grad_enabled()


def _graph() -> Any:
    """Returns the graph that TensorFlow puts operations into, or None."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
