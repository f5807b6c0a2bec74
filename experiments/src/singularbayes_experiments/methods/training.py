"""What every experiment does alike: fit by the ELBO with an annealed KL, kept so that a kill costs ten seconds."""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.models import quiet
from singularbayes.posteriors import find_posteriors
from singularbayes.training import KLSchedule, fit_many
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.stopping import Resumable
from singularbayes_experiments.records.checkpoints import Checkpoint, Keep

Watch = Callable[[int, dict[str, float]], None]  # called after every epoch with its number and logs


class Diverged(ArithmeticError):
    """Training came to numbers that are not finite."""


def fit(
    model: keras.Model,
    loss: Any,
    x: np.ndarray,
    y: np.ndarray,
    settings: TrainingSettings,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    metrics: Sequence[str] = (),
    **options: Any,
) -> float:
    """Fits `model` with Adam, its rate constant or a cosine, and returns the seconds, compilation included.

    For a rate that falls on a plateau, or an early end, add `Plateau` or `EarlyStop` to the callbacks, and to `metrics`
    what they watch beside the loss. Options are those of `train`.
    """
    model.compile(adam(model, len(x), settings), loss, metrics=list(metrics))
    everything = [*annealed(model, len(x), settings), *callbacks]
    options |= {"epochs": settings.epochs, "batch_size": settings.batch_size}
    return train(model, x, y, callbacks=everything, **options)


def adam(model: keras.Model, num_data: int, settings: TrainingSettings) -> keras.optimizers.Optimizer:
    """Returns Adam with the rate of the settings, constant or a cosine; deterministic networks may decay."""
    rate: Any = settings.learning_rate
    if settings.cosine:
        steps = math.ceil(num_data / settings.batch_size)
        rate = keras.optimizers.schedules.CosineDecay(rate, steps * settings.epochs, settings.cosine_floor)
    decay = settings.weight_decay
    if decay and not any(posterior.random for posterior in find_posteriors(model)):
        return keras.optimizers.AdamW(rate, weight_decay=decay)
    return keras.optimizers.Adam(rate)


def annealed(model: keras.Model, num_data: int, settings: TrainingSettings) -> list[keras.callbacks.Callback]:
    """Returns what raises the weight of the KL to that of the settings; nothing for a network without a KL."""
    rise = {"zero_epochs": settings.zero_epochs, "warmup": settings.warmup}
    return [KLSchedule(num_data, settings.beta, **rise, validation="draw")] if find_posteriors(model) else []


def train(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    epochs: int,
    batch_size: int,
    watch: Watch | None = None,
    keep: Keep | None = None,
    validation: tuple | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    weight: np.ndarray | None = None,
    padding: int | None = None,
) -> float:
    """Trains a compiled model and returns the seconds, those before an interruption included.

    The order of the examples in epoch e is a hash of (seed, e), and the seed comes from the global one. Training that
    was interrupted resumes to the same numbers, bit for bit, on the same machine; a finished one is loaded. Either way
    the global seeds are the same afterwards.

    Args:
        keep: where it is kept; None keeps nothing. Then callbacks may be any, else they have to be `Resumable`.
        validation: (x, y), evaluated after every epoch.
        weight: of every example, None is 1.
        padding: the id that fills up texts, see `fit_many`; None where x are no texts.
    """
    seed = random.getrandbits(31)
    begun = None if keep is None else keep.load()
    kept = _Kept(keep, begun, seed, epochs, callbacks)
    if begun is not None and begun.done:
        for callback in callbacks:
            callback.set_model(model)  # a KL schedule changes which variables a model has
        kept.set_model(model)
        kept.restore(begun)
    else:
        watching = [] if watch is None else [keras.callbacks.LambdaCallback(on_epoch_end=watch)]
        start = 0 if begun is None else begun.epoch
        with quiet():
            fit_many(
                lambda: model,
                x,
                y,
                [seed],
                epochs,
                batch_size,
                callbacks=lambda: [*callbacks, *watching, kept],
                validation_data=validation,
                sample_weight=weight,
                padding=padding,
                initial_epoch=start,
            )
    keras.utils.set_random_seed(seed)
    return kept.seconds


