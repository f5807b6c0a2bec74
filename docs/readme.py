"""The tables of results in README.md, from the records in docs/results: means over seeds with the chosen settings.

python docs/readme.py
"""

import json
import re
from collections import defaultdict
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE, RECORDS = FOLDER.parent / "README.md", FOLDER / "results"
NAMES = {
    "low_rank": "low-rank",
    "low_rank_svd": "low-rank from an SVD",
    "low_rank_laplace": "low-rank Laplace",
    "low_rank_ensemble": "low-rank ensemble of 5",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "swag": "SWAG",
}
Column = tuple[str, str, str]  # title, name of the metric, how it is printed
_CLASSES: list[Column] = [("accuracy", "accuracy", "{:.2%}"), ("NLL", "nll", "{:.4f}"), ("ECE", "ece", "{:.4f}")]
_RISK: list[Column] = [("AUROC of death", "auroc", "{:.3f}"), ("NLL", "nll", "{:.3f}"), ("ECE", "ece", "{:.3f}")]
TABLES: dict[str, list[Column]] = {
    "mnist": [*_CLASSES, ("AUROC-OOD (MI)", "fashion_mnist/auroc_ood_mi", "{:.3f}")],
    "fashion_mnist": [*_CLASSES, ("AUROC-OOD (MI)", "mnist/auroc_ood_mi", "{:.3f}")],
    "sst2": [
        ("accuracy", "accuracy", "{:.2%}"),
        ("NLL", "nll", "{:.3f}"),
        ("ECE", "ece", "{:.3f}"),
        ("AUROC-OOD (MI)", "auroc_ood_mi", "{:.3f}"),
        ("AUROC-OOD (entropy)", "auroc_ood_entropy", "{:.3f}"),
        ("AUPR-In (MI)", "aupr_in_mi", "{:.3f}"),
    ],
    "beijing": [
        ("MAE", "mae", "{:.2f}"),
        ("CRPS", "crps_total", "{:.2f}"),
        ("PICP", "picp_95_total", "{:.3f}"),
        ("MPIW", "mpiw_95_total", "{:.1f}"),
        ("AUROC-OOD (epistemic)", "auroc_ood_epistemic", "{:.3f}"),
    ],
    "icu": [*_RISK, ("AUROC-OOD (MI)", "auroc_ood_mi", "{:.3f}"), ("(entropy)", "auroc_ood_entropy", "{:.3f}")],
}


def table(name: str) -> str:
    """Returns the table of an experiment in Markdown, a row a method."""
    lines = (RECORDS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    runs = defaultdict(list)
    for run in map(json.loads, lines):
        if run["preset"] == "chosen":
            runs[run["method"]].append(run)
    columns = TABLES[name]
    rows = [f"| {' | '.join(['', 'parameters', *(title for title, *_ in columns)])} |"]
    rows.append(f"|---|---:|{'---:|' * len(columns)}")
    for method, said in NAMES.items():
        if found := runs[method]:
            cells = [_mean(found, metric, form) for _, metric, form in columns]
            rows.append(f"| {' | '.join([said, format(found[0]['parameters'], ','), *cells])} |")
    return "\n".join(rows)


def _mean(runs: list[dict], metric: str, form: str) -> str:
    if metric not in runs[0]["metrics"]:
        return "–"
    mean = sum(run["metrics"][metric] for run in runs) / len(runs)
    return form.format(mean).replace("%", " %")


def filled(page: str) -> str:
    """Returns the page with every table between its marks."""
    for name in TABLES:
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        if len(marks.findall(page)) != 1:
            raise ValueError(f"README.md needs <!-- {name} --> and <!-- end --> once.")
        page = marks.sub(lambda found, name=name: f"{found[1]}{table(name)}\n{found[2]}", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
