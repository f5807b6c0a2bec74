"""The randomised predictor, which draws a network for every prediction: its losses on given examples, per draw."""

import sys
from collections.abc import Callable, Iterator

import keras
import numpy as np
from keras import ops

from singularbayes.likelihoods import likelihood_of_output
from singularbayes.models.inputs import arranged, count_examples
from singularbayes.models.outputs import position_of
from singularbayes.models.progress import track
from singularbayes.posteriors import draw_keys, noise
from singularbayes.prediction.bounded_loss import find_bounded_loss
from singularbayes.prediction.sampler import outputs_of_draws, run_compiled

_TOGETHER = 100  # draws in one program


def drawn_risks(
    model: keras.Model,
    x,
    y,
    draws: int,
    examples: int | None = 256,
    seed: int = 0,
    *,
    loss=None,
    likelihood=None,
    output=None,
    caller: str = "drawn_risks",
) -> np.ndarray:
    """Returns the mean loss of each drawn network, (draws,), on examples drawn for it; without `loss` its mistakes.

    Every draw has its own weights and its own random examples, with replacement. So the numbers are independent, lie in
    [0, 1], and each has the expectation L̂(Q): the mean over all examples and all networks. Few examples per draw serve
    better than all of them: what limits a bound of the mean is the number of draws.

    Args:
        y: labels (examples,), integers from 0; or targets.
        examples: how many examples each draw predicts; None is all, once each.
        loss: in [0, 1], see `find_bounded_loss`.
    """
    job = _Losses(model, x, y, loss, likelihood, output, caller)
    parts, size = _parts(draws)
    rng = np.random.default_rng([seed, draws])
    whole = np.arange(job.count, dtype="int32")

    def pick(_) -> np.ndarray:
        return np.tile(whole, (size, 1)) if examples is None else rng.integers(0, job.count, (size, examples), "int32")

    found = job.run(_independent_keys(seed, draws, parts, size), pick)
    return np.concatenate([losses.mean(axis=1) for losses in found])[:draws]


def fresh_draw_losses(
    model: keras.Model, x, y, seed: int = 0, *, loss=None, likelihood=None, output=None
) -> np.ndarray:
    """Returns the loss of the randomised predictor on every example, (examples,), each with a network of its own."""
    job = _Losses(model, x, y, loss, likelihood, output, "certify")
    parts, size = _parts(job.count)
    rows = np.resize(np.arange(job.count, dtype="int32"), (parts, size, 1))
    found = job.run(_independent_keys(seed, job.count, parts, size), lambda part: rows[part])
    return np.concatenate([losses[:, 0] for losses in found])[: job.count]


def _independent_keys(seed: int, draws: int, parts: int, size: int) -> np.ndarray:
    """Returns the keys of draws, (parts, size, 3); independent draws of a mixture are of random components."""
    keys = draw_keys(seed, parts * size)
    keys[:, 2] = np.random.default_rng([seed, draws, 1]).integers(0, 2**30, len(keys))
    return keys.reshape(parts, size, 3)


class _Losses:
    """The losses of drawn networks on examples that are picked for each draw."""

    def __init__(self, model: keras.Model, x, y, loss, likelihood, output, caller: str):
        self.model, self.y, self.caller = model, y, caller
        x = arranged(model, x, caller)
        self.count = count_examples(model, x, caller)
        self.position = position_of(model, output, caller)
        self.meaning = likelihood_of_output(model, self.position, likelihood, caller)
        self.loss = find_bounded_loss(loss, self.meaning, caller)
        self.data = keras.tree.map_structure(ops.convert_to_tensor, x)

    def run(self, keys: np.ndarray, pick: Callable[[int], np.ndarray]) -> Iterator[np.ndarray]:
        """Yields losses (draws, examples), part by part of the keys; `pick` returns the rows that a part predicts."""
        targets: np.ndarray | None = None
        for part, own in enumerate(track(keys, len(keys), "posterior draws") if sys.stderr.isatty() else keys):
            rows = pick(part)
            picked = ops.convert_to_tensor(rows)
            outputs = run_compiled(self.model, outputs_of_draws, noise.as_keys(own), picked, self.data)
            chosen = np.asarray(ops.convert_to_numpy(outputs[self.position or 0]))
            predictions = self.loss.predictions(self.meaning, chosen)
            self.loss.require_single(self.caller, predictions.shape[1:])
            if not np.isfinite(predictions).all():
                raise ValueError(
                    f"{self.caller} needs outputs that are finite; got NaN or infinity from {self.model.name!r}."
                )
            if targets is None:
                width = predictions.shape[-1] if predictions.ndim > 2 else 1
                targets = self.loss.targets(self.caller, self.y, self.count, width)
            yield self.loss.values(predictions, targets[rows])


def _parts(draws: int) -> tuple[int, int]:
    """Returns in how many parts draws are made, and the size of every part, so that one program serves all."""
    parts = -(-draws // _TOGETHER)
    return parts, -(-draws // parts)
