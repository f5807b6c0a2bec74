"""Blocks of code that a page cannot run by itself (```py): each is run here or in a test of its own, or is checked."""

import ast
import importlib
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from posterior_table import ON_TORCH

import singularbayes as sb

DOCS = Path(__file__).parents[2] / "docs"
# What runs the blocks of each page, and why the page does not.
RUN_BY = {
    "convert.md": "an exporter: below, and networks that were measured once, of which the names are checked",
    "deploy.md": "an exporter and a server: below, and test_service.py",
    "finetuning.md": "a folder of a preset: test_finetuning_page.py",
    "training.md": "torch: below",
    "transformers.md": "a folder of a preset: below",
}


def _blocks(page):
    return re.findall(r"^```py\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_pages_with_such_blocks_are_listed_and_no_other_fence_hides_python():
    texts = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    unrun = {name for name, text in texts.items() if "\n```py\n" in text}
    assert {name for name in unrun if not name.startswith("migrate/")} == set(
        RUN_BY
    )  # there it is other libraries' code
    fences = {fence for text in texts.values() for fence in re.findall(r"^```(\w+)$", text, re.MULTILINE)}
    assert fences <= {"python", "py", "pycon", "sh", "bash", "text", "bibtex", "latex", "toml", "yaml"}


@pytest.mark.parametrize("page", RUN_BY)
def test_names_of_this_package_in_such_blocks_exist(page):
    tree = ast.parse("\n".join(_blocks(page)))
    roots = {"sb": sb}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("singularbayes"):
            for name in node.names:
                module = importlib.import_module(node.module)
                found = getattr(module, name.name, None) or importlib.import_module(f"{node.module}.{name.name}")
                roots[name.asname or name.name] = found
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    used = [(node.value.id, node.attr) for node in used if node.value.id in roots]
    assert [pair for pair in used if not hasattr(roots[pair[0]], pair[1])] == []


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="an optimizer of torch")
@ON_TORCH
def test_the_parameter_groups_of_the_training_guide_exempt_the_posteriors_alone_from_weight_decay():
    import torch

    model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.Mixture(sb.LowRank(2), 2))])
    (block,) = _blocks("training.md")
    names = {"model": model, "sb": sb, "torch": torch}
    exec(compile(block, "training.md", "exec"), names)
    random, others = names["optimizer"].param_groups
    assert random["weight_decay"] == 0 and others["weight_decay"] == 0.01
    assert sum(p.numel() for p in random["params"]) == 2 * 2 * 2 * (4 + 3)  # mean and scale, components, rank 2
    assert [tuple(p.shape) for p in others["params"] if p.requires_grad] == [(2, 3)]  # a bias per component


@ON_TORCH
@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_the_files_of_the_guides_are_written_and_read(tmp_path, monkeypatch):
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"exporting needs {package}")
    import onnxruntime

    monkeypatch.chdir(tmp_path)
    student = keras.Sequential([keras.Input((4,), name="rows"), sb.layers.Dense(2, posterior=sb.LowRank(2))])
    student.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.ones((40, 4), "float32")
    names = {"sb": sb, "bayes": student, "x_held_out": x, "onnxruntime": onnxruntime, "x": x, "new": slice(0, 3)}
    exec(compile(_blocks("deploy.md")[0], "deploy.md", "exec"), names)
    names["frozen"] = sb.freeze_draws(student, 32)
    exec(compile(_blocks("convert.md")[0], "convert.md", "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} >= {"model.onnx", "monitor.json"}
    np.testing.assert_allclose(names["mean"], sb.predict(student, x[:3], draws=32).mean, atol=1e-5)


@ON_TORCH
def test_the_task_of_the_transformers_guide_becomes_bayesian(tmp_path):
    keras_hub = pytest.importorskip("keras_hub")
    presets = pytest.importorskip("presets")
    names = {"sb": sb, "keras_hub": keras_hub, "folder": str(presets.make_bert(tmp_path / "bert", positions=64))}
    exec(compile(_blocks("transformers.md")[0], "transformers.md", "exec"), names)
    random = {type(posterior).__name__ for posterior in sb.find_posteriors(names["model"]) if posterior.random}
    assert random == {"Adapter"}
