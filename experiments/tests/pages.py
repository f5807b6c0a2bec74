"""What tests of sentences share: pages as one line, counts in words, and the committed results."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
WORDS += ("thirteen", "fourteen", "fifteen", "sixteen")
# Why a number may be typed into a sentence; "tested in" a file, which is named after it.
SETTING, PAPER, DEFINITION, ELSEWHERE = "a setting", "the paper's", "a definition", "tested in"


def page(name: str) -> str:
    """Returns a page of the repository without its line breaks."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())
