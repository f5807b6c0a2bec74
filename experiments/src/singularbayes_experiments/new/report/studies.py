"""The tables of the summary and of studies beyond the problems: UCI, CIFAR-10, adapters, estimators, certificates."""

import math

import pandas as pd

from singularbayes_experiments.new.protocol import standard_error
from singularbayes_experiments.new.report.numbers import ENSEMBLE, PROBLEMS, TABLES, Numbers
from singularbayes_experiments.new.report.tables import (
    OWN,
    Problem,
    best_other,
    interval,
    name,
    number,
    rounded_up,
    setting,
    signed,
    spread,
)

SETTING_NAMES = {
    "sst2-1000": "SST-2, 1,000 rows",
    "sst2-4000": "SST-2, 4,000 rows",
    "sst2": "SST-2, all rows",
    "clinc150-10": "CLINC150, 10 per intent",
    "clinc150": "CLINC150, all rows",
    "banking77-10": "Banking77, 10 per intent",
    "banking77": "Banking77, all rows",
}
ADAPTERS = {
    "lora": "LoRA",
    "lora_temperature": "LoRA + temperature",
    "lora_ensemble": "LoRA, ensemble of 5",
    "mc_dropout": "LoRA, MC dropout",
    "laplace": "Laplace",
    "blob": "BLoB",
    "bayes": "Bayesian adapter",
    "mixture": "mixture of 4",
}
# CIFAR-10: network, round and method of every row, the ensembles first.
ROUNDS = {
    ("resnet9", "fourth round"): (ENSEMBLE, "deterministic", "mixture_tied", "swag"),
    ("resnet9", "third round"): ("mixture_distilled",),
    ("resnet9", "second round"): ("full_rank", "low_rank_svd", "mixture_svd"),
    ("resnet20", "fifth round"): (ENSEMBLE, "deterministic", "full_rank", "low_rank_svd", "mixture_svd"),
}
CIFAR = {"mixture_tied": "tied-scale mixture of 4", "mixture_distilled": "distilled mixture of 4"}
CIFAR |= {"mixture_svd": "SVD-initialised mixture of 4", ENSEMBLE: "deep ensemble of 4"}
NETWORKS = {
    "low_rank_25": "MLP, low-rank 25",
    "low_rank_50": "MLP, low-rank 50",
    "full_rank": "MLP, full-rank",
    "cnn_low_rank": "CNN, low-rank 25",
    "low_rank_initial": "MLP, low-rank 25, prior without data",
}
INPUT_ONLY = {
    "more_pixels": "more non-zero pixels",
    "fewer_pixels": "fewer non-zero pixels",
    "text_length": "longer text",
    "word_rarity": "rarer words",
    "dew_point": "higher dew point",
    "input_distance": "distance from training inputs",
}
# Pairs with networks of their own: title → problem, metric, ending of the networks' names.
OTHER_PAIRS = {
    "MNIST, two held-out classes": ("mnist", "held_out/", "held_out"),
    "Fashion-MNIST, two held-out classes": ("fashion_mnist", "held_out/", "held_out"),
    "film, product reviews": ("sst2", "product_reviews/", "texts"),
    "film reviews, queries (CLINC150)": ("sst2", "clinc150/", "texts"),
}


def input_only(numbers: Numbers, task: str, start: str | None = None) -> tuple[str, float]:
    """Returns the best detector of a pair that sees the input alone, in its better direction, and its AUROC."""
    if start is None:
        ood = PROBLEMS[task, task] or ""
        start = ood.rpartition("/")[0] + "/" if task in ("mnist", "fashion_mnist", "cnn") else ""
    found = {}
    for method, words in INPUT_ONLY.items():
        if numbers.has("detectors", task, "simple", method, f"{start}auroc_ood"):
            area = numbers.mean("detectors", task, "simple", method, f"{start}auroc_ood")
            found[words if area >= 0.5 else f"{words}, reversed"] = max(area, 1 - area)
    return max(found.items(), key=lambda each: each[1])


