"""The records of the experiment on CIFAR-10: lines of JSON in a folder."""

import json
from pathlib import Path

from singularbayes_experiments.problems.cifar10 import CHOSEN, CONFIGURATIONS, Settings
from singularbayes_experiments.records import files

LINES = "records.jsonl"


class NotTuned(Exception):
    """No configuration of a family has a score on validation images."""


class Cifar10Records:
    """Lines of JSON in a folder.

    Args:
        tuned: another such folder, where a process that runs beside this one keeps its tuning; None is `out`.
    """

    def __init__(self, out: Path, tuned: Path | None = None):
        self.path, self.tuned = out / LINES, tuned
        self.lines = read_lines(out)

    def add(self, line: dict) -> None:
        self.lines.append(line)
        files.append_line(self.path, json.dumps(line))

    def select(self, stage: str, **wanted) -> list[dict]:
        lines = self.lines if self.tuned is None or stage != "tuning" else read_lines(self.tuned)
        return [
            line
            for line in lines
            if line["stage"] == stage and all(line[name] == value for name, value in wanted.items())
        ]

    def chosen(self, network: str, family: str) -> Settings:
        """Returns what the plan has, or the configuration with the least NLL on validation images."""
        if family in CHOSEN.get(network, {}):
            return CHOSEN[network][family]
        configurations = {one.name: one for one in CONFIGURATIONS.get(network, {}).get(family, ())}
        tried = [
            line
            for line in self.select("tuning", network=network, family=family)
            if line["configuration"] in configurations and not line["diverged"]
        ]
        if not tried:
            raise NotTuned(f"{family} on {network} needs a configuration that was tuned and did not diverge.")
        return configurations[min(tried, key=lambda line: line["validation"]["nll"])["configuration"]]


def read_lines(folder: Path) -> list[dict]:
    """Returns the records in a folder, none where it has none; a line that a kill has cut is left out."""
    path = folder / LINES
    return [json.loads(line) for line in files.read_lines(path)] if path.exists() else []
