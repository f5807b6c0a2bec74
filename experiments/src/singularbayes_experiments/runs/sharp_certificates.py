"""The MNIST certificates of `problems/sharp_certificates.py`, by several processes that share one folder.

    singularbayes-experiments sharp-certificates --out runs/sharp_certificates --processes 7 --minutes 9

Every process takes the next task that no other holds: a program of configurations of the rule, which ends in lines of
rule.jsonl, or, where all configurations of a method and seed are there, its certificates, a line of records.jsonl. A
call that is stopped, or reaches its minutes, is continued by the next.
"""

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import Timeout

from singularbayes_experiments.methods.training import require_method
from singularbayes_experiments.problems import certificates
from singularbayes_experiments.problems import sharp_certificates as plan
from singularbayes_experiments.problems.image_copies import CopiesFolder
from singularbayes_experiments.problems.sharp_certificates import CertificateSplit, Configuration, SharpSettings
from singularbayes_experiments.records import files, record

RULE_LINES = "rule.jsonl"
ORDER = ("low_rank_50", "low_rank_25", "cnn_low_rank", "full_rank")  # where time is short


@dataclass(frozen=True)
class CertificateTask:
    """Configurations of a method that are fitted as one program; without configurations, the certificates of a seed."""

    method: str
    seed: int
    configurations: tuple[Configuration, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.method}_{self.seed}" + "".join(
            f"_{one.settings.beta:g}_{one.settings.dropout:g}_{one.settings.shift}" for one in self.configurations[:1]
        )


def tasks(methods: Sequence[str], seeds: Sequence[int], settings: SharpSettings) -> list[CertificateTask]:
    """Returns all there is to do; certificates stand before what they wait for, so they are next once they can be."""
    learned = [method for method in ORDER if method in methods]
    found = [CertificateTask("low_rank_initial", seed) for seed in seeds if "low_rank_initial" in methods]
    found += [CertificateTask(method, seed) for seed in seeds for method in learned]
    for method in learned:
        configurations = [Configuration(one, seed) for seed in seeds for one in plan.combinations(settings)]
        if plan.METHODS[method][0] == "cnn":
            found += [CertificateTask(method, one.seed, (one,)) for one in configurations]
            continue
        for dropout in dict.fromkeys(one.settings.dropout for one in configurations):
            together = tuple(one for one in configurations if one.settings.dropout == dropout)
            found.append(CertificateTask(method, seeds[0], together))
    return found


class Folder:
    """What was found so far, and who is at what."""

    def __init__(self, path: Path, settings: SharpSettings):
        self.path, self.settings = path, settings
        self.copies = CopiesFolder(path / "copies")

    def mistakes(self) -> dict[tuple[str, Configuration], tuple[float, float]]:
        """Returns mistakes and seconds of the configurations that were fitted."""
        path = self.path / RULE_LINES
        lines = [json.loads(line) for line in files.read_lines(path)] if path.exists() else []
        return {
            (line["method"], Configuration(SharpSettings(**line["settings"]), line["seed"])): (
                line["mistakes"],
                line["seconds"],
            )
            for line in lines
        }

    def add_mistakes(self, method: str, configuration: Configuration, mistakes: float, seconds: float) -> None:
        line: dict[str, Any] = {"method": method, "seed": configuration.seed, "mistakes": mistakes, "seconds": seconds}
        line |= {"settings": record.plain(configuration.settings), "finished": record.now()}
        line |= {"versions": record.versions(), "machine": record.machine()}
        with record.lock(self.path, "rule"):
            files.append_line(self.path / RULE_LINES, json.dumps(line))

    def finished(self) -> set[tuple[str, int]]:
        """Returns methods and seeds with a record."""
        found = record.read(self.path, arrays=False) if (self.path / record.LINES).exists() else []
        return {(one.method, one.seed) for one in found}

    def is_done(self, task: CertificateTask) -> bool:
        if not task.configurations:
            return (task.method, task.seed) in self.finished()
        known = self.mistakes()
        return all((task.method, one) in known for one in task.configurations)

    def is_ready(self, task: CertificateTask, split: CertificateSplit) -> bool:
        if task.method == "low_rank_initial":
            return True
        if task.configurations:
            return all(self.copies.path(one.moves, len(split.fitted[0])).exists() for one in task.configurations)
        known = self.mistakes()
        wanted = [Configuration(one, task.seed) for one in plan.combinations(self.settings)]
        made = all(self.copies.path(one.moves, len(split.prior[0])).exists() for one in wanted)
        return made and all((task.method, one) in known for one in wanted)

    def carry_out(self, task: CertificateTask, split: CertificateSplit, images=None) -> str:
        """Does a task, writes what came out, and returns a line about it."""
        start = time.perf_counter()
        if task.configurations:
            models = plan.fit_priors(task.method, task.configurations, *split.fitted, self.copies)
            for one, model in zip(task.configurations, models, strict=True):
                mistakes = plan.count_mistakes(model, split, one.seed, self.settings)
                self.add_mistakes(task.method, one, mistakes, (time.perf_counter() - start) / len(task.configurations))
            return f"{len(models)} configurations, {time.perf_counter() - start:.0f} s"
        if task.method == "low_rank_initial":
            found = plan.run_initial(task.seed, images)
        else:
            known = self.mistakes()
            wanted = [Configuration(one, task.seed) for one in plan.combinations(self.settings)]
            best = min(wanted, key=lambda one: known[task.method, one][0])
            spent = sum(known[task.method, one][1] for one in wanted)
            mistakes = known[task.method, best][0]
            found = plan.certified(task.method, best, mistakes, split, self.settings, spent, self.copies)
        record.append(found, self.path)
        return f"certified {found.metrics['certificate']:.4f}, {time.perf_counter() - start:.0f} s"


