"""The table of certificates in bounds.md, from the records of the experiment.

singularbayes-experiments certificates --out runs/certificates
python docs/scripts/certificates.py runs/certificates    # adds its records, and makes the table again
python docs/scripts/certificates.py                      # the table alone
"""

import json
import math
import sys
from pathlib import Path

from marks import fill

FOLDER = Path(__file__).parents[1]
RECORDS = FOLDER.parent / "experiments" / "results" / "certificates" / "certificates.jsonl"
PAGE = FOLDER / "bounds.md"
_NAMES = {"low_rank": "low-rank 25", "full_rank": "full-rank"}


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
        certified = math.ceil(1e4 * m["certificate"]) / 1e4  # what is printed holds too
        cells += [f"{m['KL']:,.0f}", f"{m['mistakes of the draws']:.4f}", f"**{certified:.4f}**"]
        cells.append(f"{m['test error']:.4f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(folders: list[str]) -> None:
    records = merged([*read(RECORDS), *(r for folder in folders for r in read(Path(folder) / "records.jsonl"))])
    RECORDS.write_text("".join(f"{json.dumps(r, ensure_ascii=False)}\n" for r in records), encoding="utf-8")
    fill(PAGE, "certificates.py", table(records))
    print(table(records))


if __name__ == "__main__":
    main(sys.argv[1:])
