"""Trains the networks of the experiment on CIFAR-10, one after the other, and predicts with them."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes.baselines import Snapshots
from singularbayes_experiments.methods.image_program import ImageProgram, State, Step, padded
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems import cifar10_networks, image_corruptions
from singularbayes_experiments.problems.cifar10 import ImageMethod, Kind, Settings
from singularbayes_experiments.runs.cifar10_records import Cifar10Records

_MANY = 10**9  # steps of a schedule that stays at its peak from the second step on
ABSENT = -1e9  # added to the logits of classes that are held out


@dataclass(frozen=True)
class Size:
    """How large everything is; `TINY` is for a first trial of the program."""

    batch: int
    chunk: int  # steps of one call
    block: int  # images of one call
    epochs: float  # a factor
    width: int | None
    corrupted: int | None = None  # test images; None is the plan's
    rate: float = 1.0  # a factor of rates


FULL = Size(plan.BATCH, 97, 2000, 1.0, None)
TINY = Size(8, 1, 20, 0.02, 4, corrupted=5, rate=0.02)


class Images:
    """The images, on the device where a program reads them.

    Args:
        train, test: uint8 images and their labels.
        corrupted: how many test images are corrupted.
        other: sets of images that are none of the classes, by name.
    """

    def __init__(self, train: tuple, test: tuple, corrupted: int, other: dict[str, np.ndarray] | None = None):
        (self.x, self.y), (self.x_test, self.y_test) = train, test
        self.other = other or {}
        self.padded = jax.device_put(padded(self.x))
        self.labels = jax.device_put(self.y.astype("int32"))
        self.pool = ThreadPoolExecutor(1)
        self._corrupted = self.pool.submit(image_corruptions.corrupted, self.x_test[:corrupted])
        places = np.arange(len(self.x))
        known = ~np.isin(self.y, plan.HELD_OUT)
        self.rows = {
            "tuning": places[places % plan.VALIDATION != 0],
            "all": places,
            "held_out": places[known],
        }
        self.validation = places[places % plan.VALIDATION == 0]

    @property
    def corrupted(self) -> np.ndarray:
        """All corrupted images, (corruptions · severities · n, 32, 32, 3)."""
        found = self._corrupted.result()
        return found.reshape(-1, *found.shape[3:])

    def mask(self, data: str) -> np.ndarray:
        absent = np.isin(np.arange(plan.CLASSES), plan.HELD_OUT) & (data == "held_out")
        return np.where(absent, ABSENT, 0.0).astype("float32")


class Programs:
    """The programs of all networks and kinds: traced one after the other, compiled beside what runs.

    A thread may trace what comes later while another trains.
    """

    def __init__(self, images: Images, size: Size, dtype: str):
        self.images, self.size, self.dtype = images, size, dtype
        self.pool = ThreadPoolExecutor(4)
        self.programs: dict[tuple[str, Kind], ImageProgram] = {}
        self._compiled: dict[tuple[str, Kind, str], Future] = {}
        self._tracing = threading.Lock()

    def prepare(self, network: str, kind: Kind, ranks: Sequence[int] = ()) -> ImageProgram:
        """Returns a program, whose compilation begins; one that is there already does not wait for others' tracing."""
        if (network, kind) not in self.programs:
            with self._tracing:
                if (network, kind) not in self.programs:  # another thread may have traced it meanwhile
                    self.programs[network, kind] = self._traced(network, kind, ranks)
        return self.programs[network, kind]

    def _traced(self, network: str, kind: Kind, ranks: Sequence[int]) -> ImageProgram:
        size, begun = self.size, time.time()
        build = partial(cifar10_networks.build, network, kind, ranks, self.dtype, size.width, self.images.x.shape[1])
        program = ImageProgram(build, size.batch, size.chunk, size.block)
        state = jax.tree.map(_shape, program.start(0, 1.0))
        mask = self.images.mask("all")
        ids = jax.ShapeDtypeStruct((size.chunk, size.batch), np.dtype("int32"))
        data = jax.tree.map(_shape, (self.images.padded, self.images.labels, mask))
        numbers = jax.tree.map(_shape, Step(0, 0, 0, 0, 1, 0).numbers())
        block = jax.ShapeDtypeStruct((size.block, *self.images.x.shape[1:]), np.dtype("uint8"))
        seed = jax.ShapeDtypeStruct((), np.dtype("uint32"))
        lowered = {
            "train": program.train.lower(state, ids, data, numbers),
            "predict": program.predict.lower(state["weights"], state["others"], seed, block, _shape(mask)),
        }
        for what, each in lowered.items():
            self._compiled[network, kind, what] = self.pool.submit(each.compile)
        print(
            f"traced {network} {kind}: {time.time() - begun:.0f} s; {program.num_parameters:,} parameters", flush=True
        )
        return program

    def compiled(self, network: str, kind: Kind, what: str) -> Any:
        return self._compiled[network, kind, what].result()


