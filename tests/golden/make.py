"""Writes the files that the golden tests read; run it where the library is installed and a golden number must change.

    python tests/golden/make.py arrays                       # arrays.json: inputs, targets, weights, by one generator
    python tests/golden/make.py draws                        # draws.json: 24,000 draws in NumPy, without the library
    KERAS_BACKEND=torch python tests/golden/make.py outputs  # torch.json: every metric of `sb.evaluate` at the means

`draws.json` has the mean of every number over blocks of as many draws as the tests make, and its deviation from block
to block: the standard error of one prediction of so many draws. Numbers have 6 digits.
"""

import json
import sys

import golden_models as golden
import keras
import numpy as np
from golden_models import DRAWS, EXAMPLES, FOLDER, NETWORKS, POSTERIORS, Matrix

BLOCKS = 80


def rounded(value):
    """Returns what JSON holds of arrays and numbers."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [rounded(one) for one in value]
    if isinstance(value, (int, np.integer)):
        return int(value)
    return value if value is None else float(f"{value:.6g}")


def arrays() -> dict:
    rng = np.random.default_rng(42)
    ids = rng.integers(1, 7, (EXAMPLES, 5))
    for row, length in enumerate((5, 2, 4, 3, 1, 5, 4, 2)):  # examples have padding of their own
        ids[row, length:] = 0
    inputs = {name: rng.normal(size=(EXAMPLES, *shape)) for name, shape in INPUTS.items()} | {"ids": ids}
    targets = {"labels": [0, 1, 2, 0, 1, 2, 1, 0], "values": rng.normal(size=EXAMPLES)}
    weights = {
        name: {step.name: _values(rng, step.weights, network.components) for step in network.steps}
        for name, network in NETWORKS.items()
    }
    weights |= {name: _values(rng, matrices, 3 if name == "mixed" else 1) for name, matrices in POSTERIORS.items()}
    return {"inputs": inputs, "targets": targets, "weights": weights}


INPUTS = {"rows": (4,), "sequences": (5, 4), "images": (5, 4, 2)}


def _values(rng, weights: dict, components: int) -> dict:
    found = {}
    for part, weight in weights.items():
        if not isinstance(weight, Matrix):
            found[part] = rng.normal(0.2, 0.6, (components, *weight))
            continue
        found[part] = {}
        for name, shape in weight.shapes().items():
            loc, centre = rng.normal(0, 0.8, (2, components, *shape))
            found[part][name] = {"loc": loc, "scale": rng.uniform(0.05, 0.3, loc.shape), "centre": centre}
        if weight.kind in ("adapter", "rank_one"):
            found[part]["w0"] = rng.normal(0, 0.8, (components, weight.rows, weight.columns))
    return found


def draws() -> dict:
    found = {}
    for name, network in NETWORKS.items():
        component, rng = np.arange(DRAWS) % network.components, np.random.default_rng([7, *name.encode()])
        blocks = [golden.statistics(name, golden.outputs(name, component, rng)) for _ in range(BLOCKS)]
        columns = {key: [one[key] for one in blocks] for key in blocks[0]}
        found[name] = {key: {"mean": np.mean(v, 0), "error": np.std(v, 0)} for key, v in columns.items()}
    return found


def outputs() -> dict:
    return {name: golden.evaluations(name) for name in NETWORKS}


if __name__ == "__main__":
    (what,) = sys.argv[1:]
    made = {"arrays": arrays, "draws": draws, "outputs": outputs}[what]()
    path = FOLDER / f"{keras.backend.backend() if what == 'outputs' else what}.json"
    path.write_text(json.dumps(rounded(made), separators=(",", ":")) + "\n")
