"""The table of constants in bounds.md is that of the code."""

import re
from pathlib import Path

import pytest

from singularbayes import bounds
from singularbayes.bounds.losses import LOSSES

PAGE = (Path(__file__).parents[2] / "docs" / "bounds.md").read_text(encoding="utf-8")
WRITTEN = {"none": None, "½": 0.5, "¼": 0.25, "√2": 2**0.5, "2B": 6.0, "4B": 12.0}  # with B = 3


def test_the_page_has_the_constants_of_every_loss():
    rows = re.findall(r"^\| .*? \| `(\w+)` \| (\S+) \| (\S+) \| .*\|$", PAGE, flags=re.MULTILINE)
    assert sorted(name for name, *_ in rows) == sorted(LOSSES)
    for name, *shown in rows:
        found = bounds.loss_constants(name, output_bound=3.0)
        expected = [WRITTEN[text] if text in WRITTEN else float(text) for text in shown]
        assert [found.lipschitz, found.smoothness] == pytest.approx(expected)
