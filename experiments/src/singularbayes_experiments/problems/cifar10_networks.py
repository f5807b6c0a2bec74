"""ResNet-9 and ResNet-20 for 32 × 32 images, with any posterior over their kernels."""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from singularbayes import layers
from singularbayes.posteriors import Centred, Deterministic, FullRank, LowRank, Normal, Posterior, RankOne
from singularbayes_experiments.problems.cifar10 import CLASSES, Kind

MOMENTUM = 0.97  # of the moving moments of batch normalisation
LOGIT_SCALE = 0.125  # Page's, of the logits of ResNet-9


class ConstantDropout(keras.layers.Layer):
    """Dropout that is on in training and in prediction; how much it drops is a variable, so one program serves all."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, input_shape):
        self.share = self.add_weight(name="share", initializer="zeros", trainable=False, dtype="float32")

    def call(self, inputs):
        kept = keras.random.uniform(ops.shape(inputs), seed=self.seed_generator) >= self.share
        return inputs * ops.cast(kept, inputs.dtype) / ops.cast(1.0 - self.share, inputs.dtype)


class _Maker:
    """Makes layers one after the other, each with its own posterior."""

    def __init__(self, posteriors: Callable[[int], Posterior], dtype: str, dropout: bool = False):
        self.posteriors, self.dtype, self.dropout, self.number = posteriors, dtype, dropout, 0

    def _posterior(self) -> Posterior:
        self.number += 1
        return self.posteriors(self.number - 1)

    def _dropped(self, x):
        return ConstantDropout(dtype=self.dtype)(x) if self.dropout and self.number else x

    def convolved(self, x, filters: int, stride: int = 1, activation: bool = True):
        """Convolution, batch normalisation and a rectifier."""
        x = self._dropped(x)
        x = layers.Conv2D(filters, 3, stride, "same", use_bias=False, posterior=self._posterior(), dtype=self.dtype)(x)
        x = keras.layers.BatchNormalization(momentum=MOMENTUM, epsilon=1e-5, dtype=self.dtype)(x)
        return ops.relu(x) if activation else x

    def classified(self, features, scale: float = 1.0):
        features = self._dropped(features)
        head = layers.Dense(CLASSES, posterior=self._posterior(), dtype=self.dtype)
        return ops.cast(head(features), "float32") * scale


def _resnet9(make: _Maker, x, width: int):
    x = make.convolved(x, width)
    x = _pooled(make.convolved(x, 2 * width))
    x = x + make.convolved(make.convolved(x, 2 * width), 2 * width)
    x = _pooled(make.convolved(x, 4 * width))
    x = _pooled(make.convolved(x, 8 * width))
    x = x + make.convolved(make.convolved(x, 8 * width), 8 * width)
    features = ops.max(x, axis=(1, 2))
    return make.classified(features, LOGIT_SCALE), features


def _pooled(x):
    """Returns the maxima of 2 × 2 pixels; as a reduction its gradient is cheaper than that of a pooling layer."""
    _, height, width, channels = x.shape
    return ops.max(ops.reshape(x, (-1, height // 2, 2, width // 2, 2, channels)), axis=(2, 4))


def _resnet20(make: _Maker, x, width: int):
    x = make.convolved(x, width)
    for stage in range(3):
        for block in range(3):
            stride = 2 if stage and not block else 1
            y = make.convolved(make.convolved(x, width << stage, stride), width << stage, activation=False)
            if stride == 2:  # the shortcut without parameters: every second pixel, channels filled with zeros
                added = (width << stage) // 4
                x = ops.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (added, added)))
            x = ops.relu(x + y)
    features = ops.mean(x, axis=(1, 2))
    return make.classified(features), features


_BODIES: dict[str, tuple[Callable, int]] = {"resnet9": (_resnet9, 64), "resnet20": (_resnet20, 16)}


def build(
    name: str,
    kind: Kind,
    ranks: Sequence[int] = (),
    dtype: str = "mixed_bfloat16",
    width: int | None = None,
    side: int = 32,
) -> keras.Model:
    """Returns a network with two outputs, logits and last features; priors are centred, of unit width.

    Args:
        kind: "dropout" is built as "deterministic" with `ConstantDropout`.
        ranks: of all kernels, for `kind` "low_rank".
        width: channels of the first convolution; the network's own by default.
    """
    prior = Centred(Normal(1.0))
    posteriors: dict[str, Callable[[int], Posterior]] = {
        "deterministic": lambda i: Deterministic(),
        "full_rank": lambda i: FullRank(prior=prior),
        "low_rank": lambda i: LowRank(ranks[i], prior=prior, loc_lr=1.0),
        "rank_one": lambda i: RankOne(prior=prior),
    }
    posteriors["dropout"] = posteriors["deterministic"]
    body, own = _BODIES[name]
    inputs = keras.Input((side, side, 3), dtype="float32")
    outputs = body(_Maker(posteriors[kind], dtype, kind == "dropout"), inputs, width or own)
    return keras.Model(inputs, list(outputs), name=f"{name}_{kind}")
