"""The tables of the summary and of studies beyond the problems: UCI, CIFAR-10, adapters, estimators, certificates."""

import math

import pandas as pd

from singularbayes_experiments.protocol import Paired, standard_error
from singularbayes_experiments.report.results import ENSEMBLE, PROBLEMS, TABLES, Numbers
from singularbayes_experiments.report.tables import (
    COLUMNS,
    OWN,
    WORDS,
    Problem,
    best_other,
    interval,
    name,
    number,
    rounded_up,
    setting,
    spread,
)

SETTING_NAMES, ADAPTERS, CIFAR = (WORDS[key] for key in ("adapter_settings", "adapters", "cifar10"))
NETWORKS, INPUT_ONLY, OTHER_PAIRS = (WORDS[key] for key in ("networks", "input_only", "other_pairs"))


def input_only(numbers: Numbers, task: str, start: str | None = None) -> tuple[str, float]:
    """Returns the best detector of a pair that sees the input alone, in its better direction, and its AUROC."""
    if start is None:
        ood = PROBLEMS[task, task] or ""
        start = ood.rpartition("/")[0] + "/" if task in ("mnist", "fashion_mnist", "cnn") else ""
    found = {}
    for method, words in INPUT_ONLY.items():
        if numbers.has("detectors", task, "simple", method, f"{start}auroc_ood"):
            area = numbers.mean("detectors", task, "simple", method, f"{start}auroc_ood")
            found[words[area < 0.5]] = max(area, 1 - area)
    return max(found.items(), key=lambda each: each[1])


def detector_scores(numbers: Numbers) -> pd.DataFrame:
    """Returns the AUROC of every detector on every pair, NaN where it has none."""
    rows = {}
    for experiment, ood in {e: ood for (e, _), ood in PROBLEMS.items() if ood}.items():
        start = ood.rpartition("/")[0] + "/" if experiment in ("mnist", "fashion_mnist", "cnn") else ""
        trained = {m: (experiment, experiment, "protocol", m, ood) for m in (ENSEMBLE, "low_rank", "mixture_repeat")}
        title = next(t for t, c, _ in COLUMNS[experiment] if c == ood.partition("/")[0]).removeprefix("OOD ")
        rows[f"{name(experiment)}, {title}"] = (experiment, start, trained)
    for title, (experiment, start, end) in OTHER_PAIRS.items():
        key = ("detectors", experiment, "simple")
        trained = {m: (*key, f"{m}_{end}", f"{start}auroc_ood_mi") for m in (ENSEMBLE, "low_rank", "low_rank_ensemble")}
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
        row["deep ensemble"] = spread(own.mean(ENSEMBLE), numbers.error(*own.key, ENSEMBLE, "nll"))
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


def cifar10_pairs(numbers: Numbers) -> pd.DataFrame:
    """Returns the differences to the ensemble of the same round; of fewer than three seeds the mean alone."""
    rows: dict[str, dict[str, Paired | None]] = {}
    for network, preset, methods in WORDS["cifar10_rows"]:
        for method in methods:
            row = rows[f"{network.replace('resnet', 'ResNet-')}, {CIFAR.get(method, name(method))}"] = {}
            for title, metric in (("NLL", "nll"), ("corrupted NLL", "corrupted/nll")):
                if method == ENSEMBLE:
                    row[title] = None
                    continue
                found = numbers.paired("cifar10", network, preset, method, ENSEMBLE, metric)
                both = (numbers.values("cifar10", network, preset, m, metric).index for m in (method, ENSEMBLE))
                few = len(set.intersection(*map(set, both))) < 3
                row[title] = Paired(found.mean, math.nan, math.nan) if few else found
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("network, method")


def cifar10_results(numbers: Numbers) -> pd.DataFrame:
    pairs = cifar10_pairs(numbers)
    rows = []
    for network, preset, methods in WORDS["cifar10_rows"]:
        for method in methods:
            key = ("cifar10", network, preset, method)
            row = {"parameters": number(numbers.first(*key, "parameters"), 0)}
            for title, metric, decimals in (("accuracy, %", "accuracy", 2), ("NLL", "nll", 3), ("ECE", "ece", 3)):
                row[title] = spread(numbers.mean(*key, metric), numbers.error(*key, metric), decimals)
            rows.append(row)
    made = pd.DataFrame(rows, index=pairs.index)
    for title in pairs:
        made[f"{title} minus the ensemble's"] = ["–" if pair is None else interval(pair) for pair in pairs[title]]
    return made


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
        title: {
            ADAPTERS[m]: numbers.chosen("adapters", task, "protocol", m)[0].replace("learning_rate", "rate")
            for m in names
        }
        for task, title in SETTING_NAMES.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("setting")


def table_results(numbers: Numbers) -> pd.DataFrame:
    rows = {}
    for table in numbers.tables_of("regression"):
        best, row = best_other(numbers, table), {}
        for method in (*OWN, "deep ensemble", best):
            own = numbers.values("tables", table, "defaults", method, "nll").to_numpy()
            row[method] = spread(float(own.mean()), standard_error(own), 2)
        row["best of the others"] = f"{row[best]}, {best}"
        row = {title: cell for title, cell in row.items() if title in (*OWN, "deep ensemble", "best of the others")}
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
    """Returns the numbers of the figure: all networks but the last, whose bound is ten times as large."""
    return certificate_results(numbers)[["certified risk", "prior, hold-out", "test error"]].iloc[:-2].astype(float)
