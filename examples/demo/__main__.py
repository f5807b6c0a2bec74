"""Trains small networks for three stories, without any download, and leaves one page with what they show."""

import argparse
import sys
from pathlib import Path

from demo import STORIES, Trainer, page

SEEDS = 3


def main(arguments: list[str] | None = None) -> Path:
    """Writes the page into the folder `--out` and returns its path."""
    parser = argparse.ArgumentParser("python -m demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for report.html")
    parser.add_argument("--seed", type=int, default=1, help="first of three seeds of data, initial weights and draws")
    parser.add_argument("--quick", action="store_true", help="train for fewer epochs; the page notes it")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)  # better now than after training
    trainer = Trainer(tuple(range(given.seed, given.seed + SEEDS)))
    stories = [story.run(trainer, story.QUICK if given.quick else story.Settings()) for story in STORIES]
    for story in stories:
        print(f"\n{story.title}\n{story.sentence}\n\n{story.table}")
    path = given.out / "report.html"
    path.write_text(page.render(stories, given.seed, given.quick), encoding="utf-8")
    print(f"\nThe page: {path}")
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
