"""The tables of pages as DataFrames of text, and what they call methods, metrics and problems."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from singularbayes_experiments.protocol import Paired, standard_error
from singularbayes_experiments.records import RESULTS
from singularbayes_experiments.report.results import ENSEMBLE, NOMINAL, PROBLEMS, Missing, Numbers

WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("names.yaml").read_text("utf8"))
METHODS, COLUMNS, SETTINGS, BETTER = (WORDS[key] for key in ("methods", "columns", "settings", "better"))
NEWER = {"rate": "learning_rate", "decay": "weight_decay", "scale": "prior_scale"}  # settings of new records
RECORDED = {"num_trained": "parameters", "num_stored": "stored", "train_seconds": "seconds"}  # published names
DETECTED = ("auroc_ood_mi", "auroc_ood_epistemic", "auroc_ood_entropy", "auroc_ood_total")
RANKS = {"mnist": 25}  # of hidden layers, where a configuration does not set them
_PAPER_SEEDS, _ERRORS = 4, 2


def number(value: float, decimals: int = 3) -> str:
    """Returns a number with a true minus and separated thousands.

    >>> number(-1.25, 2), number(49612810, 0)
    ('−1.25', '49,612,810')
    """
    if not math.isfinite(value):
        raise Missing(f"A page needs a finite number; got {value}.")
    return f"{value:,.{decimals}f}".replace("-", "−")


def signed(value: float, decimals: int = 3) -> str:
    """Returns a number with its sign, that of a small one too, so that an interval and the word beside it agree.

    >>> signed(-0.0123), signed(0.5, 1), signed(-0.0001)
    ('−0.012', '+0.5', '−0.000')
    """
    return f"{value:+.{decimals}f}".replace("-", "−")


def interval(found: Paired, decimals: int = 3) -> str:
    """Returns a paired difference with its 95 % interval, the mean alone where one seed is common.

    >>> interval(Paired(-0.02, -0.03, -0.01))
    '−0.020 [−0.030, −0.010]'
    """
    ends = f" [{signed(found.low, decimals)}, {signed(found.high, decimals)}]" if math.isfinite(found.low) else ""
    return signed(found.mean, decimals) + ends


def spread(mean: float, error: float, decimals: int = 3) -> str:
    """Returns a mean with its standard error, where it has one."""
    return number(mean, decimals) + (f" ± {number(error, decimals)}" if math.isfinite(error) else "")


def rounded_up(risk: float) -> str:
    """Returns a certified risk with four places, such that what is printed holds too."""
    return f"{math.ceil(1e4 * risk) / 1e4:.4f}"


def name(method: str) -> str:
    """Returns what pages call a method or a problem.

    >>> name("low_rank_10"), name("energy")
    ('low-rank (rank 10)', 'energy')
    """
    start, _, rank = method.rpartition("_")
    every = WORDS["problems"] | METHODS | WORDS["older"]
    return f"low-rank (rank {rank})" if start == "low_rank" and rank.isdigit() else every.get(method, plain(method))


def plain(key: str) -> str:
    """Returns a key as words.

    >>> plain("auroc_ood_mi"), plain("num_trained")
    ('AUROC OOD MI', 'parameters')
    """
    words = {"num_trained": "parameters", "num_stored": "parameters stored", "brier": "Brier"}.get(key, key).split("_")
    return " ".join(word.upper() if word in WORDS["capitals"] else word for word in words)


class Problem:
    """The numbers of one problem of the comparison, as its page writes them."""

    def __init__(self, numbers: Numbers, experiment: str, task: str = ""):
        self.numbers, self.experiment, self.task = numbers, experiment, task or experiment
        self.key = (self.experiment, self.task, "protocol")
        self.places = next(decimals for title, _, decimals in COLUMNS[experiment] if title == "NLL")
        self.ood = PROBLEMS.get((self.experiment, self.task)) or ""

    @property
    def methods(self) -> list[str]:
        """The methods with results, those of names.yaml first and in its order."""
        found = [*METHODS, *self.numbers.methods(*self.key)]
        return [m for m in dict.fromkeys(found) if self.numbers.has(*self.key, m, "nll")]

    def mean(self, method: str, metric: str = "nll") -> float:
        return self.numbers.mean(*self.key, method, metric)

    def nll(self, method: str) -> str:
        return number(self.mean(method), self.places)

    def detects(self, method: str) -> str:
        return number(self.mean(method, self.ood), 3)

    def paired(self, method: str, rival: str = ENSEMBLE, metric: str = "nll") -> Paired:
        return self.numbers.paired(*self.key, method, rival, metric)

    def difference(self, method: str, rival: str = ENSEMBLE) -> str:
        return interval(self.paired(method, rival), self.places)

    def side(self, method: str, rival: str = ENSEMBLE, metric: str = "nll") -> str:
        return self.paired(method, rival, metric).side(higher_is_better=metric != "nll")

    def share(self, method: str) -> str:
        """Returns a method's parameters in per cent of the ensemble's."""
        own, ensemble = (self.numbers.first(*self.key, m, "parameters") for m in (method, ENSEMBLE))
        return f"{100 * own / ensemble:.0f} %"

    def cost(self, method: str) -> str:
        return f"{self.numbers.cost(*self.key, method):.2g}"

    def metric(self, method: str, column: str) -> str | None:
        """Returns the metric of a column: of out-of-distribution inputs the first detector that a method has."""
        names = [column, *(f"{column}/{detector}" for detector in DETECTED)]
        return next((each for each in names if self.numbers.has(*self.key, method, each)), None)

    def results(self) -> pd.DataFrame:
        """Returns a row a method: parameters, cost, scores with standard errors, the difference to the ensemble."""
        rows = {}
        for method in self.methods:
            row = {"parameters": number(self.numbers.first(*self.key, method, "parameters"), 0)}
            row["cost"] = self.cost(method)
            for title, column, decimals in COLUMNS[self.experiment]:
                if metric := self.metric(method, column):
                    key = (*self.key, method, metric)
                    row[title] = spread(self.numbers.mean(*key), self.numbers.error(*key), decimals)
            row["NLL minus the ensemble's [95 %]"] = "" if method == ENSEMBLE else self.difference(method)
            rows[name(method)] = row
        return pd.DataFrame.from_dict(rows, orient="index").fillna("–").rename_axis("method")

    def settings(self) -> pd.DataFrame:
        """Returns the chosen settings that differ between methods, and how many configurations were tried."""
        rows = {}
        for method in self.methods:
            own = {key: value for key, value in self.numbers.chosen(*self.key, method)[1].items() if value is not None}
            own |= {"rank": None if method == "full_rank" else own.get("rank", RANKS.get(self.experiment))} | {
                o: own[n] for o, n in NEWER.items() if n in own
            }
            of_points = "learning_rate" in own and not self.numbers.has(*self.key, method, "posterior_kl")
            plain_weights = method in ("deterministic", ENSEMBLE) or of_points
            names = ["epochs", "rate", "decay"] if plain_weights else [key for key in SETTINGS if key != "decay"]
            rows[name(method)] = {SETTINGS[key]: setting(own[key]) for key in names if own.get(key) is not None}
            rows[name(method)]["configurations"] = str(self.numbers.configurations(self.experiment, self.task, method))
        table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
        kept = [title for title in table if table[title].dropna().nunique() > 1 and title != "configurations"]
        return table[[*kept, "configurations"]].fillna("–")

    def paper(self) -> pd.DataFrame:
        """Returns the paper's numbers beside ours with the paper's settings."""
        rows: dict[str, dict[str, str]] = {}
        source = "mimic3" if self.experiment == "icu" else self.experiment
        for metric, title in WORDS["paper"][self.experiment].items():
            for (method, own), line in published(source).items():
                key = (self.experiment, self.task, "paper", method, metric)
                if own == metric and self.numbers.has(*key):
                    row = rows.setdefault(name(method), {})
                    row[f"{title}: paper"] = str(line.printed).rstrip("%")
                    row[f"{title}: ours"] = spread(self.numbers.mean(*key), self.numbers.error(*key), places(line))
        return pd.DataFrame.from_dict(rows, orient="index").fillna("–").rename_axis("method")


def setting(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@cache
def _published() -> pd.DataFrame:
    return pd.read_csv(RESULTS / "published.csv", keep_default_na=False, na_values={"deviation": ""})


def published(experiment: str) -> dict[tuple[str, str], pd.Series]:
    """Returns the paper's numbers of an experiment by method and metric; where two tables have one, the first's."""
    found: dict[tuple[str, str], pd.Series] = {}
    for _, line in _published()[_published().experiment == experiment].iterrows():
        found.setdefault((line.method, line.metric), line)
    return found


def places(line: pd.Series) -> int:
    """Returns the decimals of a printed number: a rounding by 0.0005 is three."""
    return max(0, round(-math.log10(2 * line.rounding))) - 2 * str(line.printed).endswith("%")


def against_paper(numbers: Numbers, experiment: str, preset: str) -> dict[str, int]:
    """Returns how many of our numbers are clearly better than the paper's, how many even, how many worse.

    A difference is clear if it is larger than two standard errors, ours and the paper's together, plus the rounding of
    the printed number. The paper's ± is a standard deviation of 4 or 5 seeds; a number without it is taken as that of a
    single run which varies as ours do. Numbers that cannot be right are not counted.
    """
    counts = {"better": 0, "even": 0, "worse": 0}
    for (method, metric), line in published(experiment).items():
        key = (experiment, experiment, preset, method, metric)
        if metric not in BETTER[experiment] or line.wrong or not numbers.has(*key):
            continue
        values = numbers.values(*key).to_numpy() / (100 if str(line.printed).endswith("%") else 1)
        if len(values) > 1:
            gain, error = _gain(values, line, BETTER[experiment][metric])
            counts["even" if abs(gain) <= error else "better" if gain > 0 else "worse"] += 1
    return counts


def _gain(values: np.ndarray, line: pd.Series, better: float) -> tuple[float, float]:
    """Returns by how much ours is better than the paper's number, and the least gain that is clear."""
    loss = (lambda value: -better * value) if abs(better) == 1 else (lambda value: abs(value - better))
    own = float(np.std(values, ddof=1))
    theirs = own if math.isnan(line.deviation) else line.deviation / math.sqrt(_PAPER_SEEDS)
    error = math.hypot(own / math.sqrt(len(values)), theirs)
    return loss(line.value) - loss(float(values.mean())), _ERRORS * error + line.rounding


