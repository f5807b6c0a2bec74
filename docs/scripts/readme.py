"""The tables of results in README.md, from experiments/results: means over seeds with the tuned settings.

python docs/scripts/readme.py
"""

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    """A score: its title, its name in records, how it is printed, and the bounds of its aim."""

    title: str
    metric: str
    form: str
    least: float = -math.inf
    most: float = math.inf

    def shown(self, value: float) -> str:
        return "–" if math.isnan(value) else self.form.format(value).replace("%", " %")

    @property
    def aim(self) -> str:
        if math.isinf(self.least):
            return f"≤ {self.shown(self.most)}"
        return f"≥ {self.shown(self.least)}" if math.isinf(self.most) else f"{self.least} to {self.most}"


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


@cache
def means(name: str) -> dict[str, dict[str, float]]:
    """Returns the mean of every metric of every method, and its stored parameters as "stored"."""
    experiment, _, preset = name.partition(" ")
    runs = defaultdict(list)
    for line in (RECORDS / f"{experiment}.jsonl").read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if run["preset"] == (preset or "chosen"):
            stored = run["parameters"] if run["stored"] is None else run["stored"]
            runs[run["method"]].append({**run["metrics"], "stored": stored})
    return {
        method: {
            key: sum(run[key] for run in found) / len(found) for key in found[0] if all(key in run for run in found)
        }
        for method, found in runs.items()
    }


def table(name: str) -> str:
    """Returns the table of an experiment in Markdown, one row per method."""
    columns, found = TABLES[name], means(name)
    rows = [f"| {' | '.join(['', 'parameters', *(column.title for column in columns)])} |"]
    rows.append(f"|---|---:|{'---:|' * len(columns)}")
    for method in (method for method in NAMES if method in found):
        cells = [column.shown(found[method].get(column.metric, math.nan)) for column in columns]
        rows.append(f"| {' | '.join([NAMES[method], format(round(found[method]['stored']), ','), *cells])} |")
    return "\n".join(rows)


@dataclass(frozen=True)
class Aim:
    """A row of what was aimed at: an experiment, its scores with their bounds, and a method for each of three columns.

    The columns are one low-rank network, one that is SVD-initialised, and an ensemble; None where the aim has none.
    """

    title: str
    experiment: str
    columns: list[Column]
    paper: str
    methods: tuple[str | None, ...] = ("low_rank", "low_rank_svd", "low_rank_ensemble")

    def cell(self, method: str | None) -> str:
        """Returns what came out, in bold where it is reached."""
        if method is None:
            return ""
        return ", ".join(_judged(column, means(self.experiment)[method]) for column in self.columns)


def aims() -> str:
    """Returns the table of what was aimed at and what came out."""
    rows = [
        "| | scores | the paper's | aim | low-rank | low-rank, SVD-initialised | low-rank ensemble |",
        f"|---|{'---|' * 6}",
    ]
    for aim in _aims():
        titles, bounds = (", ".join(parts) for parts in zip(*((c.title, c.aim) for c in aim.columns), strict=True))
        cells = [aim.title, titles, aim.paper, bounds, *map(aim.cell, aim.methods)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _aims() -> list[Aim]:
    toy, icu = means("toy"), means("icu")
    best = max(found.get("auroc_ood_mi", 0.0) for method, found in icu.items() if method in NAMES)
    near = [
        Column("RMSE inside", "rmse_near", "{:.4f}", most=toy["full_rank"]["rmse_near"]),
        Column("RMSE on the paper's range", "rmse_test", "{:.3f}", most=toy["full_rank"]["rmse_test"]),
        Column("ratio outside/inside", "iqr_ratio", "{:.2f}", least=3),
    ]
    air = [
        Column("MAE", "mae", "{:.2f}", most=10.45),
        Column("PICP (total)", "picp_95_total", "{:.3f}", 0.94, 0.96),
        Column("MPIW", "mpiw_95_total", "{:.1f}", most=70),
        Column("AUROC-OOD", "auroc_ood_epistemic", "{:.3f}", least=0.74),
    ]
    conformal = [
        Column("PICP", "conformal_picp_95", "{:.3f}", 0.94, 0.96),
        Column("MPIW", "conformal_mpiw_95", "{:.1f}", most=70),
    ]
    care = [
        Column("NLL", "nll", "{:.3f}", most=icu["deep_ensemble"]["nll"] + 0.01),
        Column("AUROC-OOD (MI)", "auroc_ood_mi", "{:.4f}", least=best),
    ]
    text = [*_text_aims(0.82, 0.39, 0.77), Column("AUPR-In (MI)", "aupr_in_mi", "{:.3f}", least=0.47)]
    pooled = _text_aims(0.825, 0.385, 0.79)
    one, several = ("low_rank", "low_rank_svd", None), (None, "low_rank_svd_ensemble", "low_rank_ensemble")
    return [
        Aim("toy", "toy", near, "–, 0.503, 2.01"),
        Aim("MNIST", "mnist", _image_aims(0.983, 0.06, 0.006), "97.32 %, 0.0924, 0.0104"),
        Aim("Fashion-MNIST", "fashion_mnist", _image_aims(0.895, 0.3, 0.01), "88.69 %, 0.3186, 0.0114"),
        Aim("SST-2", "sst2", text, "80.6 %, 0.527, 0.640, 0.302", one),
        Aim("SST-2, all rows", "sst2 refit", text, "80.6 %, 0.527, 0.640, 0.302", one),
        Aim("SST-2, ensemble", "sst2", pooled, "81.4 %, 0.415, 0.731", several),
        Aim("SST-2, ensemble, all rows", "sst2 refit", pooled, "81.4 %, 0.415, 0.731", several),
        Aim("Beijing", "beijing", air, "10.63, –, –, 0.710"),
        Aim("Beijing, conformal", "beijing", conformal, "–, –"),
        Aim("intensive care", "icu", care, "–"),
    ]


def _text_aims(accuracy: float, nll: float, far: float) -> list[Column]:
    return [
        Column("accuracy", "accuracy", "{:.1%}", least=accuracy),
        Column("NLL", "nll", "{:.3f}", most=nll),
        Column("AUROC-OOD (MI)", "auroc_ood_mi", "{:.3f}", least=far),
    ]


def _image_aims(accuracy: float, nll: float, ece: float) -> list[Column]:
    accuracies, losses, calibration, _ = _classes("")
    bounds = ((accuracies, accuracy, math.inf), (losses, -math.inf, nll), (calibration, -math.inf, ece))
    return [Column(column.title, column.metric, column.form, *bound) for column, *bound in bounds]


def _judged(column: Column, found: dict[str, float]) -> str:
    value = found.get(column.metric, math.nan)
    return f"**{column.shown(value)}**" if column.least <= value <= column.most else column.shown(value)


def filled(page: str) -> str:
    """Returns the page with every table between its marks."""
    for name in (*TABLES, "aims"):
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        if len(marks.findall(page)) != 1:
            raise ValueError(f"README.md needs <!-- {name} --> and <!-- end --> once.")
        text = aims() if name == "aims" else table(name)
        page = marks.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
