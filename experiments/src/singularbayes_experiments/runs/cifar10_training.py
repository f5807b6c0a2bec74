"""Trains the networks of the experiment on CIFAR-10, one after the other, and predicts with them."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes_experiments.methods.image_program import ImageProgram, State, Step, padded
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems import cifar10_networks, image_corruptions
from singularbayes_experiments.problems.cifar10 import Kind, Method, Settings
from singularbayes_experiments.runs.cifar10_records import Records

ABSENT = -1e9  # added to the logits of classes that are held out


@dataclass(frozen=True)
class Size:
    """How large everything is; `TINY` is for a first trial of the program."""

    batch: int
    chunk: int  # steps of one call
    block: int  # images of one call
    epochs: float  # a factor
    width: int | None
    corrupted: int
    share: float = 1.0  # a factor of the parameters of a low-rank network


FULL = Size(plan.BATCH, 97, 2000, 1.0, None, plan.CORRUPTED)
TINY = Size(8, 1, 20, 0.02, 4, 5, share=9.0)


class Images:
    """The images, on the device where a program reads them.

    Args:
        train, test: uint8 images and their labels.
        corrupted: how many test images are corrupted.
    """

    def __init__(self, train: tuple, test: tuple, corrupted: int):
        (self.x, self.y), (self.x_test, self.y_test) = train, test
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
    """The programs of all networks and kinds: traced one after the other, compiled beside what runs."""

    def __init__(self, images: Images, size: Size, dtype: str):
        self.images, self.size, self.dtype = images, size, dtype
        self.pool = ThreadPoolExecutor(4)
        self.programs: dict[tuple[str, Kind], ImageProgram] = {}
        self._compiled: dict[tuple[str, Kind, str], Future] = {}

    def prepare(self, network: str, kind: Kind, ranks: Sequence[int] = ()) -> ImageProgram:
        """Returns a program, whose compilation begins."""
        if (network, kind) in self.programs:
            return self.programs[network, kind]
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
        self.programs[network, kind] = program
        print(
            f"traced {network} {kind}: {time.time() - begun:.0f} s; {program.num_parameters:,} parameters", flush=True
        )
        return program

    def compiled(self, network: str, kind: Kind, what: str) -> Any:
        return self._compiled[network, kind, what].result()


def _shape(array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


class Training:
    """Trains and keeps networks.

    Args:
        records: where chosen configurations and ranks are found.
        kept: folder for the weights of deterministic networks, which SVDs begin at.
        deadline: time after which a training raises `TimeoutError`.
    """

    def __init__(self, images: Images, size: Size, dtype: str, records: Records, kept: Path, deadline: float):
        self.images, self.size, self.records, self.kept, self.deadline = images, size, records, kept, deadline
        self.programs = Programs(images, size, dtype)
        self.seconds_per_step: dict[tuple[str, Kind], float] = {}
        self.pool = ThreadPoolExecutor(1)
        self._factors: dict[tuple, Future] = {}

    def program(self, network: str, kind: Kind) -> ImageProgram:
        return self.programs.prepare(network, kind, self.ranks(network) if kind == "low_rank" else ())

    def ranks(self, network: str) -> list[int]:
        """Returns the ranks of a network, by the spectrum of a deterministic one; they are a record."""
        known = self.records.of("ranks", network=network)
        if known:
            return known[0]["ranks"]
        if network in plan.RANKS:
            return list(plan.RANKS[network])
        program = self.program(network, "deterministic")
        state = self.state_of(network, "all", plan.RESULT_SEEDS[0])
        kernels = [np.asarray(state["weights"][_place(program, kernel.w)]) for kernel in program.kernels]
        plain = program.num_parameters - sum(kernel.size for kernel in kernels)
        most = int(plan.SHARES[network] * self.size.share * program.num_parameters) - plain
        found = cifar10_networks.spectral_ranks(kernels, most)
        self.records.add({"stage": "ranks", "network": network, "ranks": found, "most": most})
        return found

    def steps(self, network: str, method: Method, settings: Settings, data: str) -> int:
        """Returns the steps of a training, whole chunks."""
        own = plan.NETWORKS[network]
        epochs: float = own.epochs_svd if method.svd else own.epochs
        if network == plan.TUNING[0].network:
            epochs = settings.epochs or epochs
        epochs *= self.size.epochs
        chunks = epochs * len(self.images.rows[data]) / self.size.batch / self.size.chunk
        return max(1, round(chunks)) * self.size.chunk

    def train(self, network: str, method: Method, settings: Settings, data: str, seed: int, member: int = 0) -> State:
        """Returns the weights of one trained network; raises `TimeoutError` where the deadline comes first."""
        program, rows = self.program(network, method.kind), self.images.rows[data]
        number = 1000 * (seed + 1) + member
        width = settings.prior_width(len(rows))
        if method.svd:
            given = self.state_of(network, data, seed, member)
            deterministic = self.program(network, "deterministic")
            factors = self.factors(network, given, data, seed, member).result()
            state = program.start_at(deterministic, given, factors, number, settings.eta, width)
        else:
            state = program.start(number, settings.eta, width)
        steps = self.steps(network, method, settings, data)
        step = Step(settings.rate, settings.rho_rate, settings.decay, settings.beta / len(rows), steps, plan.WARM_UP)
        inputs = (self.images.padded, self.images.labels, self.images.mask(data))
        run = self.programs.compiled(network, method.kind, "train")
        begun, before = time.time(), None
        for ids in batches(rows, self.size.batch, steps, number).reshape(-1, self.size.chunk, self.size.batch):
            state, nll = run(state, ids, inputs, step.numbers())
            if before is not None:
                before.block_until_ready()  # one chunk waits while another is computed
            before = nll
            if time.time() > self.deadline:
                raise TimeoutError
        last = float(nll)
        self.seconds_per_step[network, method.kind] = (time.time() - begun) / steps
        print(
            f"  {network} {method.kind}{' svd' * method.svd}, {data}, {number}: {steps} steps, "
            f"{time.time() - begun:.1f} s, NLL {last:.3f}",
            flush=True,
        )
        return {"weights": state["weights"], "others": state["others"]}

    def state_of(self, network: str, data: str, seed: int, member: int = 0) -> State:
        """Returns a deterministic network that was trained and kept, or trains it."""
        path = self.kept / f"{network}-{data}-{seed}-{member}.npz"
        program = self.program(network, "deterministic")
        if not path.exists():
            method, settings = plan.METHODS["deterministic"], self.records.chosen("deterministic")
            state = self.train(network, method, settings, data, seed, member)
            self.keep(path, state)
        with np.load(path) as arrays:
            counts = len(program.model.trainable_variables), len(program.model.non_trainable_variables)
            weights, others = ([arrays[f"{n}_{i}"] for i in range(c)] for n, c in zip("wo", counts, strict=True))
        return {"weights": weights, "others": others}

    def factors(self, network: str, state: State, data: str, seed: int, member: int = 0) -> Future:
        """Returns the SVDs of a deterministic network, which another thread computes beside what runs."""
        key = network, data, seed, member
        if key not in self._factors:
            programs = (self.program(network, kind) for kind in ("low_rank", "deterministic"))
            low_rank, deterministic = programs
            self._factors[key] = self.pool.submit(low_rank.factors_at, deterministic, state)
        return self._factors[key]

    def keep(self, path: Path, state: State) -> None:
        self.kept.mkdir(parents=True, exist_ok=True)
        named: dict[str, Any] = {f"w_{i}": np.asarray(weight) for i, weight in enumerate(state["weights"])}
        named |= {f"o_{i}": np.asarray(other) for i, other in enumerate(state["others"])}
        np.savez(path, **named)

    def predict(
        self,
        network: str,
        kind: Kind,
        state: State,
        images: np.ndarray,
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


def _place(program: ImageProgram, variable) -> int:
    return next(i for i, each in enumerate(program.model.trainable_variables) if each is variable)


def batches(rows: np.ndarray, batch: int, steps: int, seed: int) -> np.ndarray:
    """Returns the images of all steps, (steps, batch): every epoch in an order of its own, without a gap."""
    rng = np.random.default_rng([seed, 3])
    epochs = -(-steps * batch // len(rows))
    return (
        np.concatenate([rng.permutation(rows) for _ in range(epochs)])[: steps * batch]
        .astype("int32")
        .reshape(steps, batch)
    )
