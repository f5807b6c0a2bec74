"""The command of the experiment on CIFAR-10 (`problems/cifar10.py` is its plan), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.cifar10 --out runs/cifar10 --minutes 22

Networks train one after the other, all of a kind with one compiled program (`methods/image_program.py`). Every piece of
work ends in lines of JSON in the folder, and a second call does what is missing. A piece that would not end in time is
left out.
"""

import argparse
import json
import shlex
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy import special

from singularbayes import metrics
from singularbayes_experiments.data import cifar10
from singularbayes_experiments.methods.image_program import ImageProgram, State, Step, padded
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems import cifar10_networks, image_corruptions
from singularbayes_experiments.problems.cifar10 import Kind, Method, Piece, Settings
from singularbayes_experiments.records.record import machine as machine_facts
from singularbayes_experiments.records.record import versions

ABSENT = -1e9  # added to the logits of classes that are held out
LINES = "records.jsonl"


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


class NotTuned(Exception):
    """No configuration of a family has a score on validation images."""


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


class Records:
    """Lines of JSON in a folder."""

    def __init__(self, out: Path):
        self.path = out / LINES
        self.lines = read_lines(out)

    def add(self, line: dict) -> None:
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def of(self, stage: str, **wanted) -> list[dict]:
        return [
            line
            for line in self.lines
            if line["stage"] == stage and all(line[name] == value for name, value in wanted.items())
        ]


