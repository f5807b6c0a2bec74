"""The forward pass that is under way: the call of the outermost layer or model."""

from typing import Any

from keras.src.backend.common import global_state


def forward_pass() -> Any | None:
    """Returns an object that stands for the current forward pass, or None outside any layer's call.

    Keras keeps one call context from the outermost `__call__` to its end; a model called once has one, however often
    its layers are called inside.
    """
    return global_state.get_global_attribute("current_call_ctx")


def once(owner: Any, make: Any) -> Any:
    """Returns `make()`, made once per forward pass for `owner`: a layer used twice uses one and the same draw."""
    current = forward_pass()
    if current is None:
        return make()
    made = current.__dict__.setdefault("singularbayes_draws", {})
    if id(owner) not in made:
        made[id(owner)] = make()
    return made[id(owner)]
