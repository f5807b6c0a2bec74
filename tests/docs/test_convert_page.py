"""The page on conversion: its code is that of its script, its numbers are those of its record, and the script runs."""

import importlib.util
import json
import re
import textwrap
from pathlib import Path

import keras
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "convert.md").read_text(encoding="utf-8")
RECORD = json.loads((DOCS / "convert.json").read_text(encoding="utf-8"))


def _module(name):
    specification = importlib.util.spec_from_file_location(name, DOCS / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return _module("convert")


def _lines(code):
    return [line.strip() for line in textwrap.dedent(code).splitlines() if line.strip()]


def test_the_code_that_the_page_does_not_run_is_in_the_scripts_line_by_line():
    scripts = [DOCS / "scripts" / name for name in ("convert.py", "unet.py")]
    known = {line for script in scripts for line in _lines(script.read_text(encoding="utf-8"))}
    measured = PAGE[PAGE.index("## Measured on a CNN") :]
    blocks = re.findall(r"^```py\n(.*?)^```", measured, flags=re.MULTILINE | re.DOTALL)
    assert blocks and [line for block in blocks for line in _lines(block) if line not in known] == []


def test_the_numbers_of_the_page_are_those_of_the_record(script):
    for line in script.rows(RECORD):
        assert line in PAGE
    for shown in (RECORD["cnn"]["spectrum"], RECORD["cnn"]["plan"], RECORD["bert"]["plan"]):
        assert f"```\n{shown}\n```" in PAGE
    for kind in ("cnn", "bert"):
        assert f"{RECORD[kind]['onnx']['difference']:.1e}" in PAGE
        assert RECORD[kind]["onnx"]["difference"] < 1e-5
    cnn, page = RECORD["cnn"], " ".join(PAGE.split())
    assert f"The ONNX file of 32 draws has {cnn['onnx']['kilobytes']:,} kB" in page
    plain, before = cnn["parameters"]["plain"], cnn["parameters"]["before"]
    assert f"The collapsed model has {plain:,} parameters instead of {before:,}." in page
    test = len(script.digits(script.Settings())["test"][0])
    assert f"the {test} test images have right labels, so one image is {1 / test:.4f} of accuracy" in page
    assert cnn["after"]["accuracy"] >= cnn["before"]["accuracy"] and cnn["after"]["ece"] > cnn["before"]["ece"]


def test_the_record_is_of_the_settings_in_the_script(script):
    from dataclasses import asdict

    assert RECORD["settings"] == asdict(script.Settings())


def test_the_models_of_the_page_are_those_of_the_record():
    record = json.loads((DOCS / "convert_models.json").read_text(encoding="utf-8"))
    models = record["models"]
    assert "\n".join(_module("convert_models").rows(models)) in PAGE
    assert f"{len(models)} models of `keras.applications`" in PAGE
    every = {name for name in dir(keras.applications) if name[0].isupper()}
    assert set(models) == every or record["keras"] != keras.__version__


def test_a_record_is_read_from_what_pytest_writes(tmp_path):
    shown = {"matrices": 3, "kept": "DepthwiseConv2D", "prediction": 2e-7, "weights": 0.0}
    properties = "".join(f'<property name="{name}" value="{value}"/>' for name, value in shown.items())
    case = f'<testcase name="test_there_and_back[VGG{{}}]"><properties>{properties}</properties>{{}}</testcase>'
    text = f"<testsuites><testsuite>{case.format(16, '')}{case.format(19, '<failure/>')}</testsuite></testsuites>"
    (tmp_path / "runs.xml").write_text(text)
    module = _module("convert_models")
    models = module.read([str(tmp_path / "runs.xml")])
    assert models == {"VGG16": {**shown, "backend": "torch", "kept": ["DepthwiseConv2D"]}}
    assert module.rows(models)[2:] == ["| VGG16 | 3 | DepthwiseConv2D | 2e-07 | 0 |"]


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore")  # of exporters and of KerasHub
@pytest.mark.parametrize("kind", ["cnn", "bert"])
def test_the_script_runs(script, kind, tmp_path, monkeypatch):
    exporter = {"tensorflow": "tf2onnx", "torch": "onnxscript", "jax": "jax2onnx"}[keras.backend.backend()]
    for package in (exporter, "onnxruntime", "matplotlib", *(["keras_hub"] if kind == "bert" else [])):
        pytest.importorskip(package, reason=f"the script needs {package}")
    if keras.backend.backend() == "jax":
        pytest.skip("jax2onnx writes a MaxPool that onnxruntime cannot run")
    if kind == "bert":
        import keras_hub

        of_size = keras_hub.models.BertBackbone  # one block has every kind of layer that the two of the page have
        monkeypatch.setattr(keras_hub.models, "BertBackbone", lambda **size: of_size(**{**size, "num_layers": 1}))
    record = script.main(script.QUICK, tmp_path, kinds=(kind,))
    assert record[kind]["onnx"]["difference"] < 1e-5
    assert (tmp_path / "convert.json").is_file() and (tmp_path / "convert.png").is_file() == (kind == "cnn")


def test_the_numbers_of_the_u_net_are_those_of_its_record():
    record = json.loads((DOCS / "unet.json").read_text(encoding="utf-8"))
    shown = " ".join(PAGE.split())
    assert f"{record['accuracy']:.1%}".replace("%", " %") + " are right" in shown
    assert (
        f"{record['entropy_wrong']:.2f} nats where the prediction is wrong and {record['entropy_right']:.2f}" in shown
    )
    crosses, known = record["information_crosses"], record["information_shapes"]
    assert f"is {crosses:.3f} nats, that of discs and squares {known:.3f}" in shown


@pytest.mark.exhaustive  # trains a U-Net; its numbers are those of the record, which the test above compares
def test_a_u_net_converts_and_its_uncertainty_is_larger_where_it_is_wrong(tmp_path):
    script = _module("unet")
    settings = script.Settings(images=64, size=16, filters=4, trained_epochs=4, epochs=2, rank=4, draws=4)
    found = script.main(settings, tmp_path)
    assert (tmp_path / "unet.png").stat().st_size > 10_000
    assert found["entropy_wrong"] > found["entropy_right"]
