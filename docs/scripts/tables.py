"""The comparison on tables: fills estimators.md and estimators_results.md from the records and draws the figure.

pip install ".[plots]" ./experiments
python docs/scripts/tables.py           # writes tables.png and what is between marks in the pages
"""

import math
import re
from collections import Counter
from pathlib import Path

from singularbayes_experiments.problems import table_comparison, table_configurations
from singularbayes_experiments.problems.table_sets import CLASSIFICATION, REGRESSION
from singularbayes_experiments.report.table_summary import OURS, OWN, Comparison, statements
from singularbayes_experiments.runs.tables import KEPT, read_records

FOLDER = Path(__file__).parents[1]
PAGES = FOLDER / "estimators.md", FOLDER / "estimators_results.md"
_MARKS = re.compile(r"(<!-- tables\.py: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
SHORT = {"boston_housing": "Boston", "naval_propulsion_plant": "naval", "protein_tertiary_structure": "protein"}
SHORT |= {"wine_quality_red": "wine quality", "power_plant": "power plant", "breast_cancer": "breast cancer"}
NONE = "No records yet.\n"


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


def rows(comparison: Comparison, names, score: str, digits: int = 2, bold: bool = True, only=()) -> str:
    """Returns a markdown table of a score: tables down, methods (all, or only some) across; the best is bold."""
    names = [name for name in names if name in comparison.scores]
    if not names:
        return NONE
    methods = [method for method in comparison.methods(names) if not only or method in only]
    lines = ["| data | " + " | ".join(methods) + " |", "|---|" + "---:|" * len(methods)]
    for name in names:
        found = {method: comparison.mean(name, method, score) for method in methods}
        best = comparison.best(name, score) if bold and comparison.scores[name].get(OURS) else None
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
    names = [name for name in REGRESSION if comparison.scores.get(name, {}).get(OURS)]
    lines = ["| statement | holds on | not on |", "|---|---|---|"]
    for one in statements(comparison, names):
        holds, fails = (", ".join(map(label, some)) or "–" for some in (one.holds, one.fails))
        lines.append(f"| {one.sentence} | {len(one.holds)}: {holds} | {fails} |")
    return "\n".join(lines) + "\n"


def summary(comparison: Comparison) -> str:
    """Returns the first paragraph: where ours is best, where it is behind, and what it costs."""
    names = [name for name in REGRESSION if comparison.scores.get(name, {}).get(OURS)]
    best = {name: comparison.best(name, "nll") for name in names}
    first = [label(name) for name in names if best[name] == OURS]
    behind = [f"{label(name)} ({best[name]})" for name in names if best[name] != OURS]
    lines = [
        f"Of the defaults ours has the least NLL on {len(first)} of {len(names)} regression tables "
        f"({', '.join(first) or 'none'}); on the others the least has: {', '.join(behind) or 'none'}."
    ]
    large = "protein_tertiary_structure"
    if {OURS, "NGBoost"} <= comparison.scores.get(large, {}).keys():
        fit, nll = ([comparison.mean(large, m, s)[0] for m in (OURS, "NGBoost")] for s in ("fit_seconds", "nll"))
        lines.append(
            f"On protein, the largest, a fit takes {fit[0]:.0f} s and NGBoost's {fit[1]:.0f} s, one core each, at an "
            f"NLL of {nll[0]:.2f} and {nll[1]:.2f}."
        )
    ranks_of_classes = comparison.ranks(CLASSIFICATION, "nll")
    if OURS in ranks_of_classes:
        order = sorted(ranks_of_classes, key=lambda method: ranks_of_classes[method])
        lines.append(
            f"On the classification tables ours is place {order.index(OURS) + 1} of {len(order)} by mean rank of NLL "
            f"({ranks_of_classes[OURS]:.1f}; the first, {order[0]}, has {ranks_of_classes[order[0]]:.1f})."
        )
    return "\n".join(lines) + "\n"


def behind(comparison: Comparison) -> str:
    """Returns on which tables another method is ahead of ours by more than a standard error, and which."""

    def ahead(name: str) -> str | None:
        best = comparison.best(name, "nll", without=(OURS, "ours, full rank"))
        difference, error, _ = comparison.difference(name, OURS, best, "nll")
        return f"{label(name)} ({best})" if difference > (0.0 if math.isnan(error) else error) else None

    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    lines = []
    for kind, names in (("regression", REGRESSION), ("classification", CLASSIFICATION)):
        own = [name for name in names if comparison.scores.get(name, {}).get(OURS)]
        found = [each for each in map(ahead, own) if each]
        which = f": {', '.join(found)}" if found else ""
        lines.append(
            f"On {words[len(found)]} of the {words[len(own)]} {kind} tables another library has an NLL that is lower "
            f"by more than a standard error{which}."
        )
    tables = [name for name in comparison.scores if name in REGRESSION]
    fits = {
        method: sorted(comparison.mean(name, method, "fit_seconds")[0] for name in tables)
        for method in (OURS, "deep ensemble", "CatBoost", "boosted quantiles")
    }
    seconds = [f"{method} {number(values[len(values) // 2], digits=1)} s" for method, values in fits.items()]
    lines.append(
        f"Median time of a fit over the regression tables, on one core and with compilation: {', '.join(seconds)}."
    )
    return "\n".join(lines) + "\n"


def earlier(comparison: Comparison, before: Comparison) -> str:
    """Returns where earlier code of ours scored lower, with means over the splits that both have."""
    lines = []
    for score, shown, kind, names in (
        ("rmse", "RMSE", "regression", REGRESSION),
        ("nll", "NLL", "regression", REGRESSION),
        ("nll", "NLL", "classification", CLASSIFICATION),
    ):
        lower, own = [], [name for name in names if before.scores.get(name, {}).get(OURS)]
        for name in own:
            new, old = (each.values(name, OURS, score) for each in (comparison, before))
            splits = new.keys() & old.keys()
            means = [sum(one[split] for split in splits) / len(splits) for one in (old, new)]
            if means[0] < means[1]:
                digits = 2 if number(means[0]) != number(means[1]) else 3
                lower.append(
                    f"{label(name)} ({number(means[0], digits=digits)} against {number(means[1], digits=digits)})"
                )
        lines.append(f"- {shown}, {kind}: lower before on {len(lower)} of {len(own)} tables: {', '.join(lower)}.")
    return "\n".join(lines) + "\n"


def about_records(records: list[dict]) -> str:
    """Returns how many pieces of the plan have records, and how many splits every table has of ours and others."""
    plan = Counter(piece[0] for piece in table_comparison.pieces({"regression": "", "classification": ""}))
    done, left_out = (
        Counter(record["piece"][0] for record in records if key in record) for key in ("results", "left_out")
    )
    tuned = Counter(record["piece"][1] for record in records if record["piece"][0] == "tuned" and "results" in record)
    machines = sorted({record["machine"]["cpu"] for record in records})
    lines = [
        f"{done['defaults']} fits with defaults (and {left_out['defaults']} that are left out) of {plan['defaults']}, "
        f"and {done['tuned']} tuned methods (and {left_out['tuned']} that are left out) of {plan['tuned']}, on "
        f"{len(tuned)} of {len(REGRESSION) + len(CLASSIFICATION)} tables; on {' and '.join(machines)}.",
        "",
        "| data | splits of ours | least and most of the others | tuned methods |",
        "|---|---:|---:|---:|",
    ]
    comparison = Comparison.of(records)
    for name in (*REGRESSION, *CLASSIFICATION):
        counts = {method: len(splits) for method, splits in comparison.scores.get(name, {}).items()}
        others = [count for method, count in counts.items() if method != OURS]
        lines.append(f"| {label(name)} | {counts.get(OURS, 0)} | {min(others)} to {max(others)} | {tuned[name]} |")
    return "\n".join(lines) + "\n"


def candidate_rows(records: list[dict], task: str, stage: str = "") -> str:
    """Returns a markdown table of the configurations of a stage with their mean ranks on validation rows."""
    ranks_of = table_configurations.ranks(records, task, stage)
    count = len(next(iter(ranks_of.values())))
    if not count:
        return NONE
    stages = table_configurations.STAGES
    chosen = table_configurations.choice(records, task, stages[: stages.index(stage) + 1]).label
    lines = [f"| configuration ({task}, {count} pairs of table and split) | mean rank by NLL |", "|---|---:|"]
    for each in sorted(ranks_of, key=lambda one: ranks_of[one].mean()):
        mark = "**" if each == chosen else ""
        lines.append(f"| {mark}{each}{mark} | {mark}{ranks_of[each].mean():.1f}{mark} |")
    return "\n".join(lines) + "\n"


def longer_rows(records: list[dict]) -> str:
    """Returns a markdown table of the stage with all training rows of the large tables: scores, since few are whole."""
    lines = ["| data, split | configuration | NLL | RMSE | coverage | fit, s |", "|---|---|---:|---:|---:|---:|"]
    for record in records:
        _, name, split, candidate, *stage = record["piece"]
        if stage == ["rows"]:
            found = record["scores"][candidate]
            cells = [number(found[score]) for score in ("nll", "rmse")]
            lines.append(
                f"| {label(name)}, {split} | {candidate} | {' | '.join(cells)} | {found['coverage']:.3f} | "
                f"{found['fit_seconds']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def blocks(records: list[dict], candidates: list[dict], before: list[dict]) -> dict[str, str]:
    """Returns the text of every marked block of the page."""
    default, tuned = Comparison.of(records), Comparison.of(records, "tuned")
    values = {
        "nll": "NLL",
        "normal_nll": "NLL, all normal",
        "crps": "CRPS",
        "rmse": "RMSE",
        "miscoverage": "coverage − 90 %",
    }
    classes = {"nll": "NLL", "brier": "Brier", "error": "error"}
    return {
        "summary": summary(default),
        "behind": behind(default),
        "earlier": earlier(default, Comparison.of(before)),
        "statements": statement_rows(default),
        "nll": rows(default, REGRESSION, "nll"),
        "normal": rows(default, REGRESSION, "normal_nll", bold=False, only=OWN),
        "rmse": rows(default, REGRESSION, "rmse", 3),
        "coverage": rows(default, REGRESSION, "coverage", 3, bold=False),
        "width": rows(default, REGRESSION, "width", bold=False),
        "crps": rows(default, REGRESSION, "crps", 3),
        "ranks": ranks(default, tuned, REGRESSION, values),
        "classes": rows(default, CLASSIFICATION, "nll", 3),
        "class_ranks": ranks(default, tuned, CLASSIFICATION, classes),
        "tuned": rows(tuned, REGRESSION, "nll"),
        "tuned_classes": rows(tuned, CLASSIFICATION, "nll", 3),
        "records": about_records(records),
        "candidates": candidate_rows(candidates, "regression"),
        "class_candidates": candidate_rows(candidates, "classification"),
        "larger_ranks": candidate_rows(candidates, "regression", "ranks"),
        "class_larger_ranks": candidate_rows(candidates, "classification", "ranks"),
        "longer": longer_rows(candidates),
        "robust": candidate_rows(candidates, "regression", "robust"),
    }


def committed() -> tuple[list[dict], list[dict], list[dict]]:
    """Returns the records of the comparison, those of the candidates, and those of ours by earlier code."""
    comparison, candidates, before = (
        read_records(KEPT / f"{name}.jsonl.gz") for name in ("comparison", "candidates", "comparison_earlier")
    )
    return comparison, candidates, before


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
    results, *others = committed()
    for page in PAGES:
        fill(page, blocks(results, *others))
    draw(Comparison.of(results), FOLDER / "tables.png")
