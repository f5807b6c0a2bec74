"""What the layers share: each is the Keras layer, whose matrices, and biases, are drawn from posteriors."""

import inspect
import math
from numbers import Integral
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops, regularizers

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
_STARTS = ("kernel_initializer", "pointwise_initializer")  # None is He for rectified activations and Glorot else


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


class HoldsPosteriors(keras.layers.Layer):
    """A layer with posteriors, perhaps in layers of its own."""

    def count_params(self):
        # A summary has the class of a layer and this number, and asks it nothing else.
        counted = _Parameters(super().count_params())
        labels = dict.fromkeys(q.label(q.effective_rank) for q in posteriors.find_posteriors(self))
        counted.label = ", ".join(labels).replace(" → ", "→")  # the column is narrow
        return counted

    def _post_build(self):
        super()._post_build()
        if not self.trainable:  # also for what is made after the flag was set
            hand_down(self, False)

    def rematerialized_call(self, layer_call, *args, **kwargs):
        raise ValueError(
            f"{type(self).__name__} layer {self.name!r} draws weights and cannot be made inside keras.RematScope: "
            "computed again for its gradient it would draw other weights. Make it outside of the scope."
        )


def hand_down(layer: keras.layers.Layer, trainable: bool) -> None:
    """Sets the flag of a layer and of all that it is made of by now, also where the layer has it already."""
    type(layer).trainable.fset(layer, trainable)  # Keras on TensorFlow drops an assignment that changes nothing


class _Random:
    """Stands where a Keras layer has an array: there is none to read, and what Keras assigns is not kept."""

    def __get__(self, layer, owner=None):
        if layer is None:
            return self
        raise AttributeError

    def __set__(self, layer, value):
        """Keras's `build` assigns what `add_weight` gave it: None."""


class TakesKerasArguments(HoldsPosteriors):
    """A layer with the arguments of the Keras layer that it inherits from, and some more."""

    matrices: ClassVar[dict[str, str]] = {
        "kernel": "posterior"
    }  # random ones, and the attribute with the posterior of each
    added: tuple[str, ...] = ("posterior", "bias_posterior")  # arguments beside those of Keras

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in cls.matrices:
            setattr(cls, name, _Random())
        parameters = [p for p in cls._keras_arguments().values() if p.name != "self"]
        changed = [p.replace(default=None) if p.name in _STARTS else p for p in parameters]
        own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in cls.added]
        order = [*changed, *own] if changed[-1:] and changed[-1].kind < 3 else [*changed[:-1], *own, *changed[-1:]]
        cls.__signature__ = inspect.Signature(order)

    @classmethod
    def _keras_arguments(cls):
        plain = next(base for base in cls.__mro__ if base.__module__.startswith("keras."))
        return inspect.signature(plain.__init__).parameters  # type: ignore[misc]

    def _given(self, args, kwargs) -> dict:
        """Returns the arguments for Keras by name; raises for those that make no sense with a posterior."""
        known = self._keras_arguments()
        given = dict(inspect.Signature(list(known.values())).bind(self, *args, **kwargs).arguments)
        given |= given.pop("kwargs", {})
        del given["self"]
        for name in self._refused():
            if given.get(name) is not None:
                reason = next(text for key, text in _REFUSED.items() if name.endswith(key))
                raise ValueError(f"{type(self).__name__} needs {name}=None: {reason}. Got {name}={given[name]!r}.")
        starts = {name: None for name in _STARTS if name in known}
        # Keras takes no integers of NumPy for sizes.
        return {**starts, **{name: int(v) if isinstance(v, np.integer) else v for name, v in given.items()}}

    @classmethod
    def _refused(cls) -> list[str]:
        """Returns the arguments of Keras that make no sense with a posterior."""
        kinds = [name.removesuffix("_kernel") for name in cls.matrices or ("kernel",)]
        of_matrices = [f"{kind}_{what}" for kind in kinds for what in ("regularizer", "constraint")]
        return [*of_matrices, *(name for name in _REFUSED if name not in ("regularizer", "constraint"))]


