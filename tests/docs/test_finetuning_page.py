"""The guide to fine-tuning runs, with tiny random presets that are made as KerasHub makes its own."""

import re
from pathlib import Path

import numpy as np
import pytest
from keras import ops
from posterior_table import ON_TORCH  # where CI has KerasHub

pytest.importorskip("keras_hub")
presets = pytest.importorskip("presets")
ROOT = Path(__file__).parents[2]


@ON_TORCH
def test_the_code_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, labels = presets.sentences(12)
    names = {
        "folder": str(presets.make_bert(tmp_path / "bert", positions=64)),
        "texts": texts,
        "labels": labels,
        "held_out_texts": texts[:6],
        "new_texts": texts[6:],
    }
    for block in re.findall(r"^```py\n(.*?)^```", (ROOT / "docs" / "finetuning.md").read_text(), re.M | re.S):
        exec(compile(block, "finetuning.md", "exec"), names)
        assert len(block.splitlines()) <= 30
    assert len(names["decisions"]) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bert", "reviews.adapters.npz"]
    tokens = names["base"].preprocessor(texts)
    found = [ops.convert_to_numpy(names[model](tokens)) for model in ("model", "again", "plain")]
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)
    assert {
        posterior.components for posterior in names["sb"].find_posteriors(names["mixture"]) if posterior.random
    } == {4}
