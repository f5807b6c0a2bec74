"""What became of the arrays that the Keras layer of the same name has."""

import keras

_POSTERIOR_OF = {
    "kernel": "posterior",
    "recurrent_kernel": "recurrent_posterior",
    "embeddings": "posterior",
    "reverse_embeddings": "reverse_posterior",
}
# Torch keeps what a module holds apart, behind this door; the other backends have none.
_find = getattr(keras.layers.Layer, "__getattr__", None)


class WithoutArrays(keras.layers.Layer):
    """A layer that has posteriors where the Keras layer has arrays: it says so to code that asks for an array."""

    arrays: tuple[str, ...] = ()  # that the Keras layer has

    def __getattr__(self, name):
        if name in type(self).arrays:
            raise AttributeError(
                f"{type(self).__name__} {self.name!r} has no array {name!r}: it is random here. Its mean is "
                f"layer.{_POSTERIOR_OF[name]}.mean().dense(). To keep a layer as Keras has it, give bayesianize a rule "
                "with None for it.",
                name=name,
                obj=self,
            )
        if _find is not None:
            return _find(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
