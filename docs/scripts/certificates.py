"""The tables of MNIST certificates in certify.md and certificates.md, from the records of the experiments.

singularbayes-experiments certificates --out runs/certificates
singularbayes-experiments sharp-certificates --out runs/sharp_certificates
python docs/scripts/certificates.py runs/certificates runs/sharp_certificates    # adds records, and makes all tables
python docs/scripts/certificates.py                                              # the tables alone
"""

import json
import math
import sys
from pathlib import Path

from marks import fill

FOLDER = Path(__file__).parents[1]
RESULTS = FOLDER.parent / "experiments" / "results" / "certificates"
RECORDS, SHARP, RULE = RESULTS / "certificates.jsonl", RESULTS / "sharp.jsonl", RESULTS / "sharp_rule.jsonl"
PAGE, SHARP_PAGE = FOLDER / "certify.md", FOLDER / "certificates.md"
_NAMES = {"low_rank": "low-rank 25", "full_rank": "full-rank"}
_NETWORKS = {  # in the order of the table
    "low_rank_25": "MLP, low-rank 25",
    "low_rank_50": "MLP, low-rank 50",
    "full_rank": "MLP, full-rank",
    "cnn_low_rank": "CNN, low-rank 25",
    "low_rank_initial": "MLP, low-rank 25, prior without data",
}


def read(path: Path) -> list[dict]:
    """Returns the records of a file of lines; none where there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def merged(records: list[dict]) -> list[dict]:
    """Returns the last record of every method and seed, in a fixed order."""
    last = {(record["method"], record["seed"]): record for record in records}
    return [last[key] for key in sorted(last, key=lambda key: (key[0].split("_")[::-1], key[1]))]


def table(records: list[dict]) -> str:
    """Returns the table in Markdown, one row per run."""
    names = (
        "posterior",
        "prior",
        "seed",
        "trainable parameters",
        "N",
        "KL",
        "risk on them",
        "certified risk",
        "test error",
    )
    lines = [f"| {' | '.join(names)} |", "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for record in records:
        m, (posterior, prior) = record["metrics"], record["method"].rsplit("_", 1)
        cells = [_NAMES[posterior], prior, str(record["seed"]), f"{record['parameters']:,}", f"{m['N']:,.0f}"]
        cells += [f"{m['KL']:,.0f}", f"{m['mistakes of the draws']:.4f}", f"**{rounded_up(m['certificate'])}**"]
        cells.append(f"{m['test error']:.4f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rounded_up(risk: float) -> str:
    """Returns a certified risk with four places, such that what is printed holds too."""
    return f"{math.ceil(1e4 * risk) / 1e4:.4f}"


def sharp_table(records: list[dict]) -> str:
    """Returns the table of what was written down beforehand, one row per run, in the order of the plan."""
    names = ("network", "seed", "trainable parameters", "N", "KL", "risk on them", "certified risk")
    names += ("averaged", "prior, hold-out", "prior averaged, hold-out", "test error")
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * 10}"]
    order = list(_NETWORKS)
    for record in sorted(records, key=lambda one: (order.index(one["method"]), one["seed"])):
        m, method = record["metrics"], record["method"]
        cells = [_NETWORKS[method], str(record["seed"]), f"{record['parameters']:,}", f"{m['N']:,.0f}"]
        cells += [f"{m['KL']:,.{0 if m['KL'] > 10 else 1}f}", f"{m['mistakes of the draws']:.4f}"]
        cells.append(f"**{rounded_up(m['certificate'])}**")
        others = ("averaged certificate", "hold-out", "averaged hold-out")
        cells += [rounded_up(m[name]) if name in m else "–" for name in others]
        cells.append(f"{m['test error']:.4f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(folders: list[str]) -> None:
    new = [r for folder in folders for r in read(Path(folder) / "records.jsonl")]
    sharp = [r["experiment"] == "sharp_certificates" for r in new]
    for path, wanted in ((RECORDS, False), (SHARP, True)):
        records = merged([*read(path), *(r for r, is_sharp in zip(new, sharp, strict=True) if is_sharp == wanted)])
        path.write_text("".join(f"{json.dumps(r, ensure_ascii=False)}\n" for r in records), encoding="utf-8")
    for folder in folders:
        if (Path(folder) / "rule.jsonl").is_file():  # what the rule compared
            RULE.write_bytes((Path(folder) / "rule.jsonl").read_bytes())
    for page, name, text in (
        (PAGE, "certificates.py", table(merged(read(RECORDS)))),
        (SHARP_PAGE, "sharp certificates", sharp_table(read(SHARP))),
    ):
        fill(page, name, text)
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