def read_lines(folder: Path) -> list[dict]:
    """Returns the records in a folder; none where it has none."""
    path = folder / LINES
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Experiment:
    """Does pieces of the plan.

    Args:
        kept: folder for the weights of deterministic networks, which SVDs begin at.
    """

    def __init__(self, images: Images, size: Size, dtype: str, records: Records, kept: Path, deadline: float):
        self.images, self.size, self.records, self.kept, self.deadline = images, size, records, kept, deadline
        self.programs = Programs(images, size, dtype)
        self.seconds_per_step: dict[tuple[str, Kind], float] = {}
        self.pool = ThreadPoolExecutor(1)
        self._factors: dict[tuple, Future] = {}

    # -- training and prediction ---------------------------------------------------------------------------------------

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
            method, settings = plan.METHODS["deterministic"], self.chosen("deterministic")
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

    # -- pieces --------------------------------------------------------------------------------------------------------

    def chosen(self, family: str) -> Settings:
        """Returns the configuration with the least NLL on validation images."""
        tried = [line for line in self.records.of("tuning", family=family) if not line["diverged"]]
        if not tried:
            raise NotTuned(f"{family} needs a configuration that was tuned and did not diverge.")
        return Settings(**min(tried, key=lambda line: line["validation"]["nll"])["settings"])

    def tune(self, piece: Piece) -> None:
        """Trains the configurations of a family and adds their scores on validation images."""
        best: tuple[float, State] | None = None
        for settings in plan.CONFIGURATIONS[piece.family]:
            best = self._tried(piece, settings, best)
        best = self._tried(piece, replace(self.chosen(piece.family), epochs=plan.LONGER), best)
        if best is not None and piece.family == "deterministic":
            self.keep(self.kept / f"{piece.network}-tuning-{plan.TUNING_SEED}-0.npz", best[1])

    def _tried(self, piece: Piece, settings: Settings, best: tuple[float, State] | None) -> tuple[float, State] | None:
        """Trains one configuration if it has no record; returns the least NLL so far with its network."""
        if self.records.of("tuning", family=piece.family, configuration=settings.name):
            return best
        name, method = next(iter(plan.FAMILIES[piece.family].items()))
        images, labels = self.images.x[self.images.validation], self.images.y[self.images.validation]
        begun = time.time()
        state = self.train(piece.network, method, settings, "tuning", plan.TUNING_SEED)
        scores = quality(self.predict(piece.network, method.kind, state, images, "tuning", method.draws), labels)
        line = self._line("tuning", piece, name, settings, begun)
        self.records.add({**line, "seed": plan.TUNING_SEED, "diverged": scores is None, "validation": scores})
        print(f"tuning {piece.family}, {settings.name}: {scores}", flush=True)
        if scores is None or (best is not None and best[0] <= scores["nll"]):
            return best
        return scores["nll"], state

    def test(self, piece: Piece) -> None:
        """Trains the networks of a piece and adds a record of each of its methods."""
        settings, data = self.chosen(piece.family), "held_out" if piece.held_out else "all"
        begun, seed = time.time(), piece.seed
        assert seed is not None
        methods = {
            name: method
            for name, method in plan.FAMILIES[piece.family].items()
            if method.members <= piece.members and not self._known(piece, name)
        }
        most = max(method.members for method in methods.values())
        sets = {"test": self.images.x_test} | ({} if piece.held_out else {"corrupted": self.images.corrupted})
        logits: dict[str, list[np.ndarray]] = {name: [] for name in sets}
        detectors = {}
        for member in range(most):
            first = next(iter(methods.values()))
            if first.kind == "deterministic":
                state = self.state_of(piece.network, data, seed, member)
                if piece.members > 1:
                    self.factors(piece.network, state, data, seed, member)
            else:
                state = self.train(piece.network, first, settings, data, seed, member)
            draws = max(method.draws for method in methods.values() if member < method.members)
            for name, images in sets.items():
                logits[name].append(self.predict(piece.network, first.kind, state, images, data, draws, member=member))
            if piece.held_out and first.kind == "deterministic" and member == 0:
                detectors = self._detectors(piece.network, state, logits["test"][0][0])
        parameters = self.program(piece.network, next(iter(methods.values())).kind).num_parameters
        for name, method in methods.items():
            own = {
                part: np.concatenate([e[: method.draws] for e in every[: method.members]])
                for part, every in logits.items()
            }
            line = self._line("result", piece, name, settings, begun)
            line |= {"seed": seed, "parameters": method.members * parameters, **self._scores(piece, own)}
            if name == "deterministic" and detectors:
                line["detectors"] = detectors
            self.records.add(line)
            shown = line.get("test") or {}
            print(f"{piece.network} {data} {seed} {name}: {shown} {line.get('ood', '')}", flush=True)

    def _known(self, piece: Piece, method: str) -> bool:
        return bool(
            self.records.of("result", network=piece.network, method=method, seed=piece.seed, held_out=piece.held_out)
        )

    def _line(self, stage: str, piece: Piece, method: str, settings: Settings, begun: float) -> dict:
        return {
            "stage": stage,
            "network": piece.network,
            "family": piece.family,
            "method": method,
            "held_out": piece.held_out,
            "configuration": settings.name,
            "settings": asdict(settings),
            "seconds": round(time.time() - begun, 2),
        }

    def _scores(self, piece: Piece, logits: dict[str, np.ndarray]) -> dict:
        """Returns all scores of a method; without numbers where it diverged."""
        labels = self.images.y_test
        if piece.held_out:
            inside = ~np.isin(labels, plan.HELD_OUT)
            test = quality(logits["test"][:, inside], labels[inside])
            return {"diverged": test is None, "test": test, "ood": test and detection(logits["test"], inside)}
        test = quality(logits["test"], labels)
        if test is None:
            return {"diverged": True}
        shape = (len(image_corruptions.NAMES), image_corruptions.SEVERITIES)
        parts = np.split(logits["corrupted"], shape[0] * shape[1], axis=1)
        every = [quality(part, labels[: part.shape[1]]) for part in parts]
        corrupted = {name: np.mean([each[name] for each in every if each]) for name in test}
        nll = np.reshape([each["nll"] if each else np.nan for each in every], shape).round(5)
        return {
            "diverged": False,
            "test": test,
            "corrupted": corrupted,
            "corrupted_nll": dict(zip(image_corruptions.NAMES, nll.tolist(), strict=True)),
        }

    def _detectors(self, network: str, state: State, logits: np.ndarray) -> dict[str, float]:
        """Returns the AUROC of scores of one deterministic network for the held-out classes."""
        rows = self.images.rows["held_out"]
        features = partial(self.predict, network, "deterministic", state, data="held_out", draws=1, features=True)
        distance = metrics.MahalanobisDistance(features(self.images.x[rows]), self.images.y[rows])
        known = np.delete(logits, plan.HELD_OUT, axis=1)
        scores = {
            "max_softmax": metrics.least_confidence(special.softmax(known.astype("float64"), axis=1)),
            "energy": metrics.energy_score(known),
            "mahalanobis": distance(features(self.images.x_test)),
        }
        inside = ~np.isin(self.images.y_test, plan.HELD_OUT)
        return {name: metrics.auroc_ood(each[inside], each[~inside]) for name, each in scores.items()}

    def seconds(self, piece: Piece) -> float:
        """Returns how long a piece will take, a third for predictions; 0 where nothing is known yet."""
        method = next(iter(plan.FAMILIES[piece.family].values()))
        known = self.seconds_per_step
        per_step = known.get((piece.network, method.kind), known.get((piece.network, "deterministic"), 0.0))
        if piece.seed is None:
            longer = replace(plan.CONFIGURATIONS[piece.family][0], epochs=plan.LONGER)
            every = [*plan.CONFIGURATIONS[piece.family], longer]
            steps = sum(self.steps(piece.network, method, settings, "tuning") for settings in every)
        else:
            most = max(each.members for each in plan.FAMILIES[piece.family].values() if each.members <= piece.members)
            data = "held_out" if piece.held_out else "all"
            steps = most * self.steps(piece.network, method, self.chosen(piece.family), data)
        return 1.3 * per_step * steps

    def done(self, piece: Piece) -> bool:
        """Whether all records of a piece are there."""
        if piece.seed is None:
            return len(self.records.of("tuning", family=piece.family)) > len(plan.CONFIGURATIONS[piece.family])
        methods = plan.FAMILIES[piece.family].items()
        return all(self._known(piece, name) for name, each in methods if each.members <= piece.members)

    def do(self, piece: Piece) -> None:
        (self.tune if piece.seed is None else self.test)(piece)


