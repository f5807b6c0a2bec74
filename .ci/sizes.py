"""Lines of code and words of documentation by folder, against a table that may only fall.

python .ci/sizes.py            # fails where a number is above .ci/sizes.csv
python .ci/sizes.py --write    # lowers the table to what is there
"""

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("sizes.csv")
PACKAGES = ("src/singularbayes/", "experiments/src/singularbayes_experiments/")  # a row for each of their folders


def place(name: str) -> str:
    """Returns the row of the table that a file of code counts in."""
    for package in PACKAGES:
        if name.startswith(package):
            return package + name.removeprefix(package).rpartition("/")[0].partition("/")[0]
    parts = name.split("/")
    return "/".join(parts[: 2 if parts[0] == "experiments" else 1])


def sizes() -> Counter[tuple[str, str]]:
    """Returns the lines of code and the words of docs by folder, and the lines of README.md."""
    found: Counter[tuple[str, str]] = Counter()
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in sorted({name for name in names if (ROOT / name).is_file()}):
        if name.endswith((".py", ".pyi", ".j2")) or name == "README.md":
            found[place(name), "lines"] += len((ROOT / name).read_text(encoding="utf-8").splitlines())
        elif name.startswith("docs/") and name.endswith(".md"):
            folder = "docs/results" if name.startswith("docs/results/") else "docs"
            found[folder, "words"] += len((ROOT / name).read_text(encoding="utf-8").split())
    return found


def main(write: bool) -> int:
    found = sizes()
    most = {(row["folder"], row["unit"]): int(row["most"]) for row in csv.DictReader(TABLE.open(encoding="utf-8"))}
    above = {key: number for key, number in found.items() if number > most.get(key, 0)}
    for (folder, unit), number in above.items():
        print(f"{folder} has {number:,} {unit}; .ci/sizes.csv allows {most.get((folder, unit), 0):,}.")
    if write and not above:
        lines = [f"{folder},{unit},{number}" for (folder, unit), number in sorted(found.items())]
        TABLE.write_text("\n".join(["folder,unit,most", *lines, ""]), encoding="utf-8")
    elif not above and found != most:
        print("Some folders are smaller than .ci/sizes.csv says: python .ci/sizes.py --write lowers it.")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
