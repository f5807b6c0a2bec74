"""What is timed: training steps, predictions and fits on made-up arrays. The gate compares two versions of each."""

from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import keras
import numpy as np
import timed_networks
from timed_networks import KINDS, Kind, Transformer, compiled, normal, targets
from worker import Row

import singularbayes as sb

Build = Callable[[Kind], keras.Model]


def rows(tiny: bool = False) -> dict[str, Row]:
    """Returns every row by its name; tiny ones only show that they run."""
    width, body, examples, images, steps = (16, 16, 20, 10, 2) if tiny else (1200, 2048, 10_000, 1000, 20)
    mlp: Build = partial(timed_networks.mlp, width=width)
    head: Build = partial(timed_networks.body_and_head, width=body)
    text = Transformer(2000, length=32, width=16 if tiny else 128, blocks=2, feed_forward=256)
    found = {
        **_training("MLP", mlp, normal(128 * steps, 784), 128, tuple(KINDS), {"low-rank": 0.27}),
        **_training("LSTM", timed_networks.lstm, normal(64 * steps, 24, 15), 64),
        **_training("CNN", timed_networks.cnn, normal(64 * steps, 28, 28, 1), 64),
        **_training("Transformer", text.build, text.inputs(32 * steps), 32),
        **_prediction("MLP", mlp, normal(examples, 784), (50, 1000, 50), {"low-rank": 0.10, "mixture of 5": None}),
        **_prediction("LSTM", timed_networks.lstm, normal(512, 24, 15), (50, 128, 50), {"low-rank": None}),
        **_prediction("head", head, normal(256, body), (100, 256, 1), {"low-rank": 1.3}),
        **_prediction("CNN", timed_networks.cnn, normal(images, 28, 28, 1), (20, 250, 1), {"low-rank": None}),
        "estimator fit": Row(partial(_estimator, 40 if tiny else 1000), fresh=True, backends=("jax",)),
    }
    sst2 = Transformer(200, length=8, width=16, blocks=1, feed_forward=16) if tiny else Transformer()
    for name, limit in (("Keras", None), ("low-rank", 1.04)):
        make = partial(_program, sst2, KINDS[name])
        found[f"sst2 step, {name}"] = Row(make, "sst2 step, Keras", limit, backends=("jax",), default=False)
    return found


def facts() -> dict[str, Any]:
    """Returns what a record says of the process: which library it imported, its backend, versions and device."""
    backend = keras.backend.backend()
    wheel = metadata.packages_distributions()[backend][0]  # tensorflow-cpu has the module tensorflow
    versions = {name: metadata.version(name) for name in ("keras", wheel, "numpy")}
    device = None
    if backend == "jax":
        import jax

        device = jax.devices()[0].device_kind if jax.default_backend() == "gpu" else None
    return {"library": sb.__file__, "versions": versions, "accelerator": device}


def _training(
    title: str, build: Build, x: np.ndarray, batch: int, kinds: tuple[str, ...] = ("Keras", "low-rank"), at_most=None
) -> dict[str, Row]:
    """Returns rows of one step of `fit` as a user runs it, data in memory."""

    def make(kind: Kind) -> Callable[[], int]:
        keras.utils.set_random_seed(0)
        model = compiled(build(kind), kind)
        y = targets(model, len(x))

        def epoch() -> int:
            model.fit(x, y, batch_size=batch, epochs=1, verbose=0)
            return len(x) // batch

        return epoch

    named = [(f"{title} step, {name}", KINDS[name], (at_most or {}).get(name)) for name in kinds]
    return {name: Row(partial(make, kind), f"{title} step, Keras", limit) for name, kind, limit in named}


def _prediction(
    title: str, build: Build, x: np.ndarray, job: tuple[int, int, int], at_most: dict[str, float | None]
) -> dict[str, Row]:
    """Returns rows of all draws for all examples; `job` is the draws, the batch size, and Keras's passes."""
    draws, batch, passes = job

    def make(kind: Kind) -> Callable[[], int]:
        keras.utils.set_random_seed(0)
        model = compiled(build(kind), kind)
        likelihood = "gaussian" if model.output_shape[-1] == 1 else None

        def predict() -> int:
            if kind is None:
                model.predict(x, batch_size=batch, verbose=0)
            else:
                sb.predict(model, x, draws=draws, batch_size=batch, likelihood=likelihood)
            return 1

        return predict

    base = f"{title} prediction, Keras"
    ours = {f"{title} prediction, {kind}": Row(partial(make, KINDS[kind]), base, at) for kind, at in at_most.items()}
    return {base: Row(partial(make, None), base, times=passes), **ours}


def _estimator(examples: int) -> Callable[[], int]:
    x = normal(examples, 8)
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * x[:, 3]

    def fit() -> int:
        sb.estimators.BayesianMLPRegressor(random_state=0).fit(x, y)
        return 1

    return fit


def _program(network: Transformer, kind: Kind) -> Callable[[], int]:
    """Returns 50 steps of the compiled program, without what `fit` adds; batches are 64 sentences, as in the paper."""
    keras.utils.set_random_seed(0)
    return partial(timed_networks.program(compiled(network.build(kind), kind), network.inputs(64)), 50)
