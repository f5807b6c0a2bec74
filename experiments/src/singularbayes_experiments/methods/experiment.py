"""An experiment as one object: a problem, the methods that it compares, and the settings that they are run with."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from singularbayes_experiments.methods.configurations import Configurations
from singularbayes_experiments.methods.training import Watch
from singularbayes_experiments.records.checkpoints import Keep
from singularbayes_experiments.records.record import Record

RESULT_SEEDS = (42, 123, 456)


class Problem(ABC):
    """What an experiment trains and scores.

    `name` is the experiment's in records; `methods` describes each of its methods, by name.
    """

    name: str
    methods: Mapping[str, str]

    @abstractmethod
    def run(
        self,
        method: str,
        seed: int,
        settings: Any = None,
        *,
        watch: Watch | None = None,
        keep: Keep | None = None,
        preset: str = "paper",
    ) -> Record:
        """Trains one method with one seed and scores it.

        Args:
            settings: None is the paper's.
            watch: called after every epoch; keep: where checkpoints are written.
            preset: the name of the settings; a "trial" (a tuning run) is scored on validation data alone.
        """

    @abstractmethod
    def run_many(
        self, method: str, seeds: Sequence[int], settings: Any = None, *, preset: str = "paper"
    ) -> list[Record]:
        """Returns what `run` returns for every seed, to the accuracy of floats; on JAX all seeds train as one program.

        The seconds of a record are its share of the program's. Its machine has how many runs shared it.
        """

    @abstractmethod
    def count_epochs(self, method: str, settings: Any) -> int:
        """Returns how many epochs a run trains in all."""

    def count_members(self, method: str, settings: Any) -> int:
        """Returns how many members of an ensemble can be trained apart; 0 for anything else."""
        return 0

    def train_member(
        self,
        method: str,
        seed: int,
        settings: Any,
        number: int,
        *,
        watch: Watch | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Trains one member of an ensemble and leaves it in `keep`, where a `run` of the ensemble finds it trained."""
        raise NotImplementedError(f"{self.name} has no members that are trained apart.")


@dataclass(frozen=True)
class Experiment:
    """A row of `problems.registry.EXPERIMENTS`.

    Args:
        summary: what it is about, in a line.
        problem: what is trained and scored.
        presets: settings by name, one for all methods or by method; the first is the default.
        paper_methods: the methods that run by default, those that the paper compares; all if empty.
        configurations: what is tuned on validation data, None for nothing.
        choice: the configuration of every method with the least validation NLL in the committed tuning runs.
        seeds: of the results.
        variants: the settings of all runs that the settings of a preset stand for.
    """

    summary: str
    problem: Problem
    presets: Mapping[str, Any]
    paper_methods: tuple[str, ...] = ()
    configurations: Configurations | None = None
    choice: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = RESULT_SEEDS
    variants: Callable[[Any], list] = lambda settings: [settings]

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def methods(self) -> Mapping[str, str]:
        """What each method is, by its name."""
        return self.problem.methods

    def settings(self, preset: str, method: str) -> Any:
        """Returns the settings of a method in a preset."""
        found = self.presets[preset]
        return found[method] if isinstance(found, Mapping) else found
