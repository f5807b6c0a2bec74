"""The figure of README.md: the first story of the demo with its first seed, three kinds of networks beyond their data.

    python docs/scripts/pitch.py        # about a minute on two quiet cores; writes docs/pitch.png and docs/pitch.json

Settings, and how they were chosen: `singularbayes.demo.regression`.
"""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from singularbayes_experiments.records.record import machine, versions

from singularbayes.demo import Trainer, figures, regression
from singularbayes.plots import write

FOLDER = Path(__file__).parents[1]
SEED = 1
DRAWN = ("deterministic", "deep ensemble", "anchored mixture")


def main() -> None:
    settings = regression.Settings()
    trainer = Trainer(Console(), (SEED,), regression.PROGRAMS)
    parts, models = regression.trained(trainer, settings)
    bands = regression.find_bands({method: models[method] for method in DRAWN}, parts[0], settings, SEED)
    write(figures.bands(bands, wide=True), FOLDER / "pitch.png", dpi=160)
    found = {method: regression.evaluate(method, model, settings, SEED) for method, (model,) in models.items()}
    scores = {method: {name: run.metrics[name] for name in regression.SCORES} for method, run in found.items()}
    record = {
        "command": "python docs/scripts/pitch.py",
        "seed": SEED,
        "settings": asdict(settings),
        "scores": scores,
        "versions": versions(),
        "machine": machine(),
    }
    (FOLDER / "pitch.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(scores)


if __name__ == "__main__":
    main()
