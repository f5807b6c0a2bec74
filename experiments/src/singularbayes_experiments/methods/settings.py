"""The settings that training and posteriors read, whatever the experiment."""

import math
from dataclasses import dataclass

from singularbayes_experiments.records.record import omitted_default


@dataclass(frozen=True)
class TrainingSettings:
    """The base of every experiment's settings, which add their own and set the paper's values.

    Records omit the second half where an experiment leaves it at the default and does not declare it again.

    Args:
        rho_lr: factor of the learning rate for the scales ρ.
        cosine: the learning rate falls along a cosine to the share `cosine_floor`, else it is constant.
        beta: weight of the KL, after `zero_epochs` at zero and a linear rise over `warmup` epochs.
        members: of an ensemble.
        rho_start: (low, high) of the uniform initial ρ; None is η times the initial scale of the mean.
        damping: factor of the initial means of low-rank weights.
        overcomplete: whether a rank may be above the size of the weight.
        max_rank, tolerance: of a learned rank: the columns it starts with, and the share of signal below which it
            switches one off.
        weight_decay: of deterministic networks.
    """

    sigma1: float = 1.0
    sigma2: float = math.exp(-6)
    rho_lr: float = 1.0
    learning_rate: float = 1e-3
    cosine: bool = False
    batch_size: int = 64
    epochs: int = 50
    beta: float = 1.0
    warmup: int = 0
    draws: int = 100
    members: int = 5

    pi: float = omitted_default(0.5)
    eta: float = omitted_default(0.1)
    rho_start: tuple[float, float] | None = omitted_default(None)
    damping: float = omitted_default(1.0)
    rank_one_form: str = omitted_default("scale")
    overcomplete: bool = omitted_default(False)
    bayesian_bias: bool = omitted_default(False)
    max_rank: int = omitted_default(64)
    tolerance: float = omitted_default(0.01)
    zero_epochs: int = omitted_default(0)
    cosine_floor: float = omitted_default(0.0)
    weight_decay: float = omitted_default(0.0)
