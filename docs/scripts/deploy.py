"""Fills the tables of deploy.md from the records, and draws its figure: python docs/scripts/deploy.py"""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from singularbayes_experiments.records import record
from singularbayes_experiments.report.detectors import best_without_network
from singularbayes_experiments.report.rows import listed

ROOT = Path(__file__).parents[2]
PAGE, RESULTS, FIGURE = ROOT / "docs" / "deploy.md", ROOT / "experiments" / "results", ROOT / "docs" / "monitoring.png"
REPETITIONS = 1000
CASES = {
    "mnist": "MNIST, Fashion-MNIST",
    "fashion_mnist": "Fashion-MNIST, MNIST",
    "sst2": "SST-2, AG News",
    "beijing": "Beijing, Guangzhou",
}
SIMPLE = RESULTS / "simple_detectors.jsonl"
KINDS = {"means": "mean network", "data": "student, training inputs", "perturbed": "student, perturbed inputs too"}
SERVICES = {"beijing": "Beijing → Guangzhou", "clinc150": "CLINC150 → out of scope"}
CHANGES = {
    "100% changed": "all inputs changed",
    "30% changed": "30 % of them",
    "10% changed": "10 % of them",
    "all changed, late": "all, after 1,000 as before",
    "all changed, in the order of time": "all, in the order of time",
}


def records(name: str) -> list[dict[str, Any]]:
    path = RESULTS / name / "records.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


def source(found: list[dict[str, Any]], command: str) -> str:
    """Returns where the numbers come from: every machine, with its versions."""
    places = [f"{_place(one['machine'])} · {_versions(one['versions'])}" for one in found]
    return f"`singularbayes-experiments {command}` · {'; '.join(dict.fromkeys(places))}."


def _place(machine: dict[str, Any]) -> str:
    return machine.get("accelerator") or f"{machine['cpu']}, {machine['cores']} cores"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def students() -> str:
    """Returns the table of teachers and students, beside the best detector without a network; seeds are averaged."""
    found, rows = records("students"), []
    if not found:
        return "The comparison has not been run yet."
    simple = record.read(SIMPLE)
    ahead = []
    for case, title in CASES.items():
        runs = {kind: [run for run in found if run["method"] == f"{case}, {kind}"] for kind in KINDS}
        runs = {kind: own for kind, own in runs.items() if own}
        if not runs:
            continue
        nll, auroc = next(iter(runs.values()))[0]["settings"]["scores"]
        name, without = best_without_network(case, simple) or ("–", math.nan)
        scores = {kind: [_pair(own, score) for score in (nll, auroc)] for kind, own in runs.items()}
        for kind, pairs in scores.items():
            first = kind == next(iter(runs))
            beside = f"{name} {without:.4f}" if first else ""
            rows.append(
                [title if first else "", KINDS[kind], *(cell for pair in pairs for cell in _cells(pair)), beside]
            )
        if without > max(value for _, pair in scores.values() for value in pair if not math.isnan(value)):
            ahead.append(title.split(", ")[0])
    header = ["data, out-of-distribution data", "one pass", "NLL of the teacher", "its own"]
    header += ["AUROC of the teacher", "its own", "AUROC without a network"]
    absent = [title for case, title in CASES.items() if not any(run["method"].startswith(f"{case},") for run in found)]
    seeds = sorted({run["seed"] for run in found})
    text = f"AUROC by mutual information, on Beijing by the epistemic deviation. Seeds: {', '.join(map(str, seeds))}."
    text += f" Not run: {'; '.join(absent)}." if absent else ""
    if ahead:
        text += f" On {listed(ahead)} the number without a network is ahead of the teacher and of all students."
    return f"{table(header, rows)}\n\n{text} {source(found, 'students')}"


def _pair(runs: list[dict[str, Any]], score: str) -> tuple[float, float]:
    metrics = [run["metrics"] for run in runs]
    return tuple(float(np.mean([m.get(f"{who} {score}", math.nan) for m in metrics])) for who in ("teacher", "student"))


def _cells(pair: tuple[float, float]) -> list[str]:
    return ["–" if math.isnan(value) else f"{value:.4f}" for value in pair]


def monitoring() -> str:
    """Returns the table of delays and the sentence on false alarms."""
    found = {run["method"]: run for run in records("monitoring")}
    if not found:
        return "The comparison has not been run yet."
    rows = []
    for change, title in CHANGES.items():
        cells = [_delay(run["metrics"], change, alpha) for run in found.values() for alpha in ("0.1", "0.01")]
        rows.append([title, *cells])
    names = [SERVICES[name] for name in found]
    header = ["change", *(f"{name}, α = {alpha}" for name in names for alpha in ("0.1", "0.01"))]
    alarms = "; ".join(
        f"{SERVICES[name]}: {run['metrics']['false alarms, α = 0.1']:.1%} at α = 0.1 and "
        f"{run['metrics']['false alarms, α = 0.01']:.1%} at α = 0.01 (AUROC of the score {run['metrics']['auroc']:.2f})"
        for name, run in found.items()
    )
    return (
        f"{table(header, rows)}\n\nEach cell has two numbers: after how many inputs 50 % and 90 % of 200 streams had "
        f"raised an alarm. – : fewer did so within 1,000 inputs. False alarms in {REPETITIONS:,} streams of 1,000 "
        f"inputs without a change: {alarms}. {source(list(found.values()), 'monitoring')}\n\n"
        "![evidence of a change against the number of inputs, one stream of each kind](monitoring.png)"
    )


def _delay(metrics: dict[str, float], change: str, alpha: str) -> str:
    half, most = (metrics.get(f"{change}, α = {alpha}: {share} by") for share in ("50%", "90%"))
    if f"{change}, α = {alpha}: missed" not in metrics:
        return ""
    return ", ".join("–" if value is None else f"{value:.0f}" for value in (half, most))


def filled(page: str) -> str:
    """Returns the page with both tables between their marks."""
    for name, text in (("students", students()), ("monitoring", monitoring())):
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        if len(marks.findall(page)) != 1:
            raise ValueError(f"deploy.md needs <!-- {name} --> and <!-- end --> once.")
        page = marks.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def draw() -> None:
    """Draws one stream of each kind for both services."""
    from singularbayes_experiments.records import record

    from singularbayes.plots import wealth_paths

    paths = {}
    for run in record.read(RESULTS / "monitoring"):
        for change in ("100% changed", "30% changed", "10% changed"):
            wealth = run.arrays[f"path/{change}"].astype("float64")
            some = np.unique(np.linspace(0, len(wealth) - 1, 400).astype(int))
            share = change.removesuffix("% changed")
            paths[f"{SERVICES[run.method]}, {share} %"] = np.stack([some + 1, np.exp(np.minimum(wealth[some], 40))], 1)
    wealth_paths(paths, 100.0).savefig(FIGURE, dpi=200, bbox_inches="tight")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if records("monitoring"):
        draw()
    print("Wrote docs/deploy.md")
