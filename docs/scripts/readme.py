"""The tables and sentences of results in README.md, from experiments/results: means over seeds, tuned settings.

python docs/scripts/readme.py
"""

import json
import math
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import marks

FOLDER = Path(__file__).parents[1]
PAGE, RECORDS = FOLDER.parent / "README.md", FOLDER.parent / "experiments" / "results"
NAMES = {
    "low_rank": "low-rank",
    "low_rank_svd": "low-rank, SVD-initialised",
    "low_rank_laplace": "low-rank Laplace",
    "low_rank_ensemble": "low-rank ensemble of 5",
    "low_rank_svd_ensemble": "low-rank ensemble of 5, SVD-initialised",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "swag": "SWAG",
}


@dataclass(frozen=True)
class Column:
    """A score: its title, its name in records, and how it is printed."""

    title: str
    metric: str
    form: str

    def shown(self, value: float) -> str:
        return "–" if math.isnan(value) else self.form.format(value).replace("%", " %")


def _classes(far: str) -> list[Column]:
    scores = [("accuracy", "accuracy", "{:.2%}"), ("NLL", "nll", "{:.4f}"), ("ECE", "ece", "{:.4f}")]
    return [Column(*score) for score in (*scores, ("AUROC-OOD (MI)", far, "{:.3f}"))]


_TEXT = [
    Column("accuracy", "accuracy", "{:.1%}"),
    Column("NLL", "nll", "{:.3f}"),
    Column("ECE", "ece", "{:.3f}"),
    Column("AUROC-OOD (MI)", "auroc_ood_mi", "{:.3f}"),
    Column("AUROC-OOD (entropy)", "auroc_ood_entropy", "{:.3f}"),
    Column("AUPR-In (MI)", "aupr_in_mi", "{:.3f}"),
]
# By experiment, with its chosen settings, or by experiment and preset.
TABLES: dict[str, list[Column]] = {
    "mnist": _classes("fashion_mnist/auroc_ood_mi"),
    "fashion_mnist": _classes("mnist/auroc_ood_mi"),
    "cnn": _classes("mnist/auroc_ood_mi"),
    "sst2": _TEXT,
    "sst2 refit": _TEXT,
    "beijing": [
        Column("MAE", "mae", "{:.2f}"),
        Column("CRPS", "crps_total", "{:.2f}"),
        Column("PICP", "picp_95_total", "{:.3f}"),
        Column("MPIW", "mpiw_95_total", "{:.1f}"),
        Column("AUROC-OOD (epistemic)", "auroc_ood_epistemic", "{:.3f}"),
    ],
}


# How many seeds were run where some diverged and left no record.
RUN = {("sst2", "swag"): 4, ("sst2 refit", "swag"): 4}


@cache
def _runs(experiment: str) -> list[dict]:
    return [json.loads(line) for line in (RECORDS / f"{experiment}.jsonl").read_text(encoding="utf-8").splitlines()]


@cache
def means(name: str) -> dict[str, dict[str, float]]:
    """Returns the mean of every metric of every method, its stored parameters as "stored", its seeds as "seeds"."""
    experiment, _, preset = name.partition(" ")
    runs = defaultdict(list)
    for run in _runs(experiment):
        if run["preset"] == (preset or "chosen"):
            stored = run["parameters"] if run["stored"] is None else run["stored"]
            runs[run["method"]].append({**run["metrics"], "stored": stored})
    return {
        method: {
            key: sum(run[key] for run in found) / len(found) for key in found[0] if all(key in run for run in found)
        }
        | {"seeds": len(found)}
        for method, found in runs.items()
    }


def table(name: str) -> str:
    """Returns the table of an experiment in Markdown, one row per method."""
    columns, found = TABLES[name], means(name)
    rows = [f"| {' | '.join(['', 'parameters', *(column.title for column in columns)])} |"]
    rows.append(f"|---|---:|{'---:|' * len(columns)}")
    for method in (method for method in NAMES if method in found):
        cells = [column.shown(found[method].get(column.metric, math.nan)) for column in columns]
        run = RUN.get((name, method))
        title = f"{NAMES[method]} ({found[method]['seeds']} of {run} seeds)" if run else NAMES[method]
        rows.append(f"| {' | '.join([title, format(round(found[method]['stored']), ','), *cells])} |")
    return "\n".join(rows)


def _seeds(name: str, method: str, metric: str) -> list[float]:
    experiment, _, preset = name.partition(" ")
    found = [run for run in _runs(experiment) if (run["preset"], run["method"]) == (preset or "chosen", method)]
    return [run["metrics"][metric] for run in sorted(found, key=lambda run: run["seed"])]


def toy() -> str:
    """Returns what the band does away from the data, on our regions and on the paper's."""
    ours, paper = means("toy"), means("toy paper")
    low, published = ours["low_rank"], paper["low_rank"]
    ratios = [f"{value:.2f}" for value in sorted(_seeds("toy", "low_rank_ensemble", "iqr_ratio"))]
    return (
        "On the toy regression the band of the low-rank network, outside the data against inside, is "
        f"{low['iqr_ratio']:.2f} times as wide with the tuned settings and {published['iqr_ratio']:.2f} times with the "
        "paper's. The paper measures on two regions that overlap: on those, where it has 2.01, ours are "
        f"{low['iqr_published_ratio']:.2f} and {published['iqr_published_ratio']:.2f}. The ensemble's "
        f"{ours['low_rank_ensemble']['iqr_ratio']:.2f} is a mean of {', '.join(ratios[:-1])} and {ratios[-1]}; a deep "
        f"ensemble has {ours['deep_ensemble']['iqr_ratio']:.2f}."
    )


