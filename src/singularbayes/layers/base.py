"""What the layers share: a kernel with a posterior, a bias with or without one, and refused arguments."""

import math
from numbers import Integral
from typing import Any

import keras
from keras import activations, constraints, initializers, ops, regularizers

from singularbayes import posteriors
from singularbayes.checks import require_integer
from singularbayes.posteriors import scope

_REFUSED = {
    "regularizer": "the KL to the prior is the regularizer; choose the posterior's prior instead",
    "constraint": "a constraint on one draw does not constrain the posterior",
    "lora_rank": "LoRA is a deterministic adapter of a deterministic kernel",
    "lora_alpha": "LoRA is a deterministic adapter of a deterministic kernel",
    "quantization_config": "a posterior cannot be quantised; collapse it to its mean first",
    "gptq_unpacked_column_size": "a posterior cannot be quantised; collapse it to its mean first",
}

_POSTERIOR_OF = {
    "kernel": "posterior",
    "pointwise_kernel": "posterior",
    "recurrent_kernel": "recurrent_posterior",
    "embeddings": "posterior",
    "reverse_embeddings": "reverse_posterior",
}


def refuse(layer: str, **arguments) -> None:
    """Raises for the Keras arguments that make no sense with a posterior, unless they are None."""
    for name, value in arguments.items():
        if value is not None:
            reason = next(text for key, text in _REFUSED.items() if name.endswith(key))
            raise ValueError(f"{layer} needs {name}=None: {reason}. Got {name}={value!r}.")


def require_posterior(layer: str, posterior) -> None:
    """Raises where a layer is given no posterior."""
    if posterior is None:
        raise ValueError(
            f"{layer} needs a posterior, the distribution of its weights; got none. Add "
            f'posterior="low_rank", a rank such as posterior={posteriors.DEFAULT_RANK}, or a posterior such as '
            f"posterior=LowRank({posteriors.DEFAULT_RANK})."
        )


def integers(layer: str, **sizes) -> tuple[int, ...]:
    """Returns sizes as plain numbers; raises unless each is an integer above 0."""
    require_integer(layer, **sizes)
    return tuple(int(value) for value in sizes.values())


class _Parameters(int):
    """How many parameters a layer has. Keras's summary, which formats it, also prints what they are of."""

    label: str

    def __format__(self, spec):
        number = int.__format__(self, spec)
        return f"{number} {self.label}" if spec == "," else number


class Summarized(keras.layers.Layer):
    """A layer whose row in `model.summary()` shows its posteriors, and their ranks.

    A summary has the class of a layer and `count_params()`, and asks it nothing else.
    """

    def count_params(self):
        counted = _Parameters(super().count_params())
        labels = dict.fromkeys(q.label(q.effective_rank) for q in posteriors.find_posteriors(self))
        counted.label = ", ".join(labels).replace(" → ", "→")  # the column is narrow
        return counted


class FreezesWhole(keras.layers.Layer):
    """A layer whose `trainable=False` holds for all it is made of, also what is made after the flag was set."""

    def _post_build(self):
        super()._post_build()
        if not self.trainable:
            hand_down(self, False)


def hand_down(layer: keras.layers.Layer, trainable: bool) -> None:
    """Sets the flag of a layer and of all that it is made of by now, also where the layer has it already."""
    type(layer).trainable.fset(layer, trainable)  # Keras on TensorFlow drops an assignment that changes nothing


class WithoutArrays(keras.layers.Layer):
    """A layer that has posteriors where the Keras layer has arrays: reading an array is an error that names them."""

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
        return scope.keras_getattr(self, name)


class NotRematerialized(keras.layers.Layer):
    """A layer with posteriors, perhaps in layers of its own: computed again for a gradient it would draw again."""

    def rematerialized_call(self, layer_call, *args, **kwargs):
        raise ValueError(
            f"{type(self).__name__} layer {self.name!r} draws weights and cannot be made inside keras.RematScope: "
            "computed again for its gradient it would draw other weights. Make it outside of the scope."
        )