def detector_scores(numbers: Numbers) -> pd.DataFrame:
    """Returns the AUROC of every detector on every pair, NaN where it has none."""
    rows = {}
    for experiment, ood in {e: ood for (e, _), ood in PROBLEMS.items() if ood}.items():
        start = ood.rpartition("/")[0] + "/" if experiment in ("mnist", "fashion_mnist", "cnn") else ""
        trained = {m: (experiment, experiment, "protocol", m, ood) for m in (ENSEMBLE, "low_rank", "mixture_repeat")}
        rows[f"{name(experiment)}, {ood.partition('/')[0].replace('_', ' ')}"] = (experiment, start, trained)
    for title, (experiment, start, end) in OTHER_PAIRS.items():
        key = ("detectors", experiment, "simple")
        trained = {
            m: (*key, f"{m}_{end}", f"{start}auroc_ood_mi") for m in (ENSEMBLE, "low_rank", "low_rank_ensemble")
        }
        rows[title] = (experiment, start, trained)
    made = {}
    for title, (experiment, start, trained) in rows.items():
        keys = {m: ("detectors", experiment, "simple", m, f"{start}auroc_ood") for m in ("max_softmax", "energy")}
        keys |= {"mahalanobis": ("detectors", experiment, "simple", "mahalanobis", f"{start}auroc_ood")} | trained
        row = {name(m): numbers.mean(*key) if numbers.has(*key) else math.nan for m, key in keys.items()}
        made[title] = {"input alone": input_only(numbers, experiment, start)[1], **row}
    return pd.DataFrame.from_dict(made, orient="index").rename_axis("test data, other data")


def shown(frame: pd.DataFrame, decimals: int = 3) -> pd.DataFrame:
    """Returns numbers as text, a dash for none."""
    return frame.map(lambda value: "–" if math.isnan(value) else number(value, decimals))


def summary(numbers: Numbers) -> pd.DataFrame:
    """Returns a row a problem (UCI: counts): NLL of the ensemble, and differences to it with intervals."""
    rows = {}
    for experiment, task in PROBLEMS:
        if experiment != "uci":
            own = Problem(numbers, experiment, task)
            row = {"parameters of the mixture": own.share("mixture_repeat"), "ensemble": own.nll(ENSEMBLE)}
            row |= {name(m): own.difference(m) for m in ("low_rank", "mixture_repeat", "mixture_svd")}
            row["AUROC-OOD: ensemble, mixture, input alone"] = "–"
            if own.ood:
                areas = [own.detects(m) for m in (ENSEMBLE, "mixture_repeat")]
                plain = number(input_only(numbers, experiment)[1])
                row["AUROC-OOD: ensemble, mixture, input alone"] = ", ".join([*areas, plain])
            rows[f"[{name(task)}]({experiment}.md)"] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("NLL")


