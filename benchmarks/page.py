"""Fills the tables of docs/performance.md from the records: python benchmarks/page.py. A test holds the two equal."""

import re
from statistics import median
from typing import Any

import records
from gate import LIMITS, TREE
from singularbayes_experiments.report.tables import published

PAGE = records.ROOT / "docs" / "performance.md"
PAPER = {"Keras": "deterministic", "low-rank": "low_rank", "full-rank": "full_rank"}


def table(header: list[str], lines: list[list[str]]) -> str:
    rows = [header, ["---", *["--:"] * (len(header) - 1)], *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in rows)


def source(record: dict[str, Any]) -> str:
    """Returns where a table comes from."""
    machine = f"{record.get('accelerator') or record['machine']['cpu']}, {record['machine']['cores']} cores"
    return f"`{record['command']}`, commit {record['commit']}, {record['date'][:10]}, {machine}"


def reference() -> str:
    """Returns every row of the gate on every backend: milliseconds, and in brackets the ratio to Keras."""
    found = {backend: kept for backend in LIMITS if (kept := records.read(f"reference_{backend}"))}
    if not found:
        return "No reference was measured yet."
    names = dict.fromkeys(name for kept in found.values() for name in kept["rows"])
    lines = [[name, *(_cell(kept["rows"].get(name)) for kept in found.values())] for name in names]
    made = table(["milliseconds (ratio to Keras)", *found], lines)
    return "\n\n".join([made, *(source(kept) for kept in found.values())])


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    ratio = f" ({row['to_base'][TREE][0]:.2f})" if "to_base" in row else ""
    return f"{row[TREE]['median_ms']:.3g}{ratio}"


def libraries() -> str:
    kept = records.read("other_libraries")
    assert kept
    times = {name: row["median_ms"] for name, row in kept["rows"].items()}
    whos = dict.fromkeys(name.split(", ", 1)[1] for name in times)
    jobs = ("MLP step", "MLP prediction")
    cells = [
        [who, *(f"{times[f'{job}, {who}']:,.0f}" if f"{job}, {who}" in times else "–" for job in jobs)] for who in whos
    ]
    return table(["library", "step, ms", "prediction, ms"], cells) + "\n\n" + source(kept)


def sst2() -> str:
    """Returns the profile of the paper, ours and in brackets the paper's."""
    kept = records.read("sst2_profile")
    assert kept
    paper, lines = published(""), []
    for name, row in kept["rows"].items():
        method = PAPER.get(name) or name.removeprefix("low-rank ").replace(" ", "")
        peak = paper[method, "peak_bytes"].value
        cells = [f"{row['parameters']:,}", f"{row['peak_bytes'] / 1e6:.0f} ({peak / 1e6:.0f})"]
        for job, named in (("epoch", "epoch_seconds"), ("draws_20", "mc20_seconds"), ("draws_100", "mc100_seconds")):
            printed = f" ({paper[method, named].value:g})" if (method, named) in paper else ""
            cells.append(f"{median(row[job]):.3f}{printed}" if job in row else "–")
        lines.append([name, *cells])
    header = ["ranks", "parameters", "peak MB", "25 steps, s", "20 draws, s", "100 draws, s"]
    return table(header, lines) + "\n\n" + source(kept)


def render() -> str:
    text = PAGE.read_text(encoding="utf-8")
    for make in (reference, libraries, sst2):
        marks, made = rf"(<!-- {make.__name__} -->\n).*?(<!-- end -->)", make()
        text, found = re.subn(marks, lambda mark: f"{mark[1]}{made}\n{mark[2]}", text, flags=re.DOTALL)  # noqa: B023
        if found != 1:
            raise ValueError(f"{PAGE.name} must have <!-- {make.__name__} --> and <!-- end --> once; got {found}.")
    return text


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
