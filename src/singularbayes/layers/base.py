"""What the layers share: a kernel with a posterior, a bias with or without one, and refused arguments."""

import math
import weakref

import keras
from keras import ops

from singularbayes import posteriors
from singularbayes.layers.forward import forward_pass, once

ESTIMATORS = ("shared", "local")


class BayesianLayer(keras.layers.Layer):
    """A layer whose kernel is drawn from a posterior.

    Args:
        posterior: how the kernel is distributed, for example `LowRank(16)`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.
        estimator: "shared" draws the weights once for the batch (the paper's). "local" draws the outputs of every
            example in training: less gradient noise, exact for the Gaussian family and one use of the weight per
            example.
    """

    def __init__(self, *, posterior, bias_posterior=None, estimator="shared", refused=None, **kwargs):
        super().__init__(**kwargs)
        self._refuse(refused or {})
        if estimator not in ESTIMATORS:
            raise ValueError(
                f"{type(self).__name__} needs estimator to be one of {ESTIMATORS}; got estimator={estimator!r}."
            )
        self.estimator = estimator
        self.posterior = posteriors.get(posterior)
        self.bias_posterior = None if bias_posterior is None else posteriors.get(bias_posterior)
        self._last_pass = lambda: None
        if estimator == "local":
            self._require_gaussian()

    def _refuse(self, arguments: dict) -> None:
        reasons = {
            "regularizer": "the KL to the prior is the regularizer; choose the posterior's prior instead",
            "constraint": "a constraint on one draw says nothing about the posterior",
            "lora_rank": "LoRA is a point adapter of a point kernel",
            "lora_alpha": "LoRA is a point adapter of a point kernel",
            "quantization_config": "a posterior cannot be quantised; collapse it to its mean first",
        }
        for name, value in arguments.items():
            if value is not None:
                reason = next(text for key, text in reasons.items() if name.endswith(key))
                raise ValueError(f"{type(self).__name__} needs {name}=None: {reason}. Got {name}={value!r}.")

    def _require_gaussian(self):
        for posterior in filter(None, (self.posterior, self.bias_posterior)):
            if getattr(posterior, "family", "gaussian") != "gaussian":
                raise ValueError(
                    f'estimator="local" needs the Gaussian family: sums of other noise have no closed form. Got '
                    f'family={posterior.family!r} in {type(self).__name__}; use estimator="shared".'
                )

    def _build_kernel(self, shape, initializer, activation=None) -> None:
        """Builds the posterior over a kernel of that shape; its own initializer goes before the layer's."""
        self.posterior.default_initializer = initializer or posteriors.starts.default(activation)
        self.posterior.build(shape)

    def _build_bias(self, shape, initializer, regularizer=None, constraint=None) -> None:
        """Builds the bias: a plain weight, or a posterior over it as one row."""
        self.bias, self._bias_shape = None, tuple(shape)
        if self.bias_posterior is None:
            self.bias = self.add_weight(
                name="bias", shape=shape, initializer=initializer, regularizer=regularizer, constraint=constraint
            )
        else:
            self.bias_posterior.default_initializer = initializer
            self.bias_posterior.build((1, math.prod(shape)))

    def _kernel(self, training, local_inputs=None):
        """Returns the kernel to use now. `local_inputs` are given where local reparameterisation can be exact."""
        if self.estimator == "local" and training:
            self._require_one_use(local_inputs)
        return self._draw(self.posterior, training)

    def _draw(self, posterior, training):
        """Returns the weight of this forward pass; every use of a weight in a pass is the same draw."""
        return once(posterior, lambda: posterior.sample(training, self.estimator))

    def _require_one_use(self, inputs) -> None:
        where = f"{type(self).__name__} layer {self.name!r}"
        if len(inputs.shape) != 2:
            raise ValueError(
                f'estimator="local" needs inputs of shape (batch, features), where an example uses the weight once; '
                f'got shape {tuple(inputs.shape)} in {where}. Use estimator="shared".'
            )
        current = forward_pass()
        if current is not None and self._last_pass() is current:
            raise ValueError(
                f'estimator="local" needs a layer that is called once per forward pass; {where} was called again. Use '
                'estimator="shared".'
            )
        self._last_pass = weakref.ref(current) if current is not None else self._last_pass

    def _add_bias(self, outputs, training):
        """Returns outputs + bias, broadcast over the leading axes."""
        if self.bias is not None:
            return outputs + ops.cast(self.bias, outputs.dtype)
        bias = self._draw(self.bias_posterior, training)
        # The bias is a kernel of one row applied to ones: one example's for all, or, if local, each example's own.
        examples = ops.shape(outputs)[0] if self.estimator == "local" else 1
        values = bias.apply(ops.ones((examples, 1), dtype=outputs.dtype))
        between = [1] * (len(outputs.shape) - 1 - len(self._bias_shape))
        return outputs + ops.reshape(values, (-1, *between, *self._bias_shape))

    def get_config(self):
        return {
            **super().get_config(),
            "posterior": posteriors.serialize(self.posterior),
            "bias_posterior": None if self.bias_posterior is None else posteriors.serialize(self.bias_posterior),
            "estimator": self.estimator,
        }
