"""Which models of keras.applications were converted and taken back: the record convert_models.json, and its table.

The records are those of the tests, one file a model, because a process keeps the memory of the largest:

    SINGULARBAYES_APPLICATIONS=all KERAS_BACKEND=torch pytest -o junit_family=legacy --junitxml=runs/VGG16.xml \
        'tests/convert/test_applications.py::test_applications_go_there_and_back[VGG16]'
    python docs/scripts/convert_models.py runs/*.xml
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import keras

FOLDER = Path(__file__).parents[1]
FAMILIES = ("ConvNeXt", "DenseNet", "EfficientNet", "Inception", "MobileNet", "NASNet", "ResNet", "VGG", "Xception")


def read(paths: list[str]) -> dict[str, dict]:
    """Returns what was recorded of each model that passed, by name."""
    found = {}
    for path in sorted(paths):
        for case in ElementTree.parse(path).iter("testcase"):
            properties = {item.get("name"): item.get("value") for item in case.iter("property")}
            if properties and case.find("failure") is None:
                name = case.get("name").partition("[")[2].rstrip("]")
                found[name] = {
                    "backend": "tensorflow" if name.startswith("NASNet") else "torch",
                    "matrices": int(properties["matrices"]),
                    "kept": properties["kept"].split(),
                    "prediction": float(properties["prediction"]),
                    "weights": float(properties["weights"]),
                }
    return found


def rows(models: dict[str, dict]) -> list[str]:
    """Returns the table of the page, one row per family."""
    lines = [
        "| models | matrices | without a counterpart | logits differ by | weights differ by |",
        "|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        members = {name: model for name, model in models.items() if name.startswith(family)}
        if members:
            sizes = sorted({model["matrices"] for model in members.values()})
            shown = f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
            kept = ", ".join(sorted({kind for model in members.values() for kind in model["kept"]})) or "–"
            largest = [max(model[of] for model in members.values()) for of in ("prediction", "weights")]
            lines.append(f"| {', '.join(members)} | {shown} | {kept} | {largest[0]:.0e} | {largest[1]:.0e} |")
    return [line.replace("0e+00", "0") for line in lines]


if __name__ == "__main__":
    record = {"keras": keras.__version__, "models": read(sys.argv[1:])}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / "convert_models.json").write_text(text, encoding="utf-8")
    print("\n".join(rows(record["models"])))