class _Kept(keras.callbacks.Callback):
    """Resumes where a checkpoint ended, writes new ones, and ends training whose numbers are no longer finite.

    It has to be the last callback: a checkpoint holds what the others did in that epoch.
    """

    def __init__(self, keep, begun: Checkpoint | None, seed: int, epochs: int, callbacks):
        super().__init__()
        self.keep, self.begun, self.seed, self.epochs = keep, begun, seed, epochs
        self.resumable = [callback for callback in callbacks if isinstance(callback, Resumable)]
        self._require_resumable(callbacks)
        self.before = begun.seconds if begun else 0.0
        self.start = self.saved = time.perf_counter()
        self.epoch = begun.epoch if begun else 0

    def _require_resumable(self, callbacks) -> None:
        unknown = [c for c in callbacks if not isinstance(c, Resumable | KLSchedule)]
        if self.keep is not None and unknown:
            raise ValueError(
                f"Training that is kept needs callbacks that are Resumable, such as EarlyStop and Plateau; got "
                f"{type(unknown[0]).__name__}, which would forget its state."
            )

    @property
    def seconds(self) -> float:
        """Seconds of training so far; of one that was loaded, those that it took."""
        return self.before if self.begun and self.begun.done else self.before + time.perf_counter() - self.start

    def on_train_begin(self, logs=None):
        if self.begun is not None:
            self.restore(self.begun)

    def on_epoch_end(self, epoch, logs=None):
        self.epoch = epoch + 1
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            raise Diverged(self._advice(f"the loss became {logs['loss']} in epoch {self.epoch}"))
        over = self.epoch == self.epochs or self.model.stop_training  # then the end is kept, a moment later
        if self.keep is not None and not over and time.perf_counter() - self.saved >= self.keep.every:
            self._save(done=False)
            self.saved = time.perf_counter()

    def on_train_end(self, logs=None):
        if self.keep is not None:
            self._save(done=True)

    def _save(self, done: bool) -> None:
        arrays = {name: np.asarray(ops.convert_to_numpy(value)) for name, value in self._variables().items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise Diverged(self._advice(f"a weight became NaN or infinite in epoch {self.epoch}"))
        for i, callback in enumerate(self.resumable):
            arrays |= {f"callback-{i}/{name}": np.asarray(value) for name, value in callback.state().items()}
        backend = keras.backend.backend()
        arrays |= _torch_states() if backend == "torch" else {}
        self.keep.save(Checkpoint(self.epoch, done, self.seed, self.seconds, backend, arrays))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Gives the model, its optimizer and the callbacks the state of a checkpoint; raises where it does not fit."""
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        variables, arrays = self._variables(), checkpoint.arrays
        here = {name: tuple(variable.shape) for name, variable in variables.items()}
        there = {name: array.shape for name, array in arrays.items() if name.startswith(("model-", "optimizer-"))}
        same = (checkpoint.backend, checkpoint.seed) == (keras.backend.backend(), self.seed)
        if here != there or not same:
            raise ValueError(
                f"The unfinished run in {str(self.keep.folder)!r} needs the network, the backend "
                f"({checkpoint.backend}) and the code that it was begun with; got others. Remove that folder to start "
                "again."
            )
        for name, variable in variables.items():
            variable.assign(arrays[name])
        if checkpoint.backend == "torch":
            _set_torch_states(arrays)
        for i, callback in enumerate(self.resumable):
            prefix = f"callback-{i}/"
            callback.restore({n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)})

    def _variables(self) -> dict[str, Any]:
        # Seed generators and the KL's weight are among the model's variables; metrics start again with every epoch.
        found = {"model": self.model.variables, "optimizer": self.model.optimizer.variables}
        return {f"{kind}-{i}": variable for kind, group in found.items() for i, variable in enumerate(group)}

    def _advice(self, what: str) -> str:
        kept = ""
        if self.keep is not None and self.keep.paths():
            kept = f" The last checkpoint before it is in {str(self.keep.folder)!r}."
        return (
            f"Training needs finite numbers; got none: {what}.{kept} Try a lower learning_rate, a longer warmup, or a "
            "smaller beta."
        )


def _torch_states() -> dict[str, np.ndarray]:
    # Keras's dropout without a seed takes torch's own generator.
    import torch

    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])]
    return {f"torch-{i}": state.numpy() for i, state in enumerate(states)}


def _set_torch_states(arrays: dict[str, np.ndarray]) -> None:
    import torch

    first, *others = (torch.from_numpy(arrays[f"torch-{i}"].copy()) for i in range(sum("torch-" in a for a in arrays)))
    torch.set_rng_state(first)
    if others:
        torch.cuda.set_rng_state_all(others)


def require_method(method: str, methods: Mapping[str, Any]) -> None:
    """Raises unless the experiment knows the method."""
    if method not in methods:
        raise ValueError(f"run needs method to be one of {list(methods)}; got method={method!r}.")
