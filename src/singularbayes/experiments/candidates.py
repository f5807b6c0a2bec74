"""The settings that are tried on the validation images, as many for every method, and how one of them is chosen.

Eight a method were written down first, and cut to these four, for want of time on a GPU, before any was run; so the
paper's own settings (β = 1; of rank-one its printed form) are not among them. Variational networks: those settings with
a cosine learning rate and ρ four times as fast, three weights of the KL at the paper's rate, and the middle one at
three times that rate. Point networks: a cosine, stopped after four numbers of epochs. SWAG: four rates of SGD.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from singularbayes.experiments.record import Record, plain

SEEDS = (0, 1)  # of the trials; results have others
Changes = dict[str, Any]

VARIATIONAL: dict[str, Changes] = {
    f"beta {beta:g}, rate {rate:g}": {"cosine": True, "rho_lr": 4.0, "beta": beta, "learning_rate": rate}
    for beta, rate in ((0.3, 1e-3), (0.1, 1e-3), (0.03, 1e-3), (0.1, 3e-3))
}
POINT: dict[str, Changes] = {f"{epochs} epochs": {"cosine": True, "epochs": epochs} for epochs in (5, 10, 20, 50)}
SWAG: dict[str, Changes] = {f"SGD {rate:g}": {"cosine": True, "swag_rate": rate} for rate in (0.03, 0.01, 0.003, 0.001)}
# The prior of rank-one networks is centred at the point weight, as its authors have it.
RANK_ONE = {name: changes | {"rank_one_form": "product"} for name, changes in VARIATIONAL.items()}

CANDIDATES: dict[str, dict[str, Changes]] = {
    "low_rank": VARIATIONAL,
    "low_rank_svd": VARIATIONAL,
    "low_rank_laplace": VARIATIONAL,
    "full_rank": VARIATIONAL,
    "rank_one": RANK_ONE,
    "deterministic": POINT,
    "deep_ensemble": POINT,
    "low_rank_ensemble": VARIATIONAL,
    "swag": SWAG,
}
ALIKE = {"low_rank_10": "low_rank", "low_rank_50": "low_rank"}  # the rank sweep has the settings of rank 25


def candidates(method: str, paper) -> dict[str, Any]:
    """Returns the settings to try, by name; none for a method that has those of another."""
    return {name: replace(paper, **changes) for name, changes in CANDIDATES.get(method, {}).items()}


def chosen(names: dict[str, str], paper) -> dict[str, Any]:
    """Returns the settings of every method from the name of its candidate.

    >>> from singularbayes.experiments.images import Settings
    >>> found = chosen({"low_rank": "beta 0.1, rate 0.001"}, Settings())
    >>> found["low_rank_50"].beta, found["low_rank_50"].cosine
    (0.1, True)
    """
    found = {method: candidates(method, paper)[name] for method, name in names.items()}
    return found | {method: found[source] for method, source in ALIKE.items() if source in found}


def choose(records: Iterable[Record], paper) -> dict[str, str]:
    """Returns the candidate with the least validation NLL, a mean over seeds, of every method with trials.

    Raises unless all candidates of a method were tried, each with the same seeds.
    """
    tried: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        tried[record.method][_name(record, paper)][record.seed] = record.metrics["validation_nll"]
    best = {}
    for method, found in tried.items():
        seeds = {name: sorted(found[name]) for name in CANDIDATES[method]}
        if len({tuple(each) for each in seeds.values()}) != 1 or not all(seeds.values()):
            raise ValueError(f"choose needs every candidate of {method!r} with the same seeds; got {seeds}.")
        best[method] = min(CANDIDATES[method], key=lambda name: float(np.mean(list(found[name].values()))))
    return best


def _name(record: Record, paper) -> str:
    for name, settings in candidates(record.method, paper).items():
        if plain(settings) == record.settings:
            return name
    raise ValueError(f"choose needs trials of the candidates; got other settings in {record.name!r}.")