def air() -> str:
    """Returns what the rows of Beijing may be compared for."""
    settings = {run["method"]: run["settings"]["from_last"] for run in _runs("beijing") if run["preset"] == "chosen"}
    changes = [NAMES[name] for name in NAMES if settings.get(name)]
    ours, paper = means("beijing"), means("beijing paper")["low_rank"]
    low, svd = ours["low_rank"], ours["low_rank_svd"]
    return (
        f"On Beijing the rows {' and '.join(changes)} predict the change from the last hour, the others the value "
        "itself, as validation chose; so the rows differ in more than the posterior. With the paper's settings, where "
        f"all predict the value, the low-rank network has an MAE of {paper['mae']:.2f} and an AUROC-OOD of "
        f"{paper['auroc_ood_epistemic']:.3f}, with the tuned ones {low['mae']:.2f} and "
        f"{low['auroc_ood_epistemic']:.3f}: what made detection worse was not tried. The paper's PICP of 0.790 is of "
        f"the epistemic variance alone, of which ours have {low['picp_95_epistemic']:.3f} and, SVD-initialised, "
        f"{svd['picp_95_epistemic']:.3f}."
    )


def care() -> str:
    """Returns what intensive care shows, with the NLL that compares."""
    found = {name: means(f"icu {name}") for name in ("chosen", "paper", "hand")}
    low, deep = found["chosen"]["low_rank"], found["chosen"]["deep_ensemble"]
    best = max(scores.get("auroc_ood_mi", 0.0) for method, scores in found["chosen"].items() if method in NAMES)
    by_hand, paper = found["hand"]["low_rank"], found["paper"]["low_rank"]
    return (
        "In intensive care (PhysioNet 2012, five shifts) low-rank has an NLL of "
        f"{low['nll']:.3f}, the deep ensemble {deep['nll']:.3f}. No method's uncertainty detects the shifts well: the "
        f"best mean AUROC by mutual information is {best:.3f}. With the paper's β and class weights low-rank networks "
        f"collapse (AUROC of death {paper['auroc']:.3f}, NLL with the class weight undone "
        f"{paper['unweighted_nll']:.3f}); with β scaled to the number of stays, a manual override with two seeds, they "
        f"have {by_hand['auroc']:.3f} and {by_hand['unweighted_nll']:.3f}, and detect shifts with "
        f"{by_hand['auroc_ood_mi']:.3f}."
    )


def small() -> str:
    """Returns on how many small regression sets one low-rank network is better, and why that says little."""
    runs = [run for run in _runs("uci") if run["preset"] == "chosen"]
    names = runs[0]["settings"]["sets"]

    def mean(method: str, key: str) -> float:  # protein has fewer splits than the others
        values = [run["metrics"][key] for run in runs if run["method"] == method and key in run["metrics"]]
        return sum(values) / len(values)

    wins = {
        (other, score): sum(mean("low_rank", f"{name}/{score}") < mean(other, f"{name}/{score}") for name in names)
        for other in ("full_rank", "deep_ensemble")
        for score in ("rmse", "nll")
    }
    return (
        f"On {len(names)} small regression sets (UCI) one low-rank network has the lower RMSE than full-rank on "
        f"{wins['full_rank', 'rmse']} and the lower NLL on {wins['full_rank', 'nll']}, but it learns a noise for every "
        "example and the full-rank network has one noise level for all; against the ensemble, which learns the noise "
        f"too, on {wins['deep_ensemble', 'rmse']} and {wins['deep_ensemble', 'nll']}."
    )


def simple() -> str:
    """Returns what detectors reach that need no network, beside the best of our methods on the same pair."""
    found = {(run["experiment"], run["method"]): run["metrics"] for run in _runs("simple_detectors")}

    def pair(experiment: str, detector: str, start: str = "", by: str = "mi") -> str:
        ours = [each.get(f"{start}auroc_ood_{by}", 0.0) for name, each in means(experiment).items() if name in NAMES]
        return f"{found[experiment, detector][f'{start}auroc_ood']:.3f} ({max(ours):.3f})"

    return (
        "Read every AUROC-OOD beside what needs no network (in brackets the best method of the same pair, by mutual "
        "information or the epistemic deviation): the share of non-zero pixels tells Fashion-MNIST from MNIST with "
        f"{pair('mnist', 'more_pixels', 'fashion_mnist/')} and MNIST from Fashion-MNIST with "
        f"{pair('fashion_mnist', 'fewer_pixels', 'mnist/')}; the length of a text tells news from reviews with "
        f"{pair('sst2', 'text_length')}, the rarity of its word pieces with {pair('sst2', 'word_rarity')}; the dew "
        f"point tells Guangzhou from Beijing with {pair('beijing', 'dew_point', by='epistemic')}; the distance of a "
        f"stay from the training inputs tells the shifts of intensive care with {pair('icu', 'input_distance')}. So "
        "these pairs say little about uncertainty, those of SST-2 and intensive care least: there no method reaches "
        "the simple number."
    )


PROSE = {"simple": simple, "toy": toy, "air": air, "care": care, "small": small}


def filled(page: str) -> str:
    """Returns the page with every table between its marks."""
    for name in (*TABLES, *PROSE):
        text = textwrap.fill(PROSE[name](), 120, break_on_hyphens=False) if name in PROSE else table(name)
        page = marks.filled(page, name, text, "README.md")
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