def _shape(array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(array), array.dtype)


class Training:
    """Trains and keeps networks.

    Args:
        records: where chosen configurations are found.
        kept: folder for the weights of trained networks, which SVDs begin at and a second call resumes from.
        deadline: time after which a training raises `TimeoutError`.
    """

    def __init__(self, images: Images, size: Size, dtype: str, records: Cifar10Records, kept: Path, deadline: float):
        self.images, self.size, self.records, self.kept, self.deadline = images, size, records, kept, deadline
        self.programs = Programs(images, size, dtype)
        self.seconds_per_step: dict[tuple[str, Kind], float] = {}

    def program(self, network: str, kind: Kind) -> ImageProgram:
        return self.programs.prepare(network, kind, self.ranks(network, kind))

    def ranks(self, network: str, kind: Kind) -> tuple[int, ...]:
        """Returns the ranks of a network; none where it has no low rank."""
        return plan.RANKS[network] if kind == "low_rank" else ()

    def epochs(self, network: str, method: ImageMethod, settings: Settings, data: str) -> int:
        """Returns the epochs of a training."""
        if settings.epochs is not None:
            return settings.epochs
        if method.swag:
            return plan.SWAG_EPOCHS
        own = plan.NETWORKS[network]
        if data != "all":
            return plan.TUNING_EPOCHS if data == "tuning" else own.epochs_held_out
        return own.epochs_svd if method.svd else own.epochs

    def steps(self, network: str, method: ImageMethod, settings: Settings, data: str) -> int:
        """Returns the steps of a training, whole chunks."""
        epochs = self.size.epochs * self.epochs(network, method, settings, data)
        chunks = epochs * len(self.images.rows[data]) / self.size.batch / self.size.chunk
        return max(1, round(chunks)) * self.size.chunk

    def train(
        self, network: str, method: ImageMethod, settings: Settings, data: str, seed: int, member: int = 0
    ) -> State:
        """Returns the weights of one trained network; raises `TimeoutError` where the deadline comes first."""
        program, rows = self.program(network, method.kind), self.images.rows[data]
        number = 1000 * (seed + 1) + member
        width = settings.prior_width(len(rows))
        if method.svd:
            given = self.state_of(network, data, seed, member)
            deterministic = self.program(network, "deterministic")
            factors = program.factors_at(deterministic, given)
            state = program.start_at(deterministic, given, factors, number, settings.eta, width)
        else:
            state = program.start(number, settings.eta, width, settings.dropout)
        steps = self.steps(network, method, settings, data)
        rate = self.size.rate * settings.rate
        step = Step(rate, settings.rho_rate, settings.decay, settings.beta / len(rows), steps, plan.WARM_UP)
        ids = batches(rows, self.size.batch, steps, number)
        self.programs.compiled(network, method.kind, "train")  # not in the time of a step
        begun = time.time()
        state, last = self._stepped(network, method.kind, state, ids, data, step)
        self.seconds_per_step[network, method.kind] = (time.time() - begun) / steps
        print(
            f"  {network} {method.kind}{' svd' * method.svd}, {data}, {number}: {steps} steps, "
            f"{time.time() - begun:.1f} s, NLL {last:.3f}",
            flush=True,
        )
        return {"weights": state["weights"], "others": state["others"]}

    def _stepped(self, network: str, kind: Kind, state: State, ids, data: str, step: Step) -> tuple[State, float]:
        """Returns the state after all batches and the NLL of the last chunk."""
        inputs = (self.images.padded, self.images.labels, self.images.mask(data))
        run, before, nll = self.programs.compiled(network, kind, "train"), None, np.nan
        for chunk in ids.reshape(-1, self.size.chunk, self.size.batch):
            state, nll = run(state, chunk, inputs, step.numbers())
            if before is not None:
                before.block_until_ready()  # one chunk waits while another is computed
            before = nll
            if time.time() > self.deadline:
                raise TimeoutError
        return state, float(nll)

    def swag(self, network: str, settings: Settings, data: str, seed: int) -> list[State]:
        """Returns draws of SWAG that begin at the deterministic network of a seed, with moments of their own."""
        program, rows = self.program(network, "deterministic"), self.images.rows[data]
        method, number = plan.METHODS["swag"], 1000 * (seed + 1) + 500
        state = program.start_from(self.state_of(network, data, seed), number)
        shapes = [np.shape(weight) for weight in state["weights"]]
        steps = self.steps(network, method, settings, data)
        ids = batches(rows, self.size.batch, steps, number)
        constant = Step(self.size.rate * settings.rate, 0.0, settings.decay, 0.0, _MANY, 1 / _MANY)
        snapshots = Snapshots(plan.SWAG_EPOCHS)
        for part in np.array_split(ids, min(plan.SWAG_EPOCHS, steps // self.size.chunk)):
            state, _ = self._stepped(network, "deterministic", state, part, data, constant)
            snapshots.add(np.concatenate([np.asarray(weight).ravel() for weight in state["weights"]]))
        still = Step(0.0, 0.0, 0.0, 0.0, _MANY, 1 / _MANY)  # nothing moves but the moments
        rng, drawn = np.random.default_rng([number, 6]), []
        for _ in range(plan.DRAWS):
            ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
            flat = np.split(snapshots.draw(rng), ends)
            weights = [part.reshape(shape) for part, shape in zip(flat, shapes, strict=True)]
            one = program.start_from({"weights": weights, "others": state["others"]}, number)
            one = jax.tree.map(np.array, one)  # copies, which the program may overwrite
            one, _ = self._stepped(network, "deterministic", one, ids[: self.size.chunk], data, still)
            drawn.append({"weights": one["weights"], "others": one["others"]})
        return drawn

    def state_of(self, network: str, data: str, seed: int, member: int = 0) -> State:
        """Returns a deterministic network that was trained and kept, or trains it."""
        method, settings = plan.METHODS["deterministic"], self.records.chosen(network, "deterministic")
        return self.kept_or_trained(network, method, settings, data, seed, member)

    def kept_or_trained(
        self, network: str, method: ImageMethod, settings: Settings, data: str, seed: int, member: int
    ) -> State:
        """Returns a network that was trained and kept, maybe by an earlier call, or trains and keeps it."""
        path, program = self.path(network, method, data, seed, member), self.program(network, method.kind)
        if not path.exists():
            self.keep(path, self.train(network, method, settings, data, seed, member))
        with np.load(path) as arrays:
            counts = len(program.model.trainable_variables), len(program.model.non_trainable_variables)
            weights, others = ([arrays[f"{n}_{i}"] for i in range(c)] for n, c in zip("wo", counts, strict=True))
        return {"weights": weights, "others": others}

    def path(self, network: str, method: ImageMethod, data: str, seed: int, member: int) -> Path:
        return self.kept / f"{network}-{method.kind}{'-svd' * method.svd}-{data}-{seed}-{member}.npz"

    def keep(self, path: Path, state: State) -> None:
        """Writes the weights of a network; a call that is cut off leaves none rather than a part."""
        self.kept.mkdir(parents=True, exist_ok=True)
        named: dict[str, Any] = {f"w_{i}": np.asarray(weight) for i, weight in enumerate(state["weights"])}
        named |= {f"o_{i}": np.asarray(other) for i, other in enumerate(state["others"])}
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, **named)
        unfinished.replace(path)

    def predict(
        self,
        network: str,
        kind: Kind,
        state: State,
        images: np.ndarray,
        *,
        data: str,
        draws: int,
        features: bool = False,
        member: int = 0,
    ) -> np.ndarray:
        """Returns logits, (draws, images, classes), or the features of one draw; members have noise of their own."""
        run, mask, size = self.programs.compiled(network, kind, "predict"), self.images.mask(data), self.size.block
        count = -(-len(images) // size)
        whole = np.resize(images, (count * size, *images.shape[1:])) if count * size != len(images) else images
        state = jax.device_put(state)
        found: list[list] = [[] for _ in range(draws)]
        seeds = 1 + plan.DRAWS * member + np.arange(draws, dtype="uint32")
        for block in whole.reshape(count, size, *images.shape[1:]):
            there = jax.device_put(block)
            for draw in range(draws):
                found[draw].append(run(state["weights"], state["others"], seeds[draw], there, mask)[features])
        every = np.stack([np.concatenate([np.asarray(part) for part in parts]) for parts in found])
        if not all(np.isfinite(np.asarray(weight)).all() for weight in state["weights"]):
            every = np.full_like(every, np.nan)  # a rectifier may hide it
        return every[0, : len(images)] if features else every[:, : len(images)]


def batches(rows: np.ndarray, batch: int, steps: int, seed: int) -> np.ndarray:
    """Returns the images of all steps, (steps, batch): every epoch in an order of its own, without a gap."""
    rng = np.random.default_rng([seed, 3])
    epochs = -(-steps * batch // len(rows))
    return (
        np.concatenate([rng.permutation(rows) for _ in range(epochs)])[: steps * batch]
        .astype("int32")
        .reshape(steps, batch)
    )