def work(folder: Folder, todo: Sequence[CertificateTask], images=None) -> Iterator[str]:
    """Does tasks that no other process holds until none is left; one that fails is left to the next call.

    So are the certificates that wait for it.
    """
    split, failed = CertificateSplit.of(folder.settings, images), set[CertificateTask]()
    while left := [task for task in todo if task not in failed and not folder.is_done(task)]:
        lost = {(task.method, one.seed) for task in failed for one in task.configurations}
        if all(not task.configurations and (task.method, task.seed) in lost for task in left):
            return
        for task in left:
            if not folder.is_ready(task, split):
                continue
            try:
                with record.lock(folder.path, task.name).acquire(timeout=0):
                    if folder.is_done(task):
                        continue
                    yield f"{task.name}: {folder.carry_out(task, split, images)}"
                    break
            except Timeout:
                continue
            except Exception:  # other tasks continue
                failed.add(task)
                yield f"{task.name} failed:\n{traceback.format_exc()}"
                break
        else:
            time.sleep(1)


def run_sharp_certificates(
    methods: Sequence[str] | None,
    seeds: Sequence[int],
    folder: Path,
    processes: int = 1,
    minutes: float | None = None,
    settings: SharpSettings = SharpSettings(),
    rows: int | None = None,
) -> Iterator[str]:
    """Runs methods and seeds; what the folder has already is not done again. Yields lines, as processes print them.

    Args:
        rows: the first images alone, to try it; None is all.
    """
    names = list(methods or plan.METHODS)
    for name in names:
        require_method(name, plan.METHODS)
    plan.require_paid(settings)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    job = {"methods": names, "seeds": list(seeds), "settings": record.plain(settings), "rows": rows}
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", __name__, str(folder), json.dumps(job)]
    helpers = [subprocess.Popen(command) for _ in range(processes)]
    try:
        if set(names) != {"low_rank_initial"}:
            _make_copies(
                Folder(folder, settings), CertificateSplit.of(settings, first_images(rows, settings)), seeds, processes
            )
            yield "copies are made"
        for helper in helpers:
            helper.wait(None if end is None else max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        yield f"{minutes:g} minutes are over; the next call continues"
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def first_images(rows: int | None, settings: SharpSettings):
    """Returns the first images of MNIST to train and certify, and to test; None for all."""
    if rows is None:
        return None
    train, test = certificates.mnist(settings.pixel_scale)
    return tuple(tuple(array[:rows] for array in part) for part in (train, test))


def _make_copies(folder: Folder, split: CertificateSplit, seeds: Sequence[int], processes: int) -> None:
    shifts = {one.shift: one for one in plan.combinations(folder.settings)}.values()
    configurations = [Configuration(one, seed) for seed in seeds for one in shifts]
    folder.copies.make([(one.moves, x) for x in (split.fitted[0], split.prior[0]) for one in configurations], processes)


def main(folder: str, job: str) -> None:
    """Works as one of several processes."""
    given = json.loads(job)
    settings = SharpSettings(**given["settings"])
    todo = tasks(given["methods"], given["seeds"], settings)
    for line in work(Folder(Path(folder), settings), todo, first_images(given["rows"], settings)):
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
