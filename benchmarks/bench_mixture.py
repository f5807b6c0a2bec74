"""One training step and the prediction of mixtures, against the Keras network and the single low-rank posterior.

Four components that share every batch (`split_4`), and five that all train on it (`repeat_5`). Prediction has the same
number of draws for all; Keras predicts once.
"""

from typing import Any

from cyclopts import App
from interleaved import report
from lineup import compare, mixtures

app = App(help=__doc__)

NETWORK = "mlp 784-1200-1200-10"  # batches of 128 in training
GOALS: dict[str, float | None] = {"split_4 / keras": 0.75, "split_4 / low_rank": 2.6, "repeat_5 / keras": 1.5}
PREDICTION_GOALS: dict[str, float | None] = {"split_4 / low_rank": 1.1, "repeat_5 / low_rank": 1.1}
EXAMPLES, DRAWS, BATCHES = 10_000, 60, (1000,)  # a number of draws that four and five divide
PATIENCE = 8.0  # seconds of one rival


@app.default
def main(repeats: int = 15) -> None:
    """Measures both."""
    rivals = mixtures(NETWORK)
    order: dict[str, Any] = {"job": "training", "network": NETWORK}
    steps, rest = compare(rivals, order, GOALS, repeats, PATIENCE)
    report("mixture_step", {NETWORK: {"steps": steps, **rest}}, "step")
    order = {"job": "prediction", "network": NETWORK, "examples": EXAMPLES, "draws": DRAWS, "batches": BATCHES}
    predictions, rest = compare(rivals, order, PREDICTION_GOALS, repeats, PATIENCE)
    report("mixture_prediction", {NETWORK: {"predictions": predictions, **rest}}, "prediction")


if __name__ == "__main__":
    app()
