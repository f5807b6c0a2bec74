"""What the weight β of the KL does to the low-rank network on MNIST, over six decades. Not an experiment of the paper.

Small β leaves the posterior narrow: draws agree, and the network is a point network. Large β lets the prior win: first
weights are pruned, then the posterior collapses onto the prior and the network says the same of every image. Accuracy,
NLL, detection of foreign images and the widths of the posteriors say where. A cosine rate and a fast ρ let the scales
arrive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from singularbayes_experiments.methods import study
from singularbayes_experiments.methods.training import Watch, require_method
from singularbayes_experiments.problems import images
from singularbayes_experiments.records.checkpoints import Keep
from singularbayes_experiments.records.record import Record, departures, plain

BETAS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
METHODS = {f"beta_{beta:g}": f"low_rank at β = {beta:g}" for beta in BETAS}
_BETA = dict(zip(METHODS, BETAS, strict=True))


@dataclass(frozen=True)
class Settings(images.Settings):
    """Those of MNIST, but for the rates; β is the method's."""

    rho_lr: float = 4.0
    cosine: bool = True


QUICK = Settings(num_train=5_000, units=(200, 200), epochs=6, warmup=2, draws=20)
PROBLEM = images.Problem("kl_study", "mnist", foreign=("fashion_mnist", "notmnist"))


PRESETS = {"chosen": Settings(), "quick": QUICK}


def epochs(method: str, settings: Settings) -> int:
    """Returns how many epochs a run trains."""
    return settings.epochs


def run(
    method: str,
    seed: int,
    settings: Settings = Settings(),
    watch: Watch | None = None,
    keep: Keep | None = None,
    preset: str = "chosen",
) -> Record:
    """Trains the network at one β and scores it, as `study.run` does."""
    record = study.run(PROBLEM, "low_rank", seed, _weighed(method, settings), watch, keep, preset)
    return _named(method, settings, record)


def run_many(
    method: str, seeds: Sequence[int], settings: Settings = Settings(), preset: str = "chosen"
) -> list[Record]:
    """Returns what `run` returns for every seed; on JAX all train as one program."""
    records = study.run_many(PROBLEM, "low_rank", seeds, _weighed(method, settings), preset)
    return [_named(method, settings, record) for record in records]


def _weighed(method: str, settings: Settings) -> Settings:
    require_method(method, METHODS)
    return replace(settings, beta=_BETA[method])


def _named(method: str, settings: Settings, record: Record) -> Record:
    """Returns the record under the method's name and the settings it was asked for; its β is among the metrics."""
    metrics = record.metrics | {"beta": _BETA[method]}
    return replace(record, method=method, settings=plain(settings), paper=departures(settings), metrics=metrics)
