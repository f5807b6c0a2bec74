"""What the pages of both experiments on adapters share: records, names, and cells of their tables."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.protocol import standard_error
from singularbayes_experiments.report import text

NAMES = {
    "lora": "LoRA",
    "lora_temperature": "LoRA + temperature",
    "lora_ensemble": "LoRA, ensemble of 5",
    "mc_dropout": "LoRA, MC dropout",
    "blob": "BLoB's form",
    "bayes": "Bayesian adapter",
    "mixture": "mixture of 4",
    "laplace": "LoRA, last-layer Laplace",
    "monteclora": "MonteCLoRA (PEFT)",
}
OURS, THEIRS = ("bayes", "mixture"), ("lora", "lora_temperature", "lora_ensemble", "mc_dropout")


def read_lines(folder: Path) -> list[dict]:
    """Returns the records in a folder."""
    lines = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            lines += [json.loads(line) for line in file]
    return lines


def scores(records: Sequence[dict], setting: str, method: str, part: str, score: str) -> list[float]:
    """Returns a score of the results, one per seed in their order."""
    own = [one for one in records if (one["stage"], one["setting"], one["method"]) == ("result", setting, method)]
    return [one[part][score] for one in sorted(own, key=lambda one: one["seed"]) if score in one.get(part, {})]


def difference(records: Sequence[dict], setting: str, ours: str, theirs: str) -> str:
    """Returns one cell: the mean, its interval, and a word where that does not reach 0."""
    found = paired_difference(records, setting, ours, theirs)
    side = found.side()
    word = "" if side == "level" else f" {side}"
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]{word}"


def paired_difference(records: Sequence[dict], setting: str, ours: str, theirs: str) -> protocol.Paired:
    """Returns the NLL of one method less that of another."""
    return protocol.paired(*(scores(records, setting, method, "test", "nll") for method in (ours, theirs)))


def averages(records: Sequence[dict], setting: str, part: str, score: str) -> dict[str, float]:
    found = {method: scores(records, setting, method, part, score) for method in NAMES}
    return {method: float(np.mean(values)) for method, values in found.items() if values}


def short_name(name: str) -> str:
    return name.replace("learning_rate", "lr").replace("rho_lr", "ρ rate").replace("beta", "β").replace("eta", "η")


def mean_cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    mean = number(float(np.mean(values)))
    return f"{mean} ± {number(standard_error(values))}" if len(values) > 1 else mean


def number(value: float) -> str:
    """Returns three decimals, without a 0 before them."""
    return text.number(value).removeprefix("0")


def signed(value: float) -> str:
    """Returns three decimals with their sign, without a 0 before them.

    >>> signed(-0.0001), signed(0.25), signed(10.5)
    ('−.000', '+.250', '+10.500')
    """
    shown = text.signed(value)
    return shown[0] + shown[1:].removeprefix("0")
