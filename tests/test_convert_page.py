"""The page on conversion: its code is that of its script, its numbers are those of its record, and the script runs."""

import importlib.util
import json
import re
import textwrap
from pathlib import Path

import keras
import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "convert.md").read_text(encoding="utf-8")
RECORD = json.loads((DOCS / "convert.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("convert_page", DOCS / "convert.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _lines(code):
    return [line.strip() for line in textwrap.dedent(code).splitlines() if line.strip()]


def test_the_code_of_the_page_is_in_the_script_line_by_line():
    known = set(_lines((DOCS / "convert.py").read_text(encoding="utf-8")))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert blocks and [line for block in blocks for line in _lines(block) if line not in known] == []


def test_the_numbers_of_the_page_are_those_of_the_record(script):
    for line in script.rows(RECORD):
        assert line in PAGE
    for shown in (RECORD["cnn"]["spectrum"], RECORD["cnn"]["plan"], RECORD["bert"]["plan"]):
        assert f"```\n{shown}\n```" in PAGE
    for kind in ("cnn", "bert"):
        assert f"{RECORD[kind]['onnx']['difference']:.1e}" in PAGE
        assert RECORD[kind]["onnx"]["difference"] < 1e-5
    assert f"{RECORD['cnn']['parameters']['plain']:,} numbers" in PAGE


def test_the_record_is_of_the_settings_in_the_script(script):
    from dataclasses import asdict

    assert RECORD["settings"] == asdict(script.Settings())


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore")  # of exporters and of KerasHub
@pytest.mark.parametrize("kind", ["cnn", "bert"])
def test_the_script_runs(script, kind, tmp_path):
    exporter = {"tensorflow": "tf2onnx", "torch": "onnxscript", "jax": "jax2onnx"}[keras.backend.backend()]
    for package in (exporter, "onnxruntime", "matplotlib", *(["keras_hub"] if kind == "bert" else [])):
        pytest.importorskip(package, reason=f"the script needs {package}")
    if keras.backend.backend() == "jax":
        pytest.skip("jax2onnx writes a MaxPool that onnxruntime cannot run")
    record = script.main(script.QUICK, tmp_path, kinds=(kind,))
    assert record[kind]["onnx"]["difference"] < 1e-5
    assert (tmp_path / "convert.json").is_file() and (tmp_path / "convert.png").is_file() == (kind == "cnn")
