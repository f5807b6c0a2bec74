"""The display names of methods and presets by their keys in records, in the order of tables.

Those of metrics are the labels of `Measure`, beside the side that is better.
"""

import re
from collections.abc import Mapping

NAMES = {
    "low_rank": "low-rank",
    "low_rank_svd": "low-rank from SVD",
    "low_rank_laplace": "low-rank Laplace",
    "low_rank_auto": "low-rank, learned rank",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "deterministic": "deterministic",
    "mc_dropout": "MC dropout",
    "deep_ensemble": "deep ensemble",
    "low_rank_ensemble": "low-rank ensemble",
    "low_rank_svd_ensemble": "low-rank ensemble from SVDs",
    "swag": "SWAG",
}
# Where settings come from, in the order of a page.
PRESETS = {
    "paper": "Paper's settings",
    "chosen": "Tuned settings",
    "refit": "Tuned settings, trained on all rows (thought of afterwards)",
    "quick": "Quick",
    "hand": "Manual overrides",
    "trial": "Tuning runs on validation data",
}
# Ensembles and sweeps come near others in lines: as many lines as can be distinguished.
LINES = ("low_rank", "low_rank_svd", "full_rank", "rank_one", "deterministic", "deep_ensemble", "swag")


def file_name(array: str) -> str:
    """Returns the part of a figure's file name for arrays whose names in records begin so.

    >>> file_name("cardiac_foreign"), file_name("fashion_mnist")
    ('cardiac-ood', 'fashion-mnist')
    """
    return array.replace("foreign", "ood").replace("_", "-")


def rank_in(method: str) -> int | None:
    """Returns the rank that a method's name ends in, None for none.

    >>> rank_in("low_rank_50"), rank_in("low_rank"), rank_in("beta_50")
    (50, None, None)
    """
    named = re.fullmatch(r"low_rank_(\d+)", method)
    return int(named[1]) if named else None


def display_name(method: str, names: Mapping[str, str]) -> str:
    """Returns the display name of a method; a rank need not be among the names.

    >>> display_name("low_rank_50", NAMES), display_name("my_method", NAMES)
    ('low-rank, rank 50', 'my method')
    """
    rank = rank_in(method)
    if method in names or rank is None:
        return names.get(method, method.replace("_", " "))
    return f"{names.get('low_rank', 'low-rank')}, rank {rank}"
