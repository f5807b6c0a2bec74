"""All experiments by name, in the order of a report. Importing this file loads Keras."""

from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.methods.overrides import did_you_mean
from singularbayes_experiments.problems import (
    adaptive_rank,
    adaptive_rank_sst2,
    beijing,
    cnn,
    fashion_mnist,
    icu,
    kl_study,
    mimic3,
    mnist,
    sst2,
    toy,
    uci,
)

_MODULES = (
    toy,
    mnist,
    fashion_mnist,
    cnn,
    kl_study,
    sst2,
    adaptive_rank,
    adaptive_rank_sst2,
    beijing,
    uci,
    icu,
    mimic3,
)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}


def find_experiment(name: str) -> Experiment:
    """Returns an experiment by its name; raises with the nearest name for one that does not exist."""
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, EXPERIMENTS)
        raise ValueError(f"run needs an experiment, one of {list(EXPERIMENTS)}; got {name!r}.{hint}")
    return EXPERIMENTS[name]
