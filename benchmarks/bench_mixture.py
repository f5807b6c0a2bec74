"""One training step and the prediction of mixtures, against the Keras network and the single low-rank posterior.

Four components that share every batch (`split_4`), and five that all train on it (`repeat_5`). Prediction has the same
number of draws for all; Keras predicts once. `sst2` is the step of the SST-2 Transformer, for a GPU.
"""

from typing import Any

from cyclopts import App
from interleaved import ratios, report, seconds, summary
from lineup import compare, mixtures

app = App(help=__doc__)

NETWORK = "mlp 784-1200-1200-10"  # batches of 128 in training
GOALS: dict[str, float | None] = {"split_4 / keras": 0.75, "split_4 / low_rank": 2.6, "repeat_5 / keras": 1.5}
PREDICTION_GOALS: dict[str, float | None] = {"split_4 / low_rank": 1.1, "repeat_5 / low_rank": 1.1}
EXAMPLES, DRAWS, BATCHES = 10_000, 60, (1000,)  # a number of draws that four and five divide
PATIENCE = 8.0  # seconds of one rival


SST2_GOALS: dict[str, float | None] = {"split_4 / low_rank": 1.3}


@app.command
def sst2(repeats: int = 15) -> None:
    """Measures one training step of the SST-2 Transformer, batches of 64 × 64 tokens, in one process of an idle GPU."""
    import numpy as np
    from singularbayes_experiments.methods.weights import Weights
    from singularbayes_experiments.problems import reviews
    from step import Step

    from singularbayes.posteriors import LowRank, Mixture, Posterior

    class Both(Weights):
        """The posterior of the profile, alone or four times, with plain biases."""

        def __call__(self, rank: int) -> Posterior:
            one = LowRank.paper(rank)
            return Mixture(one, components=4) if self.kind == "split_4" else one

        def bias(self) -> None:
            return None

    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 30_522, (64, 64)).astype("int32"), rng.integers(0, 2, 64).astype("int32")
    settings = reviews.ReviewSettings()
    steps = {
        kind: Step(reviews.network(Both(kind, settings), settings), x, y, 67_349) for kind in ("low_rank", "split_4")
    }
    times, absent = seconds({kind: step.seconds for kind, step in steps.items()}, repeats, PATIENCE)
    result = {"steps": summary(times), "ratios": ratios(times, SST2_GOALS), "absent": absent}
    report("mixture_step_sst2", {"sst2 transformer": result}, "step")


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
