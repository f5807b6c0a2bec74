"""The notebooks run, print what is committed in them but for the numbers, and become pages of the site."""

import json
import re

import notebooks
import pytest

# One of them in `make test`: compiling takes most of their minute and a half.
PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
NEEDS = {"finetuning": "keras_hub", "forecast": "pandas"}


def outputs(notebook):
    """What every code cell shows: its text without numbers, suffixes of names and widths, and how many figures."""
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text = "".join(line for output in cell["outputs"] for line in output.get("text", []))
            figures = sum(output["output_type"] == "display_data" for output in cell["outputs"])
            text = re.sub(r"[−-]?\d[\d.,]*(e-?\d+)?", "#", re.sub(r"_\d+\b", "", text))
            found.append((re.sub(r"[\s─*]+", " ", text), figures))
    return found


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=() if path == PATHS[0] else pytest.mark.exhaustive) for path in PATHS],
)
def test_a_notebook_prints_what_is_committed(path, monkeypatch, tmp_path):
    pytest.importorskip(NEEDS.get(path.stem, "keras"))
    if path.stem == "forecast":
        data = pytest.importorskip("singularbayes_experiments.data")
        try:
            data.beijing_pm25()
        except OSError as error:  # no data folder and no network
            pytest.skip(f"the data are not there: {error}")
    monkeypatch.chdir(tmp_path)
    committed = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in committed["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert outputs(notebooks.run(path)) == outputs(committed)
    assert list(tmp_path.iterdir()) == []


def test_a_page_has_the_cells_and_outputs_in_order():
    markdown = {"cell_type": "markdown", "source": ["# A title\n", "Words."]}
    image = {"output_type": "display_data", "data": {"image/png": "aGk="}, "metadata": {}}
    printed = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]}
    code = {"cell_type": "code", "source": ["print(1)\n", "print(2)"], "metadata": {"alt": "A curve that falls"}}
    text, figures = notebooks.page({"cells": [markdown, {**code, "outputs": [printed, image]}]}, "some")
    assert text.startswith(
        "# A title\nWords.\n\n```python\nprint(1)\nprint(2)\n```\n\n```text\n1\n2\n```\n\n"
        "![A curve that falls](some-0.png)"
    )
    assert figures == {"some-0.png": b"hi"} and "(../../examples/some.ipynb)" in text
