"""What the weight β of the KL does to the low-rank network on MNIST, over six decades. Not an experiment of the paper.

Small β leaves the posterior narrow: draws agree, and the network is a deterministic network. Large β lets the prior
win: first weights are pruned, then the posterior collapses onto the prior and all images get the same prediction.
Accuracy, NLL, detection of out-of-distribution images and the widths of the posteriors say where. A cosine rate and a
fast ρ let the scales arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from singularbayes_experiments.methods.experiment import Experiment, Problem
from singularbayes_experiments.methods.training import require_method
from singularbayes_experiments.problems import images
from singularbayes_experiments.records.record import Record, departures, plain

BETAS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
METHODS = {f"beta_{beta:g}": f"low_rank at β = {beta:g}" for beta in BETAS}
_BETA = dict(zip(METHODS, BETAS, strict=True))


@dataclass(frozen=True)
class KLStudySettings(images.ImageSettings):
    """Those of MNIST, except for the rates; β is the method's."""

    rho_lr: float = 4.0
    cosine: bool = True


QUICK = KLStudySettings(num_train=5_000, units=(200, 200), epochs=6, warmup=2, draws=20)


class KLStudy(Problem):
    """The low-rank network of MNIST, a method for every β."""

    name = "kl_study"
    methods: Mapping[str, str] = METHODS
    images = images.ImageProblem("kl_study", "mnist", ood=("fashion_mnist", "notmnist"))

    def run(self, method, seed, settings=None, *, watch=None, keep=None, preset="chosen") -> Record:
        settings = KLStudySettings() if settings is None else settings
        weighted = self._weighted(method, settings)
        record = self.images.run("low_rank", seed, weighted, watch=watch, keep=keep, preset=preset)
        return self._renamed(method, settings, record)

    def run_many(self, method, seeds, settings=None, *, preset="chosen") -> list[Record]:
        settings = KLStudySettings() if settings is None else settings
        records = self.images.run_many("low_rank", seeds, self._weighted(method, settings), preset=preset)
        return [self._renamed(method, settings, record) for record in records]

    def count_epochs(self, method, settings) -> int:
        return settings.epochs

    def _weighted(self, method: str, settings: KLStudySettings) -> KLStudySettings:
        require_method(method, self.methods)
        return replace(settings, beta=_BETA[method])

    def _renamed(self, method: str, settings: KLStudySettings, record: Record) -> Record:
        """Returns the record under the method's name and the given settings; its β is among the metrics."""
        metrics = record.metrics | {"beta": _BETA[method]}
        return replace(record, method=method, settings=plain(settings), paper=departures(settings), metrics=metrics)


EXPERIMENT = Experiment(
    summary="What the weight β of the KL does to the low-rank network on MNIST, over six decades. Not in the paper.",
    problem=KLStudy(),
    presets={"chosen": KLStudySettings(), "quick": QUICK},
)