def uci_results(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for task in TABLES:
        own = Problem(numbers, "uci", task)
        row = {"parameters": own.share("mixture_repeat"), "cost": own.cost("mixture_repeat")}
        row["deep ensemble"] = spread(*(f(*own.key, ENSEMBLE, "nll") for f in (numbers.mean, numbers.error)))
        row |= {name(m): own.difference(m) for m in ("deterministic", "full_rank", "low_rank")}
        rows[name(task)] = row | {name(m): own.difference(m) for m in ("mixture_repeat", "mixture_svd")}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("NLL")


def uci_settings(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for task in TABLES:
        row = {}
        for method in ("deterministic", ENSEMBLE, "full_rank", "low_rank", "mixture_repeat", "mixture_svd"):
            own = numbers.chosen("uci", task, "protocol", method)[1]
            names = ("epochs", "rate", "decay") if method in ("deterministic", ENSEMBLE) else ("rate", "scale", "beta")
            row[name(method)] = ", ".join(setting(own[key]) for key in names)
        rows[name(task)] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("table")


def cifar10_results(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for (network, preset), methods in ROUNDS.items():
        for method in methods:
            key = ("cifar10", network, preset, method)
            row = {"parameters": number(numbers.first(*key, "parameters"), 0)}
            for title, metric, decimals in (("accuracy, %", "accuracy", 2), ("NLL", "nll", 3), ("ECE", "ece", 3)):
                row[title] = spread(numbers.mean(*key, metric), numbers.error(*key, metric), decimals)
            for title, metric in (("NLL", "nll"), ("corrupted NLL", "corrupted/nll")):
                row[f"{title} minus the ensemble's"] = "–" if method == ENSEMBLE else cifar10_difference(numbers, *key, metric)
            rows[f"{network.replace('resnet', 'ResNet-')}, {CIFAR.get(method, name(method))}"] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("network, method")


def cifar10_difference(numbers: Numbers, experiment: str, network: str, preset: str, method: str, metric: str) -> str:
    """Returns the difference to the ensemble of the same round; of two seeds the mean alone."""
    found = numbers.paired(experiment, network, preset, method, ENSEMBLE, metric)
    seeds = len(numbers.values(experiment, network, preset, method, metric))
    return interval(found) if seeds > 2 else f"{signed(found.mean)} ({seeds} seeds)"


def cifar10_scores(numbers: Numbers) -> pd.DataFrame:
    """Returns mean differences of the NLL to the ensemble of the same round, on test and on corrupted images."""
    rows = {}
    for (network, preset), methods in ROUNDS.items():
        for method in (m for m in methods if m != ENSEMBLE):
            pairs = [numbers.paired("cifar10", network, preset, method, ENSEMBLE, m) for m in ("nll", "corrupted/nll")]
            title = f"{network.replace('resnet', 'ResNet-')}, {CIFAR.get(method, name(method))}"
            rows[title] = {"test": pairs[0].mean, "corrupted": pairs[1].mean}
    return pd.DataFrame.from_dict(rows, orient="index")


def adapter_results(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for task, title in SETTING_NAMES.items():
        key = ("adapters", task, "protocol")
        row = {words: number(numbers.mean(*key, m, "nll"), 3) for m, words in ADAPTERS.items() if m != "blob"}
        row["mixture minus LoRA ensemble"] = interval(numbers.paired(*key, "mixture", "lora_ensemble", "nll"))
        rows[title] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("NLL")


def adapter_settings(numbers: Numbers) -> pd.DataFrame:
    names = ("lora", "lora_ensemble", "mc_dropout", "bayes", "mixture")
    rows = {
        title: {ADAPTERS[m]: numbers.chosen("adapters", task, "protocol", m)[0].replace("learning_rate", "rate") for m in names}
        for task, title in SETTING_NAMES.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("setting")


def table_results(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for table in numbers.tables_of("regression"):
        best, row = best_other(numbers, table), {}
        for method in (*OWN, "deep ensemble", best):
            own = numbers.values("tables", table, "defaults", method, "nll").to_numpy()
            title = "best other library" if method == best else method
            row[title] = spread(float(own.mean()), standard_error(own), 2) + (f", {best}" if method == best else "")
        found = numbers.relative(table, "ours", best, "nll")
        row["ours minus it"] = spread(float(found.mean()), standard_error(found), 3)
        row["coverage of 90 %"] = number(numbers.mean("tables", table, "defaults", "ours", "coverage"), 3)
        rows[name(table)] = row
    return pd.DataFrame.from_dict(rows, orient="index").fillna("–").rename_axis("NLL")


def certificate_results(numbers: Numbers) -> pd.DataFrame:
    titles = {"certified risk": "certificate", "averaged": "averaged certificate", "prior, hold-out": "hold-out"}
    rows = {}
    for method, words in NETWORKS.items():
        key = ("certificates", "sharp_certificates", "protocol", method)
        for seed in (0, 1):
            row = {"parameters": number(numbers.values(*key, "parameters")[seed], 0)}
            kl = numbers.values(*key, "KL")[seed]
            row |= {"KL": number(kl, 0 if kl > 10 else 1)}
            for title, metric in titles.items():
                row[title] = rounded_up(numbers.values(*key, metric)[seed]) if numbers.has(*key, metric) else "–"
            rows[f"{words}, seed {seed}"] = row | {"test error": number(numbers.values(*key, "test error")[seed], 4)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("network")


def certificate_risks(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for method, words in list(NETWORKS.items())[:4]:
        key = ("certificates", "sharp_certificates", "protocol", method)
        metrics = {"certified": "certificate", "prior, hold-out": "hold-out", "test error": "test error"}
        rows[words] = {title: numbers.mean(*key, metric) for title, metric in metrics.items()}
    return pd.DataFrame.from_dict(rows, orient="index")
