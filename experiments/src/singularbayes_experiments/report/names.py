"""The display names of methods, presets and metrics by their keys in records, in the order of tables.

The library's catalogue has the metrics that `evaluate` reports, `OWN_MEASURES` those of the experiments alone.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from singularbayes.metrics import MEASURES, Measure, find_measure

NAMES = {
    "low_rank": "low-rank",
    "low_rank_svd": "SVD-initialised low-rank",
    "low_rank_laplace": "low-rank Laplace",
    "low_rank_auto": "low-rank (learned rank)",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "deterministic": "deterministic",
    "mc_dropout": "MC dropout",
    "deep_ensemble": "deep ensemble",
    "low_rank_ensemble": "low-rank ensemble",
    "low_rank_svd_ensemble": "SVD-initialised low-rank ensemble",
    "swag": "SWAG",
}
SIMPLE = "simple"  # the preset of detectors that need no network
WITHOUT_NETWORK = {
    "more_pixels": "more non-zero pixels",
    "fewer_pixels": "fewer non-zero pixels",
    "text_length": "longer text",
    "word_rarity": "rarer words",
    "dew_point": "higher dew point",
    "input_distance": "distance from training inputs",
}
SIMPLE_NAMES = {
    **{name: f"{words} (no network)" for name, words in WITHOUT_NETWORK.items()},
    "max_softmax": "max-softmax of the deterministic network",
    "energy": "energy score of the deterministic network",
    "mahalanobis": "Mahalanobis distance in the last hidden layer of the deterministic network",
    "low_rank_held_out": "low-rank, trained without two classes",
    "deep_ensemble_held_out": "deep ensemble of 5, trained without two classes",
    "low_rank_ensemble_held_out": "low-rank ensemble of 5, trained without two classes",
    "low_rank_texts": "low-rank, trained again",
    "deep_ensemble_texts": "deep ensemble of 5, trained again",
    "low_rank_ensemble_texts": "low-rank ensemble of 5, trained again",
}
# Where settings come from, in the order of a page.
PRESETS = {
    "paper": "Paper's settings",
    "chosen": "Tuned settings",
    "refit": "Tuned settings, trained on all rows (added afterwards)",
    "quick": "Quick",
    "hand": "Manual overrides",
    "trial": "Tuning runs on validation data",
}
# What tables call the settings of records; others are named by their key.
SETTINGS = {
    "num_train": "training examples",
    "num_validation": "validation examples",
    "num_test": "test examples",
    "units": "hidden units",
    "pi": "weight π of the prior's wide part",
    "sigma1": "prior scale σ₁",
    "sigma2": "prior scale σ₂",
    "eta": "initial scale η",
    "rho_start": "initial ρ",
    "mean_start": "initial means",
    "full_rank_start": "range ± of full-rank initial means",
    "damping": "factor of low-rank initial means",
    "rho_lr": "learning-rate factor of ρ",
    "estimator": "gradient estimator",
    "rank_one_form": "form of rank-one",
    "cosine": "cosine decay",
    "cosine_floor": "least share of the learning rate",
    "least_rate": "least learning rate",
    "plateau": "epochs without progress until the rate halves",
    "beta": "β",
    "zero_epochs": "epochs without KL",
    "warmup": "KL warm-up epochs",
    "patience": "patience",
    "draws": "posterior draws",
    "members": "ensemble members",
    "svd_epochs": "epochs before the SVD",
    "swag_epochs": "SWAG epochs",
    "swag_rank": "SWAG rank",
    "swag_rate": "SWAG learning rate",
    "max_rank": "largest rank",
    "tolerance": "tolerance of a learned rank",
    "length": "tokens per text",
    "feed_forward": "feed-forward units",
    "overcomplete": "rank above the size of a weight allowed",
    "bayesian_bias": "Bayesian biases",
    "from_last": "predicts the change",
    "own_noise": "noise per example",
    "least_steps": "least number of steps",
    "likelihood_scale": "noise scale of the likelihood",
    "class_weights": "class weights",
}
# Ensembles and sweeps come near others in lines: as many lines as can be distinguished.
LINES = ("low_rank", "low_rank_svd", "full_rank", "rank_one", "deterministic", "deep_ensemble", "swag")
OWN_MEASURES = {
    measure.name: measure
    for measure in (
        Measure("auprc", "higher", label="AUPRC"),
        Measure("unweighted_nll", "lower", label="NLL, weight undone"),
        Measure("unweighted_ece", "lower", label="ECE, weight undone"),
        Measure("ece_equal_mass_30", "lower", label="ECE (equal mass, 30 bins)"),
        Measure("ece_equal_width_30", "lower", label="ECE (equal width, 30 bins)"),
        Measure("recalibrated_temperature", label="temperature"),
        Measure("recalibrated_nll", "lower", label="NLL, tempered"),
        Measure("recalibrated_ece", "lower", label="ECE, tempered"),
        Measure("shifted_auroc", "higher", label="AUROC under shift"),
        Measure("shifted_nll", "lower", label="NLL under shift"),
        Measure("shifted_deaths", label="deaths under shift"),
        Measure("validation_nll", "lower", label="validation NLL"),
        Measure("validation_accuracy", "higher", label="validation accuracy"),
        Measure("conformal_picp_95", 0.95, label="conformal PICP"),
        Measure("conformal_mpiw_95", "lower", label="conformal MPIW"),
        Measure("risk_at_90_epistemic", "lower", label="risk at 90 % (epistemic)"),
        Measure("risk_at_70_epistemic", "lower", label="risk at 70 % (epistemic)"),
        Measure("posterior_kl", label="KL"),
        Measure("posterior_sd_median", label="median sd"),
        Measure("posterior_pruned", label="pruned"),
        Measure("posterior_signal", label="|mean| / sd"),
        Measure("rmse_near", "lower", label="RMSE"),
        Measure("nll_near", "lower", label="NLL"),
        Measure("coverage_near", 0.95, label="coverage"),
        Measure("rmse_test", "lower", label="RMSE (test range)"),
        Measure("iqr_published_inside", label="IQR 0.1 to 0.6"),
        Measure("iqr_published_outside", label="IQR 0.5 to 1.5"),
        Measure("iqr_published_ratio", "higher", label="ratio"),
    )
}


def measure(name: str, decimals: int | None = None, **changes: Any) -> Measure:
    """Returns the measure of a metric as a table shows it; one that is in no catalogue has its key as label.

    >>> measure("nll", 3).label, measure("recalibrated_nll", label="NLL").better, measure("my_score").label
    ('NLL', 'lower', 'my score')
    """
    base = name.rpartition("/")[2]
    if base in MEASURES:
        known = find_measure(name)
    else:
        known = replace(OWN_MEASURES.get(base, Measure(base, label=name.replace("_", " "))), name=name)
    return replace(known, decimals=decimals, **changes)


def setting_name(key: str) -> str:
    """Returns what tables call a setting.

    >>> setting_name("rho_lr"), setting_name("learning_rate")
    ('learning-rate factor of ρ', 'learning rate')
    """
    return SETTINGS.get(key, key.replace("_", " "))


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
    ('low-rank (rank 50)', 'my method')
    """
    rank = rank_in(method)
    if method in names or rank is None:
        return names.get(method, method.replace("_", " "))
    return f"{names.get('low_rank', 'low-rank')} (rank {rank})"
