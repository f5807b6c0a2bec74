"""The comparison on tables: fills the tables of estimators.md from the records and draws its figure.

pip install 'singularbayes[plots]' ./experiments
python docs/scripts/tables.py           # writes tables.png and the tables in estimators.md
"""

import math
import re
from pathlib import Path

from singularbayes_experiments.problems.table_sets import CLASSIFICATION, REGRESSION
from singularbayes_experiments.report.table_summary import OURS, Comparison, statements

FOLDER = Path(__file__).parents[1]
PAGE = FOLDER / "estimators_results.md"
RECORDS = FOLDER.parent / "experiments" / "results" / "tables" / "comparison.jsonl.gz"
_MARKS = re.compile(r"(<!-- tables\.py: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
SHORT = {"boston_housing": "Boston", "naval_propulsion_plant": "naval", "protein_tertiary_structure": "protein"}
SHORT |= {"wine_quality_red": "wine quality", "power_plant": "power plant", "breast_cancer": "breast cancer"}
AFTERWARDS = ("ours, corrected",)  # changed after test scores were seen, and on other splits: it is never the best


def label(name: str) -> str:
    """Returns the name of a table as the page writes it."""
    return SHORT.get(name, name.replace("_", " "))


def number(value: float, error: float = math.nan, digits: int = 2) -> str:
    """Returns a score with its standard error; of small numbers with more digits."""
    if math.isnan(value):
        return "–"
    if value > 100:
        return "> 100"
    while digits < 6 and 0 < abs(value) < 10 ** (1 - digits):
        digits += 1
    return f"{value:.{digits}f}" + ("" if math.isnan(error) else f" ± {error:.{digits}f}")


def rows(comparison: Comparison, names, score: str, digits: int = 2, bold: bool = True) -> str:
    """Returns a markdown table of a score: tables down, methods across; the best of what was planned is bold."""
    names = [name for name in names if name in comparison.scores]
    methods = comparison.methods(names)
    lines = ["| data | " + " | ".join(methods) + " |", "|---|" + "---:|" * len(methods)]
    for name in names:
        found = {method: comparison.mean(name, method, score) for method in methods}
        best = comparison.best(name, score, without=AFTERWARDS) if bold and OURS in found else None
        cells = [
            f"**{number(value, error, digits)}**" if method == best else number(value, error, digits)
            for method, (value, error, _) in found.items()
        ]
        lines.append(f"| {label(name)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ranks(default: Comparison, tuned: Comparison, names, scores: dict[str, str]) -> str:
    """Returns a markdown table of mean ranks over tables, and of the seconds of a fit and a prediction."""
    lines = ["| method | " + " | ".join([*scores.values(), "fit, s", "predict, s"]) + " |"]
    lines.append("|---|" + "---:|" * (len(scores) + 2))
    for suffix, comparison in (("", default), (", tuned", tuned)):
        own = [name for name in names if name in comparison.scores]
        found = {score: comparison.ranks(own, score) for score in scores}
        for method in next(iter(found.values())):
            cells = [f"{found[score][method]:.1f}" for score in scores]
            for seconds in ("fit_seconds", "predict_seconds"):
                total = [comparison.mean(name, method, seconds)[0] for name in own]
                cells.append(number(sorted(total)[len(total) // 2], digits=1 if seconds[0] == "f" else 2))
            lines.append(f"| {method}{suffix} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def statement_rows(comparison: Comparison) -> str:
    """Returns a markdown table of statements, with the tables on which each holds."""
    names = [name for name in REGRESSION if name in comparison.scores]
    lines = ["| statement | holds on | not on |", "|---|---|---|"]
    for one in statements(comparison, names):
        holds, fails = (", ".join(map(label, some)) or "–" for some in (one.holds, one.fails))
        lines.append(f"| {one.sentence} | {len(one.holds)}: {holds} | {fails} |")
    return "\n".join(lines) + "\n"


def blocks(default: Comparison, tuned: Comparison) -> dict[str, str]:
    """Returns the text of every marked block of the page."""
    values = {"nll": "NLL", "crps": "CRPS", "rmse": "RMSE", "miscoverage": "coverage − 90 %"}
    classes = {"nll": "NLL", "brier": "Brier", "error": "error"}
    return {
        "statements": statement_rows(default),
        "nll": rows(default, REGRESSION, "nll"),
        "rmse": rows(default, REGRESSION, "rmse", 3),
        "coverage": rows(default, REGRESSION, "coverage", 3, bold=False),
        "ranks": ranks(default, tuned, REGRESSION, values),
        "classes": rows(default, CLASSIFICATION, "nll", 3),
        "class_ranks": ranks(default, tuned, CLASSIFICATION, classes),
    }


def fill(page: Path, texts: dict[str, str]) -> None:
    """Replaces the text between the marks of a page."""
    before = page.read_text(encoding="utf-8")
    page.write_text(_MARKS.sub(lambda found: found[1] + texts[found[2]] + found[3], before), encoding="utf-8")


def draw(comparison: Comparison, path: Path) -> None:
    """Draws the NLL of every method less ours, per table, with standard errors of paired differences."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = [[name for name in some if name in comparison.scores] for some in (REGRESSION, CLASSIFICATION)]
    heights = [max(1, len(names)) for names in groups]
    figure, axes = pyplot.subplots(2, 1, figsize=(9, 0.55 * sum(heights) + 1.6), height_ratios=heights, squeeze=False)
    colours = pyplot.get_cmap("tab20")
    every = [method for method in comparison.methods(comparison.scores) if method != OURS]
    for axis, names in zip(axes[:, 0], groups, strict=True):
        methods = [method for method in comparison.methods(names) if method != OURS]
        for place, method in enumerate(methods):
            found = [comparison.difference(name, method, OURS, "nll") for name in names]
            y = [i + 0.7 * (place / max(1, len(methods) - 1) - 0.5) for i in range(len(names))]
            errors = [0.0 if math.isnan(error) else error for _, error, _ in found]
            colour = colours(2 * every.index(method) % 20 + every.index(method) // 10)
            axis.errorbar(
                [value for value, _, _ in found], y, xerr=errors, fmt="o", ms=4, lw=1.2, color=colour, label=method
            )
        axis.axvline(0, color="black", lw=0.8)
        axis.set_xscale("symlog", linthresh=0.1)
        axis.set_yticks(range(len(names)), list(map(label, names)))
        axis.invert_yaxis()
        for i in range(len(names) - 1):
            axis.axhline(i + 0.5, color="0.9", lw=0.8)
        axis.legend(fontsize=7, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes[1, 0].set_xlabel("test NLL less that of BayesianMLP…: right of 0 is worse than ours (± standard error)")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    results = Comparison.read(RECORDS), Comparison.read(RECORDS, "tuned")
    fill(PAGE, blocks(*results))
    draw(results[0], FOLDER / "tables.png")
