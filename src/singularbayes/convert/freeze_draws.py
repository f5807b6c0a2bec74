"""Some draws of a model as one graph that can be exported: it outputs the mean and how far the draws disagree."""

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_integer
from singularbayes.convert.frozen import Frozen, as_graph, require_inputs, restored
from singularbayes.convert.surgery import copied
from singularbayes.likelihoods import likelihood_of_output
from singularbayes.models import position_of
from singularbayes.posteriors import draw_keys, draw_sources, find_posteriors, find_sources, flat_layers, noise
from singularbayes.prediction import outputs_under, split_of


def freeze_draws(
    model: keras.Model,
    draws: int = 32,
    seed: int = 0,
    *,
    likelihood=None,
    output: str | int | None = None,
    level: float = 0.95,
) -> keras.Model:
    """Returns a Keras model that predicts as `predict(model, x, draws, seed)` does, to the accuracy of float32.

    Its outputs are "mean", "entropy" and "mutual_information" (nats) for classes; "mean" and "std" (over draws: the
    epistemic part alone) for regression, with "noise" where the model predicts it, and where the noise is known
    "total_std" and the ends "lower" and "upper" of the interval that has a new value with probability `level` (counts
    have no such ends here). Nothing in it is random: the draws are weights of its own, draws · r (m + n) numbers for a
    low-rank weight, so `save` and `export` keep the uncertainty. What `export` writes needs nothing of this package; a
    `.keras` file needs it to be loaded. The graph holds the layers before the first random one once, and the rest once
    per draw, one after another.

    Args:
        likelihood, output: as for `predict`.
        level: of the interval.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> frozen = freeze_draws(model, 8)
    >>> outputs = frozen.predict(np.ones((5, 4)), verbose=0)
    >>> outputs["mean"].shape, outputs["mutual_information"].shape
    ((5, 3), (5,))
    """
    require_integer("freeze_draws", draws=draws)
    require_integer("freeze_draws", 0, seed=seed)
    require_inputs("freeze_draws", model, level)
    stateful = [layer.name for layer in flat_layers(model) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(f"freeze_draws needs a model without state between batches; got stateful layers {stateful}.")
    position = position_of(model, output, "freeze_draws") or 0
    chosen = likelihood_of_output(model, position, likelihood, "freeze_draws")
    outputs = keras.tree.flatten(model.outputs)[position]
    chosen.export(keras.KerasTensor((draws, *outputs.shape)))  # raises where outputs of that shape do not fit
    frozen = FrozenDraws(copied(model), int(draws), int(seed), likelihood=chosen, position=position, level=level)
    return as_graph(frozen, model, f"{model.name}_{draws}_draws")


@keras.saving.register_keras_serializable(package="singularbayes")
class FrozenDraws(Frozen):
    """A model under the draws of a seed, and their summary. Made by `freeze_draws`; the model becomes its own."""

    def __init__(self, model, draws, seed, **kwargs):
        super().__init__(**kwargs)
        self.model, self.draws, self.seed = restored(model), draws, seed
        self.model.trainable = False
        self._sources = find_sources(self.model)
        if not any(source.random for source in self._sources):
            self.draws = 1  # every draw is the same function
        drawn = [self._arrays(noise.as_keys(key)) for key in draw_keys(seed, self.draws)]
        # arrays[i][j] holds array j of source i, the draws on the first axis.
        self._held = [
            [self._hold(f"draws_{i}_{j}", same) for j, same in enumerate(zip(*arrays, strict=True))]
            for i, arrays in enumerate(zip(*drawn, strict=True))
        ]
        for posterior in find_posteriors(self.model):
            posterior.by_rows = False  # all rows are made: the file needs no generator

    @property
    def networks(self) -> list[keras.Model]:
        return [self.model]

    @property
    def number(self) -> int:
        return self.draws

    def _arrays(self, key) -> list[tuple]:
        pairs = zip(self._sources, draw_sources(self._sources, key), strict=True)
        return [source.whole(draw) for source, draw in pairs]

    def _hold(self, name, arrays):
        values = np.stack([ops.convert_to_numpy(array) for array in arrays])
        held = self.add_weight(name=name, shape=values.shape, initializer="zeros", dtype="float32", autocast=False)
        held.assign(values)
        return held

    def _output_lists(self, inputs) -> list[list]:
        split = split_of(self.model)
        frontier = None if split is None else split.prefix(inputs)
        return [outputs_under(self.model, self._sources, self._draw(s), inputs, frontier) for s in range(self.draws)]

    def _draw(self, s: int) -> list[tuple]:
        return [tuple(array[s] for array in arrays) for arrays in self._held]

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "draws": self.draws,
            "seed": self.seed,
        }