def paper_table(numbers: Numbers, label: str) -> pd.DataFrame:
    """Returns a table of the paper: each cell has its number, ours with its settings, and ours with tuned settings."""
    own = _published()[_published().table == label]
    rows: dict[str, dict[str, str]] = {}
    for _, line in own.iterrows():
        here = "icu" if line.experiment == "mimic3" else line.experiment
        printed = number(line.value, 0) if line.metric == "train_seconds" else str(line.printed).rstrip("%")
        cells = [printed + ("†" if line.wrong else "")]
        for preset in ("paper", "chosen"):
            metric = RECORDED.get(line.metric, line.metric)
            key = (here, here, preset, line.method, metric)
            if metric in ("parameters", "stored"):
                if preset == "paper" and numbers.has(*key):
                    cells.append(number(numbers.first(*key), 0))
            else:
                cells.append(number(numbers.mean(*key), places(line)) if numbers.has(*key) else "–")
        rows.setdefault(name(line.method), {})[plain(line.metric)] = " · ".join(cells)
    return pd.DataFrame.from_dict(rows, orient="index").fillna("").rename_axis("method")


# Tables beside other libraries.

OWN = ("ours", "ours, full rank")


def best_other(numbers: Numbers, table: str) -> str:
    """Returns the estimator of another library with the least NLL, by its mean difference to ours."""
    others = [m for m in numbers.methods("tables", table, "defaults") if m not in OWN]
    found = {m: numbers.relative(table, m, "ours", "nll") for m in others}
    return min((m for m in others if len(found[m])), key=lambda m: float(found[m].mean()))