def _kind(piece: Piece) -> Kind:
    return next(iter(plan.FAMILIES[piece.family].values())).kind


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


def probabilities(logits: np.ndarray) -> np.ndarray:
    return special.softmax(logits.astype("float64"), axis=-1)


def quality(logits: np.ndarray, labels: np.ndarray) -> dict[str, float] | None:
    """Returns the scores of the averaged probabilities of draws; None where a logit is no number."""
    if not np.isfinite(logits).all():
        return None
    mean = np.maximum(probabilities(logits).mean(axis=0), 1e-30)
    return {
        "accuracy": metrics.accuracy(mean, labels),
        "nll": metrics.negative_log_likelihood(mean, labels),
        "brier": metrics.brier(mean, labels),
        "ece": metrics.expected_calibration_error(mean, labels),
    }


def detection(logits: np.ndarray, inside: np.ndarray) -> dict[str, float]:
    """Returns how well entropy and, of several draws, mutual information tell the images of held-out classes."""
    p = probabilities(logits)
    total = special.entr(p.mean(axis=0)).sum(axis=-1)
    found = {"auroc_entropy": metrics.auroc_ood(total[inside], total[~inside])}
    if len(p) > 1:
        shared = total - special.entr(p).sum(axis=-1).mean(axis=0)
        found["auroc_mi"] = metrics.auroc_ood(shared[inside], shared[~inside])
    return found


def made_up_images(count: int = 80, side: int = 8) -> tuple[tuple, tuple]:
    """Returns images of noise whose brightness tells their class, to try the program with."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % plan.CLASSES
    x = (rng.integers(0, 30, (count, side, side, 3)) + 20 * y[:, None, None, None]).astype("uint8")
    return (x, y), (x[: count // 2], y[: count // 2])


def run(given, deadline: float) -> int:
    """Does what is left, in the order of the plan, while there is time; returns how many pieces failed."""
    given.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", "singularbayes_experiments.runs.cifar10", *sys.argv[1:]])
    about = {"command": command, "versions": versions(), "machine": machine_facts()}
    (given.out / "run.json").write_text(json.dumps(about, indent=1) + "\n")
    size, begun = TINY if given.tiny else FULL, time.time()
    found = None if given.tiny else cifar10()
    train, test = made_up_images() if found is None else (found.train, found.test)
    assert train is not None
    images = Images(train, test, size.corrupted)
    print(f"read: {time.time() - begun:.0f} s; {jax.devices()}", flush=True)
    dtype = "float32" if given.tiny else "mixed_bfloat16"
    experiment = Experiment(images, size, dtype, Records(given.out), given.kept, deadline)
    work = [
        piece
        for piece in plan.WORK
        if given.only in ("", piece.family) and given.network in ("", piece.network) and not experiment.done(piece)
    ]
    for network, kind in dict.fromkeys((piece.network, _kind(piece)) for piece in work[: len(plan.TUNING)]):
        if kind != "low_rank" or network in plan.RANKS:  # compiled while the first pieces run
            experiment.program(network, kind)
    failed = 0
    for piece in work:
        try:
            estimate, left = experiment.seconds(piece), deadline - time.time()
            if estimate > left:
                print(f"left out: {piece}, {estimate:.0f} s with {left:.0f} s left", flush=True)
                continue
            experiment.do(piece)
        except TimeoutError:
            print(f"out of time: {piece}", flush=True)
            break
        except NotTuned as error:
            print(f"left out: {piece}: {error}", flush=True)
        except Exception:  # pieces do not depend on each other, and the machine is lent for minutes
            print(f"failed: {piece}\n{traceback.format_exc()}", flush=True)
            failed += 1
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10"))
    parser.add_argument("--kept", type=Path, default=Path("runs/cifar10-weights"), help="weights that SVDs begin at")
    parser.add_argument("--minutes", type=float, default=22.0)
    parser.add_argument("--only", default="", choices=("", *plan.FAMILIES), help="one family; all by default")
    parser.add_argument("--network", default="", choices=("", *plan.NETWORKS), help="one network; all by default")
    parser.add_argument("--tiny", action="store_true", help="narrow networks, 80 made-up images: does it run?")
    given = parser.parse_args(arguments)
    return min(1, run(given, time.time() + 60 * given.minutes))


if __name__ == "__main__":
    sys.exit(main())
