"""The command of the experiment on CIFAR-10 (`problems/cifar10.py` is its plan), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.cifar10 --network resnet20 --out runs/cifar10 --minutes 22

Networks train one after the other, all of a kind with one compiled program (`methods/image_program.py`). Every piece of
work ends in lines of JSON in the folder, and every trained network is kept, so a second call does what is missing. A
piece that would not end in time is left out.
"""

import argparse
import json
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
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
from singularbayes_experiments.problems import image_corruptions, other_photographs
from singularbayes_experiments.problems.cifar10 import ImageMethod, Kind, Piece, Settings
from singularbayes_experiments.records.record import machine as machine_facts
from singularbayes_experiments.records.record import versions
from singularbayes_experiments.runs.cifar10_records import Cifar10Records, NotTuned
from singularbayes_experiments.runs.cifar10_training import FULL, TINY, Images, Training

PREDICTING = 1.3  # a training with its share of predictions, in trainings


class Experiment:
    """Does pieces of the plan."""

    def __init__(self, training: Training, records: Cifar10Records):
        self.training, self.records, self.images = training, records, training.images

    def tune(self, piece: Piece) -> None:
        """Trains the configurations of a family and adds their scores on validation images."""
        tried = self.records.select("tuning", network=piece.network, family=piece.family)
        done = {line["configuration"] for line in tried}
        for settings in plan.CONFIGURATIONS[piece.network][piece.family]:
            if settings.name not in done:
                self._try(piece, settings)

    def _try(self, piece: Piece, settings: Settings) -> None:
        """Trains one configuration; SVDs of tuning begin at the best deterministic network so far."""
        name, method = next(iter(plan.FAMILIES[piece.family].items()))
        images, labels = self.images.x[self.images.validation], self.images.y[self.images.validation]
        begun = time.time()
        states = self._states(piece, method, settings, "tuning", plan.TUNING_SEED, 0)
        scores = quality(self._logits(piece, method, states, images, "tuning", method.draws), labels)
        line = self._line("tuning", piece, name, settings, begun)
        self.records.add({**line, "seed": plan.TUNING_SEED, "diverged": scores is None, "validation": scores})
        print(f"tuning {piece.family}, {settings.name}: {scores}", flush=True)

    def _states(
        self, piece: Piece, method: ImageMethod, settings: Settings, data: str, seed: int, member: int
    ) -> list[State]:
        """Returns a trained network, or the draws of SWAG."""
        if method.swag:
            try:
                return self.training.swag(piece.network, settings, data, seed)
            except ValueError as error:  # snapshots that are no numbers
                print(f"swag, {settings.name}: {error}", flush=True)
                return []
        if data == "tuning":
            return [self.training.train(piece.network, method, settings, data, seed, member)]
        return [self.training.kept_or_trained(piece.network, method, settings, data, seed, member)]

    def _logits(
        self, piece: Piece, method: ImageMethod, states: list[State], images, data: str, draws: int, member: int = 0
    ):
        """Returns the logits of draws of one network, or of one draw of each of several."""
        if not states:
            return np.full((1, len(images), plan.CLASSES), np.nan)
        if len(states) > 1:
            draws = 1
        every = [
            self.training.predict(piece.network, method.kind, state, images, data=data, draws=draws, member=member)
            for state in states
        ]
        return np.concatenate(every)

    def test(self, piece: Piece) -> None:
        """Trains the networks of a piece and adds a record of each of its methods."""
        settings, data = self.records.chosen(piece.network, piece.family), "held_out" if piece.held_out else "all"
        begun, seed = time.time(), piece.seed
        assert seed is not None
        methods = {name: own for name, own in plan.FAMILIES[piece.family].items() if not self._known(piece, name)}
        first = next(iter(methods.values()))
        plain = first.kind == "deterministic" and not first.swag
        most = max(method.members for method in methods.values())
        sets = {"test": self.images.x_test}
        if not piece.held_out:
            sets |= {"corrupted": self.images.corrupted, **self.images.other}
        logits: dict[str, list[np.ndarray]] = {name: [] for name in sets}
        detectors, sizes = {}, 1
        for member in range(most):
            if plain:
                states = [self.training.state_of(piece.network, data, seed, member)]
            else:
                states = self._states(piece, first, settings, data, seed, member)
            draws = max(method.draws for method in methods.values() if member < method.members)
            for name, images in sets.items():
                logits[name].append(self._logits(piece, first, states, images, data, draws, member))
            if plain and member == 0 and all(np.isfinite(each[0]).all() for each in logits.values()):
                detectors = self._detectors(piece, states[0], {name: each[0][0] for name, each in logits.items()})
        if first.swag:
            sizes = 1 + plan.SWAG_EPOCHS  # the mean, the variances and all deviations but the first
        parameters = sizes * self.training.program(piece.network, first.kind).num_parameters
        for name, method in methods.items():
            own = {
                part: np.concatenate([e[: method.draws] for e in every[: method.members]])
                for part, every in logits.items()
            }
            line = self._line("result", piece, name, settings, begun)
            line |= {"seed": seed, "parameters": method.members * parameters, **self._scores(piece, own)}
            line["epochs"] = self.training.epochs(piece.network, method, settings, data)
            if method.members > 1:
                line["components"] = self._components(piece, logits["test"][: method.members])
            if name == "deterministic" and detectors:
                line["detectors"] = detectors
            self.records.add(line)
            shown = line.get("test") or {}
            print(f"{piece.network} {data} {seed} {name}: {shown} {line.get('ood', '')}", flush=True)

    def _known(self, piece: Piece, method: str) -> bool:
        own = {"network": piece.network, "method": method, "seed": piece.seed, "held_out": piece.held_out}
        return bool(self.records.select("result", **own))

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
            "other": {name: self._ood_scores(logits["test"], logits[name]) for name in self.images.other},
        }

    def _components(self, piece: Piece, logits: list[np.ndarray]) -> list[float | None]:
        """Returns the NLL on test images of every component alone, by its own draws; None where it diverged."""
        labels = self.images.y_test
        inside = ~np.isin(labels, plan.HELD_OUT) if piece.held_out else np.ones(len(labels), bool)
        every = [quality(each[: plan.DRAWS // len(logits), inside], labels[inside]) for each in logits]
        return [None if scores is None else round(scores["nll"], 5) for scores in every]

    def _ood_scores(self, inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
        """Returns how well draws detect other data beside test images."""
        where = np.arange(inside.shape[1] + outside.shape[1]) < inside.shape[1]
        return detection(np.nan_to_num(np.concatenate([inside, outside], axis=1)), where)

    def _detectors(self, piece: Piece, state: State, logits: dict[str, np.ndarray]) -> dict:
        """Returns the AUROC of plain scores by the set that they detect: "held_out", or the names of other data."""
        data = "held_out" if piece.held_out else "all"
        rows = self.images.rows[data]
        features = partial(
            self.training.predict, piece.network, "deterministic", state, data=data, draws=1, features=True
        )
        distance = metrics.MahalanobisDistance(features(self.images.x[rows]), self.images.y[rows])
        known = np.setdiff1d(np.arange(plan.CLASSES), plan.HELD_OUT if piece.held_out else ())

        def scores(images: np.ndarray, its: np.ndarray) -> dict[str, np.ndarray]:
            its = its[:, known].astype("float64")
            return {
                "max_softmax": metrics.least_confidence(special.softmax(its, axis=1)),
                "energy": metrics.energy_score(its),
                "mahalanobis": distance(features(images)),
                **other_photographs.simple_scores(images),
            }

        test = scores(self.images.x_test, logits["test"])
        if piece.held_out:
            inside = ~np.isin(self.images.y_test, plan.HELD_OUT)
            return {"held_out": {name: metrics.auroc_ood(each[inside], each[~inside]) for name, each in test.items()}}
        others = {name: scores(images, logits[name]) for name, images in self.images.other.items()}
        return {
            name: {score: metrics.auroc_ood(test[score], each[score]) for score in test}
            for name, each in others.items()
        }

    def _per_step(self, network: str, kind: Kind) -> float:
        known = self.training.seconds_per_step
        return known.get((network, kind), known.get((network, "deterministic"), 0.0))

    def seconds(self, piece: Piece) -> float:
        """Returns how long a piece will take; 0 where nothing is known yet."""
        method = next(iter(plan.FAMILIES[piece.family].values()))
        if piece.seed is None:
            every = plan.CONFIGURATIONS[piece.network][piece.family]
            steps = sum(self.training.steps(piece.network, method, settings, "tuning") for settings in every)
        else:
            most = max(each.members for each in plan.FAMILIES[piece.family].values())
            data, settings = "held_out" if piece.held_out else "all", self.records.chosen(piece.network, piece.family)
            steps = most * self.training.steps(piece.network, method, settings, data)
        if method.swag:
            runs = 1 if piece.seed is not None else len(plan.CONFIGURATIONS[piece.network][piece.family])
            steps += runs * plan.DRAWS * self.training.size.chunk
        return PREDICTING * self._per_step(piece.network, method.kind) * steps

    def done(self, piece: Piece) -> bool:
        """Whether all records of a piece are there; a configuration that diverged is one."""
        if piece.seed is None:
            tried = self.records.select("tuning", network=piece.network, family=piece.family)
            planned = {settings.name for settings in plan.CONFIGURATIONS[piece.network][piece.family]}
            return planned <= {line["configuration"] for line in tried}
        return all(self._known(piece, name) for name in plan.FAMILIES[piece.family])

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
    other = {"noise": made_up_images()[1][0][::-1]} if found is None else other_photographs.sets(plan.OTHER)
    images = Images(train, test, size.corrupted or plan.CORRUPTED[given.network], other)
    print(f"read: {time.time() - begun:.0f} s; {jax.devices()}", flush=True)
    dtype = "float32" if given.tiny else "mixed_bfloat16"
    records = Cifar10Records(given.out, given.tuned)
    training = Training(images, size, dtype, records, given.kept, deadline)
    experiment = Experiment(training, records)
    seeds = {int(seed) for seed in given.seeds.split(",") if seed} | ({None} if given.tuned is None else set())
    work = [
        piece
        for piece in plan.WORK
        if given.only in ("", piece.family)
        and piece.network == given.network
        and piece.seed in seeds
        and not experiment.done(piece)
    ]
    prepare(training, work[:1])
    threading.Thread(target=prepare, args=(training, work), daemon=True).start()  # while the first pieces run
    return do_all(experiment, work, deadline, given.will_resume)


def prepare(training: Training, work: Sequence[Piece]) -> None:
    """Makes the programs of pieces, which are compiled beside what runs."""
    for network, kind in dict.fromkeys((piece.network, _kind(piece)) for piece in work):
        training.program(network, kind)


def do_all(experiment: Experiment, work: Sequence[Piece], deadline: float, will_resume: bool = False) -> int:
    """Does pieces in their order while there is time; returns how many failed.

    Args:
        will_resume: another call resumes, so a piece may be begun that will not end.
    """
    failed = 0
    for piece in work:
        try:
            estimate, left = experiment.seconds(piece), deadline - time.time()
            if estimate > left and not will_resume:
                print(f"left out: {piece}, {estimate:.0f} s with {left:.0f} s left", flush=True)
                continue
            experiment.do(piece)
        except TimeoutError:
            print(f"out of time: {piece}", flush=True)
            break
        except NotTuned as error:
            print(f"left out: {piece}: {error}", flush=True)
        except Exception:  # pieces do not depend on each other, and time is short
            print(f"failed: {piece}\n{traceback.format_exc()}", flush=True)
            failed += 1
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10"))
    parser.add_argument("--kept", type=Path, default=Path("runs/cifar10-weights"), help="weights of trained networks")
    parser.add_argument("--minutes", type=float, default=22.0)
    families = dict.fromkeys(piece.family for piece in plan.WORK)
    parser.add_argument("--only", default="", choices=("", *families), help="one family; all by default")
    seeds = ",".join(map(str, plan.RESULT_SEEDS))
    parser.add_argument("--seeds", default=seeds, help="of results, such as 0,2; empty: it tunes alone")
    parser.add_argument("--tuned", type=Path, help="folder of a process that tunes beside this one, which does not")
    networks = tuple(dict.fromkeys(piece.network for piece in plan.WORK))
    parser.add_argument("--network", default=networks[0], choices=networks, help="those of the present plan")
    parser.add_argument("--will-resume", action="store_true", help="a call follows: begin what will not end in time")
    parser.add_argument("--tiny", action="store_true", help="narrow networks, 80 made-up images: does it run?")
    given = parser.parse_args(arguments)
    return min(1, run(given, time.time() + 60 * given.minutes))


if __name__ == "__main__":
    sys.exit(main())