def statements(numbers: Numbers) -> dict[str, list[str]]:
    """Returns statements about our regressor's defaults, each with the tables on which it holds."""
    tables = numbers.tables_of("regression")

    def below(other: str = "", score: str = "nll", slack: bool = False) -> list[str]:
        found = {t: numbers.relative(t, "ours", other or best_other(numbers, t), score) for t in tables}
        least = {t: standard_error(found[t]) if slack else 0.0 for t in tables}
        return [t for t in tables if found[t].mean() < (0.0 if math.isnan(least[t]) else least[t])]

    def covers(table: str) -> bool:
        rows, covered = (
            numbers.values("tables", table, "defaults", "ours", metric).to_numpy() for metric in ("rows", "coverage")
        )
        return abs((covered * rows).sum() / rows.sum() - NOMINAL) <= 2 * math.sqrt(0.09 / rows.mean())

    normal = "ours as a normal distribution: NLL"
    return {
        "NLL below that of all others": below(),
        "NLL within one standard error of the best of the others": below(slack=True),
        "NLL below that of the deep ensemble": below("deep ensemble"),
        "NLL below that of full rank": below("ours, full rank"),
        "NLL within one standard error of full rank, or below": below("ours, full rank", slack=True),
        "RMSE not above that of the deep ensemble by a standard error": below("deep ensemble", "rmse", slack=True),
        f"{normal} within one standard error of the best of the others": below("", "normal_nll", slack=True),
        f"{normal} below that of the deep ensemble": below("deep ensemble", "normal_nll"),
        "90 % intervals cover 90 % within two standard errors of a test set": [t for t in tables if covers(t)],
    }
