"""The forward pass that is under way: one evaluation of the outermost layer or model."""

from typing import Any

from keras.src.backend.common.global_state import get_global_attribute


def forward_pass() -> Any | None:
    """Returns an object that stands for the current forward pass, or None outside any.

    Keras keeps one call context from the outermost `__call__` to its end. Its JAX trainer does not call the model but
    evaluates `model.call` inside a stateless scope, one a pass. Where shapes are sought, one scope serves several.
    """
    stateless = get_global_attribute("stateless_scope")
    if stateless is not None and get_global_attribute("symbolic_scope") is None:
        return stateless
    return get_global_attribute("current_call_ctx")


def once(owner: Any, make: Any) -> Any:
    """Returns `make()`, made once per forward pass for `owner`: a layer used twice uses one and the same draw."""
    current = forward_pass()
    if current is None:
        return make()
    made = current.__dict__.setdefault("singularbayes_draws", {})
    if id(owner) not in made:
        made[id(owner)] = make()
    return made[id(owner)]