class BayesianLayer(Summarized, FreezesWhole, WithoutArrays, NotRematerialized):
    """A layer whose weight is drawn from a posterior.

    Args:
        posterior: how the weight is distributed: a posterior such as `LowRank(16)`, a rank for `LowRank`, or a name,
            for example "low_rank" or "mixture".

    >>> import singularbayes as sb
    >>> isinstance(sb.layers.Dense(8, posterior=sb.LowRank(2)), BayesianLayer)
    True
    """

    def __init__(self, *, posterior, refused=None, **kwargs):
        super().__init__(**kwargs)
        require_posterior(type(self).__name__, posterior)
        refuse(type(self).__name__, **(refused or {}))
        # Set before they are layers: of a class, torch would find None and not the layer.
        self.posterior: Any = None
        self.bias_posterior: Any = None
        self.reverse_posterior: Any = None  # of the table from vectors back to tokens, see `ReversibleEmbedding`
        self.posterior = self._posterior(posterior)

    def _posterior(self, identifier, name="posterior"):
        """Returns a posterior of this layer's own."""
        # Names differ within a layer: Keras on torch keeps parameters by their path.
        posterior = posteriors.get_posterior(identifier, name)
        if self.posterior is not None:
            posterior = self.posterior.like(posterior)
        return posterior

    def _build_posterior(self, posterior, shape, initializer) -> None:
        """Builds a posterior over a matrix of that shape; its own initializer goes before the layer's."""
        self._require_sizes(shape)
        posterior.default_initializer = initializer
        posterior.build(shape)

    def _require_sizes(self, shape) -> None:
        if not all(isinstance(size, Integral) and int(size) >= 1 for size in shape):
            raise ValueError(
                f"{type(self).__name__} needs a weight whose sizes are integers >= 1; got shape {tuple(shape)} in "
                f"{self.path or self.name}."
            )

    def _kernel(self, training):
        """Returns the kernel to use now."""
        return self._draw(self.posterior, training)

    def _draw(self, posterior, training):
        """Returns the weight of this forward pass; every use of a weight in a pass is the same draw."""
        for own in (posterior, self.posterior, self.reverse_posterior):  # a pass may use one direction alone
            if own is not None and own.random:
                own.note_pass(training)
        if scope.fixed_draw(posterior) is not None:  # one pass may use several fixed draws, one after another
            return posterior.sample(training)
        return scope.once_per_pass(posterior, lambda: posterior.sample(training))

    def activation_size(self, length: int) -> int:
        """Returns the numbers per example in the largest array inside a call, beside the outputs; 0 if they are larger.

        Args:
            length: of the sequences, where the inputs are sequences.
        """
        return 0

    def get_config(self):
        return {
            **super().get_config(),
            "posterior": posteriors.serialize(self.posterior),
        }


class KernelLayer(BayesianLayer):
    """A layer with a kernel, a bias and an activation, and Keras's arguments for them.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.
        kernel_initializer: where the mean of the kernel starts; None is He for rectified activations and Glorot else.
    """

    arrays: tuple[str, ...] = ("kernel",)

    def __init__(
        self,
        *,
        bias_posterior,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        kernel_constraint,
        bias_constraint,
        refused=None,
        **kwargs,
    ):
        refused = {"kernel_regularizer": kernel_regularizer, "kernel_constraint": kernel_constraint, **(refused or {})}
        super().__init__(refused=refused, **kwargs)
        has_posterior = use_bias and bias_posterior is not None
        self.bias_posterior = self._posterior(bias_posterior, "bias_posterior") if has_posterior else None
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)

    def _build_kernel(self, shape, kernel_shape=None, transposed=False) -> None:
        """Builds the posterior over a matrix.

        Args:
            kernel_shape: of the Keras kernel, where it is another.
            transposed: whether the last two axes of that kernel are the other way round.
        """
        initializer = self.kernel_initializer or self.posterior.default_kernel_initializer(self.activation)
        start = posteriors.initializers.reshaped(initializer, shape, kernel_shape, transposed)
        self._build_posterior(self.posterior, shape, start)

    def _build_bias(self, shape, initializer=None) -> None:
        """Builds the bias: none, a plain weight, or a posterior over it as one row."""
        self.bias, self._bias_shape = None, tuple(shape)
        initializer = initializer or self.bias_initializer
        if not self.use_bias:
            return
        if self.bias_posterior is None:
            self.bias = self.add_weight(
                name="bias",
                shape=self.posterior.stack(shape),
                initializer=posteriors.initializers.stacked(initializer, shape),
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        else:
            self._build_posterior(self.bias_posterior, (1, math.prod(shape)), initializer)

    def _drawn_bias(self, training, examples=1):
        """Returns the bias of this pass, (examples, *bias shape); one for all where it is the same."""
        if self.bias is not None:
            return self.posterior.pick(ops.cast(self.bias, self.compute_dtype), training, examples)
        # The bias is a kernel of one row applied to ones.
        ones = ops.ones((examples, 1), dtype=self.compute_dtype)
        return ops.reshape(self._draw(self.bias_posterior, training).apply(ones), (-1, *self._bias_shape))

    def _bias_examples(self, outputs):
        """Returns how many examples have a bias of their own, at most; 1 where all have the same."""
        return ops.shape(outputs)[0] if self.posterior.components > 1 else 1

    def _add_bias(self, outputs, training):
        """Returns outputs + bias, broadcast over the leading axes, or the outputs where there is no bias."""
        if not self.use_bias:
            return outputs
        if self.bias is not None and self.posterior.components == 1:
            outputs += ops.cast(self.bias, outputs.dtype)  # on torch in place: nobody else has these outputs
            return outputs
        bias = self._drawn_bias(training, self._bias_examples(outputs))
        between = [1] * (len(outputs.shape) - 1 - len(self._bias_shape))
        return outputs + ops.reshape(bias, (-1, *between, *self._bias_shape))

    def get_config(self):
        return {
            **super().get_config(),
            "bias_posterior": None if self.bias_posterior is None else posteriors.serialize(self.bias_posterior),
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer) if self.kernel_initializer else None,
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
        }
