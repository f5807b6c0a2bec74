"""What `import singularbayes as sb` exports, and every name on a page of the API, shows how it is called."""

import importlib
import re
from pathlib import Path

import pytest

import singularbayes as sb

ROOT = Path(__file__).parents[2]
STUB = Path(sb.__file__).with_name("__init__.pyi")
API = sorted(page for page in (ROOT / "docs" / "api").glob("*.md") if page.stem != "index")
# Their examples train for seconds, or need a cluster: a guide has one, which its test runs or a test of its own covers.
IN_A_GUIDE = {"sweep": "ranks.md"}


def _listed(page):
    """Returns the names that a page of the API shows: those of `members`, and functions that share a module's name."""
    text = page.read_text(encoding="utf-8")
    shadowed = re.findall(r"^::: [\w.]+\.(\w+)\.\1$", text, re.MULTILINE)
    return shadowed + re.findall(r"^        - (\w+)$", text, re.MULTILINE)


def test_every_public_name_has_an_example():
    names = re.findall(r"^from \.\w+ import (\w+) as", STUB.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(names) > 60
    assert [name for name in names if ">>>" not in (getattr(sb, name).__doc__ or "")] == []


@pytest.mark.parametrize("page", API, ids=lambda page: page.stem)
def test_every_name_on_a_page_of_the_api_has_an_example(page):
    package, names = importlib.import_module(f"singularbayes.{page.stem}"), _listed(page)
    assert names and set(names) <= set(package.__all__)
    lacking = [name for name in names if ">>>" not in (getattr(package, name).__doc__ or "")]
    for name in [name for name in lacking if name in IN_A_GUIDE]:
        guide = (ROOT / "docs" / IN_A_GUIDE[name]).read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
        assert any(f"{name}(" in block for block in blocks), name
        assert IN_A_GUIDE[name] in getattr(package, name).__doc__, f"{name} does not link to its example"
    assert [name for name in lacking if name not in IN_A_GUIDE] == []


def test_every_metric_is_on_its_page():
    metrics = importlib.import_module("singularbayes.metrics")
    functions = {name for name in metrics.__all__ if type(getattr(metrics, name)).__name__ == "function"}
    assert len(functions) > 25 and functions <= set(_listed(ROOT / "docs" / "api" / "metrics.md"))
