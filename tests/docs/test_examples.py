"""Every name that `import singularbayes as sb` exports, and every metric, shows how it is called."""

import re
from pathlib import Path

import singularbayes as sb
from singularbayes import metrics

STUB = Path(sb.__file__).with_name("__init__.pyi")


def test_every_public_name_has_an_example():
    names = re.findall(r"^from \.\w+ import (\w+) as", STUB.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(names) > 60
    assert [name for name in names if ">>>" not in (getattr(sb, name).__doc__ or "")] == []


def test_every_metric_has_an_example():
    functions = [name for name in metrics.__all__ if type(getattr(metrics, name)).__name__ == "function"]
    lacking = [name for name in functions if ">>>" not in (getattr(metrics, name).__doc__ or "")]
    assert len(functions) > 30 and lacking == []
