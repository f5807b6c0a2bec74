"""Records of the experiments on adapters: their scores, lines and files."""

import argparse
import gzip
import itertools
import json
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes import metrics
from singularbayes.prediction import ClassPredictive, recalibrate
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems.finetune import Adaptation
from singularbayes_experiments.problems.finetune_texts import Texts
from singularbayes_experiments.records import files
from singularbayes_experiments.records.record import machine as machine_facts
from singularbayes_experiments.records.record import versions


def pooled(parts: Sequence[ClassPredictive]) -> ClassPredictive:
    """Returns the averaged prediction of several networks with as many draws each."""
    mean = np.mean([part.mean for part in parts], axis=0)
    entropy = np.mean([np.asarray(part.expected_entropy) for part in parts], axis=0)
    return ClassPredictive(mean, np.zeros((1, 1)), sum(part.num_draws for part in parts), expected_entropy=entropy)


def quality(p: ClassPredictive, labels: np.ndarray) -> dict[str, float]:
    mean = np.maximum(np.asarray(p.mean, "float64"), 1e-30)
    return {
        "accuracy": metrics.accuracy(mean, labels),
        "nll": metrics.negative_log_likelihood(mean, labels),
        "brier": metrics.brier(mean, labels),
        "ece": metrics.expected_calibration_error(mean, labels),
    }


def detection(p: ClassPredictive, ood: ClassPredictive) -> dict[str, float]:
    """Returns how well entropy and, of several draws, mutual information tell unknown queries."""
    totals = [metrics.entropy(np.asarray(one.mean, "float64")) for one in (p, ood)]
    found = {"auroc_entropy": metrics.auroc_ood(*totals)}
    if p.num_draws > 1:
        found["auroc_mi"] = metrics.auroc_ood(
            *(t - one.expected_entropy for t, one in zip(totals, (p, ood), strict=True))
        )
    return found


def cooled(validation, tested, ood, texts: Texts, parts) -> tuple[float | None, tuple]:
    """Returns the temperature that is best on validation rows, and all predictions with it; None where none is."""
    safe = [
        ClassPredictive(np.maximum(np.asarray(one.mean, "float64"), 1e-30), np.zeros((1, 1)), 1)
        for one in (validation, tested, ood)
    ]
    try:
        temperature: Any = recalibrate(safe[0], texts.labels[parts["validation"]])
    except ValueError:  # probabilities that know nothing
        return None, tuple(safe)
    return temperature.value, tuple(temperature(one) if len(one.mean) else one for one in safe)


def draws_of(method: str, kind: str, draws: int) -> int:
    """Returns the draws of each network of a method."""
    return 1 if kind == "lora" else draws // plan.MIXTURE if method == "mixture" else draws


def append(path: Path, lines: list[dict]) -> None:
    """Adds lines of JSON to a packed file, which a kill leaves as it was or has them all."""
    before = path.read_bytes() if path.exists() else b""
    files.replace(path, before + gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0))


class FinetuneRecords:
    """Lines of JSON in a folder; earlier folders are read, too."""

    def __init__(self, out: Path, earlier: Sequence[Path]):
        self.out = out
        self.lines: list[dict] = []
        for folder in [*earlier, out]:
            for path in sorted(folder.glob("finetune*.jsonl.gz")):
                with gzip.open(path, "rt") as file:
                    self.lines += [json.loads(line) for line in file]

    def add(self, lines: list[dict]) -> None:
        self.lines += lines
        append(self.out / "finetune.jsonl.gz", lines)

    def select(self, stage: str, setting: str) -> list[dict]:
        return [line for line in self.lines if line["stage"] == stage and line["setting"] == setting]


def begin(given: argparse.Namespace, module: str) -> FinetuneRecords:
    """Writes command, versions and machine into the folder of a run; returns its records and earlier ones.

    They are in `run.json`, and in `run-2.json` and so on of calls that resume in the same folder.
    """
    given.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    about = {"command": command, "versions": versions(), "machine": machine_facts()}
    names = itertools.chain(["run.json"], (f"run-{number}.json" for number in itertools.count(2)))
    free = next(given.out / name for name in names if not (given.out / name).exists())
    files.replace(free, (json.dumps(about, indent=1) + "\n").encode())
    return FinetuneRecords(given.out, given.earlier)


def record_line(stage: str, setting: Any, method: str, adaptation: Adaptation, seed: int, seconds: float) -> dict:
    return {
        "stage": stage,
        "setting": setting.name,
        "method": method,
        "kind": adaptation.kind,
        "configuration": adaptation.name,
        "settings": asdict(adaptation),
        "seed": seed,
        "chunk_seconds": round(seconds, 2),
    }


def validation_nll(lines: Iterable[dict]) -> tuple[dict[str, list[float]], dict[str, Adaptation]]:
    """Returns the NLL of every configuration, one per tuning seed, and what it stands for."""
    nll: dict[str, list[float]] = defaultdict(list)
    settings = {}
    for line in lines:
        nll[line["configuration"]].append(line["validation"]["nll"])
        settings[line["configuration"]] = Adaptation(**line["settings"])
    return nll, settings
