"""Which networks the bounds by norms are about, as data: Gaussian complexity and the small-variance certificate.

Both need f(0) = 0 and ‖f(x) − f(x′)‖ ≤ ∏‖W_i‖ ‖x − x′‖: dense layers one after another, no bias, and activations that
are 1-Lipschitz and 0 at 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Lipschitz constant and value at 0 of activations by Keras's names; constants rounded up.
ACTIVATIONS = {
    "linear": (1.0, 0.0),
    "relu": (1.0, 0.0),
    "relu6": (1.0, 0.0),
    "leaky_relu": (1.0, 0.0),
    "elu": (1.0, 0.0),
    "celu": (1.0, 0.0),
    "tanh": (1.0, 0.0),
    "hard_tanh": (1.0, 0.0),
    "softsign": (1.0, 0.0),
    "soft_shrink": (1.0, 0.0),
    "tanh_shrink": (1.0, 0.0),
    "silu": (1.1, 0.0),
    "gelu": (1.13, 0.0),
    "mish": (1.09, 0.0),
    "selu": (1.76, 0.0),
    "sigmoid": (0.25, 0.5),
    "hard_sigmoid": (0.17, 0.5),
    "log_sigmoid": (1.0, -0.694),
    "softplus": (1.0, 0.694),
}
_KINDS = ("Dense", "InputLayer", "Flatten", "Reshape", "Activation")  # all but the first only move or map numbers


@dataclass(frozen=True)
class LayerFacts:
    """What the rules ask of a layer: its class by name, whether it adds a bias, and its activation's name.

    >>> from singularbayes.bounds import reasons_outside
    >>> reasons_outside([LayerFacts("Dense", has_bias=True)])
    ('layer 1 (Dense) has a bias',)
    """

    kind: str
    has_bias: bool
    activation: str = "linear"


def reasons_outside(layers: Sequence[LayerFacts]) -> tuple[str, ...]:
    """Returns why a network is outside the bounds by norms, layer by layer; nothing when it is inside.

    >>> reasons_outside([LayerFacts("Dense", False, "relu"), LayerFacts("Dense", True, "sigmoid")])
    ('layer 2 (Dense) has a bias', 'layer 2 (Dense): sigmoid is 0.5 at 0, not 0')
    """
    return tuple(
        f"layer {i} ({layer.kind}){reason}" for i, layer in enumerate(layers, start=1) for reason in _reasons(layer)
    )


def _reasons(layer: LayerFacts) -> list[str]:
    if layer.kind not in _KINDS:
        return [" is not a dense layer of a feed-forward network"]
    reasons = [" has a bias"] if layer.has_bias else []
    if layer.activation not in ACTIVATIONS:
        return [*reasons, f": the Lipschitz constant of {layer.activation!r} is not known"]
    lipschitz, at_zero = ACTIVATIONS[layer.activation]
    if at_zero:
        reasons.append(f": {layer.activation} is {at_zero:g} at 0, not 0")
    if lipschitz > 1:
        reasons.append(f": {layer.activation} is {lipschitz:g}-Lipschitz, not 1-Lipschitz")
    return reasons
