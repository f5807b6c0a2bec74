"""The notebooks of examples/: run, with their outputs in the files, and pages of the site.

    python docs/scripts/notebooks.py              # runs all of them, and writes the outputs into the files
    python docs/scripts/notebooks.py abstain      # one of them

Outputs are what a cell prints and the figures that it leaves open, as in Jupyter. A cell with a figure has its alt text
in `metadata.alt`. As a hook of the site's builder it adds a page per notebook, notebooks/<name>.md, as it is committed.
"""

import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
_FENCE = "```"


def run(path: Path) -> dict[str, Any]:
    """Returns the notebook with the outputs of this run."""
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"{path.name}, cell {count}", "exec"), names)
        text = printed.getvalue()
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell |= {"execution_count": count, "outputs": ([stream] if text else []) + _figures()}
    return notebook


def _figures() -> list[dict[str, Any]]:
    """Returns the open figures as outputs, and closes them."""
    from matplotlib import pyplot as plt

    outputs = []
    for number in plt.get_fignums():
        image = io.BytesIO()
        plt.figure(number).savefig(image, format="png", dpi=120, metadata={"Software": None})
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    plt.close("all")
    return outputs


def page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Returns the notebook as Markdown, and its figures by their file names."""
    blocks, figures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
            continue
        blocks.append(f"{_FENCE}python\n{source}\n{_FENCE}")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                blocks.append(f"{_FENCE}text\n{''.join(output['text']).rstrip()}\n{_FENCE}")
            else:
                file = f"{name}-{len(figures)}.png"
                figures[file] = base64.b64decode(output["data"]["image/png"])
                blocks.append(f"![{cell['metadata']['alt']}]({file})")
    blocks.append(f"This page is the notebook [{name}.ipynb](../../examples/{name}.ipynb), with its outputs.")
    return "\n\n".join(blocks) + "\n", figures


def on_files(files, config):
    """Adds the pages of the notebooks to the site."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        text, figures = page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, image in figures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=image))
    return files


def main(names: list[str]) -> None:
    for path in [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb")):
        text = json.dumps(run(path), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
