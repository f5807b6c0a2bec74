"""Applies the rule of plan.yaml to a round of the trial: python -m singularbayes_experiments.opening.choose 2"""

import re
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

RECORDS = Path(__file__).parents[3] / "results" / "opening.parquet"
FAMILIES = {  # the first that matches a task's name
    "images, noisy": "mnist.*noisy",
    "images": "mnist",
    "text": "sst2",
    "air": "beijing",
    "small, noisy": "digits_noisy",
    "small": "^(breast_cancer|wine|digits|diabetes)$",
    "UCI": "",
}
BESIDE = ("closed", "means", "dense")
VALUES = r"^(diabetes|beijing)$"
CLOSE, OWN, MOST = 0.005, 0.01, 1.0  # excesses that count as equal; that a mixture's β must gain; that is counted


def family(task: str) -> str:
    """Returns the family that a task counts in.

    >>> family("mnist_1000_noisy"), family("wine_quality_red"), family("wine")
    ('images, noisy', 'UCI', 'small')
    """
    return next(name for name, pattern in FAMILIES.items() if re.search(pattern, task))


def read(number: int, least_rank: int = 8) -> pd.DataFrame:
    """Returns a row for each candidate and condition of a round, scores averaged over splits and seeds."""
    rows = duckdb.read_parquet(str(RECORDS)).df()
    rows = rows[(rows["round"] == number) & (rows["least_rank"] == least_rank)].reset_index(drop=True)
    for name in ("nll", "noise_off", "share_of_draws", "epoch", "pooled"):
        rows[name] = [np.mean(value) for value in rows[name]]
    rows["family"] = rows["task"].map(family)
    rows["classes"] = ~((rows["family"] == "UCI") | rows["task"].str.match(VALUES))
    return rows


def excess(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Returns the mean excess of every candidate, by family and over the families."""
    own = rows[~rows["name"].isin(BESIDE)]
    least = own.groupby(["task", "schedule"])[score].transform("min")
    over = rows.join(least.rename("least"))
    over["least"] = over.groupby(["task", "schedule"])["least"].transform("max")
    over["excess"] = np.minimum(over[score] - over["least"], MOST) / np.where(over["classes"], over["least"], 1.0)
    table = over.pivot_table(index="name", columns="family", values="excess")
    return table.assign(mean=table.mean(axis=1)).sort_values("mean")


def matter(rows: pd.DataFrame) -> pd.Series:
    """Returns the share of the conditions in which the noise makes a candidate better."""
    return (rows["noise_off"] > rows["nll"]).groupby(rows["name"]).mean()


def one_network(table: pd.DataFrame, matters: pd.Series) -> str:
    """Returns the candidate that the rule chooses for one network."""
    kept = table.drop(index=list(BESIDE), errors="ignore")
    kept = kept[matters[kept.index] >= 0.75]
    level = kept.index[kept["mean"] <= kept["mean"].min() + CLOSE]

    def order(name: str) -> tuple:
        numbers = [float(number) for number in re.findall(r"[\d.]+", name)]
        return 1 - numbers[-1], name.startswith("rule"), *numbers[:-1]

    return min(level, key=order)


def mixture(table: pd.DataFrame, chosen: str) -> str:
    """Returns the candidate for a mixture: the chosen one, or another β that is better by more than OWN."""
    opening = chosen.rpartition("β")[0]
    same = table.loc[[name for name in table.index if name.startswith(opening)], "mean"]
    return str(same.idxmin()) if same[chosen] - same.min() > OWN else chosen


if __name__ == "__main__":
    found = read(*map(int, sys.argv[1:]))
    single, pooled, matters = excess(found, "nll"), excess(found, "pooled"), matter(found)
    print(single.assign(matters=matters).round(3).to_string(), pooled.round(3).to_string(), sep="\n\n")
    chosen = one_network(single, matters)
    print(f"one network: {chosen}; mixture: {mixture(pooled, chosen)}")