class BayesianLayer(TakesKerasArguments):
    """A layer whose weight is drawn from a posterior.

    It takes the arguments of the Keras layer that it inherits from. `kernel_initializer` sets where the mean starts
    (default: He for rectified activations, Glorot else); a regularizer or constraint of the random matrix, LoRA and
    quantisation are refused. Sizes, masks, shapes and configuration are Keras's; `build` of Keras asks for its weights
    by name, and for those in `matrices` a posterior is built.

    Args:
        posterior: how the weight is distributed: a posterior such as `LowRank(16)`, a rank for `LowRank`, or a name,
            for example "low_rank" or "mixture".
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import singularbayes as sb
    >>> isinstance(sb.layers.Dense(8, posterior=sb.LowRank(2)), BayesianLayer)
    True
    """

    def __init__(self, *args, posterior=None, bias_posterior=None, **kwargs):
        require_posterior(type(self).__name__, posterior)
        super().__init__(**self._given(args, kwargs))
        # Set before they are layers: of a class, torch would find None and not the layer.
        for name in (*self.matrices.values(), "bias_posterior"):
            setattr(self, name, None)
        self.posterior: Any = self._posterior(posterior)
        if bias_posterior is not None and getattr(self, "use_bias", False):
            self.bias_posterior = self._posterior(bias_posterior, "bias_posterior")

    def __getattr__(self, name):
        if name in type(self).matrices:
            raise AttributeError(
                f"{type(self).__name__} {self.name!r} has no array {name!r}: it is random here. Its mean is "
                f"layer.{type(self).matrices[name]}.mean().dense(). To keep a layer as Keras has it, give bayesianize "
                "a rule with None for it.",
                name=name,
                obj=self,
            )
        return scope.keras_getattr(self, name)

    def _posterior(self, identifier, name="posterior"):
        """Returns a posterior of this layer's own."""
        # Names differ within a layer: Keras on torch keeps parameters by their path.
        posterior = posteriors.get_posterior(identifier, name)
        return posterior if self.posterior is None else self.posterior.like(posterior)

    # -- weights -------------------------------------------------------------------------------------------------------

    def add_weight(self, shape=None, initializer=None, *args, name=None, **kwargs):
        if name in self.matrices:
            return self._build_matrix(getattr(self, self.matrices[name]), shape, initializer)
        if name == "bias":
            self._bias_shape = tuple(shape)
            if self.bias_posterior is not None:
                return self._build_posterior(self.bias_posterior, (1, math.prod(shape)), initializer)
        if self.posterior.components > 1:
            initializer = posteriors.initializers.stacked(keras.initializers.get(initializer), tuple(shape))
            shape = self.posterior.stack(shape)
        return super().add_weight(shape, initializer, *args, name=name, **kwargs)

    def _build_matrix(self, posterior, shape, initializer) -> None:
        """Builds a posterior over an array of Keras, flattened to (…, last axis)."""
        self._require_sizes(shape)
        matrix = (math.prod(shape[:-1]), shape[-1])
        self._build_posterior(posterior, matrix, self._start(posterior, initializer, matrix, tuple(shape)))

    def _start(self, posterior, initializer, matrix, shape, transposed=False):
        """Returns the start of a matrix from that of a kernel of this shape, whose last two axes may be exchanged."""
        initializer = initializer or posterior.default_kernel_initializer(getattr(self, "activation", None))
        return posteriors.initializers.reshaped(initializer, matrix, None if shape == matrix else shape, transposed)

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

    # Keras saves the arrays of some layers by name; here they are those of the posteriors.
    def save_own_variables(self, store):
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store):
        keras.layers.Layer.load_own_variables(self, store)

    def enable_lora(self, *args, **kwargs):
        raise ValueError(f"{type(self).__name__} {self.name!r} cannot have LoRA: {_REFUSED['lora_rank']}.")

    def quantize(self, *args, **kwargs):
        raise ValueError(f"{type(self).__name__} {self.name!r}: {_REFUSED['quantization_config']}.")

    # -- the weights of a pass -----------------------------------------------------------------------------------------

    def drawn_kernel(self, training):
        """Returns the kernel to use now."""
        return self._draw(self.posterior, training)

    def _draw(self, posterior, training):
        """Returns the weight of this forward pass; every use of a weight in a pass is the same draw."""
        for own in (posterior, *(getattr(self, name) for name in self.matrices.values())):
            if own is not None and own.random:  # a pass may use one direction of an embedding alone
                own.note_pass(training)
        if scope.fixed_draw(posterior) is not None:  # one pass may use several fixed draws, one after another
            return posterior.sample(training)
        return scope.once_per_pass(posterior, lambda: posterior.sample(training))

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
        if self.bias is None and self.bias_posterior is None:
            return outputs
        if self.bias is not None and self.posterior.components == 1:
            outputs += ops.cast(self.bias, outputs.dtype)  # on torch in place: nobody else has these outputs
            return outputs
        bias = self._drawn_bias(training, self._bias_examples(outputs))
        between = [1] * (len(outputs.shape) - 1 - len(self._bias_shape))
        return outputs + ops.reshape(bias, (-1, *between, *self._bias_shape))

    def activation_size(self, length: int) -> int:
        """Returns the numbers per example in the largest array inside a call, beside the outputs; 0 if they are larger.

        Args:
            length: of the sequences, where the inputs are sequences.
        """
        return 0

    def get_config(self):
        config = {name: value for name, value in super().get_config().items() if name not in self._refused()}
        own = {name: getattr(self, name) for name in self.added if name.endswith("posterior")}
        return {
            **config,
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
            **{name: None if q is None else posteriors.serialize(q) for name, q in own.items()},
        }
