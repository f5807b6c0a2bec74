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
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
from scipy import special

from singularbayes import metrics
from singularbayes_experiments.data import cifar10
from singularbayes_experiments.methods.image_program import State
from singularbayes_experiments.methods.image_scores import detection, quality
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems import image_corruptions
from singularbayes_experiments.problems.cifar10 import Kind, Piece, Settings
from singularbayes_experiments.records.record import machine as machine_facts
from singularbayes_experiments.records.record import versions
from singularbayes_experiments.runs.cifar10_records import NotTuned, Records
from singularbayes_experiments.runs.cifar10_training import FULL, TINY, Images, Training


class Experiment:
    """Does pieces of the plan."""

    def __init__(self, training: Training, records: Records):
        self.training, self.records, self.images = training, records, training.images

    def tune(self, piece: Piece) -> None:
        """Trains the configurations of a family and adds their scores on validation images."""
        best: tuple[float, State] | None = None
        for settings in plan.CONFIGURATIONS[piece.family]:
            best = self._tried(piece, settings, best)
        best = self._tried(piece, replace(self.records.chosen(piece.family), epochs=plan.LONGER), best)
        if best is not None and piece.family == "deterministic":
            self.training.keep(self.training.kept / f"{piece.network}-tuning-{plan.TUNING_SEED}-0.npz", best[1])

    def _tried(self, piece: Piece, settings: Settings, best: tuple[float, State] | None) -> tuple[float, State] | None:
        """Trains one configuration if it has no record; returns the least NLL so far with its network."""
        if self.records.of("tuning", family=piece.family, configuration=settings.name):
            return best
        name, method = next(iter(plan.FAMILIES[piece.family].items()))
        images, labels = self.images.x[self.images.validation], self.images.y[self.images.validation]
        begun = time.time()
        state = self.training.train(piece.network, method, settings, "tuning", plan.TUNING_SEED)
        scores = quality(
            self.training.predict(piece.network, method.kind, state, images, "tuning", method.draws), labels
        )
        line = self._line("tuning", piece, name, settings, begun)
        self.records.add({**line, "seed": plan.TUNING_SEED, "diverged": scores is None, "validation": scores})
        print(f"tuning {piece.family}, {settings.name}: {scores}", flush=True)
        if scores is None or (best is not None and best[0] <= scores["nll"]):
            return best
        return scores["nll"], state

    def test(self, piece: Piece) -> None:
        """Trains the networks of a piece and adds a record of each of its methods."""
        settings, data = self.records.chosen(piece.family), "held_out" if piece.held_out else "all"
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
                state = self.training.state_of(piece.network, data, seed, member)
                if piece.members > 1:
                    self.training.factors(piece.network, state, data, seed, member)
            else:
                state = self.training.train(piece.network, first, settings, data, seed, member)
            draws = max(method.draws for method in methods.values() if member < method.members)
            for name, images in sets.items():
                logits[name].append(
                    self.training.predict(piece.network, first.kind, state, images, data, draws, member=member)
                )
            if piece.held_out and first.kind == "deterministic" and member == 0:
                detectors = self._detectors(piece.network, state, logits["test"][0][0])
        parameters = self.training.program(piece.network, next(iter(methods.values())).kind).num_parameters
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
        features = partial(
            self.training.predict, network, "deterministic", state, data="held_out", draws=1, features=True
        )
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
        known = self.training.seconds_per_step
        per_step = known.get((piece.network, method.kind), known.get((piece.network, "deterministic"), 0.0))
        if piece.seed is None:
            longer = replace(plan.CONFIGURATIONS[piece.family][0], epochs=plan.LONGER)
            every = [*plan.CONFIGURATIONS[piece.family], longer]
            steps = sum(self.training.steps(piece.network, method, settings, "tuning") for settings in every)
        else:
            most = max(each.members for each in plan.FAMILIES[piece.family].values() if each.members <= piece.members)
            data = "held_out" if piece.held_out else "all"
            steps = most * self.training.steps(piece.network, method, self.records.chosen(piece.family), data)
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
    records = Records(given.out)
    training = Training(images, size, dtype, records, given.kept, deadline)
    experiment = Experiment(training, records)
    work = [
        piece
        for piece in plan.WORK
        if given.only in ("", piece.family) and given.network in ("", piece.network) and not experiment.done(piece)
    ]
    for network, kind in dict.fromkeys((piece.network, _kind(piece)) for piece in work[: len(plan.TUNING)]):
        if kind != "low_rank" or network in plan.RANKS:  # compiled while the first pieces run
            training.program(network, kind)
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
